"""The fleet as an MCP server: each agent is a tool, each call a job that outlives whoever serves it."""
