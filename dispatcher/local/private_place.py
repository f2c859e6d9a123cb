"""A server of one's own, with a dispatcher and a worker: gone with the command that made it."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ekiden.dispatcher.local.stack import Stack
from ekiden.shared.embedded import attach

__all__ = ["PrivatePlace", "private_place"]

_ALONE = {"EKIDEN_WAIT_REPLICAS": "0", "EKIDEN_ROUTING_LEARN": "off", "OTEL_SDK_DISABLED": "true"}
"""What holds of its pools: nothing of what happens there is told to anybody, or learned."""
_PLAYING = {**_ALONE, "EKIDEN_ROUTING_LLM_ENABLED": "false"}


@dataclass(frozen=True)
class PrivatePlace:
    """``url``: of the server; ``folder``: for what its pools log, and are to play; ``work``: for jobs, and empty."""

    url: str
    folder: Path
    work: Path

    def pools(
        self,
        root: Path | None,
        *,
        plays: bool,
        publishes: bool = False,
        project: Path | None = None,
        agents_dirs: Sequence[Path] = (),
        packs: Sequence[str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Stack:
        """Return a dispatcher and a worker, to be entered.

        Args:
            root: The worker's workspace root; None: it has none.
            plays: Whether the worker gives what is recorded in ``folder``, and asks no model and runs no tool.
            publishes: Whether agent files come into force.
            project: See ``Stack``.
            agents_dirs: See ``Stack``.
            packs: See ``Stack``.
            env: What else stands in their environment.
        """
        alone = {**_PLAYING, "EKIDEN_PLAYBACK": str(self.folder)} if plays else _ALONE
        return Stack(
            self.url,
            self.folder,
            root,
            agents_dirs=agents_dirs,
            project=project,
            packs=packs,
            env={**alone, **(env or {})},
            publishes=publishes,
        )


@contextmanager
def private_place() -> Iterator[PrivatePlace]:
    """Start a server that nobody else knows. Raises ``ConfigurationError`` where there is no embedded one."""
    folder = Path(tempfile.mkdtemp(prefix="ekiden-"))
    work = folder / "work"  # and not with the server's data, which Git ignores
    try:
        work.mkdir()
        with attach(folder / "server") as server:
            yield PrivatePlace(server.url, folder / "server", work)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
