"""Settings of what jobs may use up."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ekiden.shared.bounds import NUMBER, between
from ekiden.shared.faults import as_written, fault_in
from ekiden.shared.job_limits import Budget, JobLimits, UserBudget
from ekiden.shared.settings.values import json_of
from ekiden.shared.storable import read_json

__all__ = ["KEYS", "LimitSettings", "ModelLimitValues"]

KEYS = {
    "job_limits": "limits.job",
    "model_limits": "limits.models",
    "user_limits": "limits.users",
    "session_limits": "limits.sessions",
}
"""The dotted key of each field."""


def _read(value: Any, kind: type[BaseModel] = JobLimits) -> dict[str, Any]:
    try:
        said = read_json(value) if isinstance(value, str) else value
    except ValueError as error:
        raise ValueError(f'{error}; give a JSON object such as {{"max_tokens": 200000}}') from None
    if not isinstance(said, Mapping):
        raise ValueError(f'must be an object such as {{"max_tokens": 200000}}, not {as_written(said)}')
    if unknown := sorted(map(str, said.keys() - kind.model_fields.keys())):
        raise ValueError(f"there is no limit {unknown[0]!r:.80}: there are {', '.join(kind.model_fields)}")
    try:
        return kind.model_validate(dict(said)).model_dump(exclude_defaults=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ValueError(f"{first['loc'][0]}: {fault_in(first)}") from None


def _read_budget(value: Any) -> dict[str, Any]:
    return _read(value, Budget)


def _read_users(value: Any) -> dict[str, Any]:
    said = _read(value, UserBudget)
    if said.keys() == {"per"}:
        raise ValueError("per: it bounds nothing by itself: give max_tokens, max_cost_usd or both, too")
    return said


class ModelLimitValues(BaseModel):
    """What all workers may use of a model together; None: any amount."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rpm: Annotated[int, between(1, 10_000_000), NUMBER] | None = None
    """Calls in any minute."""
    tpm: Annotated[int, between(1, 10_000_000_000), NUMBER] | None = None
    """Tokens in any minute, of input and output."""
    concurrent: Annotated[int, between(1, 1_000_000), NUMBER] | None = None
    """Calls at the same time."""


_EXAMPLE = 'an object such as {"gemini-2.5-flash": {"rpm": 1000, "tpm": 1000000, "concurrent": 50}}'


def _read_models(value: Any) -> dict[str, ModelLimitValues]:
    said = json_of(value, _EXAMPLE) if isinstance(value, str) else value
    if not isinstance(said, Mapping):
        raise ValueError(f"must be {_EXAMPLE}, not {as_written(said)}")
    return {str(model): _limit_of(str(model), limits) for model, limits in said.items()}


def _limit_of(model: str, said: Any) -> ModelLimitValues:
    names = ", ".join(ModelLimitValues.model_fields)
    if isinstance(said, ModelLimitValues):
        return said
    if not model.strip() or not isinstance(said, Mapping) or not said:
        raise ValueError(f"{model!r:.80}: give limits of a model, of {names}: {_EXAMPLE}")
    if unknown := sorted(map(str, said.keys() - ModelLimitValues.model_fields.keys())):
        raise ValueError(f"{model}: there is no limit {unknown[0]!r:.80}: there are {names}")
    try:
        return ModelLimitValues.model_validate(dict(said))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ValueError(f"{model}.{first['loc'][0]}: {fault_in(first)}") from None


class LimitSettings(BaseModel):
    """The part of the settings that is about limits."""

    job_limits: Annotated[dict[str, Any], BeforeValidator(_read)] = Field(default_factory=dict)
    """What any job may use up with all that it delegates, by limit; the lower one counts where an agent's file says
    so, too."""
    model_limits: Annotated[dict[str, ModelLimitValues], BeforeValidator(_read_models)] = Field(default_factory=dict)
    """What all workers with one key may use of a model together, by the model's name, or ``PROVIDER/MODEL``."""
    user_limits: Annotated[dict[str, Any], BeforeValidator(_read_users)] = Field(default_factory=dict)
    """What each user may use up ``per`` hour, day, week or month (UTC), by limit."""
    session_limits: Annotated[dict[str, Any], BeforeValidator(_read_budget)] = Field(default_factory=dict)
    """What each session may use up, by limit."""
