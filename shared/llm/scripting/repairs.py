"""Candidate repairs for a failing test: a search, in which the tests are the judge.

What is known of errors stands in the table of the script (``tables.repairs``), an entry for each kind:

    - {kind: TEXT, error: REGEX, none_at: SHAPE}          # see nones.py
    - {kind: TEXT, error: REGEX, misspelt: true}          # the regex has a group ``name``, see names.py
    - {kind: TEXT, error: REGEX, rewrite: [[REGEX, NEW], …]}   # tried on the lines in question, one match at a time

and ``tables.neutral`` lists the values to try in place of None. Lines in question are those of the frames inside the
project, the headers of the loops around them, the rest of their functions; when only the test is in the traceback, the
functions that the test calls, and those that they call.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ekiden.shared.llm.scripting.history import CallRecord
from ekiden.shared.llm.scripting.names import rename_repairs
from ekiden.shared.llm.scripting.nones import none_repairs
from ekiden.shared.llm.scripting.sources import Change, Edit, Function, Source, edit_for, own_expressions, sources_in
from ekiden.shared.llm.scripting.testruns import Failure, Run, is_test

__all__ = ["Repair", "files_to_read", "repairs"]

_FILES_LIMIT = 12
_FUNCTIONS_LIMIT = 6


@dataclass(frozen=True)
class Repair:
    """A change to try. ``line`` is where it begins; ``what`` says it in words."""

    kind: str
    path: str
    line: int
    what: str
    edits: tuple[Edit, ...]


def files_to_read(run: Run | None, files: Sequence[str]) -> list[str]:
    """Return the files that may matter for the first failure: those of its frames, then those that its text names."""
    if run is None or run.first is None:
        return []
    words = set(re.findall(r"\w+", run.first.text))
    framed = [frame.path for frame in reversed(run.first.frames) if frame.path in files]
    own = [path for path in files if not is_test(path)]
    named = [path for path in own if words & set(re.findall(r"\w+", path.removesuffix(".py")))]
    return list(dict.fromkeys(framed + named + own))[:_FILES_LIMIT]


def repairs(run: Run | None, calls: Iterable[CallRecord], tables: Mapping[str, Any]) -> list[Repair]:
    """Return the repairs to try for the first failure of a run, likeliest first.

    ``calls`` with the label ``source`` have read the files.
    """
    sources = sources_in(calls, "source")
    failure = run.first if run is not None else None
    if failure is None:
        return []
    found: dict[tuple[Edit, ...], Repair] = {}
    for entry in tables["repairs"]:
        error = re.search(entry["error"], failure.said)
        for changes in _changes(entry, failure, error, sources, tables) if error else ():
            repair = _repair(entry["kind"], changes, sources)
            if repair is not None:
                found.setdefault(repair.edits, repair)
    return list(found.values())


def _changes(
    entry: Mapping[str, Any],
    failure: Failure,
    error: re.Match[str],
    sources: Mapping[str, Source],
    tables: Mapping[str, Any],
) -> Iterator[list[Change]]:
    own = {path: source for path, source in sources.items() if not is_test(path)}
    if "none_at" in entry:
        expected = _expected(failure, sources)
        for frame in reversed([frame for frame in failure.frames if frame.path in own]):
            source = own[frame.path]
            for change in none_repairs(source, frame.line, entry["none_at"], error, expected, tables["neutral"]):
                yield [change]
    elif "misspelt" in entry:
        yield from rename_repairs(failure, error["name"], sources)
    else:
        lines = list(dict.fromkeys(_lines_in_question(failure, sources, own)))
        for pattern, new in entry["rewrite"]:
            for path, number in lines:
                yield from ([change] for change in _rewritten(own[path], number, pattern, new))


def _repair(kind: str, changes: Sequence[Change], sources: Mapping[str, Source]) -> Repair | None:
    edits = [edit_for(sources[change.path], change) for change in changes]
    if not changes or any(edit is None for edit in edits) or not all(_parses(sources, change) for change in changes):
        return None
    first = changes[0]
    before = sources[first.path].lines[first.first - 1 : first.last]
    what = _in_words(before, first.lines)
    return Repair(kind, first.path, first.first, what, tuple(edit for edit in edits if edit))


def _in_words(before: Sequence[str], after: Sequence[str]) -> str:
    if len(after) > len(before):
        added = " ".join(line.strip() for line in after[: len(after) - len(before)])
        return f"`{added}` put before `{before[0].strip()}`"
    was, now = next((line, other) for line, other in zip(before, after, strict=True) if line != other)
    return f"`{was.strip()}` changed to `{now.strip()}`"


def _parses(sources: Mapping[str, Source], change: Change) -> bool:
    source = sources[change.path]
    lines = (*source.lines[: change.first - 1], *change.lines, *source.lines[change.last :])
    return bool(Source(source.path, lines).tree.body) or not source.tree.body


def _rewritten(source: Source, number: int, pattern: str, new: str) -> Iterator[Change]:
    line = source.lines[number - 1]
    for found in re.finditer(pattern, line):
        changed = line[: found.start()] + found.expand(new) + line[found.end() :]
        yield Change(source.path, number, number, (changed,))


def _lines_in_question(
    failure: Failure, sources: Mapping[str, Source], own: Mapping[str, Source]
) -> Iterator[tuple[str, int]]:
    frames = [frame for frame in reversed(failure.frames) if frame.path in own]
    for frame in frames:
        source = own[frame.path]
        yield frame.path, frame.line
        loops = [node for node in source.around(frame.line) if isinstance(node, ast.For | ast.While | ast.AsyncFor)]
        yield from ((frame.path, loop.lineno) for loop in reversed(loops))
    for frame in frames:
        for function in [node for node in own[frame.path].around(frame.line) if isinstance(node, Function)][-1:]:
            yield from ((frame.path, number) for number in _numbers(own[frame.path], function))
    for source, function in _called_functions(failure, sources, own):
        yield from ((source.path, number) for number in _numbers(source, function))


def _numbers(source: Source, function: Function) -> list[int]:
    return source.code_lines(function.body[0].lineno, function.end_lineno or function.lineno)


def _called_functions(
    failure: Failure, sources: Mapping[str, Source], own: Mapping[str, Source]
) -> list[tuple[Source, Function]]:
    """Return the project's functions that the failing test uses, nearest to the failing line first."""
    defined: dict[str, list[tuple[Source, Function]]] = {}
    for source in own.values():
        for function in source.functions():
            defined.setdefault(function.name, []).append((source, function))
    wanted = [word for statement in _test_statements(failure, sources) for word in _used_names(statement)]
    found: list[tuple[Source, Function]] = []
    while wanted and len(found) < _FUNCTIONS_LIMIT:
        for source, function in defined.pop(wanted.pop(0), []):
            found.append((source, function))
            wanted += [word for statement in function.body for word in _used_names(statement)]
    return found


