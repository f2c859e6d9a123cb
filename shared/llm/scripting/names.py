"""Repairs for a misspelt name: where it is used, or where it is defined."""

import ast
import builtins
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ekiden.shared.llm.scripting.sources import Change, Source
from ekiden.shared.llm.scripting.testruns import Failure, Frame, is_test
from ekiden.shared.suggestions import nearest

__all__ = ["closest", "names_defined", "rename_repairs"]

_HINT = re.compile(r"[Dd]id you mean:? (?:from )?'([^']+)'")


def closest(name: str, candidates: Iterable[str]) -> list[str]:
    """Return the names most like ``name``, best first; never the name itself."""
    others = sorted({other for other in candidates if other != name})
    by_folded = {_folded(other): other for other in others}
    same = [by_folded[_folded(name)]] if _folded(name) in by_folded else []
    return list(dict.fromkeys(same + nearest(name, others, n=4)))


def names_defined(source: Source) -> set[str]:
    """Return the names that a file gives to anything: functions, classes, variables, attributes, keys, arguments."""
    found: set[str] = set()
    for node in ast.walk(source.tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                found.add(node.name)
            case ast.Name(ctx=ast.Store()):
                found.add(node.id)
            case ast.Attribute(ctx=ast.Store()):
                found.add(node.attr)
            case ast.arg():
                found.add(node.arg)
            case ast.alias():
                found.add(node.asname or node.name)
            case ast.Constant(value=str() as text) if text.isidentifier():
                found.add(text)
    return found


def rename_repairs(failure: Failure, name: str, sources: Mapping[str, Source]) -> Iterator[list[Change]]:
    """Offer changes for ``name``, which the error says does not exist; each is a list, one change a file."""
    own = {path: source for path, source in sources.items() if not is_test(path)}
    defined = {other for source in own.values() for other in names_defined(source)}
    hinted = _HINT.findall(failure.text)
    places = [frame for frame in reversed(failure.frames) if frame.path in own]
    others = list(dict.fromkeys(hinted + closest(name, defined | _of_python(failure))))
    usual = [other for other in others if 2 * _count(other, sources) < _count(name, sources)]
    for wrong in usual:  # the name that the error misses is the usual one: the definition is misspelt
        yield from _at_the_definition(own, wrong, name)
    if failure.error == "NameError" and name in defined:
        for frame in places[:1]:
            yield from _as_attribute(own[frame.path], frame.line, name)
    for right in others:
        yield from _where_used(own, places, name, right)
    for wrong in others:
        yield from _at_the_definition(own, wrong, name)


def _of_python(failure: Failure) -> set[str]:
    """Return the names that Python itself has where the error looked: in a built-in type or module, or anywhere."""
    if failure.error == "NameError":
        return {name for name in dir(builtins) if name.islower()}
    owner = re.search(r"^(?:module )?'(\w+)'(?: object)? has no attribute", failure.message)
    if owner is None:
        return set()
    known = getattr(builtins, owner[1], None)
    if known is None and owner[1] in sys.stdlib_module_names:
        known = sys.modules.get(owner[1])  # never imported for this: an import may have effects
    return {name for name in dir(known) if known is not None and not name.startswith("_")}


def _as_attribute(source: Source, line: int, name: str) -> Iterator[list[Change]]:
    """``count`` becomes ``self.count``, where it is read."""
    text = source.lines[line - 1]
    changed = re.sub(rf"(?<![\w.]){re.escape(name)}(?!\w|\s*=[^=])", lambda _: f"self.{name}", text)
    if changed != text:
        yield [Change(source.path, line, line, (changed,))]


def _where_used(own: Mapping[str, Source], places: Sequence[Frame], wrong: str, right: str) -> Iterator[list[Change]]:
    for frame in places[:2]:
        yield from _in_lines(own[frame.path], frame.line, frame.line, wrong, right)
    for frame in places[:1]:
        yield from _in_lines(own[frame.path], 1, len(own[frame.path].lines), wrong, right)


def _at_the_definition(own: Mapping[str, Source], wrong: str, right: str) -> Iterator[list[Change]]:
    everywhere = [_in_lines(source, 1, len(source.lines), wrong, right) for source in own.values()]
    if changes := [change for found in everywhere for changes in found for change in changes]:
        yield changes
    yield from _where_defined(own.values(), wrong, right)


def _count(name: str, sources: Mapping[str, Source]) -> int:
    whole = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    return sum(len(whole.findall(line)) for source in sources.values() for line in source.lines)


def _where_defined(sources: Iterable[Source], wrong: str, right: str) -> Iterator[list[Change]]:
    for source in sources:
        for node in ast.walk(source.tree):
            names = [getattr(node, "name", ""), getattr(node, "attr", "") if _stores(node) else ""]
            if wrong in names and isinstance(node, ast.stmt | ast.expr):
                yield from _in_lines(source, node.lineno, node.lineno, wrong, right)


def _stores(node: ast.AST) -> bool:
    return isinstance(getattr(node, "ctx", None), ast.Store)


def _in_lines(source: Source, first: int, last: int, wrong: str, right: str) -> Iterator[list[Change]]:
    """Replace the whole word in a range of lines, narrowed to the lines that change."""
    whole = re.compile(rf"(?<!\w){re.escape(wrong)}(?!\w)")
    hit = [number for number in range(first, last + 1) if whole.search(source.lines[number - 1])]
    if hit:
        lines = source.lines[hit[0] - 1 : hit[-1]]
        yield [Change(source.path, hit[0], hit[-1], tuple(whole.sub(lambda _: right, line) for line in lines))]


def _folded(name: str) -> str:
    return name.replace("_", "").lower()
