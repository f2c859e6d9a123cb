"""Routers: a request in, an agent's name out."""
