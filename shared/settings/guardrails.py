"""Settings of guardrails; see docs/guardrails.md."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from ekiden.shared.faults import as_written
from ekiden.shared.settings.values import json_of

__all__ = ["KEYS", "GuardrailSettings", "with_users_own"]

KEYS = {
    "guardrails_model": "guardrails.model",
    "guardrails_threshold": "guardrails.threshold",
    "guardrails_request": "guardrails.request",
}
"""The dotted key of each field."""
_REQUEST = "guardrails_request"
_EXAMPLE = 'a list such as [{"name": "no_pii", "validator": "custom", "policy": "reject"}]'


def _read(value: Any) -> list[Any]:
    said = json_of(value, _EXAMPLE) if isinstance(value, str) else value
    if not isinstance(said, list):
        raise ValueError(f"must be {_EXAMPLE}, not {as_written(said)}")
    return said


def with_users_own(theirs: dict[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a project sets, with the user's own guardrails of the request in front of its: it takes none away."""
    if not isinstance(theirs.get(_REQUEST), list) or not isinstance(own.get(_REQUEST), list):
        return {name: value for name, value in theirs.items() if name != _REQUEST} if _REQUEST in own else theirs
    return {**theirs, _REQUEST: [*own[_REQUEST], *theirs[_REQUEST]]}


class GuardrailSettings(BaseModel):
    """The part of the settings that is about what goes into agents and comes out."""

    model_config = ConfigDict(defer_build=True)  # all settings are checked as one, and by few programs

    guardrails_model: str | None = None
    """Who judges by the sentence of a guardrail; None: the agent's own model."""
    guardrails_threshold: float = Field(0.7, gt=0, le=1)
    """How sure it must be that the sentence is not true, so that the value does not pass."""
    guardrails_request: Annotated[list[Any], BeforeValidator(_read)] = Field(default_factory=list)
    """Guardrails of each request, as agents' files list them, which judge it before anybody is looked for."""
