"""The tool files of a project, ``.ekiden/tools/*.py``: which there are, and which of them its user has allowed.

A file is code that workers run, and is allowed as it is: once changed, it is asked about again. Nothing here runs any.
"""

import ast
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ekiden.shared.trust.grants import grants_of
from ekiden.shared.trust.notices import tell
from ekiden.shared.trust.rights import Right, content_of, file_right

__all__ = ["FOLDER", "ToolFile", "allowed_tool_files", "tool_files"]

FOLDER = Path(".ekiden", "tools")
_DECORATORS = frozenset({"tool", "schema_tool"})
_DIGEST_CHARS = 12


@dataclass(frozen=True)
class ToolFile:
    """A tool file as it was read, once: what is judged is what runs."""

    path: Path
    content: bytes | None
    """None: it is no file, cannot be read, or is too large."""

    @property
    def name(self) -> str:
        """Its path in the project."""
        return str(FOLDER / self.path.name)

    @property
    def version(self) -> str:
        """A digest of its content."""
        return hashlib.sha256(self.content or b"").hexdigest()[:_DIGEST_CHARS]

    @cached_property
    def tools(self) -> tuple[str, ...]:
        """The names of its tools as far as its text tells; none where it is no Python."""
        try:
            body = ast.parse(self.content or b"").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return ()
        return tuple(_decorated(body))

    @property
    def right(self) -> Right:
        """The right to run it."""
        tools = f": {', '.join(self.tools)}" if self.tools else ""
        return file_right(f"tool file {self.path.name}", "code", self.path, self.content, f"code of {self.name}{tools}")


def tool_files(project: Path) -> list[ToolFile]:
    """Read the tool files of a project; those whose names begin with ``_`` are none."""
    try:
        paths = sorted(path for path in (project / FOLDER).glob("*.py") if not path.name.startswith("_"))
    except OSError:
        return []
    return [ToolFile(path, content_of(path)) for path in paths]


def allowed_tool_files(project: Path) -> list[ToolFile]:
    """Read those that the project's user has allowed, and tell of the others."""
    if not (files := tool_files(project)):
        return []
    grants = grants_of(project)
    held = [file for file in files if grants.lacking([file.right])]
    if held:
        because = grants.because(file.right for file in held)
        tell(project, f"ignored tool files {', '.join(file.path.name for file in held)}{because}")
    return [file for file in files if file not in held]


def _decorated(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            used = {_last_name(decorator) for decorator in node.decorator_list}
            if used & _DECORATORS:
                yield node.name


def _last_name(decorator: ast.expr) -> str:
    """Return the last name of ``tool``, ``ekiden.tool``, ``tool(…)``."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
