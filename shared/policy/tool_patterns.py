"""Names of tools in rules of other programs, as patterns of ours."""

from ekiden.shared.definitions.tool_names import forbidden_names, mcp_name, own_name

__all__ = ["server_patterns", "tool_patterns"]


def tool_patterns(name: str, *, restricts: bool) -> tuple[str, ...]:
    """Return patterns of the tools that ``name``, a name or a pattern in any spelling, means.

    Args:
        name: Of a tool of ours, of gemini-cli or of Claude Code.
        restricts: Whether nothing that may be meant is left out; else nothing that may not be is taken in.
    """
    if restricts:
        return tuple(forbidden_names(name))
    if name.startswith("mcp_") and not name.startswith("mcp__"):
        server, _, tool = name.removeprefix("mcp_").partition("_")
        return (f"mcp.{server}.{tool or '*'}",)
    return tuple(dict.fromkeys((mcp_name(name) or own_name(name) or name, name)))  # a plug-in's tool may have that name


def server_patterns(server: str, tools: tuple[str, ...]) -> tuple[str, ...]:
    """Return the patterns of these tools of an MCP server, of all where none is named."""
    return tuple(f"mcp.{server}.{tool}" for tool in tools or ("*",))
