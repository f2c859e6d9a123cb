"""Which sandbox a worker has: the strongest that works, tried with a command, once."""

import asyncio
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ekiden.shared.errors import ConfigurationError, EkidenError
from ekiden.shared.processes.confinement import Limits
from ekiden.shared.processes.confining import landlock_abi
from ekiden.shared.processes.tools import start
from ekiden.shared.settings.model import Settings
from ekiden.shared.settings.values import SandboxSetting
from ekiden.workers.sandbox import bubblewrap, seccomp
from ekiden.workers.sandbox.sandbox import Sandbox
from ekiden.workers.sandbox.view import Place, programs

__all__ = ["choose", "limits_of"]

_TRIED = 42
"""The exit code of the command that tries a sandbox."""
_TRY_S = 20.0
_MIB = 1 << 20


def limits_of(settings: Settings) -> Limits:
    """Return the limits of commands that the settings say."""
    return Limits(
        settings.tools_max_processes, settings.tools_max_memory_mib * _MIB, settings.tools_max_file_mib * _MIB
    )


async def choose(settings: Settings, env: Mapping[str, str]) -> Sandbox:
    """Return the sandbox that ``tools.sandbox`` asks for; with ``auto`` and ``required`` the strongest that works.

    Args:
        settings: Those of the worker.
        env: What commands get of its environment.

    Raises:
        ConfigurationError: one that is asked for by name does not work here.
    """
    wish = settings.tools_sandbox
    bare = Sandbox(limits=limits_of(settings))
    if wish == "off":
        return replace(bare, why="tools.sandbox is 'off'")
    shown = programs(env, settings.tools_readable)
    problems: list[str] = []
    for sandbox in _candidates(replace(bare, programs=tuple(shown)), wish):
        if not (problem := await _problem_of(sandbox, env)):
            return replace(sandbox, why="; ".join(problems))
        problems.append(f"no {sandbox.mechanism}: {problem}")
    if wish in ("bubblewrap", "landlock"):
        raise ConfigurationError(f"setting 'tools.sandbox': {problems[0]}. Use 'auto', or mend that")
    return await _filtered(replace(bare, why="; ".join(problems)), env)


def _candidates(bare: Sandbox, wish: SandboxSetting) -> Sequence[Sandbox]:
    """Return those that may be had, the strongest first."""
    filtered = replace(bare, has_filter=seccomp.is_available())
    both = {
        "bubblewrap": replace(filtered, mechanism="bubblewrap", bwrap=bubblewrap.find() or ""),
        "landlock": replace(filtered, mechanism="landlock", abi=landlock_abi()),
    }
    return [sandbox for name, sandbox in both.items() if wish in (name, "auto", "required")]


async def _filtered(bare: Sandbox, env: Mapping[str, str]) -> Sandbox:
    """Return no sandbox, but a filter where that works."""
    filtered = replace(bare, has_filter=seccomp.is_available())
    return bare if await _problem_of(filtered, env) else filtered


async def _problem_of(sandbox: Sandbox, env: Mapping[str, str]) -> str:
    """Run a command in it; return what went wrong, empty if nothing did."""
    if sandbox.mechanism == "bubblewrap" and not sandbox.bwrap:
        return "there is no program bwrap (install bubblewrap, or ekiden[sandbox])"
    if sandbox.mechanism == "landlock" and not sandbox.abi:
        return "this kernel has none, or it is switched off"
    with tempfile.TemporaryDirectory(prefix="ekiden-try-") as folder:
        try:
            async with asyncio.timeout(_TRY_S):
                return await _tried(sandbox, folder, env)
        except TimeoutError:
            return f"a command in it did not end within {_TRY_S:g} s"
        except (OSError, EkidenError) as error:
            return getattr(error, "strerror", None) or str(error)


async def _tried(sandbox: Sandbox, folder: str, env: Mapping[str, str]) -> str:
    root = await asyncio.to_thread(Path(folder).resolve)
    held, written = root / "held", root / "written"
    held.touch()
    reading, writing = os.pipe()
    try:
        os.set_blocking(reading, False)
        process = await start(
            ["/bin/sh", "-c", f"echo > {written.name} && exit {_TRIED}"],
            cwd=root,
            env=sandbox.environment(env),
            stderr=writing,
            confinement=sandbox.confinement(Place(root, root, read_only=[held]), network=False),
        )
        try:
            code = await process.wait()
        finally:
            await process.end()
        said = ""
        with suppress(BlockingIOError):
            said = os.read(reading, 1_000).decode(errors="replace").strip()
        return "" if code == _TRIED else said or f"a command in it ended with {code}"
    finally:
        os.close(reading)
        os.close(writing)
        for file in (held, written):
            file.unlink(missing_ok=True)
