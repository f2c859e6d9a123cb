"""What an agent remembers: variables of its session that it reads and writes, and notes for later jobs.

==============  ======================================================================================
field           forms
==============  ======================================================================================
session         a list of names of variables, comma text
long_term       ``true``, or an object: ``{backend, namespace, ...}``, the rest of it also in ``config``
without it      the same keys on the level above: ``{enabled, type, backend, top_k, ...}``
namespace       ``agent``, ``user``, ``team``; ``shared: NAME``, also ``index_name``
half_life, ttl  seconds, or a number with s, m, h, d or w
==============  ======================================================================================
"""

import operator
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from ekiden.shared.bounds import NUMBER, between
from ekiden.shared.definitions.rules import Nested, is_none
from ekiden.shared.embedding_models import MAX_DIMENSION, MIN_DIMENSION, OWN_ENCODER, read_model
from ekiden.shared.errors import DefinitionError
from ekiden.shared.faults import as_written
from ekiden.shared.suggestions import nearest
from ekiden.shared.variables import problem_of

__all__ = ["Backend", "LongTerm", "Memory", "problem_of_shared", "read_memory"]

_MOST_VARIABLES = 50
_LONGEST_NAME = 200
_LONGEST_S = 100 * 365 * 86_400
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
Backend = Literal["redis", "filesystem"]
"""Who keeps notes: the server, or files."""
_BACKENDS: Mapping[str, Backend] = {
    **dict.fromkeys(("redis", "local", "vector_store"), "redis"),
    "filesystem": "filesystem",
}
_DIMENSION = 512
_ALIASES = {"index_name": "shared", "k": "top_k", "threshold": "similarity_threshold"}
_KEYS = (
    *("type", "backend", "namespace", "shared", "recall", "top_k", "similarity_threshold"),
    *("half_life", "ttl", "embedding_model", "dimension"),
)

_Duration = Annotated[float, between(1, _LONGEST_S)]


class LongTerm(Nested):
    """Notes that outlive sessions."""

    type: Literal["vector", "key_value"] = "vector"
    """How they are found again: by meaning, or by words."""
    backend: Backend = Field(default="redis", exclude_if=lambda value: value == "redis")
    namespace: Literal["agent", "user", "team", "shared"] = "agent"
    """Whose they are: the agent's about its user, all agents' about the user, everybody's, of those who share a name.
    """
    shared: str = Field(default="", max_length=_LONGEST_NAME)
    recall: Literal["auto", "tool"] = "auto"
    """Whether what fits a request is put before the agent, or the agent asks for it."""
    top_k: Annotated[int, between(1, 50), NUMBER] = 5
    similarity_threshold: Annotated[float, between(0, 1), NUMBER] | None = Field(default=None, exclude_if=is_none)
    """How near a note must be, from 0 to 1; None: the usual."""
    half_life: _Duration | None = Field(default=None, exclude_if=is_none)
    """Seconds without use after which a note counts half; None: its age does not matter."""
    ttl: _Duration | None = Field(default=None, exclude_if=is_none)
    """Seconds after which a note is gone; None: it stays."""
    embedding_model: str = Field(default="", exclude_if=operator.not_)
    """Who makes vectors of notes; empty: as the settings say."""
    dimension: Annotated[int, between(MIN_DIMENSION, MAX_DIMENSION), NUMBER] | None = Field(
        default=None, exclude_if=is_none
    )
    """How many numbers a vector of that model has; None: as many as it gives by itself."""


class Memory(Nested):
    """What an agent remembers."""

    session: tuple[str, ...] = ()
    """Variables of the session that it reads in its prompt and may write."""
    long_term: LongTerm | None = Field(default=None, exclude_if=is_none)


def read_memory(value: Any) -> dict[str, Any]:
    """Read ``memory`` of a file, in any form. Raises ``DefinitionError``."""
    if value is True:
        return {"long_term": {}}
    if isinstance(value, str) or not value:  # a word, which has no effect here: `idle_fields` says so
        return {}
    if not isinstance(value, Mapping):
        raise DefinitionError(f"must be an object such as {{session: [current_task], long_term: true}}, not {value!r}")
    said = {_ALIASES.get(str(key), str(key)): item for key, item in value.items() if item is not None}
    _known(said, ("session", "long_term", "enabled", *_KEYS), "'memory'")
    read: dict[str, Any] = {"session": _names(said.pop("session", []))}
    flat = {key: said.pop(key) for key in ("enabled", *_KEYS) if key in said}
    if flat and said.get("long_term"):
        raise DefinitionError(f"{min(flat)!r} stands beside 'long_term': write it into that")
    notes = _long_term(flat or said.get("long_term", False))
    return read if notes is None else read | {"long_term": notes}


