"""Guardrails: what is wrong with a value by one of them. Asks no model, knows no leg."""
