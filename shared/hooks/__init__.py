"""Hooks: what watches a job or decides in it, in Python or by a command."""
