"""Settings. Precedence: command line > environment (``EKIDEN_*``) > defaults.

The layers of ``.gemini/settings.json`` slot in between when ``ekiden config`` comes.
"""

from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

__all__ = ["Settings"]


class Settings(BaseSettings):
    """Everything that can be set, with its default. Durations end in ``_s`` (seconds)."""

    model_config = SettingsConfigDict(env_prefix="EKIDEN_", extra="ignore", frozen=True)

    redis_url: str | None = None
    """``redis://``, ``rediss://`` or ``unix://``; None: the embedded server of ``data_dir``."""
    data_dir: Path = Path(".ekiden")
    agents_dir: list[Path] = Field(default_factory=list)
    """Further folders of agent files (JSON list in the environment)."""
    scripts_dir: Path | None = None
    """Scripts for the scripted model; None: those that ship with the agents."""
    workspace_root: Path | None = None
    """File and shell tools act under it only; None: no such tools."""
    model: str = "scripted"
    """The model of agents that name none, or ``inherit``."""

    concurrency: int = Field(50, ge=1, le=100_000)
    tool_threads: int = Field(8, ge=1, le=1_000)
    lease_s: float = Field(5.0, gt=0)
    sweep_s: float = Field(1.0, gt=0)
    queued_grace_s: float = Field(2.0, ge=0)
    """How long a message may be under way before the sweeper looks for it."""
    max_attempts: int = Field(5, ge=1)
    """Claims of a leg without any progress before the job is declared dead."""
    handoff_cycles: str = Field("parent", pattern=r"^(deny|parent|limit:[1-9][0-9]*)$")
    routing_fallback: Literal["prompt_user", "none"] = "prompt_user"
