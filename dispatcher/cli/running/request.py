"""What ``run`` and ``submit`` are asked for, checked before anything starts."""

import os
import re
import socket
import stat
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from ekiden.dispatcher.cli.given_text import MOST_OF_PROMPT, piped_text
from ekiden.dispatcher.identity import login_name
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.settings.model import load_settings
from ekiden.shared.settings.values import LONGEST_DEADLINE_S
from ekiden.shared.suggestions import nearest

if TYPE_CHECKING:  # half a second, of which `route` needs nothing
    from ekiden.dispatcher.client import Client

__all__ = [
    "DEMO_PACKS",
    "DEMO_PROMPT",
    "Workspace",
    "deadline_of",
    "demo_project",
    "existing_folder",
    "folder_there",
    "piped",
    "prompt_of",
    "require_reachable",
    "settle_folders",
    "user_name",
]

DEMO_PACKS = ("software",)
"""The teams that work on the demo."""
DEMO_PROMPT = "the tests of this project fail: TypeError in cart.total"
_UNITS_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


@dataclass(frozen=True)
class Workspace:
    """The folder that a job works in, and the one that its tools may not leave; both absolute."""

    folder: Path
    root: Path
    packs: Sequence[str] | None = None
    """Which teams that come with Ekiden its pools have; None: as the settings say."""

    @classmethod
    def of(cls, cwd: Path | None, workspace_root: Path | None) -> "Workspace":
        """Check the folders that the user gave. Raises ``InvalidRequest``."""
        folder = existing_folder(cwd or Path(), "--cwd")
        root = existing_folder(workspace_root, "--workspace-root") if workspace_root else folder
        if not folder.is_relative_to(root):
            raise InvalidRequest(
                f"--cwd {str(folder)!r} lies outside --workspace-root {str(root)!r}: give a folder inside it"
            )
        return cls(folder, root)


def existing_folder(path: Path, option: str) -> Path:
    """Return ``path`` absolute, without links. Raises ``InvalidRequest`` unless it is a folder."""
    if not path.is_dir():
        raise InvalidRequest(f"{option} {str(path)!r} is no folder: {_meant(path)}give one that exists")
    return path.resolve()


def _meant(path: Path) -> str:
    """Ask for the folder that may have been meant."""
    there: list[str] = []
    with suppress(OSError):
        there = [one.name for one in path.parent.iterdir() if one.is_dir()]
    near = nearest(path.name, there, n=1)
    return f"did you mean {str(path.parent / near[0])!r}? Else " if near else ""


def folder_there(cwd: Path | None) -> Path | None:
    """Return ``cwd`` absolute, without links: a folder of the machine that the pools run on.

    Raises ``InvalidRequest`` for one that is meant from the current folder, and is not there.
    """
    if cwd is None:
        return None
    return Path(os.path.realpath(cwd)) if cwd.is_absolute() else existing_folder(cwd, "--cwd")


def prompt_of(words: Sequence[str]) -> str:
    """Return the prompt: words, of which ``-`` stands for standard input. Raises ``InvalidRequest``: it is empty."""
    prompt = " ".join(piped_text(MOST_OF_PROMPT) if word == "-" else word for word in words)
    if not prompt.strip():
        raise InvalidRequest("the prompt is empty: say what is to be done")
    return prompt


def piped() -> list[str]:
    """Return the request that is not given but piped, as one word; none where nothing is."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):  # closed, or none of the system's
        return []
    is_piped = stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)
    text = piped_text(MOST_OF_PROMPT) if is_piped else ""
    return [text] if text.strip() else []


def deadline_of(text: str | None) -> float:
    """Return the seconds in a duration such as ``30m`` or ``1h30m``; the settings' deadline where none is given."""
    if text is None:
        return load_settings().job_deadline_s
    parts = re.findall(r"(\d+(?:\.\d+)?)([smhd])", text)
    seconds = sum(float(number) * _UNITS_S[unit] for number, unit in parts)
    if "".join(number + unit for number, unit in parts) != text or not 0 < seconds <= LONGEST_DEADLINE_S:
        raise InvalidRequest(f"--deadline {text!r} is no duration: give one such as 90s, 30m, 1h30m or 2d")
    return seconds


def user_name(given: str | None) -> str:
    """Return whose sessions are meant: as given, as the settings say, or the login name."""
    if (name := load_settings(user=given).user) is not None:
        return name
    return login_name()


def settle_folders(is_given: bool, *folders: Path | None) -> None:
    """Ask or tell users as ``settle_trust`` does, and tell them of settings that mean nothing."""
    from ekiden.shared.settings.unknown import tell_of_unknown_settings
    from ekiden.shared.trust_prompts import settle_trust

    settle_trust(is_given, *folders)
    tell_of_unknown_settings()


def demo_project() -> Path:
    """Copy the demo project to a new temporary folder, which stays."""
    from ekiden.shared.demo import write_demo

    folder = Path(tempfile.mkdtemp(prefix="ekiden-demo-")).resolve()
    write_demo(folder)
    return folder


async def require_reachable(client: "Client", folder: Path) -> None:
    """Raise ``InvalidRequest`` when workers run and none of them may work in ``folder``, or can find it."""
    workers = [pool for pool in await client.pools() if pool.kind == "worker"]
    roots = {pool.workspace_root for pool in workers if pool.workspace_root}
    if not workers or not all(Path(root).is_absolute() for root in roots):
        return
    _require_within(folder, sorted(roots))
    near = [pool for pool in workers if pool.workspace_root and folder.is_relative_to(pool.workspace_root)]
    if all(pool.host == socket.gethostname() for pool in near):
        existing_folder(folder, "--cwd")


def _require_within(folder: Path, roots: list[str]) -> None:
    if any(folder.is_relative_to(root) for root in roots):
        return
    theirs = f"their workspace roots are {', '.join(roots)}" if roots else "they have no --workspace-root"
    raise InvalidRequest(
        f"--cwd {str(folder)!r} lies outside of what the running workers may touch: {theirs}. "
        f"Give a folder inside, or start `ekiden worker --workspace-root {quote(str(folder))}`"
    )
