"""Pools in processes of their own."""

from tests.integration.play import play
from tests.warm import warm

__all__ = ["play", "warm"]
