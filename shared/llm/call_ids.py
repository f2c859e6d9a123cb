"""Ids of tool calls, where a provider gives none that can be used."""

import re
import uuid
from collections.abc import Collection

__all__ = ["call_id", "is_own"]

_OWN_ID = re.compile(r"own-\w+|.*#\d*-\d+(-\w+)?", re.DOTALL)
"""The second form is the one of today, the first is in older journals."""


def call_id(given: str | None, taken: Collection[str], prompt_id: str, index: int) -> str:
    """Return the id that the provider gave to a call; where it gave none, or one that is ``taken``, one of our own.

    That is ``<prompt id>-<index>`` of the turn's calls.
    """
    if given and given not in taken:
        return given
    made = f"{prompt_id or '#'}-{index}"
    return made if prompt_id and made not in taken else f"{made}-{uuid.uuid4().hex[:12]}"


def is_own(call_id: str) -> bool:
    """Tell whether we made the id: to a provider that may do without one it never goes back."""
    return _OWN_ID.fullmatch(call_id) is not None
