"""Which adapter serves a model's name, which names are usable here, and why the others are not.

To add a provider: a ``ChatModel``, and one ``Adapter`` in ``ADAPTERS``. Nothing else knows the providers.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType

import structlog

from ekiden.shared.errors import MissingModel
from ekiden.shared.llm.base import ChatModel
from ekiden.shared.llm.gemini import DEFAULT_TIMEOUT_S, GeminiModel
from ekiden.shared.llm.genai.access import GeminiAccess
from ekiden.shared.llm.retrying import RetryingModel
from ekiden.shared.llm.sanitizing import SanitizingModel
from ekiden.shared.settings import Settings

__all__ = [
    "ADAPTERS",
    "DEFAULT_ALIASES",
    "Adapter",
    "ModelChoice",
    "ModelValues",
    "Models",
    "UsableModel",
    "choose",
    "default_model",
    "usable_models",
]

STAND_IN = "scripted"
_DEFAULT = "default"
_INHERIT = ("", "inherit", _DEFAULT)

DEFAULT_ALIASES: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(
        ("fast", "sonnet", "opus", "haiku", "claude-*", "gpt-*", "o[1-9]*", "chatgpt-*", "codex-*", "auto"), _DEFAULT
    )
)
"""Names, or patterns of names, that agent files of other tools use -> the model that serves them here."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class ModelValues:
    """What of the settings concerns models."""

    model: str | None = None
    """The default model; None: Gemini where it is usable, else the stand-in."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Outrank ``DEFAULT_ALIASES``; the value ``default`` means the default model."""
    timeout_s: float = DEFAULT_TIMEOUT_S
    attempts: int = 5
    retry_total_s: float = 300.0
    gemini_base_url: str | None = None
    scripts_dir: Path | None = None
    """The scripts of the stand-in; None: it has none."""

    @classmethod
    def of(cls, settings: Settings, scripts_dir: Path | None = None) -> "ModelValues":
        """Return what ``settings`` say; ``scripts_dir`` where they name no scripts."""
        return cls(
            model=settings.model,
            aliases=settings.model_aliases,
            timeout_s=settings.model_timeout_s,
            attempts=settings.model_attempts,
            gemini_base_url=settings.gemini_base_url,
            scripts_dir=settings.scripts_dir or scripts_dir,
        )


@dataclass(frozen=True)
class Adapter:
    """A provider: which names it serves, what it lacks, how its ``ChatModel`` is made."""

    name: str
    prefix: str
    known: tuple[str, ...]
    """Names to list; every other name with the prefix is served as well. The first is the provider's default."""
    why_not: Callable[[Mapping[str, str]], str]
    """Of the environment: what is missing and how to mend it; empty when the provider is usable."""
    make: Callable[[ModelValues, Mapping[str, str]], ChatModel]


@dataclass(frozen=True)
class ModelChoice:
    """The answer to "which model?"."""

    name: str
    """What the adapter is to be asked for."""
    adapter: Adapter
    note: str = ""
    """Why it is not the model that was named; empty when it is."""


@dataclass(frozen=True)
class UsableModel:
    """One line of ``ekiden models``."""

    name: str
    adapter: str
    usable: bool
    why_not: str = ""


def _gemini(values: ModelValues, env: Mapping[str, str]) -> ChatModel:
    model = GeminiModel(GeminiAccess.from_env(env, values.gemini_base_url), timeout_s=values.timeout_s)
    return RetryingModel(model, attempts=values.attempts, total_s=values.retry_total_s)


def _scripted(values: ModelValues, env: Mapping[str, str]) -> ChatModel:
    from ekiden.shared.llm.scripted import ScriptedModel

    return ScriptedModel.from_folder(values.scripts_dir) if values.scripts_dir else ScriptedModel({})


ADAPTERS: tuple[Adapter, ...] = (
    Adapter(
        name="gemini",
        prefix="gemini-",
        known=("gemini-2.5-flash", "gemini-2.5-pro", "gemini-2.5-flash-lite"),
        why_not=GeminiAccess.why_not,
        make=_gemini,
    ),
    Adapter(name="scripted", prefix=STAND_IN, known=(STAND_IN,), why_not=lambda env: "", make=_scripted),
)
"""In order of preference: the first usable one has the default model."""


def default_model(values: ModelValues, env: Mapping[str, str]) -> ModelChoice:
    """Return the model of agents that name none.

    Raises:
        MissingModel: the settings name one that cannot be served here.
    """
    if values.model and values.model not in _INHERIT:
        name = _without_path(values.model)
        configured = _alias(name, values) or name
        if configured != _DEFAULT:
            return _configured(values.model, configured, env)
    best = next(adapter for adapter in ADAPTERS if not adapter.why_not(env))
    first = ADAPTERS[0]
    note = "" if best is first else f"{first.known[0]} is not usable here ({first.why_not(env)})"
    return ModelChoice(best.known[0], best, note)


