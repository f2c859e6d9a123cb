"""The part of the client that is about what agents remember, and about forgetting people."""

import os
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ekiden.dispatcher.identity import person_at
from ekiden.shared.memory.backends import Backends
from ekiden.shared.memory.base import Namespace, Note, Origin
from ekiden.shared.settings.model import load_settings
from ekiden.shared.stores.forgetting import ForgottenUser
from ekiden.shared.stores.opening import Stores

if TYPE_CHECKING:  # numpy, of which other commands need nothing
    from ekiden.shared.memory.memories import Found, Memories

__all__ = ["Remembering"]


class Remembering:
    """Reads and changes notes."""

    _stores: Stores
    _notes_folder: Path | None
    """Where notes lie that are kept in files; None: nobody has said it."""

    @cached_property
    def _notes(self) -> Backends:
        return Backends(self._stores.memories, self._notes_folder, self._stores.signing)

    @cached_property
    def _memories(self) -> "Memories":
        from ekiden.shared.embedding.embedders import Embedders
        from ekiden.shared.memory.memories import Memories

        return Memories(self._notes, Embedders(load_settings(), os.environ).of())

    async def memory_namespaces(self) -> list[Namespace]:
        """Return those that hold notes."""
        return [Namespace.of(one) for one in await self._notes.namespaces()]

    async def notes(self, namespace: Namespace) -> list[Note]:
        """Return a namespace's notes, the newest first."""
        return await self._memories.all(namespace)

    async def find_notes(self, namespace: Namespace, query: str, *, most: int = 5, by_words: bool) -> "list[Found]":
        """Return the notes that are nearest to ``query``, the nearest first.

        By words, too, where the model that makes vectors does not answer: ``why_by_words`` says so then.
        """
        from ekiden.shared.memory.memories import Wanted

        return await self._memories.recall(namespace, query, Wanted("words" if by_words else "meaning", most))

    @property
    def why_by_words(self) -> str:
        """Why ``find_notes`` has gone by words where meaning was asked for; empty: it has not."""
        return self._memories.trouble

    async def add_note(self, namespace: Namespace, content: str, *, key: str = "", tags: Iterable[str] = ()) -> Note:
        """Keep a note in a person's name. Raises ``InvalidRequest``: it is empty or too long, or there are too many."""
        origin = Origin(by="person", user=(await person_at(self._stores)).name)
        return await self._memories.save(namespace, content, key=key, tags=tags, origin=origin, with_vector=False)

    async def put_notes(self, namespace: Namespace, notes: list[Note]) -> None:
        """Keep notes as they are, with ids, origin and times. Raises as ``add_note``."""
        await self._memories.put(namespace, notes)

    async def forget_notes(self, namespace: Namespace, is_meant: Callable[[Note], bool]) -> list[Note]:
        """Take the notes away that are meant; return them."""
        return await self._memories.forget(namespace, is_meant)

    async def forget_user(self, user: str) -> ForgottenUser:
        """Take away all that is kept of a user: sessions with their jobs and journals, notes, lessons.

        Notes that others share, and that come from jobs of the user, are theirs, too.

        Raises:
            InvalidRequest: a job of the user's still runs, or waits.
        """
        found = await self._stores.forgetting.forget(user)
        notes = 0
        for namespace in await self.memory_namespaces():
            if namespace.user == user:
                notes += await self._notes.drop(namespace.id)
            else:
                notes += len(await self.forget_notes(namespace, lambda note: note.origin.user == user))
        return found._replace(notes=notes)
