"""Processes that are started for tools and servers: kept, confined and ended."""
