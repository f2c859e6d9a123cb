"""What is known of a provider of models, and what the settings say of models."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ekiden.shared.fallback_causes import FallbackCause
from ekiden.shared.foreign_code import is_interruption, said_by
from ekiden.shared.llm.base import ChatModel
from ekiden.shared.llm.context_windows import DEFAULT_WINDOW
from ekiden.shared.llm.wire_model import DEFAULT_TIMEOUT_S
from ekiden.shared.redaction import redact
from ekiden.shared.settings.model import Settings

__all__ = ["ModelValues", "Provider"]


@dataclass(frozen=True)
class ModelValues:
    """What of the settings concerns models."""

    model: str | None = None
    """The default model; None: Gemini where it is usable, else the stand-in."""
    aliases: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    """Outrank ``DEFAULT_ALIASES``; the value ``default`` means the default model, a list the first that answers."""
    fallback_on: tuple[FallbackCause, ...] = ("unavailable", "quota")
    """Why the next model of a list is asked."""
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
            fallback_on=tuple(settings.model_fallback_on),
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
    long_prompts: Mapping[str, tuple[int, float, float]] = field(default_factory=dict)
    """The same beginning -> above how many tokens of input another price holds for all of a call, and that."""
    variant: str = ".*"
    """What may stand behind such a beginning for its price to hold, a regular expression."""
    telemetry_name: str = ""
    """What OpenTelemetry's conventions call it (``gen_ai.provider.name``); empty: its ``name``."""
    operation: str = "chat"
    """What they call a call of it (``gen_ai.operation.name``)."""
    prepare: Callable[[], object] = lambda: None
    """Imports what a call takes; it may take seconds, which are no model's."""
    account: Callable[[Mapping[str, str]], str] = lambda env: ""
    """Of the environment: whose key or project it is used with. A secret may be part of it: only digests of it leave.
    """
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

    @property
    def fast(self) -> str:
        """Its default model, which is a fast one; empty: it lists none."""
        return next(iter(self.known), "")

    def window_of(self, model: str) -> int:
        """Return how many tokens the model reads at once."""
        starts = [start for start in self.windows if model.startswith(start)]
        return self.windows[max(starts, key=len)] if starts else DEFAULT_WINDOW
