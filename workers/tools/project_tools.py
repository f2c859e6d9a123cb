"""Loads the tool files of a project: what in them is a tool, and what is wrong with the rest, by file and line.

Each file stands by itself: it is run as it was judged, and no folder of the project gets onto Python's path, where a
module that nobody was asked about could be imported.
"""

import ast
import sys
import traceback
from collections.abc import Iterable, Iterator
from types import ModuleType

from ekiden.shared.foreign_code import is_interruption, said_by
from ekiden.shared.plugins import Plugin, Source, named_if_slow
from ekiden.shared.project_tools import ToolFile
from ekiden.shared.redaction import redact
from ekiden.shared.terminal_text import one_line, visible
from ekiden.shared.trust.rights import fault_of
from ekiden.workers.tools.base import Tool

__all__ = ["project_tools"]

_MOST_SAID = 300


class _Broken(Exception):
    """The file brings no tools; says where and why."""

    def __init__(self, file: ToolFile, line: int | None, why: str) -> None:
        super().__init__(f"tools: {_place(file, line)}: {why}")


def project_tools(files: Iterable[ToolFile]) -> tuple[list[Plugin[Tool]], tuple[str, ...]]:
    """Run the files and return their tools, and why some have none: a broken file hides no other."""
    found: list[Plugin[Tool]] = []
    problems: list[str] = []
    for file in files:
        try:
            found += _tools_of(file)
        except _Broken as broken:
            problems.append(visible(str(broken)))
    return found, tuple(problems)


def _tools_of(file: ToolFile) -> Iterator[Plugin[Tool]]:
    tree = _parsed(file)
    lines: dict[str, int] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name in lines and node.name in file.tools:
                why = f"{node.name!r} is defined in line {lines[node.name]} already: rename one of the two"
                raise _Broken(file, node.lineno, why)
            lines[node.name] = node.lineno
    module = _run(file, tree)
    tools = {id(value): value for value in vars(module).values() if isinstance(value, Tool)}
    if not tools:
        raise _Broken(file, None, "has no tool: write @tool above a function (`from ekiden import tool`)")
    return (_plugin(file, tool, lines.get(tool.name)) for tool in tools.values())


def _plugin(file: ToolFile, tool: Tool, line: int | None) -> Plugin[Tool]:
    return Plugin(tool.name, tool, Source(tool.name, _place(file, line), file.name, file.version))


def _parsed(file: ToolFile) -> ast.Module:
    if file.content is None:
        raise _Broken(file, None, fault_of(file.path))
    try:
        return ast.parse(file.content, str(file.path))
    except SyntaxError as error:
        raise _Broken(file, error.lineno, f"no valid Python: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise _Broken(file, None, f"no valid Python: {error}") from None


def _run(file: ToolFile, tree: ast.Module) -> ModuleType:
    name = f"ekiden_project_tools.{file.path.stem}"
    module = ModuleType(name)
    module.__file__ = str(file.path)
    sys.modules[name] = module  # where dataclasses and models of pydantic look up the names in their types
    try:
        with named_if_slow(Source(file.path.stem, str(file.path))):
            exec(compile(tree, str(file.path), "exec"), vars(module))  # noqa: S102 - its user has allowed it
    except BaseException as error:
        if is_interruption(error):
            raise
        del sys.modules[name]
        said = one_line(f"{type(error).__name__}: {redact(said_by(error))}", _MOST_SAID)
        raise _Broken(file, _line_of(file, error), said) from None
    return module


def _line_of(file: ToolFile, error: BaseException) -> int | None:
    """Return the line of the file that was being run when the error came."""
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame.lineno for frame in reversed(frames) if frame.filename == str(file.path)), None)


def _place(file: ToolFile, line: int | None) -> str:
    return f"{file.path}:{line}" if line else str(file.path)
