"""What a CEL expression costs at most, told before it is run: nothing stops CEL, and nothing else runs meanwhile.

The expression is read from what CEL itself has parsed (``cel.expr.CheckedExpr``, an open format, see
https://github.com/google/cel-spec/tree/master/proto/cel/expr), and walked with the sizes of what it looks at. A loop
costs its rounds times what is in it; values grow only by ``+``, by lists and by ``filter``.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ekiden.shared.cel_messages import fields_of, text_of
from ekiden.shared.errors import DefinitionError
from ekiden.shared.patterns import compile_pattern

__all__ = ["UNITS_A_STEP", "cost_of"]

UNITS_A_STEP = 80
"""Units (the comparison of two small values, about 60 ns) in a step of a limit."""
_CHARACTERS = 100
"""Characters that weigh as much as one entry of a list."""
_ROUNDS = 10_000
"""Of all loops together: there CEL itself ends them."""
_PAIRS = 17
"""Units for 100 characters and each 100 that are looked for in them, or each instruction of a pattern."""
_OPERATORS = "!_ _&&_ _||_ _==_ _!=_ _<_ _<=_ _>_ _>=_ @in -_ _-_ _*_ _/_ _%_"
_SMALL = frozenset([*_OPERATORS.split(" "), "size", "contains", "startsWith", "endsWith", "matches"])
"""Functions whose result is a number or a truth."""
_TRIAL = 20


@dataclass(frozen=True)
class _Part:
    """What a part of an expression costs, and how large its value can be."""

    cost: int
    weight: int = 1
    """Values in the value, itself too, and a hundredth of its characters."""
    value: Any = None
    """The value itself, where it is known."""
    rounds: int = 1
    """How often a loop goes through it."""
    heaviest: int = 1
    """The weight of its heaviest entry."""


def cost_of(serialised: bytes, variables: Mapping[str, Any] | None = None) -> int:
    """Return what an expression costs at most.

    Args:
        serialised: What CEL's ``serialize`` gives: a ``CheckedExpr`` in an ``Any``.
        variables: What it looks at; None: lists of twenty small values, wherever one may be.

    Raises:
        DefinitionError: a pattern is none, is too large, or is not written out.
    """
    [checked] = fields_of(serialised)[2]
    [expression] = fields_of(checked)[4]
    return _Walk(variables).of(expression).cost


class _Walk:
    def __init__(self, variables: Mapping[str, Any] | None) -> None:
        self._given = variables
        self._loops: dict[str, _Part] = {}

    def of(self, expression: bytes) -> _Part:
        fields = fields_of(expression)
        for number, read in self._readers.items():
            if number in fields:
                return read(self, fields[number][0])
        return _Part(1)

    def _constant(self, data: bytes) -> _Part:
        texts = [text for number in (6, 7) for text in fields_of(data).get(number, ())]
        return _Part(1, 1 + sum(map(len, texts)) // _CHARACTERS, texts[0].decode() if texts else None)

    def _name(self, data: bytes) -> _Part:
        name = text_of(data, 1)
        if name in self._loops:
            return self._loops[name]
        if self._given is None:
            return _Part(1, _TRIAL, None, _TRIAL, 1)
        return _of_value(self._given.get(name))

    def _member(self, data: bytes) -> _Part:
        owner = self.of(fields_of(data)[1][0])
        return self._inside(owner, text_of(data, 2), 0)

    def _inside(self, owner: _Part, key: Any, cost: int) -> _Part:
        """Return an entry of ``owner``: the very one, or as heavy as any."""
        cost += owner.cost + 1
        if isinstance(owner.value, Mapping) and isinstance(key, str):
            found = _of_value(owner.value.get(key))
            return _Part(cost, found.weight, found.value, found.rounds, found.heaviest)
        return _Part(cost, owner.weight, None, owner.weight, owner.weight)

    def _call(self, data: bytes) -> _Part:
        fields = fields_of(data)
        name = text_of(data, 2)
        parts = [self.of(one) for number in (1, 3) for one in fields.get(number, ())]
        if name == "_[_]":
            return self._inside(parts[0], parts[1].value, parts[1].cost)
        if name == "matches":
            return _matching(parts)
        cost, weight = sum(part.cost for part in parts) + 1, sum(part.weight for part in parts)
        if name == "contains":
            cost += _PAIRS * parts[0].weight * parts[-1].weight
        elif name not in ("_&&_", "_||_", "_?_:_"):
            cost += weight
        return _Part(cost) if name in _SMALL else _Part(cost, weight, None, weight, weight)

    def _list(self, data: bytes) -> _Part:
        return self._together(fields_of(data).get(1, ()))

    def _object(self, data: bytes) -> _Part:
        entries = [fields_of(entry) for entry in fields_of(data).get(2, ())]
        return self._together(one for entry in entries for number in (3, 4) for one in entry.get(number, ()))

    def _together(self, expressions: Iterable[bytes]) -> _Part:
        parts = [self.of(one) for one in expressions]
        weights = [part.weight for part in parts]
        return _Part(1 + sum(one.cost for one in parts), 1 + sum(weights), None, len(parts), max(weights, default=1))

    def _loop(self, data: bytes) -> _Part:
        fields = fields_of(data)
        entries, begin = self.of(fields[2][0]), self.of(fields[4][0])
        collects = 7 in fields_of(fields[4][0])
        result = _Part(1, entries.weight, None, entries.rounds, entries.heaviest) if collects else _Part(1)
        outer = self._loops
        self._loops = {**outer, text_of(data, 3): result}
        end = self.of(fields[7][0])
        self._loops |= {text_of(data, 1): _Part(1, entries.heaviest, None, entries.heaviest, entries.heaviest)}
        each = self.of(fields[5][0]).cost + self.of(fields[6][0]).cost
        self._loops = outer
        cost = entries.cost + begin.cost + end.cost + min(entries.rounds, _ROUNDS) * each
        return _Part(cost, end.weight, None, end.rounds, end.heaviest)

    _readers: ClassVar[dict[int, Callable[..., _Part]]] = {
        3: _constant,
        4: _name,
        5: _member,
        6: _call,
        7: _list,
        8: _object,
        9: _loop,
    }
    """By the field of ``Expr`` that an expression of the kind has."""


def _matching(parts: list[_Part]) -> _Part:
    pattern = parts[-1].value
    if not isinstance(pattern, str):
        raise DefinitionError("the pattern of 'matches' must be written out, as in output.matches('^done')")
    size = compile_pattern(pattern).programsize
    return _Part(sum(part.cost for part in parts) + _PAIRS * size * parts[0].weight)


def _of_value(value: Any) -> _Part:
    inside = (
        [*value, *value.values()] if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    )
    weights = [_weight(one) for one in inside]
    return _Part(1, _weight(value, sum(weights)), value, len(value) if inside else 1, max(weights, default=1))


def _weight(value: Any, inside: int | None = None) -> int:
    if isinstance(value, str):
        return 1 + len(value) // _CHARACTERS
    if inside is None and isinstance(value, Mapping | list | tuple):
        inside = _of_value(value).weight - 1
    return 1 + (inside or 0)
