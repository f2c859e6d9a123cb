"""What is said once: for each key, or when a state changes."""

from collections.abc import Hashable

__all__ = ["Once", "StateChange"]

MOST_KEYS = 1_000


class Once:
    """Tells which keys are new.

    With too many of them it forgets them all: better to say a thing twice than to remember ever more.
    """

    def __init__(self) -> None:
        self._seen: set[Hashable] = set()

    def first(self, key: Hashable) -> bool:
        """Return whether ``key`` comes for the first time."""
        if key in self._seen:
            return False
        if len(self._seen) >= MOST_KEYS:
            self._seen.clear()
        self._seen.add(key)
        return True


class StateChange:
    """Tells when what was well is well no more, and when it is again; it begins well.

    Attributes:
        is_well: How it was when it was last noted.
    """

    def __init__(self) -> None:
        self.is_well = True

    def note(self, *, is_well: bool) -> bool:
        """Take note of how it is now; return whether that is a change."""
        was_well, self.is_well = self.is_well, is_well
        return is_well != was_well
