"""Settings of how the first agent of a request is found."""

from typing import Literal

from pydantic import BaseModel, Field

from ekiden.shared.settings.values import LearnSetting

__all__ = ["RoutingSettings", "SessionPolicy"]

SessionPolicy = Literal["route", "sticky", "entry"]
"""Who gets a session's next message: whom it is routed to, who spoke last, who got the first."""


class RoutingSettings(BaseModel):
    """The part of the settings that is about routing."""

    routing_enabled: bool = True
    """Off: only requests that name their agent are accepted, and no strategy is asked."""
    routing_strategy: str = Field("hybrid", pattern=r"^[a-z][a-z0-9_-]{0,63}$")
    """The name of a router that the dispatcher has."""
    routing_rule_threshold: float = Field(80.0, ge=0, le=100)
    """How sure (of 100) a rule must be to decide before the meaning of a request is looked at."""
    routing_semantic_threshold: float | None = Field(None, ge=0, le=100)
    """How much (of 100) a request must look like the agents' work; None: 50, where each catalog is calibrated."""
    routing_semantic_top_k: int = Field(20, ge=1, le=100)
    """Of more agents than these, a model chooses among the nearest."""
    routing_llm_enabled: bool = True
    """Off: no model is asked, and there is no strategy ``llm``."""
    routing_llm_model: str | None = None
    """The model that routes what neither rules nor meaning decide; None: a fast one, where one is usable."""
    routing_llm_timeout: int = Field(5_000, ge=1)
    """Milliseconds."""
    routing_fallback: Literal["prompt_user", "default_agent", "none"] = "prompt_user"
    routing_default_agent: str | None = None
    """Who takes what nobody matches, with the fallback ``default_agent``."""
    routing_learn: LearnSetting = "suggest"
    """Whether what is learned from requests counts at once, once somebody has accepted it, or not at all."""
    routing_session_policy: SessionPolicy = "route"
    """Of new sessions that say nothing else."""
