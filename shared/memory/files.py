"""Notes in files: a folder with a file for each namespace, which several processes read and write at once.

A file is written at its end only, a line for each change, so that a change is there whole or not at all: what a dead
writer has left unfinished is none, and the next one takes it away. Who writes holds the folder's lock; who reads holds
none, and reads what has come since. A file is written anew, in one step, where a note is taken away, or most of its
lines count no more.
"""

import asyncio
import fcntl
import hashlib
import os
import re
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote

from ekiden.shared.atomic_file import replace_atomically
from ekiden.shared.errors import Forged, StoreUnavailable
from ekiden.shared.late_logger import LateLogger
from ekiden.shared.memory.base import CHECK, MOST_NOTES, Changes, Stored, Write, Written
from ekiden.shared.memory.note_lines import (
    Change,
    as_line,
    generation_of,
    head_line,
    namespace_of,
    newest_of,
    read_line,
)
from ekiden.shared.project_folders import private_folder
from ekiden.shared.signing import OFF, Signing

__all__ = ["FileMemoryStore"]

_KIND = "note"
_LOCK = ".lock"
_WAIT_S = 10.0
"""For the lock: whoever has it writes a line, or a file anew."""
_RETRY_S = 0.005
_IDLE_LINES = 1_000
"""Lines that count no more, beside as many as there are notes, until a file is written anew."""
_MODE = 0o600

T = TypeVar("T")

log = LateLogger(__name__)


@dataclass
class _Known:
    """What this process has read of a file."""

    generation: str = ""
    newest: int = 0
    versions: dict[str, int] = field(default_factory=dict)
    tops: list[int] = field(default_factory=list)
    """The greatest version up to each line."""
    ends: list[int] = field(default_factory=lambda: [0])
    """Where the head, and each line, ends."""

    def begin_of(self, after: int) -> int:
        """Return where the first line begins that holds what is newer than ``after``."""
        return self.ends[bisect_right(self.tops, after)]

    def take_in(self, changes: Sequence[Change], end: int) -> None:
        for one in changes:
            self.newest = max(self.newest, one.version)
            if one.text is None:
                self.versions.pop(one.id, None)
            else:
                self.versions[one.id] = one.version
        self.tops.append(self.newest)
        self.ends.append(end)


