"""Tools as a key, by which is kept what nearly every leg of an agent would find out about them anew."""

import operator

from ekiden.shared.llm.base import ToolSpec

__all__ = ["SameTools"]


class SameTools(tuple[ToolSpec, ...]):
    """Equal where they are the same objects, for they cannot be hashed."""

    __slots__ = ()

    def __hash__(self) -> int:
        return hash(tuple(map(id, self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SameTools) and len(self) == len(other) and all(map(operator.is_, self, other))
