"""What memory is made of: notes with their origin, the namespaces that they lie in, who keeps them, who reads them."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol
from urllib.parse import quote, unquote

from pydantic import Field

from ekiden.shared.definitions.memory import Backend, problem_of_shared
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.stored_model import StoredModel

if TYPE_CHECKING:  # numpy, which a client of the server does without
    from ekiden.shared.embedding.encoder import Vectors

__all__ = [
    "MOST_CHARS",
    "MOST_NOTES",
    "Changes",
    "Embedder",
    "MemoryStore",
    "Namespace",
    "Note",
    "Origin",
    "Stored",
    "Write",
    "Written",
]

MOST_NOTES = 10_000
"""Of one namespace: as many are compared with a question in a few milliseconds, and fit into a worker."""
MOST_CHARS = 4_000
"""Of one note."""

NOTE_ID = r"^[0-9a-f]{16}$"
"""Stores keep counters of their own beside the notes, under words that are no id."""

Written = Literal["ok", "changed", "full"]
_IN_FILES = "files"


@dataclass(frozen=True)
class Namespace:
    """Whose notes: an agent's about one user, all agents' about one user, everybody's, or of those who share a name."""

    kind: Literal["agent", "user", "team", "shared"]
    name: str = ""
    """The agent's, or the shared one; empty for the others."""
    user: str = ""
    """Of ``agent`` and ``user``: about whom; empty: nobody said who it is."""
    backend: Backend = "redis"
    """Where its notes are kept. Those of the same name elsewhere are others."""

    @property
    def id(self) -> str:
        """The one word by which it is kept."""
        words = (self.kind, quote(self.name, safe=""), quote(self.user, safe=""))
        return ":".join(words if self.backend == "redis" else (_IN_FILES, *words))

    @classmethod
    def of(cls, namespace_id: str) -> "Namespace":
        """Return the namespace of an id. Raises ``InvalidRequest`` where it is none."""
        in_files, _, rest = namespace_id.partition(":")
        backend: Backend = "filesystem" if in_files == _IN_FILES else "redis"
        kind, *names = (rest if backend == "filesystem" else namespace_id).split(":")
        if kind not in ("agent", "user", "team", "shared") or len(names) != 2:
            raise InvalidRequest(f"{namespace_id!r} is no namespace of notes")
        return cls(kind, unquote(names[0]), unquote(names[1]), backend)  # type: ignore[arg-type]  # it is one of them: looked at above

    def check(self) -> None:
        """Raise ``InvalidRequest`` where its names are none that one can write, or tell from others."""
        if not (self.name + self.user).isprintable():
            raise InvalidRequest(f"{self.name or self.user!r}: a name has signs that can be shown, and no line ends")
        if self.kind == "shared" and (problem := problem_of_shared(self.name)):
            raise InvalidRequest(f"--shared {self.name!r}: {problem}")

    def __str__(self) -> str:
        """Say it for people and models."""
        about = f" about {self.user}" if self.user else ""
        own = {"agent": f"agent {self.name}'s{about}", "user": f"all agents'{about}", "team": "the team's"}
        where = " in files" if self.backend == "filesystem" else ""
        return own.get(self.kind, f"shared {self.name}") + where


class Origin(StoredModel):
    """Where a note comes from."""

    by: Literal["agent", "person"] = "agent"
    agent: str = Field(default="", exclude_if=operator.not_)
    job: str = Field(default="", exclude_if=operator.not_)
    user: str = Field(default="", exclude_if=operator.not_)
    """Whose job it was, or which person wrote it."""
    untrusted: str = Field(default="", exclude_if=operator.not_)
    """What text of an unknown author its writer had read, in words; empty: none."""

    def __str__(self) -> str:
        """Say it for people and models."""
        who = f"agent {self.agent}" if self.by == "agent" else self.user or "somebody"
        return " in job ".join(filter(None, (who, self.job)))


class Note(StoredModel):
    """What is remembered. Times are in ms since the epoch."""

    id: str = Field(pattern=NOTE_ID)
    content: str
    key: str = Field(default="", exclude_if=operator.not_)
    """The name under which a later one takes its place; empty: it has none."""
    tags: tuple[str, ...] = Field(default=(), exclude_if=operator.not_)
    origin: Origin = Origin()
    created_ms: int = 0
    changed_ms: int = 0
    used_ms: int = 0
    expires_ms: int = Field(default=0, exclude_if=operator.not_)
    """When it is gone; 0: never."""

    def is_over(self, now_ms: int) -> bool:
        """Tell whether its time has come."""
        return 0 < self.expires_ms <= now_ms


class Stored(NamedTuple):
    """A note as a store keeps it: any text, with the version that it got when it was written."""

    id: str
    version: int
    text: str


class Write(NamedTuple):
    """One change: ``text`` None takes the note away."""

    id: str
    seen: int
    """The version that the change was made from; 0: there was none."""
    text: str | None


@dataclass(frozen=True)
class Changes:
    """What was written behind some version, and what tells whether the reader has all there is."""

    notes: Sequence[Stored]
    count: int
    """How many notes there are."""
    check: int
    """The sum of their versions (modulo ``CHECK``): whoever has the same has the same notes."""


CHECK = 2**40


class MemoryStore(Protocol):
    """Keeps the notes of namespaces, for all processes. Versions grow within a namespace and are never given twice."""

    async def changes(self, namespace: str, after: int) -> Changes:
        """Return what was written behind version ``after``, oldest first; what was taken away is told by the check."""
        ...

    async def versions(self, namespace: str) -> dict[str, int]:
        """Return the versions of all notes, by id."""
        ...

    async def write(self, namespace: str, writes: Sequence[Write]) -> Written:
        """Make all changes, or none.

        ``changed``: a note is not of the version that its change was made from; ``full``: there would be more than
        ``MOST_NOTES``.
        """
        ...

    async def namespaces(self) -> list[str]:
        """Return those that hold notes."""
        ...

    async def drop(self, namespace: str) -> int:
        """Take all notes away; return how many there were."""
        ...


class Embedder(Protocol):
    """Makes vectors of meaning of texts. Safe to call from several threads."""

    @property
    def name(self) -> str:
        """What it is, with its version: another name's vectors cannot be compared with its own."""
        ...

    def encode(self, texts: Sequence[str]) -> "Vectors":
        """Return a vector of length one for each text, a row each."""
        ...
