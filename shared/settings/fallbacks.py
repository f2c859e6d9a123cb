"""Settings of what happens where a model gives no answer: fallbacks and circuits; see docs/models.md."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from ekiden.shared.fallback_causes import FallbackCause

__all__ = ["FallbackSettings", "ModelNames"]


def _listed(value: object) -> object:
    return [one.strip() for one in value.split(",")] if isinstance(value, str) else value


def _checked(names: str | list[str]) -> str | list[str]:
    """Raise ``ValueError`` where a list of models names none, or one twice."""
    if isinstance(names, list):
        if not names:
            raise ValueError('the list names no model: give one such as ["gemini-2.5-pro", "local/qwen3"]')
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"the list names {twice!r} twice: no model is asked a second time")
    return names


def _some(causes: Sequence[FallbackCause]) -> Sequence[FallbackCause]:
    if not causes:
        raise ValueError("it is empty, so that no fallback would ever be asked: name a cause")
    return causes


ModelNames = Annotated[str | list[str], AfterValidator(_checked)]
"""A model, or several, of which each is asked where the one before gives no answer."""


class FallbackSettings(BaseModel):
    """The part of the settings that is about models that give no answer."""

    model_config = ConfigDict(defer_build=True)  # all settings are checked as one, and by few programs

    model_fallback_on: Annotated[list[FallbackCause], BeforeValidator(_listed), AfterValidator(_some)] = Field(
        default_factory=lambda: list[FallbackCause](("unavailable", "quota"))
    )
    """Why the next model of a list is asked, where the agent's file does not say it; in the environment with commas."""
    model_circuit_failures: int = Field(5, ge=0, le=1_000)
    """After how many failures in a row no worker asks a model for a while; 0: all always do."""
    model_circuit_s: float = Field(15.0, gt=0, le=900)
    """How long that is, where the provider does not say when to come back."""
