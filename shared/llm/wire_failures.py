"""What servers say of a failure, whatever their wire: for how long to wait, and why."""

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

__all__ = ["first_line", "seconds_in"]

_MAX_TEXT = 300


def seconds_in(retry_after: str | None) -> float | None:
    """Read ``Retry-After``: seconds, or a date. None: it says nothing."""
    if not retry_after:
        return None
    try:
        seconds = float(retry_after)
    except ValueError:
        try:
            at = parsedate_to_datetime(retry_after)
        except (ValueError, OverflowError, TypeError):
            return None
        seconds = (at - datetime.now(UTC if at.tzinfo else None)).total_seconds()
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def first_line(body: Any, key: str | None) -> str:
    """Return the first line of what the server said, cut, without the key; never all of it: it may quote the user."""
    said = body.get("message") if isinstance(body, dict) else None
    if not isinstance(said, str) or not said.strip() or said.lstrip().startswith("<"):
        return "no reason given"
    line = said.strip().splitlines()[0]
    return (line.replace(key, "[the key]") if key else line)[:_MAX_TEXT].rstrip(". ")
