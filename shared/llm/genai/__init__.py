"""Gemini's wire, through google-genai: only ``shared.llm.gemini`` uses it, and only when a model is first called."""
