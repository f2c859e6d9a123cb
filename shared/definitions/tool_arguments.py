"""Arguments of the tools that workers ship with: their schemas, and what other programs call them."""

from collections.abc import Mapping
from typing import Any

__all__ = ["BUILTIN_SCHEMAS", "FOREIGN_ARGUMENTS", "OWN_ARGUMENTS"]

Schema = dict[str, Any]

_FILE = {"path": "file_path absolute_path filePath target_file"}
_FOLDER = {"path": "dir_path directory folder"}
FOREIGN_ARGUMENTS = {
    "read_file": _FILE,
    "write_file": {**_FILE, "content": "contents file_text"},
    "edit_file": {**_FILE, "old": "old_string oldString old_str", "new": "new_string newString new_str"},
    "delete_file": _FILE,
    "read_many_files": {**_FOLDER, "include": "paths"},
    "ls": _FOLDER,
    "glob": _FOLDER,
    "grep": {**_FOLDER, "include": "glob"},
    "bash": {"command": "cmd"},
}
"""By tool: an argument, and what gemini-cli, Claude Code and others call it, the first two of them by the first."""
OWN_ARGUMENTS = {
    tool: {alias: name for name, aliases in arguments.items() for alias in aliases.split()}
    for tool, arguments in FOREIGN_ARGUMENTS.items()
}
"""The other way round: by tool, our name of each."""


def _text(longest: int | None = None, shortest: int | None = 1) -> Schema:
    bounds = {"maxLength": longest, "minLength": shortest}
    return {"type": "string", **{name: bound for name, bound in bounds.items() if bound is not None}}


def _list(most: int, of: Schema, least: int | None = None) -> Schema:
    return {"type": "array", "items": of, "maxItems": most, **({} if least is None else {"minItems": least})}


def _takes(*required: str, **properties: Schema) -> Schema:
    """Return the schema of arguments; not ``required`` are those that are named behind them."""
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


_ANY_TEXT, _PATHS = _text(shortest=None), _list(50, _text(shortest=None))
_TODO = _takes(
    "description",
    "status",
    description=_text(1000),
    status={"type": "string", "enum": ["pending", "in_progress", "completed", "cancelled"]},
)
BUILTIN_SCHEMAS: Mapping[str, Schema] = {
    "ask_user": _takes("question", question=_text(8000), choices=_list(50, _text(500))),
    "bash": _takes("command", command=_text(), timeout_s={"type": "number", "minimum": 1, "maximum": 600}),
    "delete_file": _takes("path", path=_text()),
    "edit_file": _takes(
        "path", "old", "new", path=_text(), old=_ANY_TEXT, new=_ANY_TEXT, replace_all={"type": "boolean"}
    ),
    "forget_memory": _takes("note", note=_text(200)),
    "git_commit": _takes("message", message=_text(), paths=_list(1000, _ANY_TEXT)),
    "glob": _takes("pattern", pattern=_text(1000), path=_ANY_TEXT),
    "grep": _takes(
        "pattern", pattern=_text(1000), path=_ANY_TEXT, include={"anyOf": [_text(1000, None), {"type": "null"}]}
    ),
    "ls": _takes(path=_ANY_TEXT),
    "read_file": _takes(
        "path", path=_ANY_TEXT, **{name: {"type": "integer", "minimum": 1} for name in ("offset", "limit")}
    ),
    "read_many_files": _takes("include", include=_list(50, _ANY_TEXT, 1), exclude=_PATHS, path=_ANY_TEXT),
    "recall_memory": _takes(
        "query",
        query=_text(2000),
        limit={"anyOf": [{"type": "integer", "minimum": 1, "maximum": 50}, {"type": "null"}]},
    ),
    "save_memory": _takes("content", content=_ANY_TEXT, key=_text(200, None), tags=_list(20, _ANY_TEXT)),
    "set_state": _takes("values", values={"type": "object", "additionalProperties": True}),
    "web_fetch": _takes("url", url=_text()),
    "write_file": _takes("path", "content", path=_text(), content=_ANY_TEXT),
    "write_todos": _takes("todos", todos=_list(100, _TODO)),
}
"""By tool, what a call of it is given: what agent files say of calls is checked where no worker runs, too."""
