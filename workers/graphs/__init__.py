"""Graphs: what becomes of their nodes, and what comes next."""
