"""What an examination finds."""

from dataclasses import dataclass
from typing import Literal

__all__ = ["Finding", "error", "ok", "warning"]


@dataclass(frozen=True)
class Finding:
    """One point: what was looked at, how it stands, and what to do where it is not well."""

    check: str
    status: Literal["ok", "warning", "error"]
    text: str
    remedy: str = ""


def ok(check: str, text: str) -> Finding:
    """Return that something is well."""
    return Finding(check, "ok", text)


def warning(check: str, text: str, remedy: str = "") -> Finding:
    """Return that something may be meant so, but should be known."""
    return Finding(check, "warning", text, remedy)


def error(check: str, text: str, remedy: str = "") -> Finding:
    """Return that something keeps jobs from being done, or endangers them."""
    return Finding(check, "error", text, remedy)
