"""MCP servers as files name them. What speaks to them is ``workers/mcp``."""
