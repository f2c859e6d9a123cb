"""Repairs for a value that is None where the code did not expect it.

First the expressions that may have been None are found on the faulting line (``shape`` says where they stand, as the
error's message tells it), then ways to cope are offered: skip the item, leave the function early, use a neutral value.
"""

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ekiden.shared.llm.scripting.sources import Change, Function, Source, own_expressions

__all__ = ["SHAPES", "none_repairs"]

_TRIVIAL = ("None", "0", "0.0", "False", "''", "[]", "{}", "()", "set()")
_OPERATORS: dict[str, type[ast.operator]] = {
    "+": ast.Add, "-": ast.Sub, "*": ast.Mult, "/": ast.Div, "//": ast.FloorDiv, "%": ast.Mod, "**": ast.Pow,
    "&": ast.BitAnd, "|": ast.BitOr, "@": ast.MatMult,
}  # fmt: skip
_Maybe = ast.Name | ast.Attribute | ast.Subscript | ast.Call


@dataclass(frozen=True)
class _Place:
    """The faulting line in its surroundings."""

    source: Source
    statement: ast.stmt
    """The innermost statement that contains the line."""
    starter: ast.stmt
    """The innermost statement with a line of its own, before which a guard can stand."""
    loop: ast.For | ast.AsyncFor | None
    function: Function | None

    @property
    def expressions(self) -> list[ast.expr]:
        return list(own_expressions(self.statement))


def none_repairs(
    source: Source, line: int, shape: str, error: re.Match[str], expected: Sequence[str], defaults: Sequence[str]
) -> Iterator[Change]:
    """Offer changes, likeliest first.

    Args:
        source: the file.
        line: the faulting line.
        shape: one of ``SHAPES``.
        error: the match of the error's message; groups ``name``, ``operator``, ``left``, ``right`` narrow it down.
        expected: values that the failing test expects, as source text.
        defaults: neutral values to try, as source text.
    """
    if (place := _place(source, line)) is None:
        return
    suspects: dict[str, ast.expr] = {}
    for node in SHAPES[shape](place, error.groupdict()):
        if isinstance(node, _Maybe):
            suspects.setdefault(source.text(node), node)
    for ways in (_filter_items, _check_first, _skip_item):
        for text, node in suspects.items():
            yield from ways(place, text, node)
    for text in suspects:
        yield from _return_early(place, text, _early_values(place, text, expected))
    for text, node in suspects.items():
        yield from _use_instead(place, text, node, defaults)
    for text in suspects:
        yield from _return_early(place, text, [value for value in expected if value not in _TRIVIAL])


def _place(source: Source, line: int) -> _Place | None:
    around = source.around(line)
    if not around:
        return None
    starters = [node for node in around if not source.lines[node.lineno - 1][: node.col_offset].strip()]
    starters = [node for node in starters if not source.lines[node.lineno - 1].lstrip().startswith(("elif ", "@"))]
    outer = [node for node in around if node is not around[-1]]
    function = next((node for node in reversed(outer) if isinstance(node, Function)), None)
    inside = outer[outer.index(function) + 1 :] if function else outer
    loop = next((node for node in reversed(inside) if isinstance(node, ast.For | ast.AsyncFor)), None)
    return _Place(source, around[-1], (starters or around)[-1], loop, function)


def _filter_items(place: _Place, text: str, node: ast.expr) -> Iterator[Change]:
    """``for x in xs`` inside an expression becomes ``for x in xs if x.y is not None``."""
    for holder in place.expressions:
        if not isinstance(holder, ast.GeneratorExp | ast.ListComp | ast.SetComp | ast.DictComp):
            continue
        last = holder.generators[-1]
        bound = {name for generator in holder.generators for name in _names(generator.target)}
        if node in list(ast.walk(holder)) and _root(node) in bound:
            if any(node in ast.walk(condition) for condition in last.ifs):
                yield from _preceded(place.source, last.ifs[0], text)
                continue
            end = (last.ifs or [last.iter])[-1]
            yield from _inserted(place.source, end, f"{' and' if last.ifs else ' if'} {text} is not None")
    for call in place.expressions:
        if isinstance(call, ast.Call) and node in call.args and _is_collecting(call):
            yield from _replaced(place.source, node, f"[value for value in {text} if value is not None]")


