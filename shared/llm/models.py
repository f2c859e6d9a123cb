"""The providers of models: which serves a model's name, which names are usable here, and why the others are not.

All that is known of a provider is one ``Provider``: to add one, make such an object, here or in a plug-in (the group
``models``). Nothing else lists them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from importlib import import_module
from types import MappingProxyType

from ekiden.shared.errors import MissingModel
from ekiden.shared.late_logger import LateLogger
from ekiden.shared.llm.anthropic import ANTHROPIC
from ekiden.shared.llm.base import ChatModel
from ekiden.shared.llm.gemini import GeminiModel
from ekiden.shared.llm.genai import prices as gemini_prices
from ekiden.shared.llm.genai.access import GeminiAccess
from ekiden.shared.llm.openai import provider_at
from ekiden.shared.llm.providers import ModelValues, Provider
from ekiden.shared.plugins import load
from ekiden.shared.settings.model import Settings

__all__ = [
    "DEFAULT_ALIASES",
    "GEMINI",
    "SCRIPTED",
    "ModelChoice",
    "ModelValues",
    "Provider",
    "UsableModel",
    "choose",
    "choose_all",
    "default_model",
    "default_models",
    "learn_providers",
    "names_model",
    "provider_of",
    "providers",
    "served",
    "unserved_model",
    "usable_models",
]

STAND_IN = "scripted"
_DEFAULT = "default"
_INHERIT = ("", "inherit", _DEFAULT)
_WORDS: Mapping[str, str] = MappingProxyType(dict.fromkeys(("fast", "auto"), _DEFAULT))
"""What asks for no model in particular, and so may be the settings' default as well."""

DEFAULT_ALIASES: Mapping[str, str] = MappingProxyType(
    {name: one for one in ANTHROPIC.known for name in ("sonnet", "opus", "haiku") if name in one}
    | dict.fromkeys((*_WORDS, "gpt-*", "o[1-9]*", "chatgpt-*", "codex-*"), _DEFAULT)
)
"""Names, or patterns of names, that agent files of other tools use -> the model that serves them here."""
_Aliases = Mapping[str, str | Sequence[str]]

log = LateLogger(__name__)


@dataclass(frozen=True)
class ModelChoice:
    """The answer to "which model?"."""

    name: str
    """What the provider is to be asked for."""
    provider: Provider
    note: str = ""
    """Why it is not the model that was named; empty when it is."""
    lacking: str = ""
    """What the provider of the model that was named lacks, where another one is to answer for it."""

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
    account=GeminiAccess.account,
    windows={"gemini-": 1_048_576},
    prices=gemini_prices.LISTED,
    variant=gemini_prices.VARIANT,
    telemetry_name="gcp.gemini",
    operation="generate_content",
    prepare=lambda: import_module("ekiden.shared.llm.genai.connection"),
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
    return (GEMINI, *_learned, ANTHROPIC, SCRIPTED)


def learn_providers(settings: Settings) -> tuple[str, ...]:
    """Take in the providers that the settings allow, for the whole process; return what is wrong with the others."""
    taken = [GEMINI, ANTHROPIC, SCRIPTED, *(provider_at(name, said) for name, said in settings.providers.items())]
    loaded = load("models", settings.allowed("models"), Provider, own=[one.name for one in taken])
    problems = list(loaded.problems)
    for plugin in loaded.plugins:
        if other := next((one for one in taken if _overlap(one, plugin.made)), None):
            names = ", ".join(plugin.made.serves)
            problems.append(f"models: {plugin.source} serves {names!r}, as {other.name!r} does: it is left out")
        else:
            taken.append(plugin.made)
    _learned[:] = taken[3:]
    return tuple(problems)


def provider_of(model: str) -> Provider | None:
    """Return who serves the model; None: nobody here."""
    return next((one for one in providers() if model.startswith(one.serves)), None)


def served(model: str) -> tuple[str, Provider | None]:
    """Return a recorded model's name as its provider knows it, and the provider; names may come with Google's paths."""
    for name in (model, model.rpartition("/")[2]):
        if provider := provider_of(name.lower()):
            return name, provider
    return name, None


def _overlap(one: Provider, other: Provider) -> bool:
    return any(mine.startswith(other.serves) or their.startswith(mine) for mine in one.serves for their in other.serves)


def default_model(values: ModelValues, env: Mapping[str, str]) -> ModelChoice:
    """Return the model of agents that name none, the first where the settings name several. Raises ``MissingModel``."""
    return default_models(values, env)[0]


def default_models(values: ModelValues, env: Mapping[str, str]) -> tuple[ModelChoice, ...]:
    """Return the models of agents that name none, each to be asked where the one before gives no answer.

    Raises:
        MissingModel: the settings name one that cannot be served here, or what is set for a provider cannot be used.
    """
    if values.model and values.model not in _INHERIT:
        configured = _meant(values.model, values.aliases, _WORDS)
        if configured != (_DEFAULT,):
            if _DEFAULT in configured:
                raise MissingModel(f"The default model {values.model!r} names the default model: take that out of it")
            return _configured(values.model, configured, env)
    return (_best(env),)


def _best(env: Mapping[str, str]) -> ModelChoice:
    """Return the default of the first provider that is usable."""
    for one in providers():
        _require_unbroken(one, env)
    first, *_ = providers()
    best = next(one for one in providers() if one.known and not one.lacks(env))
    note = "" if best is first else f"{first.known[0]} is not usable here ({first.lacks(env)})"
    return ModelChoice(best.known[0], best, note)


