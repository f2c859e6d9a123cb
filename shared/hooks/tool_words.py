"""Names of tools and of their arguments, as scripts that were written for other programs look for them."""

from collections.abc import Mapping
from typing import Any, Final

from ekiden.shared.definitions.tool_arguments import FOREIGN_ARGUMENTS, OWN_ARGUMENTS
from ekiden.shared.definitions.tool_names import BUILTIN_TOOLS
from ekiden.shared.messages import ToolCall

__all__ = ["our_args", "our_name", "their_args", "their_name"]

_THEIR_NAMES: Final[dict[str, dict[str, str]]] = {
    "ours": {},
    "claude": {
        "ask_user": "AskUserQuestion",
        "bash": "Bash",
        "edit_file": "Edit",
        "glob": "Glob",
        "grep": "Grep",
        "ls": "LS",
        "read_file": "Read",
        "web_fetch": "WebFetch",
        "write_file": "Write",
        "write_todos": "TodoWrite",
    },
    "gemini": {
        "bash": "run_shell_command",
        "edit_file": "replace",
        "grep": "search_file_content",
        "ls": "list_directory",
    },
}
_OUR_NAMES = {form: {theirs: ours for ours, theirs in names.items()} for form, names in _THEIR_NAMES.items()}


def their_name(tool: str, form: str) -> str:
    """Return what the program that scripts of this form are written for calls a tool."""
    if tool.startswith("mcp.") and form != "ours":
        server, _, name = tool.removeprefix("mcp.").partition(".")
        return f"mcp__{server}__{name}" if form == "claude" else f"mcp_{server}_{name}"
    return _THEIR_NAMES[form].get(tool, tool)


def their_args(call: ToolCall, form: str) -> dict[str, Any]:
    """Return arguments under our names, and under theirs beside them: a script that looks for one must find it."""
    if form == "ours" or call.name not in BUILTIN_TOOLS:
        return dict(call.args)
    first = {name: aliases.split()[0] for name, aliases in FOREIGN_ARGUMENTS.get(call.name, {}).items()}
    return dict(call.args) | {alias: call.args[name] for name, alias in first.items() if name in call.args}


def our_args(written: Mapping[str, Any], call: ToolCall, form: str) -> dict[str, Any]:
    """Return what a command wrote under our names; of two names of one argument, the one that it has changed."""
    sent = their_args(call, form)
    own = OWN_ARGUMENTS.get(call.name, {}) if form != "ours" and call.name in BUILTIN_TOOLS else {}
    found: dict[str, Any] = {}
    for name in sorted(written, key=lambda one: one not in sent or written[one] != sent[one]):
        found[own.get(name, name)] = written[name]
    return found


def our_name(tool: str, form: str) -> str:
    """Return our name of a tool that a program calls otherwise."""
    return _OUR_NAMES[form].get(tool, tool)
