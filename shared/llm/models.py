"""The providers of models: which serves a model's name, which names are usable here, and why the others are not.

All that is known of a provider is one ``Provider``: to add one, make such an object, here or in a plug-in (the group
``models``). Nothing else lists them.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType

from ekiden.shared.errors import EkidenError, MissingModel
from ekiden.shared.foreign_code import is_interruption, said_by
from ekiden.shared.late_logger import LateLogger
from ekiden.shared.llm.base import ChatModel
from ekiden.shared.llm.context_windows import DEFAULT_WINDOW
from ekiden.shared.llm.gemini import DEFAULT_TIMEOUT_S, GeminiModel
from ekiden.shared.llm.genai import prices as gemini_prices
from ekiden.shared.llm.genai.access import GeminiAccess
from ekiden.shared.llm.retrying import RetryingModel
from ekiden.shared.llm.sanitizing import SanitizingModel
from ekiden.shared.once import Once
from ekiden.shared.plugins import load
from ekiden.shared.redaction import redact
from ekiden.shared.settings import Settings

__all__ = [
    "DEFAULT_ALIASES",
    "GEMINI",
    "SCRIPTED",
    "ModelChoice",
    "ModelValues",
    "Models",
    "Provider",
    "UsableModel",
    "choose",
    "default_model",
    "learn_providers",
    "provider_of",
    "providers",
    "unserved_model",
    "usable_models",
]

STAND_IN = "scripted"
_DEFAULT = "default"
_INHERIT = ("", "inherit", _DEFAULT)
_WORDS: Mapping[str, str] = MappingProxyType(dict.fromkeys(("fast", "auto"), _DEFAULT))
"""What asks for no model in particular, and so may be the settings' default as well."""

DEFAULT_ALIASES: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(
        (*_WORDS, "sonnet", "opus", "haiku", "claude-*", "gpt-*", "o[1-9]*", "chatgpt-*", "codex-*"), _DEFAULT
    )
)
"""Names, or patterns of names, that agent files of other tools use -> the model that serves them here."""

log = LateLogger(__name__)


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
    """Scripts of the stand-in's; None: none of the user's own."""
    shipped_scripts: Path | None = None
    """Those that play agents which have none there, unless one there plays every agent."""

    @property
    def script_folders(self) -> tuple[Path, ...]:
        """Folders of the stand-in's scripts, the nearest first."""
        return tuple(one for one in (self.scripts_dir, self.shipped_scripts) if one)

    @classmethod
    def of(cls, settings: Settings, shipped_scripts: Path | None = None) -> "ModelValues":
        """Return what ``settings`` say, with the scripts that ship."""
        return cls(
            model=settings.model,
            aliases=settings.model_aliases,
            timeout_s=settings.model_timeout_s,
            attempts=settings.model_attempts,
            gemini_base_url=settings.gemini_base_url,
            scripts_dir=settings.scripts_dir,
            shipped_scripts=shipped_scripts,
        )


@dataclass(frozen=True)
class Provider:
    """All that is known of a provider of models."""

    name: str
    serves: tuple[str, ...]
    """Beginnings of the names of its models."""
    make: Callable[[ModelValues, Mapping[str, str]], ChatModel]
    """Of the settings and the environment; called once in a process, when a model of it is first asked."""
    known: tuple[str, ...] = ()
    """Names to list; every other name that it serves can be used as well. The first is the provider's default."""
    why_not: Callable[[Mapping[str, str]], str] = lambda env: ""
    """Of the environment: what is missing and how to mend it; empty when the provider is usable."""
    what_is_broken: Callable[[Mapping[str, str]], str] = lambda env: ""
    """Of the environment: what is set for this provider, and cannot be used; nothing stands in for it then."""
    windows: Mapping[str, int] = field(default_factory=dict)
    """The beginning of a model's name -> how many tokens it reads at once; the longest that fits counts."""
    prices: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """The beginning of a model's name -> US dollars for a million tokens: input, output. 0 is a fact, too."""
    variant: str = ".*"
    """What may stand behind such a beginning for its price to hold, a regular expression."""
    telemetry_name: str = ""
    """What OpenTelemetry's conventions call it (``gen_ai.provider.name``); empty: its ``name``."""
    operation: str = "chat"
    """What they call a call of it (``gen_ai.operation.name``)."""
    is_remote: bool = True
    """Whether it may be away for a while: a call that raises ``ModelUnavailable`` is then tried again for it."""

    def lacks(self, env: Mapping[str, str]) -> str:
        """Return what ``why_not`` says; where that fails, what went wrong: it may be a plug-in's."""
        try:
            return self.why_not(env)
        except BaseException as error:
            if is_interruption(error):
                raise
            return f"it cannot tell what it needs: {type(error).__name__}: {redact(said_by(error))}"

    def window_of(self, model: str) -> int:
        """Return how many tokens the model reads at once."""
        starts = [start for start in self.windows if model.startswith(start)]
        return self.windows[max(starts, key=len)] if starts else DEFAULT_WINDOW


