"""Patterns of a model, compiled with RE2: matching takes linear time, and each byte a bounded one."""

import re

import re2

from shared.errors import DefinitionError, ToolError
from shared.patterns import Pattern, compile_pattern

__all__ = ["compiled", "glob_expression"]

_GLOB_TOKEN = re.compile(
    r"(?P<wildcard>\*\*/|\*\*|\*|\?)|\[(?P<negation>[!^]?)(?P<members>\]?[^\]]*)\]|\{(?P<choices>[^{}]*)\}|(?P<literal>.)",
    re.DOTALL,
)
_WILDCARDS = {"**/": "(?s:.*/)?", "**": "(?s:.*)", "*": "[^/]*", "?": "[^/]"}


def compiled(expression: str, *, named: str | None = None) -> Pattern:
    """Compile a regular expression that searches UTF-8 bytes; ``named`` is what an error calls it.

    Raises:
        ToolError: it is not an expression that RE2 knows, or is too large to be run.
    """
    try:
        return compile_pattern(expression, named=named)
    except DefinitionError as error:
        raise ToolError(
            f"{error}. Expected is RE2 syntax; put a backslash before characters that are meant literally"
        ) from None


def glob_expression(pattern: str) -> str:
    """Translate a glob of a relative path (``*``, ``?``, ``**``, ``[ab]``, ``{a,b}``) into a regular expression."""
    return rf"\A(?:{_translated(pattern.removeprefix('./'))})\z"


def _translated(pattern: str) -> str:
    return "".join(_token(found) for found in _GLOB_TOKEN.finditer(pattern))


def _token(found: re.Match[str]) -> str:
    if found["wildcard"]:
        return _WILDCARDS[found["wildcard"]]
    if found["choices"] is not None:
        return "(?:" + "|".join(_translated(choice) for choice in found["choices"].split(",")) + ")"
    if found["members"] is not None:
        members = re.sub(r"[\[\]\\^]", r"\\\g<0>", found["members"])
        return f"[{'^/' if found['negation'] else ''}{members}]"
    return str(re2.escape(found["literal"]))