def _check_first(place: _Place, text: str, node: ast.expr) -> Iterator[Change]:
    """``if x.y < 1`` becomes ``if x.y is not None and x.y < 1``."""
    test = getattr(place.statement, "test", None)
    if isinstance(test, ast.expr) and node in ast.walk(test) and not isinstance(place.statement, ast.Assert):
        yield from _preceded(place.source, test, text)


def _preceded(source: Source, condition: ast.expr, text: str) -> Iterator[Change]:
    inner = source.text(condition)
    inner = f"({inner})" if isinstance(condition, ast.BoolOp) and isinstance(condition.op, ast.Or) else inner
    yield from _replaced(source, condition, f"{text} is not None and {inner}")


def _skip_item(place: _Place, text: str, node: ast.expr) -> Iterator[Change]:
    if place.loop is None or place.starter is place.loop:
        return
    bound = set(_names(place.loop.target))
    inside = [name for part in place.loop.body for name in _assigned(part)]
    if _root(node) in bound | set(inside):
        yield _guard(place, f"if {text} is None:", "continue")


def _return_early(place: _Place, text: str, values: Sequence[str]) -> Iterator[Change]:
    if place.function is not None:
        for value in values:
            yield _guard(place, f"if {text} is None:", "return" if value == "" else f"return {value}")


def _early_values(place: _Place, text: str, expected: Sequence[str]) -> list[str]:
    """Return what a guard may return: a trivial value that the test expects, or another value of the statement."""
    values = [value for value in expected if value in _TRIVIAL]
    known = _names_before(place)
    for node in place.expressions:
        name = place.source.text(node)
        plain = isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name))
        if (
            plain
            and _root(node) in known
            and name not in ("self", "cls")
            and name != text
            and not text.startswith(name + ".")
        ):
            values.append(name)
    return list(dict.fromkeys(values))


def _use_instead(place: _Place, text: str, node: ast.expr, defaults: Sequence[str]) -> Iterator[Change]:
    for default in defaults:
        if not isinstance(getattr(node, "ctx", None), ast.Store):
            yield from _replaced(place.source, node, f"({text} or {default})")
    if isinstance(node, ast.Name) or isinstance(getattr(node, "ctx", None), ast.Store):
        for default in defaults:
            yield _guard(place, f"if {text} is None:", f"{text} = {default}")


def _guard(place: _Place, condition: str, consequence: str) -> Change:
    line = place.starter.lineno
    lead = place.source.lines[line - 1]
    indent = lead[: len(lead) - len(lead.lstrip())]
    end = "\r" if lead.endswith("\r") else ""
    guard = (f"{indent}{condition}{end}", f"{indent}{_step(place, indent)}{consequence}{end}")
    return Change(place.source.path, line, line, (*guard, lead))


def _step(place: _Place, indent: str) -> str:
    """Return one level of indentation, as the file has it."""
    if "\t" in indent:
        return "\t"
    holder = place.loop or place.function
    width = len(indent) - holder.col_offset if holder is not None else 4
    return " " * (width if 0 < width <= 8 else 4)


def _inserted(source: Source, after: ast.expr, text: str) -> Iterator[Change]:
    yield from _spliced(source, after.end_lineno, after.end_col_offset, after.end_col_offset, text)


def _replaced(source: Source, node: ast.expr, text: str) -> Iterator[Change]:
    if node.lineno == node.end_lineno:
        yield from _spliced(source, node.lineno, node.col_offset, node.end_col_offset, text)


def _spliced(source: Source, line: int | None, start: int | None, end: int | None, text: str) -> Iterator[Change]:
    if line is None:
        return
    raw = source.lines[line - 1].encode()  # the offsets of syntax trees count bytes
    changed = (raw[:start] + text.encode() + raw[end:]).decode()
    yield Change(source.path, line, line, (changed,))


