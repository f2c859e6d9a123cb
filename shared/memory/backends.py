"""Where notes are kept: by the server, or in files, as the id of a namespace says."""

from collections.abc import Sequence
from pathlib import Path

from ekiden.shared.errors import InvalidRequest
from ekiden.shared.memory.base import Changes, MemoryStore, Namespace, Write, Written
from ekiden.shared.memory.files import FileMemoryStore
from ekiden.shared.signing import Signing

__all__ = ["Backends"]


class Backends:
    """A ``MemoryStore`` of several."""

    def __init__(self, server: MemoryStore, folder: Path | None, signing: Signing) -> None:
        """Keep namespaces of files in ``folder``; None: there are none here."""
        self._server = server
        self._files = FileMemoryStore(folder, signing) if folder else None

    async def changes(self, namespace: str, after: int) -> Changes:
        """See ``MemoryStore``."""
        return await self._of(namespace).changes(namespace, after)

    async def versions(self, namespace: str) -> dict[str, int]:
        """See ``MemoryStore``."""
        return await self._of(namespace).versions(namespace)

    async def write(self, namespace: str, writes: Sequence[Write]) -> Written:
        """See ``MemoryStore``."""
        return await self._of(namespace).write(namespace, writes)

    async def namespaces(self) -> list[str]:
        """See ``MemoryStore``."""
        return [*await self._server.namespaces(), *(await self._files.namespaces() if self._files else ())]

    async def drop(self, namespace: str) -> int:
        """See ``MemoryStore``."""
        return await self._of(namespace).drop(namespace)

    def _of(self, namespace: str) -> MemoryStore:
        """Return who keeps a namespace. Raises ``InvalidRequest`` where nobody does."""
        if Namespace.of(namespace).backend == "redis":
            return self._server
        if self._files is None:
            raise InvalidRequest(f"{Namespace.of(namespace)}: no folder for notes is known here")
        return self._files
