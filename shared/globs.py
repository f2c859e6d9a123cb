"""Globs of relative paths (``*``, ``?``, ``**``, ``[ab]``, ``{a,b}``) as expressions of RE2, and names of places."""

import re

from ekiden.shared.errors import DefinitionError
from ekiden.shared.patterns import Pattern, compile_pattern, escaped

__all__ = ["compiled_glob", "glob_expression", "problem_of_glob", "problem_of_place"]

_TOKEN = re.compile(
    r"(?P<wildcard>\*\*/|\*\*|\*|\?)|\[(?P<negation>[!^]?)(?P<members>\]?[^\]]*)\]|\{(?P<choices>[^{}]*)\}|(?P<literal>.)",
    re.DOTALL,
)
_WILDCARDS = {"**/": "(?s:.*/)?", "**": "(?s:.*)", "*": "[^/]*", "?": "[^/]"}
_WILD = frozenset("*?[]{}")


def glob_expression(pattern: str) -> str:
    """Translate a glob of a relative path into a regular expression that fits the whole path."""
    return rf"\A(?:{_translated(pattern.removeprefix('./'))})\z"


def compiled_glob(pattern: str) -> Pattern:
    """Compile a glob that fits a path if it fits its end, its beginning, or a part of it: from name to name.

    Case does not count. Raises ``DefinitionError``.
    """
    named = pattern.strip("/").removesuffix("/**")
    return compile_pattern(rf"(?:\A|/)(?:{_translated(named)})(?:/|\z)", ignore_case=True, named=pattern)


def problem_of_glob(pattern: str) -> str | None:
    """Say why ``pattern`` is no glob of a relative path; None if it is one."""
    if (problem := _problem_of_path(pattern)) is not None:
        return problem
    try:
        compiled_glob(pattern)
    except DefinitionError as error:
        return str(error)
    return None


def problem_of_place(path: str) -> str | None:
    """Say why ``path`` is not the name of a place, or a path to one, without wildcards; None if it is."""
    if _WILD & set(path):
        return f"{path!r} has a wildcard: what may be written is allowed by name, such as .github/workflows"
    return _problem_of_path(path)


def _problem_of_path(path: str) -> str | None:
    if not path.strip("/") or path.startswith(("/", "~")) or {"", ".", ".."} & set(path.strip("/").split("/")):
        return f"{path!r} is no relative path: give one without '.' and '..', such as .github/workflows"
    return None


def _translated(pattern: str) -> str:
    return "".join(_token(found) for found in _TOKEN.finditer(pattern))


def _token(found: re.Match[str]) -> str:
    if found["wildcard"]:
        return _WILDCARDS[found["wildcard"]]
    if found["choices"] is not None:
        return "(?:" + "|".join(_translated(choice) for choice in found["choices"].split(",")) + ")"
    if found["members"] is not None:
        members = re.sub(r"[\[\]\\^]", r"\\\g<0>", found["members"])
        return f"[{'^/' if found['negation'] else ''}{members}]"
    return escaped(found["literal"])
