"""The embedded server of a data folder, with pools of our own unless an ``ekiden up`` serves the folder."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ekiden.dispatcher.local.bash_notice import warn_of_bash
from ekiden.dispatcher.local.legacy_data import name_legacy_data
from ekiden.dispatcher.local.locks import RunningCommands, root_of_up
from ekiden.dispatcher.local.stack import Stack
from ekiden.dispatcher.local.unfinished import UnfinishedChoice, settle_unfinished
from ekiden.shared.embedded import attach
from ekiden.shared.project_folders import project_of
from ekiden.shared.project_tools import tool_files
from ekiden.shared.server import require_no_waiting
from ekiden.shared.settings.files import project_file
from ekiden.shared.settings.hooks import require_hooks
from ekiden.shared.settings.model import load_settings, origin_of
from ekiden.shared.terminal_text import note

__all__ = ["EmbeddedAccess", "embedded_access", "own_pools"]


@dataclass(frozen=True)
class EmbeddedAccess:
    """The right to use a data folder's server. ``resumed``: jobs that an earlier command left and that are to go on."""

    url: str
    data_dir: Path
    resumed: list[str]


@contextmanager
def embedded_access(
    data_dir: Path, unfinished: UnfinishedChoice | None, *, is_new: bool = False, may_ask: bool = True
) -> Iterator[EmbeddedAccess]:
    """Start the embedded server unless it runs, settle what becomes of unfinished jobs, and stop it in the end.

    ``is_new``: nothing will be asked for in a session that there is. ``may_ask``: as ``settle_unfinished``.
    """
    require_no_waiting(load_settings())
    with attach(data_dir) as server, RunningCommands(data_dir) as running_commands:
        name_legacy_data(data_dir)
        resumed = settle_unfinished(server, running_commands, unfinished, is_elsewhere=is_new, may_ask=may_ask)
        running_commands.join()
        yield EmbeddedAccess(server.url, data_dir, resumed)


@contextmanager
def own_pools(
    access: EmbeddedAccess,
    folder: Path,
    root: Path,
    agents_dirs: Sequence[Path] = (),
    packs: Sequence[str] | None = None,
) -> Iterator[Stack | None]:
    """Run a dispatcher and a worker for the folder, below ``root``; None: an ``ekiden up`` serves it already.

    ``packs``: as ``Stack`` has them.
    """
    warn_of_bash(access.data_dir)
    served = root_of_up(access.data_dir)
    if served is not None and folder.is_relative_to(served):
        yield None
        return
    _tell_of_tools(folder)
    require_hooks()
    folders = [*_users_folders(), *agents_dirs] if agents_dirs else []
    with Stack(access.url, access.data_dir, root, agents_dirs=folders, project=folder, packs=packs) as stack:
        yield stack


def _tell_of_tools(folder: Path) -> None:
    """Say so where the folder that jobs work in has tools that our worker, started elsewhere, does not load."""
    there = project_of(folder)
    if there != project_of(Path.cwd()) and (files := tool_files(there)):
        names = ", ".join(file.path.name for file in files)
        note(f"ekiden: the tools of {str(there)!r} ({names}) are not loaded: start it in that folder to have them")


def _users_folders() -> list[Path]:
    """Return the folders of agent files in the user's settings, which those on a command line would replace."""
    is_theirs = origin_of("agents_dir") == str(project_file())
    return [] if is_theirs else load_settings().agents_dir
