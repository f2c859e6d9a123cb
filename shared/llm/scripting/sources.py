"""Python source as the scripts see it: read through tools, parsed, and changed by edits that can be taken back."""

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from ekiden.shared.llm.scripting.history import CallRecord

__all__ = ["Change", "Edit", "Source", "diffs", "edit_for", "sources_in", "standing_edits"]

_NUMBERED = re.compile(r"^ *(\d+)\t(.*)$", re.DOTALL)
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Edit:
    """What ``edit_file`` is called with; ``old`` and ``new`` each occur once, so that the edit can be taken back."""

    path: str
    old: str
    new: str


@dataclass(frozen=True)
class Change:
    """A whole-line change: lines ``first`` to ``last`` (from 1, both included) become ``lines``."""

    path: str
    first: int
    last: int
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Source:
    """One file of the project."""

    path: str
    lines: tuple[str, ...]

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree; an empty module if the file does not parse."""
        try:
            return ast.parse("\n".join(self.lines))
        except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last two: nested without end
            return ast.Module(body=[], type_ignores=[])

    def text(self, node: ast.AST) -> str:
        """Return the source of a node, in one line as it stands, else put together anew."""
        text = ast.get_source_segment("\n".join(self.lines), node) or ""
        return text if text and "\n" not in text else ast.unparse(node)

    def around(self, line: int) -> list[ast.stmt]:
        """Return the statements that contain ``line``, outermost first; of compound ones also what they hold."""
        found = [node for node in ast.walk(self.tree) if isinstance(node, ast.stmt) and _contains(node, line)]
        return sorted(found, key=lambda node: (node.lineno, -(node.end_lineno or node.lineno), node.col_offset))

    def functions(self) -> Iterator[Function]:
        """Return every function and method."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node

    def code_lines(self, first: int, last: int) -> list[int]:
        """Return the numbers of the lines of a range that hold code: no docstrings, comments or empty lines."""
        texts = {
            number
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
        }
        numbers = range(first, min(last, len(self.lines)) + 1)
        return [
            n for n in numbers if n not in texts and self.lines[n - 1].strip() and self.lines[n - 1].strip()[0] != "#"
        ]


def own_expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    """Return the expressions of a statement itself, not of the statements inside it."""
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.expr):
            yield from (node for node in ast.walk(child) if isinstance(node, ast.expr))
        elif not isinstance(child, ast.stmt):
            yield from (
                node
                for node in ast.walk(child)
                if isinstance(node, ast.expr) and not isinstance(child, ast.excepthandler)
            )


def sources_in(calls: Iterable[CallRecord], label: str) -> dict[str, Source]:
    """Return the files that calls with this label have read whole, by path."""
    found = {}
    for call in calls:
        if call.label == label and call.result is not None and not call.is_error:
            path = str(call.args.get("path", ""))
            numbered = [match for line in call.result.split("\n") if (match := _NUMBERED.match(line))]
            if numbered and [int(match[1]) for match in numbered] == list(range(1, len(numbered) + 1)):
                found[path] = Source(path, tuple(match[2] for match in numbered))
    return found


def edit_for(source: Source, change: Change) -> Edit | None:
    """Make the edit with as many unchanged lines around it as it takes to be the only such place, before and after."""
    edited = "\n".join((*source.lines[: change.first - 1], *change.lines, *source.lines[change.last :]))
    text = "\n".join(source.lines)
    first, last = change.first, change.last
    while True:
        above, below = source.lines[first - 1 : change.first - 1], source.lines[change.last : last]
        old = "\n".join(source.lines[first - 1 : last])
        new = "\n".join((*above, *change.lines, *below))
        if old == new:
            return None
        if old and new and _occurs_once(old, text) and _occurs_once(new, edited):
            return Edit(source.path, old, new)
        if first == 1 and last >= len(source.lines):
            return None
        if last < len(source.lines):
            last += 1
        if first > 1 and last - change.last > 1:
            first -= 1
        elif last >= len(source.lines):
            first = max(1, first - 1)


def standing_edits(calls: Sequence[CallRecord]) -> list[Edit]:
    """Return the edits that have not been taken back, newest last.

    When a worker is lost, an edit's outcome may be unknown. It counts as made until taking it back has failed: then it
    was not there.
    """
    standing: list[Edit] = []
    unsure: set[Edit] = set()
    for call in calls:
        if (edit := _edit_of(call)) is None or call.result is None:
            continue
        takes_back = bool(standing) and standing[-1] == Edit(edit.path, edit.new, edit.old)
        is_unknown = call.is_error and call.result.startswith("Outcome unknown")
        if is_unknown:
            unsure.add(standing[-1] if takes_back else edit)
        if takes_back and (not call.is_error or (not is_unknown and standing[-1] in unsure)):
            standing.pop()
        elif not takes_back and (not call.is_error or is_unknown):
            standing.append(edit)
    return standing


def diffs(calls: Sequence[CallRecord]) -> str:
    """Return what ``edit_file`` showed of each edit that stands: a unified diff, behind its first line."""
    shown = {_edit_of(call): (call.result or "").partition("\n")[2] for call in calls if not call.is_error}
    return "\n".join(filter(None, (shown.get(edit) for edit in standing_edits(calls))))


def _edit_of(call: CallRecord) -> Edit | None:
    if call.tool != "edit_file":
        return None
    return Edit(*(str(call.args.get(name)) for name in ("path", "old", "new")))


def _contains(node: ast.stmt, line: int) -> bool:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(item.lineno for item in decorators)])
    return first <= line <= (node.end_lineno or node.lineno)


def _occurs_once(part: str, text: str) -> bool:
    at = text.find(part)
    return at >= 0 and text.find(part, at + 1) < 0
