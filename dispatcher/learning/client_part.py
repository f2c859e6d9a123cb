"""The part of the client that is about what was learned from requests."""

from collections.abc import Collection, Mapping

from ekiden.dispatcher.identity import person_at
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.lessons import Lesson, State, kept
from ekiden.shared.stores.opening import Stores

__all__ = ["Learning"]


class Learning:
    """Shows what was learned, and lets people judge it."""

    _stores: Stores

    async def learn(self, newest: int = 1_000) -> int:
        """Look at what has ended of the ``newest`` jobs; return how many nobody had looked at. See ``look``."""
        from ekiden.dispatcher.learning.lookout import look  # with what routes: other commands do without

        total = 0
        while seen := await look(self._stores, newest):
            total += seen
        return total

    async def lessons(self) -> list[Lesson]:
        """Return what was learned, what counts for more in front."""
        found = (await self._stores.lessons.known()).lessons.values()
        return sorted(found, key=lambda one: one.weight, reverse=True)

    async def judge_lessons(self, ids: Collection[str], state: State) -> list[Lesson]:
        """Accept or refuse lessons, or take that back; return them as they are then.

        Raises ``InvalidRequest`` for an id that is none: then nothing is changed.
        """
        by = (await person_at(self._stores)).name
        done: list[Lesson] = []

        def judged(known: Mapping[str, Lesson]) -> Mapping[str, Lesson]:
            _require(ids, known)
            done[:] = [known[name].model_copy(update={"state": state, "by": by}) for name in ids]
            return kept(({**known} | {one.id: one for one in done}).values())

        await self._stores.lessons.change(judged)
        return done

    async def forget_lessons(self, ids: Collection[str] = (), *, user: str | None = None) -> list[Lesson]:
        """Forget lessons, or all of a user; return them. Their jobs teach nothing any more."""
        gone: list[Lesson] = []

        def left(known: Mapping[str, Lesson]) -> Mapping[str, Lesson]:
            _require(ids, known)
            gone[:] = [lesson for name, lesson in known.items() if name in ids or lesson.user == user]
            return {name: lesson for name, lesson in known.items() if lesson not in gone}

        await self._stores.lessons.change(left)
        return gone


def _require(ids: Collection[str], known: Mapping[str, Lesson]) -> None:
    if missing := sorted(set(ids) - known.keys()):
        raise InvalidRequest(f"nothing that was learned has the id {missing[0]!r}: `ekiden route learn` lists what was")
