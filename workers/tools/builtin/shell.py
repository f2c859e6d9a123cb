"""The shell: ``bash``."""

import asyncio
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, Field

from ekiden.shared.errors import CommandLost, OutcomeUnknown, ToolError
from ekiden.workers.tools.base import ToolContext, tool
from ekiden.workers.tools.builtin.subprocesses import run_confined
from ekiden.workers.tools.project_python import ProjectPython, not_installed, python_for, where_looked

__all__ = ["bash", "environment"]

_MAX_CHARS = 1_000_000


class Bash(BaseModel):
    """Run a command with bash in the job's folder and return its output; the last line is its exit code.

    There is no input and no terminal. Processes left in the background, daemons too, are ended when the command ends.
    Write in the workspace only: elsewhere it may be refused, and what is in $TMPDIR and $HOME is gone afterwards. There
    may be no network.
    """

    command: str = Field(min_length=1, description="The command, such as: python -m unittest -v")
    timeout_s: float = Field(default=120, ge=1, le=600, description="Seconds until it is ended.")


@tool(Bash, needs_workspace=True, timeout_s=660, max_chars=30_000, starts_commands=True)
async def bash(args: Bash, context: ToolContext) -> str:
    """Run a shell command; a non-zero exit code is an answer, not an error."""
    python = await asyncio.to_thread(python_for, context)
    try:
        finished = await run_confined(
            [_shell(), "-c", args.command],
            context,
            env=environment(context.env, python),
            timeout_s=args.timeout_s,
            max_chars=_MAX_CHARS,
            further=python.readable if python else (),
        )
    except CommandLost as error:
        raise OutcomeUnknown(f"{error}; what it did is unknown") from error
    except (OSError, ValueError) as error:
        raise ToolError(f"the command could not be started: {getattr(error, 'strerror', None) or error}") from error
    lines = [finished.output.rstrip("\n")] if finished.output.strip("\n") else []
    if finished.why_ended:
        when = f" after {args.timeout_s:g} s" if finished.timed_out else ""
        lines.append(f"(ended{when} {finished.why_ended})")
    if finished.exit_code and (name := not_installed(finished.output)):
        lines.append(f"({name} is not installed here: {await asyncio.to_thread(where_looked, context)})")
    return "\n".join([*lines, f"exit code: {finished.exit_code}"])


def environment(passed: Mapping[str, str], python: ProjectPython | None = None) -> dict[str, str]:
    """Return a command's environment: what is passed on to it, with the project's programs first, then our ``python``.

    No byte code is written: Python tells a stale ``.pyc`` by whole seconds and size, and agents edit faster than that.
    """
    folders = [str(python.bin)] if python else []
    folders += [str(Path(sys.executable).parent)] if sys.executable else []
    path = os.pathsep.join([*folders, passed.get("PATH", os.defpath)])
    own = {"VIRTUAL_ENV": str(python.folder)} if python else {}
    return {**passed, **own, "PATH": path, "PYTHONDONTWRITEBYTECODE": "1", "NO_COLOR": "1"}


def _shell() -> str:
    return "/bin/bash" if Path("/bin/bash").exists() else shutil.which("bash") or "/bin/sh"
