"""A chat, wherever the pools are that answer."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ekiden.dispatcher.cli.connection import configured
from ekiden.dispatcher.cli.running.repl import Chat, run_repl
from ekiden.dispatcher.cli.running.request import Workspace, folder_there
from ekiden.dispatcher.cli.terminal.line_input import lines_here
from ekiden.dispatcher.local.access import embedded_access, own_pools
from ekiden.dispatcher.local.unfinished import UnfinishedChoice
from ekiden.shared.terminal_text import note

__all__ = ["chat_anywhere"]


def chat_anywhere(
    chat: Chat,
    redis: str | None,
    data_dir: Path | None,
    *,
    workspace_root: Path | None = None,
    unfinished: UnfinishedChoice | None = None,
    agents_dirs: Sequence[Path] = (),
) -> int:
    """Chat with the pools of the configured server, or with pools of our own that stay up to the end."""
    url, data = configured(redis, data_dir)
    if url:
        return run_repl(url, None, replace(chat, cwd=folder_there(chat.cwd)), lines_here(None))
    place = Workspace.of(chat.cwd, workspace_root)
    with embedded_access(data, unfinished) as access, own_pools(access, place.folder, place.root, agents_dirs) as stack:
        if access.resumed:
            note(f"{len(access.resumed)} earlier job(s) go on beside this: `ekiden jobs` lists them")
        here = replace(chat, cwd=place.folder, display=replace(chat.display, is_local=True))
        return run_repl(access.url, stack, here, lines_here(data / "history"))