def choose(name: str | None, values: ModelValues, env: Mapping[str, str]) -> ModelChoice:
    """Return the model that serves ``name``: an agent file's ``model``, an alias, or nothing (the default).

    A name of another tool, and one whose provider lacks its key, is served by the default model, and the note says so.

    Raises:
        MissingModel: nobody here knows the name, or the default model cannot be served.
    """
    wanted = _without_path(name or "")
    default = default_model(values, env)
    if wanted in _INHERIT:
        return default
    alias = _alias(wanted, values)
    if alias == _DEFAULT:
        return _instead(wanted, default, "it is no model of a provider here")
    actual = alias or wanted
    adapter = _adapter_for(actual)
    if adapter is None:
        raise MissingModel(f"No provider here has a model {actual!r}: {_advice()}")
    if why := adapter.why_not(env):
        return _instead(wanted, default, why)
    return ModelChoice(actual, adapter, f"{wanted} is an alias of {actual}" if alias else "")


def usable_models(env: Mapping[str, str]) -> list[UsableModel]:
    """List the models that the adapters know, usable or not. Asks no server."""
    return [
        UsableModel(name, adapter.name, usable=not why, why_not=why)
        for adapter in ADAPTERS
        for why in [adapter.why_not(env)]
        for name in adapter.known
    ]


class Models:
    """The models of one process: chosen by name, made once for each provider."""

    def __init__(self, values: ModelValues, env: Mapping[str, str]) -> None:
        self._values = values
        self._env = env
        self._chosen: dict[str | None, ModelChoice] = {}
        self._made: dict[str, ChatModel] = {}
        self._said: set[str] = set()

    def choose(self, name: str | None) -> ModelChoice:
        """Return the model that serves ``name``, chosen once; what is odd about it is logged once.

        Raises ``MissingModel``.
        """
        if (known := self._chosen.get(name)) is not None:
            return known
        choice = self._chosen[name] = choose(name, self._values, self._env)
        if choice.note and choice.note not in self._said:
            self._said.add(choice.note)
            log.warning("model_chosen", named=name, model=choice.name, note=choice.note)
        return choice

    def model(self, choice: ModelChoice) -> ChatModel:
        """Return what answers for ``choice``; it is to be asked for ``choice.name``."""
        adapter = choice.adapter
        if adapter.name not in self._made:
            self._made[adapter.name] = SanitizingModel(adapter.make(self._values, self._env))
        return self._made[adapter.name]


def _configured(said: str, name: str, env: Mapping[str, str]) -> ModelChoice:
    """The default that the settings name is meant: nothing stands in for it."""
    adapter = _adapter_for(name)
    if adapter is None:
        raise MissingModel(f"The default model {said!r} belongs to no provider here: {_advice()}")
    if why := adapter.why_not(env):
        raise MissingModel(f"The default model {said!r} cannot be used: {why}")
    return ModelChoice(name, adapter)


def _instead(wanted: str, default: ModelChoice, why: str) -> ModelChoice:
    return ModelChoice(default.name, default.adapter, f"{default.name} answers in place of {wanted}: {why}")


def _adapter_for(name: str) -> Adapter | None:
    return next((adapter for adapter in ADAPTERS if name.startswith(adapter.prefix)), None)


def _alias(name: str, values: ModelValues) -> str | None:
    """Return what ``name`` stands for. Exact names outrank patterns, and the settings' outrank our own."""
    for aliases in (values.aliases, DEFAULT_ALIASES):
        if name in aliases:
            return aliases[name]
        if (found := _first_match(name, aliases.items())) is not None:
            return found
    return None


def _first_match(name: str, aliases: Iterable[tuple[str, str]]) -> str | None:
    return next((model for pattern, model in aliases if fnmatchcase(name.lower(), pattern.lower())), None)


def _without_path(name: str) -> str:
    """Take off what Google's API puts before a name (``models/``, ``google/``)."""
    return name.strip().rpartition("/")[2] if name.strip().startswith(("models/", "google/")) else name.strip()


def _advice() -> str:
    prefixes = ", ".join(f"{adapter.prefix}*" if adapter.prefix != STAND_IN else STAND_IN for adapter in ADAPTERS)
    return f"use {prefixes}, or give the name an alias in the settings (model_aliases)"
