"""The top-level fields of agent files that mean something, here or where the files come from."""

__all__ = ["DENIED_TOOLS", "KNOWN_FIELDS", "MAX_TURNS", "MCP_SERVERS", "PROSE", "TIMEOUT_MINUTES", "TOOLS"]

PROSE = ("description", "title")
"""Fields that hold sentences, which hand-written files seldom quote."""

TOOLS = ("tools", "allowedTools", "allowed_tools", "allowed-tools")
"""Which tools the agent gets, by the name that counts first."""
DENIED_TOOLS = ("disallowedTools", "disallowed_tools", "disallowed-tools")
MAX_TURNS = ("max_turns", "maxTurns")
TIMEOUT_MINUTES = ("timeout_mins", "timeoutMins")
MCP_SERVERS = ("mcp", "mcp_servers", "mcpServers", "mcp-servers")

_OURS = (
    "kind name title description systemPrompt model models temperature color scope version triggers handoffs subagents "
    "delegation transfer transfer_to_parent inputs output complete_task limits guardrails confirmation memory graph "
    "hooks tracing"
)
KNOWN_FIELDS = frozenset([*_OURS.split(), *TOOLS, *DENIED_TOOLS, *MAX_TURNS, *TIMEOUT_MINUTES, *MCP_SERVERS]) | {
    "permission",
    "display_name",
    "permissionMode",
}
"""All of them. Others are kept too, and ``ekiden agents validate`` names them."""
