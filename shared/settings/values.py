"""What values of settings must be like: each check returns the value, or raises ``ValueError`` with what is wrong."""

import math
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator

from ekiden.shared.addresses import problem_of, web_problem_of
from ekiden.shared.environments import problem_of_name
from ekiden.shared.globs import problem_of_glob, problem_of_place
from ekiden.shared.storable import read_json

__all__ = [
    "JOB_DEADLINE_S",
    "LONGEST_DEADLINE_S",
    "AlwaysKept",
    "Command",
    "LearnSetting",
    "PriceValues",
    "SandboxSetting",
    "as_words",
    "checked_address",
    "checked_endpoints",
    "checked_folders",
    "checked_globs",
    "checked_places",
    "checked_variables",
    "checked_web_address",
    "json_of",
]

JOB_DEADLINE_S = 7 * 86_400.0
"""How long a job may take where nobody says otherwise."""
LONGEST_DEADLINE_S = 3_650 * 86_400.0
SandboxSetting = Literal["auto", "bubblewrap", "landlock", "off", "required"]
"""What confines commands: the strongest that works, one by name, nothing; or no commands without any."""


def _switched(value: Any) -> Any:
    return ("on" if value else "off") if isinstance(value, bool) else value


LearnSetting = Annotated[Literal["on", "suggest", "off"], BeforeValidator(_switched)]
"""What was learned from requests counts at once (or true), once somebody has accepted it, or not at all (or false)."""


def _checked_price(value: Any) -> Any:
    is_pair = isinstance(value, list | tuple) and len(value) == 2
    if not is_pair or not all(_is_amount(one) for one in value):
        raise ValueError(f"{value!r:.80} is no price: write [INPUT, OUTPUT], US dollars for a million tokens")
    return value


def _is_amount(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


PriceValues = Annotated[tuple[float, float], BeforeValidator(_checked_price)]
"""US dollars for a million tokens: input, output."""


def _words(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return read_json(value) if value.lstrip().startswith("[") else shlex.split(value)


def _checked_command(words: list[str]) -> list[str]:
    if words and not words[0].strip():
        raise ValueError("the command names no program")
    if words and "/" in words[0] and not words[0].startswith("/"):
        raise ValueError(f"{words[0]!r} would be another program in each folder: give a name, or an absolute path")
    return words


Command = Annotated[list[str], BeforeValidator(_words), AfterValidator(_checked_command)]
"""A command that is run outside of any folder of the user's: a list, or one line as a shell would split it."""


def _kept(is_kept: bool) -> bool:
    if not is_kept:
        raise ValueError("sessions are always kept: leave it out; `ekiden sessions clear ID` forgets what was said")
    return is_kept


AlwaysKept = Annotated[bool, AfterValidator(_kept)]
"""Whether what was said in sessions is kept: it is."""


def checked_address(url: str) -> str:
    """Check a server's address."""
    if (problem := problem_of(url)) is not None:
        raise ValueError(problem)
    return url


def checked_endpoints(entries: list[str]) -> list[str]:
    """Check addresses of the form ``HOST:PORT``."""
    return _without(entries, _problem_of_endpoint)


def checked_variables(entries: list[str]) -> list[str]:
    """Check names of environment variables, and beginnings of such."""
    return _without(entries, problem_of_name)


def checked_globs(globs: list[str]) -> list[str]:
    """Check patterns of paths."""
    return _without(globs, problem_of_glob)


def checked_places(paths: list[str]) -> list[str]:
    """Check paths that name places."""
    return _without(paths, problem_of_place)


def checked_folders(paths: list[Path]) -> list[Path]:
    """Check paths that mean the same wherever a command runs."""
    for path in paths:
        if not path.is_absolute():
            raise ValueError(f"{str(path)!r} must be an absolute path")
    return paths


def _problem_of_endpoint(entry: str) -> str | None:
    host, _, port = entry.rpartition(":")
    if host.strip("[]") and port.isdecimal() and 0 < int(port) < 65_536:
        return None
    return f"{entry!r} is no HOST:PORT, such as 127.0.0.1:8080"


def _without(texts: list[str], problem_in: Callable[[str], str | None]) -> list[str]:
    """Return ``texts``; raise ``ValueError`` with the first problem in one of them."""
    for problem in filter(None, map(problem_in, texts)):
        raise ValueError(problem)
    return texts


def checked_web_address(url: str) -> str:
    """Check the address of a web server; an empty one is none."""
    if url and (problem := web_problem_of(url)) is not None:
        raise ValueError(problem)
    return url


def as_words(value: Any) -> Any:
    """Return a text as the list of its words between commas; anything else as it is."""
    return [word.strip() for word in value.split(",") if word.strip()] if isinstance(value, str) else value


def json_of(text: str, expected: str) -> Any:
    """Read a setting that is JSON, which should be what is ``expected``. Raises ``ValueError``."""
    try:
        return read_json(text)
    except ValueError as error:
        raise ValueError(f"no valid JSON ({error}): give {expected}") from None