def names_model(name: str | None) -> bool:
    """Tell whether ``name`` asks for a model, or leaves it to the settings."""
    return _without_path(name or "") not in (*_INHERIT, *_WORDS)


def choose(name: str | None, values: ModelValues, env: Mapping[str, str]) -> ModelChoice:
    """Return the model that serves ``name``, the first where that is an alias of several; see ``choose_all``."""
    return choose_all((name,), values, env)[0]


def choose_all(names: Iterable[str | None], values: ModelValues, env: Mapping[str, str]) -> tuple[ModelChoice, ...]:
    """Return the models that serve ``names``: an agent file's models, aliases, or nothing (the default).

    A name of another tool, and one whose provider lacks its key, is served by the default model, and the note says so;
    beside others that can be used, one that lacks its key is left out, and the note of the first says that.

    Raises:
        MissingModel: nobody here knows a name, or the default model cannot be served.
    """
    defaults = default_models(values, env)
    found = [choice for name in names for choice in _serving(_without_path(name or ""), defaults, values, env)]
    usable: dict[str, ModelChoice] = {}
    for choice in [one for one in found if not one.lacking] or found[:1]:
        usable.setdefault(choice.name, choice)
    first, *others = usable.values()
    left_out = [choice.lacking for choice in found if choice.lacking and choice is not first]
    note = "; ".join(filter(None, (first.note, *left_out)))
    return (replace(first, note=note) if left_out else first, *others)


def _serving(
    wanted: str, defaults: Sequence[ModelChoice], values: ModelValues, env: Mapping[str, str]
) -> Iterator[ModelChoice]:
    """Yield what serves one name."""
    if wanted in _INHERIT:
        yield from defaults
        return
    # Ours do not stand in the way of a provider that has a model of the name.
    for actual in _meant(wanted, values.aliases, {} if provider_of(wanted) else DEFAULT_ALIASES):
        if actual == _DEFAULT:
            yield _instead(wanted, defaults[0], "it is no model of a provider here")
            yield from defaults[1:]
            continue
        provider = provider_of(actual)
        if provider is None:
            raise MissingModel(f"No provider here has a model {actual!r}: {_advice()}")
        _require_unbroken(provider, env)
        if why := provider.lacks(env):
            yield replace(_instead(wanted, defaults[0], why), lacking=f"{actual} is left out: {why}")
        else:
            yield ModelChoice(actual, provider, f"{wanted} is an alias of {actual}" if actual != wanted else "")


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
    named = map(_without_path, filter(None, (settings.model, settings.routing_llm_model, settings.compression_model)))
    meant = [one for name in named for one in _meant(name, settings.model_aliases, _WORDS)]
    for name in (*meant, *(one for value in settings.model_aliases.values() for one in _listed(value))):
        if name not in _INHERIT and provider_of(name) is None:
            return f"no provider here has a model {name!r}: {_advice()}"
    return None


def _configured(said: str, names: Sequence[str], env: Mapping[str, str]) -> tuple[ModelChoice, ...]:
    """The default that the settings name is meant: nothing stands in for it but the fallbacks that they name, too."""
    usable: list[ModelChoice] = []
    lacking: list[str] = []
    for name in names:
        provider = provider_of(name)
        if provider is None:
            what = f"model {said!r}" if name == said else f"model {name!r}, which {said!r} stands for,"
            raise MissingModel(f"The default {what} belongs to no provider here: {_advice()}")
        if why := provider.lacks(env):
            lacking.append(why if len(names) == 1 else f"{name}: {why}")
        else:
            usable.append(ModelChoice(name, provider))
    if not usable:
        raise MissingModel(f"The default model {said!r} cannot be used: {'; '.join(lacking)}")
    note = f"left out of {said}: {'; '.join(lacking)}" if lacking else ""
    return (replace(usable[0], note=note), *usable[1:])


def _require_unbroken(provider: Provider, env: Mapping[str, str]) -> None:
    if broken := provider.what_is_broken(env):
        raise MissingModel(f"{provider.name.capitalize()} cannot be used: {broken}")


def _instead(wanted: str, default: ModelChoice, why: str) -> ModelChoice:
    return ModelChoice(default.name, default.provider, f"{default.name} answers in place of {wanted}: {why}")


def _listed(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _meant(name: str, *tables: _Aliases) -> tuple[str, ...]:
    """Return the models that ``name`` stands for: itself where it is no alias. What an alias names is none again."""
    bare = _without_path(name)
    return _listed(bare if (found := _alias(bare, *tables)) is None else found)


def _alias(name: str, *tables: _Aliases) -> str | Sequence[str] | None:
    """Return what ``name`` stands for. Exact names outrank patterns, and earlier tables later ones."""
    for aliases in tables:
        if name in aliases:
            return aliases[name]
        if (found := _first_match(name, aliases.items())) is not None:
            return found
    return None


def _first_match(name: str, aliases: Iterable[tuple[str, str | Sequence[str]]]) -> str | Sequence[str] | None:
    return next((model for pattern, model in aliases if fnmatchcase(name.lower(), pattern.lower())), None)


def _without_path(name: str) -> str:
    """Take off what Google's API puts before a name (``models/``, ``google/``)."""
    return name.strip().rpartition("/")[2] if name.strip().startswith(("models/", "google/")) else name.strip()


def _advice() -> str:
    names = ", ".join(STAND_IN if one is SCRIPTED else f"{start}*" for one in providers() for start in one.serves)
    return f"use {names}, or give the name an alias in the settings (model_aliases)"
