"""Other programs' tools: a client of MCP servers. ``mcp`` itself is imported at first use, which takes seconds."""