def _long_term(value: Any) -> dict[str, Any] | None:
    if value is False or value is True:
        return {} if value else None
    if not isinstance(value, Mapping):
        raise DefinitionError(f"'long_term' must be true, false, or an object such as {{top_k: 5}}, not {value!r}")
    said = {_ALIASES.get(str(key), str(key)): item for key, item in value.items() if item is not None}
    said = _with_config(said)
    _known(said, ("enabled", *_KEYS), "'long_term'")
    is_on = said.pop("enabled", True)
    if not isinstance(is_on, bool):
        raise DefinitionError(f"'enabled' must be true or false, not {is_on!r}")
    said["backend"] = _backend(said.get("backend", "redis"))
    said |= _encoder(said.pop("embedding_model", ""), said.pop("dimension", None))
    for name in ("half_life", "ttl"):
        if name in said:
            said[name] = _seconds(name, said[name])
    return _in_namespace(said) if is_on else None


def _with_config(said: dict[str, Any]) -> dict[str, Any]:
    config = said.pop("config", {})
    if not isinstance(config, Mapping):
        raise DefinitionError(f"'config' must be an object such as {{top_k: 5}}, not {config!r}")
    more = {_ALIASES.get(str(key), str(key)): item for key, item in config.items() if item is not None}
    if twice := sorted(more.keys() & said.keys()):
        raise DefinitionError(f"{twice[0]!r} stands in 'config' and beside it: leave one out")
    return said | more


def _known(said: Mapping[str, Any], names: tuple[str, ...], where: str) -> None:
    for key in said:
        if key not in names:
            near = nearest(key.casefold(), names, n=1)
            advice = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"
            raise DefinitionError(f"{key!r} of {where} is not known: {advice}")


def _in_namespace(said: dict[str, Any]) -> dict[str, Any]:
    namespace: Any = said.get("namespace")
    shared: Any = said.get("shared")
    if isinstance(namespace, dict) and set(namespace) == {"shared"} and shared is None:
        namespace, shared = "shared", namespace["shared"]
    if shared is None:
        if namespace == "shared":
            raise DefinitionError("'namespace' is 'shared': name it, 'shared: support'")
        return said
    if namespace not in (None, "shared"):
        raise DefinitionError(f"'namespace' is {namespace!r}, and 'shared' is {shared!r}: leave one out")
    problem = problem_of_shared(shared.strip()) if isinstance(shared, str) else "write it in quotes"
    if problem:
        raise DefinitionError(f"'shared' must be a name, not {shared!r}: {problem}")
    return said | {"namespace": "shared", "shared": shared.strip()}


def problem_of_shared(name: str) -> str:
    """Say why a name of shared notes is none; empty: it is one."""
    if not name or len(name) > _LONGEST_NAME or not name.isprintable() or any(sign.isspace() for sign in name):
        return f"1 to {_LONGEST_NAME} signs that can be shown, and no blanks, such as 'support-desk'"
    return ""


def _backend(said: Any) -> Backend:
    if not isinstance(said, str) or said not in _BACKENDS:
        raise DefinitionError(
            f"'backend' is {said!r:.60}, which is not spoken to: write 'redis', for notes that Ekiden's own Redis or "
            "Valkey server keeps, with vectors and without modules ('local' and 'vector_store' mean that, too), or "
            "'filesystem', for notes in a folder"
        )
    return _BACKENDS[said]


def _encoder(model: Any, dimension: Any) -> dict[str, Any]:
    if not isinstance(model, str):
        raise DefinitionError(f"'embedding_model' must be a name, such as {OWN_ENCODER!r}, not {model!r:.60}")
    try:
        name = read_model(model) if model else ""
    except ValueError as error:
        raise DefinitionError(f"'embedding_model': {error}") from None
    if name not in ("", OWN_ENCODER):
        return {"embedding_model": name, "dimension": dimension}
    if dimension not in (None, _DIMENSION):
        raise DefinitionError(
            f"'dimension' is {dimension!r:.60}: the vectors of Ekiden's encoder have {_DIMENSION} numbers. Leave the "
            "line out, or name another 'embedding_model'"
        )
    return {"embedding_model": name} if name else {}


def _seconds(name: str, value: Any) -> float:
    text = str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw]?)", text.strip()) if isinstance(text, str) else None
    if found is None:
        raise DefinitionError(f"{name!r} is {value!r:.60}: it must be a time, such as 30d, 12h or 3600 (seconds)")
    return float(found[1]) * _UNITS[found[2]]


def _names(value: Any) -> list[str]:
    names = [one.strip() for one in value.split(",") if one.strip()] if isinstance(value, str) else value
    if not isinstance(names, list) or len(names) > _MOST_VARIABLES:
        raise DefinitionError(
            f"'session' must be a list of {_MOST_VARIABLES} names of variables at most, such as [current_task], "
            f"not {as_written(value)}"
        )
    for name in names:
        if not isinstance(name, str) or (problem := problem_of(name, None)) is not None:
            raise DefinitionError(f"'session' has {name!r:.80}: {problem if isinstance(name, str) else 'no name'}")
    return list(dict.fromkeys(names))
