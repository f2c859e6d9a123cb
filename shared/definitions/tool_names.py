"""Names of tools: ours, and what other programs call them. Names of theirs that mean none of ours are foreign.

gemini-cli, Claude Code, opencode, Cursor, Cline, Copilot and others each have their own names for the same few tools.
"""

import re
from fnmatch import fnmatchcase
from functools import lru_cache

__all__ = [
    "BUILTIN_TOOLS",
    "MEMORY_TOOLS",
    "SAFE_TOOLS",
    "all_names",
    "forbidden_names",
    "is_clear",
    "is_foreign",
    "is_known",
    "is_of_our_style",
    "is_ours",
    "mcp_name",
    "own_name",
    "tools_forbidden",
    "tools_meant",
]

SAFE_TOOLS = frozenset({"glob", "grep", "ls", "read_file", "read_many_files", "set_state"})
"""Those that change nothing outside of their own session: what agents get that name none, or that nobody trusts."""
MEMORY_TOOLS = frozenset({"forget_memory", "recall_memory", "save_memory"})
"""Those of agents whose file has ``memory``."""
BUILTIN_TOOLS = (
    SAFE_TOOLS
    | MEMORY_TOOLS
    | {
        "ask_user",
        "bash",
        "delete_file",
        "edit_file",
        "git_commit",
        "web_fetch",
        "write_file",
        "write_todos",
    }
)
"""The tools that workers ship with."""

_ALIASES_BY_TOOL = {
    "ask_user": "AskUserQuestion ask_followup_question question",
    "read_file": "Read View NotebookRead",
    "edit_file": "Edit MultiEdit replace edit_files apply_patch apply_diff patch search_replace",
    "write_file": "Write create_file write_to_file",
    "delete_file": "remove_file",
    "web_fetch": "WebFetch fetch",
    "write_todos": "TodoWrite update_todo_list",
    "bash": "Shell execute run_shell_command run_command run_terminal_command run_terminal_cmd execute_command",
    "grep": "Search search_file_content grep_search search_files",
    "glob": "find_files file_search",
    "ls": "list list_directory list_dir list_files",
}
_TOOLS = {alias.casefold(): tool for tool, aliases in _ALIASES_BY_TOOL.items() for alias in aliases.split()}
_TOOLS |= {tool: tool for tool in BUILTIN_TOOLS}
"""Our tools by all their names, in lower case."""
_ALIKE = (frozenset({"delete_file", "edit_file", "write_file"}), frozenset({"read_file", "read_many_files"}))
"""Who forbids one of them by another program's name means them all: there, one right stands for each kind."""

_FOREIGN_NAMES = """
    activate_skill attempt_completion browser_action codebase codebase_search codesearch
    enter_plan_mode exit_plan_mode get_internal_docs google_web_search invoke_agent lsp read_graph
    skill task todo todoread use_mcp_tool web_search websearch
    Agent BashOutput EnterPlanMode ExitPlanMode KillBash KillShell NotebookEdit Skill SlashCommand Task
    TaskCreate TaskGet TaskList TaskOutput TaskStop TaskUpdate TodoRead ToolSearch WebSearch
    all any default inherit none
"""
_FOREIGN = frozenset(_FOREIGN_NAMES.split())
"""Tools of those programs that ours cannot stand in for, and words that people write where names of tools belong."""
_OWN_STYLE = re.compile(r"mcp\..+|(?!mcp_)[a-z*?\[][a-z0-9_.*?\[\]!]*")  # Python's names, and patterns

_PLAIN = re.compile(r"[*?]*[a-z0-9_]([a-z0-9_.*?-]*[a-z0-9_*?])?|\*", re.ASCII | re.IGNORECASE)
"""Names and patterns as programs have them: letters of other scripts may only look like ours."""


def own_name(name: str) -> str | None:
    """Return our name of the tool, or None when none of ours can be meant."""
    if (tool := _TOOLS.get(name.casefold())) is not None:
        return tool
    return name if is_of_our_style(name) and name not in _FOREIGN else None


def is_foreign(name: str) -> bool:
    """Tell whether ``name`` is a tool of another program that none of ours can stand in for."""
    return own_name(name) is None


def is_of_our_style(name: str) -> bool:
    """Tell whether ``name`` is written as our tools are, be it one of them or not."""
    return _OWN_STYLE.fullmatch(name) is not None


def is_ours(entry: str) -> bool:
    """Tell whether a name or a pattern of our style means a tool that workers ship with, or one of an MCP server."""
    return entry.startswith("mcp.") or any(fnmatchcase(tool, entry) for tool in BUILTIN_TOOLS)


def is_known(name: str) -> bool:
    """Tell whether ``name`` is that of a tool that some program has."""
    return name.casefold() in _TOOLS or name in _FOREIGN or name.startswith(("mcp__", "mcp."))


def is_clear(name: str) -> bool:
    """Tell whether it is plain which tools a name or a pattern means: what nobody understands forbids nothing."""
    return name.casefold() in _TOOLS or bool(tools_meant(name)) or _PLAIN.fullmatch(name) is not None


def all_names(tool: str) -> tuple[str, ...]:
    """Return what a tool of ours, or one of an MCP server's, is called here and elsewhere."""
    server, _, name = tool.removeprefix("mcp.").partition(".")
    of_server = (f"mcp__{server}__{name}", f"mcp_{server}_{name}") if tool.startswith("mcp.") else ()
    return (tool, *_ALIASES_BY_TOOL.get(tool, "").split(), *of_server)


def tools_meant(name: str) -> list[str]:
    """Return those of the tools that workers ship with which a name or a pattern means, in any spelling."""
    return list(_meant(name.casefold()))


@lru_cache(1024)
def _meant(pattern: str) -> tuple[str, ...]:
    return tuple(sorted({tool for alias, tool in _TOOLS.items() if fnmatchcase(alias, pattern)}))


def tools_forbidden(name: str) -> list[str]:
    """Return those of the tools that workers ship with which an agent must not have where ``name`` is forbidden."""
    meant = set(tools_meant(name))
    return sorted(meant if name in BUILTIN_TOOLS else meant.union(*(alike for alike in _ALIKE if alike & meant)))


def forbidden_names(name: str) -> list[str]:
    """Return every name and pattern that must be forbidden so that nothing which ``name`` can mean is left."""
    meant = [tool for tool in tools_forbidden(name) if not fnmatchcase(tool, name)]
    # A tool of that very name may exist, too.
    return [*meant, *([name] if is_of_our_style(name) or not meant else []), *_of_servers(name)]


def mcp_name(name: str) -> str | None:
    """Return ``mcp.server.tool`` for ``mcp__server__tool``."""
    if not name.startswith("mcp__"):
        return None
    server, _, tool = name.removeprefix("mcp__").partition("__")
    return f"mcp.{server}.{tool or '*'}"


def _of_servers(name: str) -> list[str]:
    """Return what an MCP server's tool would be called here: others join server and tool by underscores."""
    if (known := mcp_name(name)) is not None:
        return [known]
    if "_" not in name or tools_meant(name):
        return []
    return [f"mcp.{name.removeprefix('mcp_').replace('__', '_').replace('_', '?')}"]