@dataclass(frozen=True)
class ModelChoice:
    """The answer to "which model?"."""

    name: str
    """What the provider is to be asked for."""
    provider: Provider
    note: str = ""
    """Why it is not the model that was named; empty when it is."""

    @property
    def window(self) -> int:
        """How many tokens it reads at once."""
        return self.provider.window_of(self.name)


@dataclass(frozen=True)
class UsableModel:
    """One line of ``ekiden models``."""

    name: str
    provider: str
    usable: bool
    why_not: str = ""


def _gemini(values: ModelValues, env: Mapping[str, str]) -> ChatModel:
    return GeminiModel(GeminiAccess.from_env(env, values.gemini_base_url), timeout_s=values.timeout_s)


def _scripted(values: ModelValues, env: Mapping[str, str]) -> ChatModel:
    from ekiden.shared.llm.scripted import ScriptedModel

    return ScriptedModel.from_folders(*values.script_folders)


GEMINI = Provider(
    name="gemini",
    serves=("gemini-",),
    make=_gemini,
    known=("gemini-2.5-flash", "gemini-2.5-pro", "gemini-2.5-flash-lite"),
    why_not=GeminiAccess.why_not,
    what_is_broken=GeminiAccess.what_is_broken,
    windows={"gemini-": 1_048_576},
    prices=gemini_prices.LISTED,
    variant=gemini_prices.VARIANT,
    telemetry_name="gcp.gemini",
    operation="generate_content",
)
SCRIPTED = Provider(
    name="scripted",
    serves=(STAND_IN,),
    make=_scripted,
    known=(STAND_IN,),
    windows={STAND_IN: 1_048_576},  # it has none
    prices={STAND_IN: (0.0, 0.0)},
    telemetry_name="ekiden.scripted",
    is_remote=False,
)
_learned: list[Provider] = []


def providers() -> tuple[Provider, ...]:
    """Return the providers of this process in order of preference: the first usable one has the default model."""
    return (GEMINI, *_learned, SCRIPTED)


def learn_providers(settings: Settings) -> tuple[str, ...]:
    """Take in the providers that the settings allow, for the whole process; return what is wrong with the others."""
    loaded = load("models", settings.allowed("models"), Provider, own=(GEMINI.name, SCRIPTED.name))
    taken, problems = [GEMINI, SCRIPTED], list(loaded.problems)
    for plugin in loaded.plugins:
        if other := next((one for one in taken if _overlap(one, plugin.made)), None):
            names = ", ".join(plugin.made.serves)
            problems.append(f"models: {plugin.source} serves {names!r}, as {other.name!r} does: it is left out")
        else:
            taken.append(plugin.made)
    _learned[:] = taken[2:]
    return tuple(problems)


def provider_of(model: str) -> Provider | None:
    """Return who serves the model; None: nobody here."""
    return next((one for one in providers() if model.startswith(one.serves)), None)


def _overlap(one: Provider, other: Provider) -> bool:
    return any(mine.startswith(other.serves) or their.startswith(mine) for mine in one.serves for their in other.serves)


def default_model(values: ModelValues, env: Mapping[str, str]) -> ModelChoice:
    """Return the model of agents that name none.

    Raises:
        MissingModel: the settings name one that cannot be served here, or what is set for a provider cannot be used.
    """
    if values.model and values.model not in _INHERIT:
        name = _without_path(values.model)
        configured = _alias(name, values.aliases, _WORDS) or name
        if configured != _DEFAULT:
            return _configured(values.model, configured, env)
    for one in providers():
        _require_unbroken(one, env)
    first, *_ = providers()
    best = next(one for one in providers() if one.known and not one.lacks(env))
    note = "" if best is first else f"{first.known[0]} is not usable here ({first.lacks(env)})"
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
    # Ours do not stand in the way of a provider that has a model of the name.
    alias = _alias(wanted, values.aliases, {} if provider_of(wanted) else DEFAULT_ALIASES)
    if alias == _DEFAULT:
        return _instead(wanted, default, "it is no model of a provider here")
    actual = alias or wanted
    provider = provider_of(actual)
    if provider is None:
        raise MissingModel(f"No provider here has a model {actual!r}: {_advice()}")
    _require_unbroken(provider, env)
    if why := provider.lacks(env):
        return _instead(wanted, default, why)
    return ModelChoice(actual, provider, f"{wanted} is an alias of {actual}" if alias else "")


