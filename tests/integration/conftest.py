"""Pools in processes of their own."""

from tests.warm import warm

__all__ = ["warm"]