def _root(node: ast.expr) -> str:
    while not isinstance(node, ast.Name):
        inner = getattr(node, "value", None) or getattr(node, "func", None)
        if not isinstance(inner, ast.expr):
            return ""
        node = inner
    return node.id


def _names(node: ast.AST) -> list[str]:
    return [item.id for item in ast.walk(node) if isinstance(item, ast.Name)]


def _assigned(node: ast.AST) -> list[str]:
    return [item.id for item in ast.walk(node) if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)]


def _names_before(place: _Place) -> set[str]:
    if place.function is None:
        return set()
    spec = place.function.args
    known = {item.arg for item in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)}
    for part in ast.walk(place.function):
        if isinstance(part, ast.stmt) and part.lineno < place.statement.lineno and part is not place.function:
            known |= set(_assigned(part))
    return known


def _is_collecting(call: ast.Call) -> bool:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr == "join"
    return isinstance(call.func, ast.Name) and call.func.id in ("sum", "max", "min", "sorted")


def _attribute(place: _Place, said: dict[str, str | None]) -> Iterator[ast.expr]:
    for node in place.expressions:
        if isinstance(node, ast.Attribute) and node.attr == said.get("name"):
            yield node.value


def _operand(place: _Place, said: dict[str, str | None]) -> Iterator[ast.expr]:
    left, right = (said.get(side) in (None, "NoneType") for side in ("left", "right"))
    wanted = _OPERATORS.get((said.get("operator") or "").partition(" ")[0].rstrip("="), ast.operator)
    if isinstance(place.statement, ast.AugAssign) and isinstance(place.statement.op, wanted):
        yield from [place.statement.target] * left + [place.statement.value] * right
    for node in place.expressions:
        if isinstance(node, ast.BinOp) and isinstance(node.op, wanted):
            yield from [node.left] * left + [node.right] * right
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            yield from sides[:-1] * left + sides[1:] * right
        elif isinstance(node, ast.UnaryOp) and wanted is ast.operator:
            yield node.operand
    yield from _collected(place, said)


def _subscripted(place: _Place, _: dict[str, str | None]) -> Iterator[ast.expr]:
    for node in place.expressions:
        if isinstance(node, ast.Subscript):
            yield node.value


def _iterated(place: _Place, _: dict[str, str | None]) -> Iterator[ast.expr]:
    if isinstance(place.statement, ast.For | ast.AsyncFor):
        yield place.statement.iter
    if isinstance(place.statement, ast.Assign):
        yield place.statement.value
    for node in place.expressions:
        if isinstance(node, ast.GeneratorExp | ast.ListComp | ast.SetComp | ast.DictComp):
            yield from (generator.iter for generator in node.generators)
        elif isinstance(node, ast.Compare):
            yield from node.comparators
        elif isinstance(node, ast.Starred):
            yield node.value
    yield from _argument(place, _)


def _called(place: _Place, _: dict[str, str | None]) -> Iterator[ast.expr]:
    for node in place.expressions:
        if isinstance(node, ast.Call):
            yield node.func


def _argument(place: _Place, _: dict[str, str | None]) -> Iterator[ast.expr]:
    for node in place.expressions:
        if isinstance(node, ast.Call):
            yield from node.args
        elif isinstance(node, ast.FormattedValue):
            yield node.value
    yield from _collected(place, _)


def _collected(place: _Place, _: dict[str, str | None]) -> Iterator[ast.expr]:
    """The items that ``sum``, ``join`` and their like go through."""
    for node in place.expressions:
        if isinstance(node, ast.Call) and _is_collecting(node):
            yield from (key.value.body for key in node.keywords if isinstance(key.value, ast.Lambda))
            for argument in node.args[:1]:
                yield argument.elt if isinstance(argument, ast.GeneratorExp | ast.ListComp) else argument


SHAPES: dict[str, Callable[[_Place, dict[str, str | None]], Iterator[ast.expr]]] = {
    "attribute": _attribute,
    "operand": _operand,
    "subscripted": _subscripted,
    "iterated": _iterated,
    "called": _called,
    "argument": _argument,
}
"""Where the None stood: ``X.name``, ``X + 1``, ``X[0]``, ``for … in X``, ``X()``, ``f(X)``."""