class FileMemoryStore:
    """A ``MemoryStore``; what this deployment has not signed, where it signs, is no note.

    All methods raise ``StoreUnavailable`` where the folder cannot be used, ``ConfigurationError`` where it is somebody
    else's.
    """

    def __init__(self, folder: Path, signing: Signing = OFF) -> None:
        """Keep notes in ``folder``, which is made, for its owner alone, when there is one to keep."""
        self._folder = folder
        self._signing = signing
        self._known: dict[str, _Known] = {}
        self._lock = threading.Lock()

    async def changes(self, namespace: str, after: int) -> Changes:
        """See ``MemoryStore``."""
        return await self._run(lambda: self._changes(namespace, after))

    async def versions(self, namespace: str) -> dict[str, int]:
        """See ``MemoryStore``."""
        return await self._run(lambda: dict(self._read_on(namespace).versions))

    async def write(self, namespace: str, writes: Sequence[Write]) -> Written:
        """See ``MemoryStore``. It is on the disk then."""
        return await self._run(lambda: self._write(namespace, writes))

    async def namespaces(self) -> list[str]:
        """See ``MemoryStore``."""
        return await self._run(lambda: sorted(self._namespaces()))

    async def drop(self, namespace: str) -> int:
        """See ``MemoryStore``."""
        return await self._run(lambda: self._drop(namespace))

    async def _run(self, work: Callable[[], T]) -> T:
        def alone() -> T:
            with self._lock:
                return work()

        try:
            return await asyncio.to_thread(alone)
        except OSError as error:
            raise StoreUnavailable(
                f"notes in {str(self._folder)!r} cannot be read or written ({error.strerror}): see to the folder, or "
                "name another one in the setting memory.folder"
            ) from error

    def _changes(self, namespace: str, after: int) -> Changes:
        found: dict[str, Change] = {}
        known = self._read_on(namespace, after, found)
        notes = [
            Stored(one.id, one.version, self._text(namespace, one.id, one.text))
            for one in sorted(found.values(), key=lambda one: one.version)
            if one.text is not None and known.versions.get(one.id) == one.version
        ]
        return Changes(notes, len(known.versions), sum(known.versions.values()) % CHECK)

    def _read_on(self, namespace: str, after: int | None = None, found: dict[str, Change] | None = None) -> _Known:
        """Return what the file holds, read as far as it was not known; into ``found``, what is newer than ``after``."""
        try:
            file = self._path(namespace).open("rb")
        except FileNotFoundError:
            self._known.pop(namespace, None)
            return _Known()
        private_folder(self._folder)
        with file:
            known = self._current(namespace, file.readline())
            size = os.fstat(file.fileno()).st_size
            if known.ends[-1] > size:  # somebody has cut it
                file.seek(0)
                self._known.pop(namespace)
                known = self._current(namespace, file.readline())
            begin = known.ends[-1] if after is None else min(known.begin_of(after), known.ends[-1])
            file.seek(begin)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                begin += len(line)
                changes = self._read(namespace, line)
                if begin > known.ends[-1]:
                    known.take_in(changes, begin)
                if found is not None and after is not None:
                    found |= {one.id: one for one in changes if one.version > after}
        return known

    def _current(self, namespace: str, head: bytes) -> _Known:
        """Return what is known of the file that begins so."""
        try:
            generation = generation_of(head)
        except ValueError as error:
            raise StoreUnavailable(f"{str(self._path(namespace))!r}: {error}. Move it away") from None
        known = self._known.get(namespace)
        if known is None or known.generation != generation:
            known = self._known[namespace] = _Known(generation, newest_of(head), ends=[len(head)])
        return known

    def _read(self, namespace: str, line: bytes) -> Sequence[Change]:
        try:
            return read_line(line)
        except ValueError as error:
            log.warning("note_ignored", namespace=namespace, file=str(self._path(namespace)), error=str(error))
            return ()

    def _write(self, namespace: str, writes: Sequence[Write]) -> Written:
        with self._locked():
            known = self._read_on(namespace)
            if any(known.versions.get(one.id, 0) != one.seen for one in writes):
                return "changed"
            kept = {one.id for one in writes if one.text is not None}
            left = (known.versions.keys() | kept) - {one.id for one in writes if one.text is None}
            if kept and len(left) > MOST_NOTES:
                return "full"
            version = max(known.newest, round(time.time() * 1000))  # never twice, also where a file was taken away
            changes = [
                Change(one.id, version + place, one.text and self._signing.sign(_KIND, (namespace, one.id), one.text))
                for place, one in enumerate(writes, 1)
            ]
            self._put(namespace, known, changes, left=len(left))
        return "ok"

    def _put(self, namespace: str, known: _Known, changes: Sequence[Change], *, left: int) -> None:
        path = self._path(namespace)
        if not left:
            path.unlink(missing_ok=True)
        elif not known.generation:
            replace_atomically(path, head_line(namespace, known.newest) + as_line(changes), _MODE)
        elif any(one.text is None for one in changes) or len(known.tops) > 2 * left + _IDLE_LINES:
            self._write_anew(namespace, changes)  # of what is forgotten, no line stays
        else:
            _append(path, known.ends[-1], as_line(changes))

    def _write_anew(self, namespace: str, changes: Sequence[Change]) -> None:
        found: dict[str, Change] = {}
        known = self._read_on(namespace, 0, found)
        found = {one: change for one, change in found.items() if known.versions.get(one) == change.version}
        found |= {one.id: one for one in changes}
        notes = sorted((one for one in found.values() if one.text is not None), key=lambda one: one.version)
        newest = max(known.newest, *(one.version for one in changes))
        lines = [head_line(namespace, newest), *(as_line([one]) for one in notes)]
        replace_atomically(self._path(namespace), b"".join(lines), _MODE)

    def _namespaces(self) -> Iterator[str]:
        for path in self._folder.glob("*.jsonl"):
            with suppress(ValueError, FileNotFoundError), path.open("rb") as file:
                namespace = namespace_of(file.readline())
                if path == self._path(namespace) and self._read_on(namespace).versions:
                    yield namespace

    def _drop(self, namespace: str) -> int:
        if not self._path(namespace).exists():
            return 0
        with self._locked():
            count = len(self._read_on(namespace).versions)
            self._path(namespace).unlink(missing_ok=True)
        return count

    def _path(self, namespace: str) -> Path:
        """Return the file of a namespace, by a name that people know it by."""
        digest = hashlib.sha256(namespace.encode()).hexdigest()[:16]
        words = re.sub(r"[^\w]+", "-", unquote(namespace)).strip("-")[:40]
        return self._folder / f"{words}-{digest}.jsonl"

    def _text(self, namespace: str, note_id: str, text: str) -> str:
        """Return a note as it was written; an empty text, which is none, where somebody else has."""
        try:
            return self._signing.read(_KIND, (namespace, note_id), text)
        except Forged as error:
            log.warning("note_ignored", note=note_id, error=str(error))
            return ""

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the folder's lock, which goes with the process that has it. Raises ``StoreUnavailable``."""
        lock = os.open(private_folder(self._folder) / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
        try:
            until = time.monotonic() + _WAIT_S
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > until:
                        raise StoreUnavailable(
                            f"another process has held the lock of {str(self._folder)!r} for {_WAIT_S:g} s: is one "
                            "stopped that writes notes there?"
                        ) from None
                    time.sleep(_RETRY_S)
            yield
        finally:
            os.close(lock)


def _append(path: Path, end: int, line: bytes) -> None:
    """Write a line behind the whole ones, in the place of what a dead writer may have left. Raises ``OSError``."""
    with path.open("r+b", buffering=0) as file:
        file.truncate(end)
        file.seek(end)
        try:
            written = 0
            while written < len(line):
                written += file.write(line[written:])
            os.fsync(file.fileno())
        except OSError:
            file.truncate(end)
            raise
