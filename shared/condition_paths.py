"""What a CEL expression looks at: the paths in it, from a variable on, as ``analysis.files`` is one."""

from collections.abc import Iterator

from ekiden.shared.cel_messages import fields_of, text_of

__all__ = ["paths_in"]

_CONSTANT, _NAME, _MEMBER, _CALL, _LIST, _OBJECT, _LOOP = range(3, 10)
"""The fields of ``cel.expr.Expr``, see ``condition_costs``."""

Path = tuple[str, ...]


def paths_in(serialised: bytes) -> set[Path]:
    """Return the paths in what CEL's ``serialize`` gives, each as far as its names are written out.

    The variables of loops begin none.
    """
    [checked] = fields_of(serialised)[2]
    [expression] = fields_of(checked)[4]
    return set(_paths(expression, frozenset()))


def _paths(expression: bytes, loops: frozenset[str]) -> Iterator[Path]:
    """Yield them; ``loops``: the variables of the loops around."""
    if path := _path(expression):
        if path[0] not in loops:
            yield path
        return
    for part, within in _parts(expression, loops):
        yield from _paths(part, within)


def _path(expression: bytes) -> Path:
    """Return the whole expression as a path; empty: it is none."""
    fields = fields_of(expression)
    if _NAME in fields:
        return (text_of(fields[_NAME][0], 1),)
    if _MEMBER in fields:
        owner, name = fields_of(fields[_MEMBER][0])[1][0], text_of(fields[_MEMBER][0], 2)
    elif _CALL in fields and text_of(fields[_CALL][0], 2) == "_[_]":
        owner, key = fields_of(fields[_CALL][0])[3]
        name = text_of(fields_of(key).get(_CONSTANT, [b""])[0], 6)
    else:
        return ()
    before = _path(owner)
    return (*before, name) if before and name else ()


def _parts(expression: bytes, loops: frozenset[str]) -> Iterator[tuple[bytes, frozenset[str]]]:
    """Yield the expressions just within, with the variables of the loops around each."""
    fields = {kind: fields_of(data[0]) for kind, data in fields_of(expression).items() if kind >= _MEMBER and data}
    for kind, inside in fields.items():
        match kind:
            case 5:
                yield inside[1][0], loops
            case 6:
                yield from ((one, loops) for number in (1, 3) for one in inside.get(number, ()))
            case 7:
                yield from ((one, loops) for one in inside.get(1, ()))
            case 8:
                entries = [fields_of(entry) for entry in inside.get(2, ())]
                yield from ((one, loops) for entry in entries for number in (3, 4) for one in entry.get(number, ()))
            case 9:
                within = loops | {text_of(fields_of(expression)[9][0], number) for number in (1, 3)}
                yield from ((inside[number][0], loops) for number in (2, 4))
                yield from ((inside[number][0], within) for number in (5, 6, 7))
