"""The arguments of a call as providers send them, as JSON: an object, or what is wrong with them."""

import json
from typing import Any

__all__ = ["read_arguments"]

_BAD_ARGUMENTS = (
    "Not executed: its arguments are no JSON object ({why}). Call it again with arguments that fit its schema."
)


def read_arguments(arguments: str) -> tuple[dict[str, Any], str | None]:
    """Return the arguments of a call, or what is wrong with them. No text is no arguments: so servers say it."""
    try:
        value = json.loads(arguments) if arguments.strip() else {}
        if isinstance(value, str):  # JSON within JSON
            value = json.loads(value)
    except ValueError as error:
        return {}, _BAD_ARGUMENTS.format(why=error)
    except RecursionError:
        return {}, _BAD_ARGUMENTS.format(why="they nest too deep")
    if value is None:
        return {}, None
    return (value, None) if isinstance(value, dict) else ({}, _BAD_ARGUMENTS.format(why=f"a {type(value).__name__}"))
