"""Repairs for a misspelt name: where it is used, or where it is defined."""

import ast
import difflib
import re
from collections.abc import Iterable, Iterator, Mapping

from shared.llm.scripting.sources import Change, Source
from shared.llm.scripting.testruns import Failure, is_test

__all__ = ["closest", "names_defined", "rename_repairs"]

_HINT = re.compile(r"[Dd]id you mean:? (?:from )?'([^']+)'")


def closest(name: str, candidates: Iterable[str]) -> list[str]:
    """Return the names most like ``name``, best first; never the name itself."""
    others = sorted({other for other in candidates if other != name})
    by_folded = {_folded(other): other for other in others}
    same = [by_folded[_folded(name)]] if _folded(name) in by_folded else []
    return list(dict.fromkeys(same + difflib.get_close_matches(name, others, n=4, cutoff=0.6)))


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
            case ast.Constant(value=str()) if node.value.isidentifier():
                found.add(node.value)
    return found


def rename_repairs(failure: Failure, name: str, sources: Mapping[str, Source]) -> Iterator[list[Change]]:
    """Offer changes for ``name``, which the error says does not exist; each is a list, one change a file."""
    own = {path: source for path, source in sources.items() if not is_test(path)}
    defined = {other for source in own.values() for other in names_defined(source)}
    hinted = _HINT.findall(failure.text)
    right_names = list(dict.fromkeys(hinted + closest(name, defined)))
    places = [frame for frame in reversed(failure.frames) if frame.path in own]
    for right in right_names:
        for frame in places[:2]:
            yield from _in_lines(own[frame.path], frame.line, frame.line, name, right)
        for frame in places[:1]:
            yield from _in_lines(own[frame.path], 1, len(own[frame.path].lines), name, right)
    for wrong in closest(name, defined):  # the definition may be what is misspelt
        changes = [change for source in own.values() for found in _in_lines(source, 1, len(source.lines), wrong, name) for change in found]
        if changes:
            yield changes
        yield from _where_defined(own.values(), wrong, name)


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