def _test_statements(failure: Failure, sources: Mapping[str, Source]) -> list[ast.stmt]:
    """Return the statements of the failing test: the failing one, those before it from last to first, those after."""
    frame = next((frame for frame in failure.frames if is_test(frame.path) and frame.path in sources), None)
    if frame is None:
        return []
    around = sources[frame.path].around(frame.line)
    function = next((node for node in around if isinstance(node, Function)), None)
    if function is None:
        return around[-1:]
    simple = [node for node in ast.walk(function) if isinstance(node, ast.stmt) and node is not function]
    before = sorted((node for node in simple if node.lineno <= frame.line), key=lambda node: -node.lineno)
    return before + sorted((node for node in simple if node.lineno > frame.line), key=lambda node: node.lineno)


def _used_names(statement: ast.stmt) -> list[str]:
    found = []
    for node in ast.walk(statement):
        if isinstance(node, ast.Name):
            found.append(node.id)
        elif isinstance(node, ast.Attribute):
            found.append(node.attr)
    return found


def _expected(failure: Failure, sources: Mapping[str, Source]) -> list[str]:
    """Return the literals that the failing test compares with, as source text; the failing statement's come first."""
    found: list[str] = []
    for statement in _test_statements(failure, sources):
        for node in own_expressions(statement):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                found += _asserted(node.func.attr, node.args)
            elif isinstance(node, ast.Compare) and isinstance(statement, ast.Assert):
                found += [ast.unparse(side) for side in (*node.comparators, node.left) if _is_literal(side)]
    return list(dict.fromkeys(found))


def _asserted(method: str, args: Sequence[ast.expr]) -> list[str]:
    fixed = {"assertIsNone": "None", "assertFalse": "False", "assertTrue": "True"}
    if method in fixed:
        return [fixed[method]]
    if method.startswith("assert") and len(args) >= 2:
        return [ast.unparse(side) for side in (args[1], args[0]) if _is_literal(side)]
    return []


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True