def usable_models(env: Mapping[str, str]) -> list[UsableModel]:
    """List the models that the providers know, usable or not. Asks no server."""
    return [
        UsableModel(name, provider.name, usable=not why, why_not=why)
        for provider in providers()
        for why in [provider.lacks(env)]
        for name in provider.known
    ]


def unserved_model(settings: Settings) -> str | None:
    """Say which model the settings name that no provider here has, with or without its key; None: there is none."""
    learn_providers(settings)
    named = map(_without_path, filter(None, (settings.model, settings.routing_llm_model)))
    meant = [_alias(name, settings.model_aliases, _WORDS) or name for name in named]
    for name in (*meant, *settings.model_aliases.values()):
        if name not in _INHERIT and provider_of(name) is None:
            return f"no provider here has a model {name!r}: {_advice()}"
    return None


class Models:
    """The models of one process: chosen by name, made once for each provider."""

    def __init__(self, values: ModelValues, env: Mapping[str, str]) -> None:
        self._values = values
        self._env = env
        self._chosen: dict[str | None, ModelChoice] = {}
        self._made: dict[str, ChatModel] = {}
        self._said = Once()

    def choose(self, name: str | None) -> ModelChoice:
        """Return the model that serves ``name``, chosen once; what is odd about it is logged once.

        Raises ``MissingModel``.
        """
        if (known := self._chosen.get(name)) is not None:
            return known
        choice = self._chosen[name] = choose(name, self._values, self._env)
        if choice.note and self._said.first(choice.note):
            log.warning("model_chosen", named=name, model=choice.name, note=choice.note)
        return choice

    def model(self, choice: ModelChoice) -> ChatModel:
        """Return what answers for ``choice``; it is to be asked for ``choice.name``. Raises ``MissingModel``."""
        provider = choice.provider
        if provider.name not in self._made:
            self._made[provider.name] = SanitizingModel(_made(provider, self._values, self._env))
        return self._made[provider.name]


def _made(provider: Provider, values: ModelValues, env: Mapping[str, str]) -> ChatModel:
    try:
        model = provider.make(values, env)
    except EkidenError:
        raise
    except BaseException as error:  # a plug-in's
        if is_interruption(error):
            raise
        said = f"{type(error).__name__}: {redact(said_by(error))}"
        raise MissingModel(f"The provider {provider.name!r} cannot make its model: {said}") from error
    if not provider.is_remote:
        return model
    return RetryingModel(model, attempts=values.attempts, total_s=values.retry_total_s)


def _configured(said: str, name: str, env: Mapping[str, str]) -> ModelChoice:
    """The default that the settings name is meant: nothing stands in for it."""
    provider = provider_of(name)
    if provider is None:
        raise MissingModel(f"The default model {said!r} belongs to no provider here: {_advice()}")
    if why := provider.lacks(env):
        raise MissingModel(f"The default model {said!r} cannot be used: {why}")
    return ModelChoice(name, provider)


def _require_unbroken(provider: Provider, env: Mapping[str, str]) -> None:
    if broken := provider.what_is_broken(env):
        raise MissingModel(f"{provider.name.capitalize()} cannot be used: {broken}")


def _instead(wanted: str, default: ModelChoice, why: str) -> ModelChoice:
    return ModelChoice(default.name, default.provider, f"{default.name} answers in place of {wanted}: {why}")


def _alias(name: str, *tables: Mapping[str, str]) -> str | None:
    """Return what ``name`` stands for. Exact names outrank patterns, and earlier tables later ones."""
    for aliases in tables:
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
    names = ", ".join(STAND_IN if one is SCRIPTED else f"{start}*" for one in providers() for start in one.serves)
    return f"use {names}, or give the name an alias in the settings (model_aliases)"
