"""Anthropic's Messages API, through its client: only ``shared.llm.anthropic`` uses it."""
