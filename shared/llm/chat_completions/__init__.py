"""Chat Completions, which many servers speak, through the openai client: only ``shared.llm.openai`` uses it."""
