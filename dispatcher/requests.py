"""What a client asks for, checked before anything is stored: by the client, and by whoever gets it from one."""

import json
import operator
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from ekiden.shared.approvals import WhenAsked
from ekiden.shared.errors import InvalidRequest, UnknownAgent
from ekiden.shared.faults import fault_in
from ekiden.shared.risk import RISKS, Risk
from ekiden.shared.settings.routing import SessionPolicy
from ekiden.shared.settings.values import LONGEST_DEADLINE_S
from ekiden.shared.storable import storable
from ekiden.shared.stores.base import OnBusy
from ekiden.shared.suggestions import nearest
from ekiden.shared.variables import problem_of

__all__ = [
    "SubmitRequest",
    "checked_folder",
    "checked_inputs",
    "checked_request",
    "checked_risks",
    "checked_state",
    "require_agent",
    "require_list",
    "require_mapping",
    "why_invalid",
]

MAX_NAME = 500
"""Characters of a name or an id."""
MAX_PATH = 4_096

_Name = Annotated[str, Field(max_length=MAX_NAME)]


class SubmitRequest(BaseModel):
    """A request as ``Client.submit`` describes it. A field that nobody knows is an error: nothing is ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)

    prompt: str
    request_id: Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
    agent: _Name | None = None
    strategy: _Name | None = None
    cwd: Annotated[str, Field(max_length=MAX_PATH)] | None = None
    session: _Name | None = None
    user: _Name = ""
    policy: SessionPolicy = "route"
    on_busy: OnBusy = "queue"
    deadline_s: Annotated[float, Field(gt=0, le=LONGEST_DEADLINE_S, allow_inf_nan=False)]
    traceparent: _Name = ""
    state: dict[str, Any] = Field(default_factory=dict)
    inputs: dict[str, Any] | None = None
    approve: Annotated[tuple[Risk, ...], Field(max_length=len(RISKS))] = ()
    when_asked: WhenAsked = "park"
    asks: Annotated[bool, Field(exclude_if=operator.not_)] = False
    by: _Name = ""
    is_claimed: bool = True
    """Whether who asks is the client's word only."""

    @field_validator("prompt")
    @classmethod
    def _is_said(cls, prompt: str) -> str:
        if not prompt.strip():
            raise ValueError("the prompt is empty: say what is to be done")
        return prompt

    @field_validator("agent")
    @classmethod
    def _can_be_a_name(cls, agent: str | None) -> str | None:
        if agent is not None and not agent.isprintable():
            raise ValueError(
                "the agent's name holds a line break or another control character: no agent has such a name"
            )
        return agent

    @field_validator("state")
    @classmethod
    def _can_be_kept(cls, state: dict[str, Any]) -> dict[str, Any]:
        for name, value in state.items():
            if (problem := problem_of(name, value)) is not None:
                raise ValueError(problem)
        return state


def checked_request(**fields: Any) -> SubmitRequest:
    """Return a request of these fields. Raises ``InvalidRequest``."""
    try:
        return SubmitRequest(**fields)
    except ValidationError as error:
        raise InvalidRequest(why_invalid(error)) from error


def why_invalid(error: ValidationError) -> str:
    """Say which field is at fault, and why: nothing of what it holds."""
    first = error.errors(include_url=False, include_input=False)[0]
    if first["type"] == "value_error":  # ours
        return fault_in(first)
    return f"the request cannot be read: {'.'.join(map(str, first['loc']))} {fault_in(first)}"


def checked_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return session variables as they can be stored. Raises ``InvalidRequest``."""
    require_mapping("state", state, "{NAME: VALUE}")
    for name, value in state.items():
        if (problem := problem_of(name, value)) is not None:
            raise InvalidRequest(problem)
    return dict(json.loads(storable(json.dumps(state, ensure_ascii=False))))


def require_mapping(what: str, given: object, remedy: str) -> None:
    """Raise ``InvalidRequest`` unless ``given``, which a caller calls ``what``, is a mapping of names."""
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise InvalidRequest(f"{what}={given!r} is no mapping of names: give {remedy}")


def require_list(what: str, given: object, remedy: str) -> None:
    """Raise ``InvalidRequest`` unless ``given`` is a list of texts; one text would be taken letter by letter."""
    names = given if isinstance(given, Collection) and not isinstance(given, str) else [None]
    if not all(isinstance(one, str) for one in names):
        raise InvalidRequest(f"{what}={given!r} is no list of names: give {remedy}")


def checked_risks(approve: Collection[Risk]) -> tuple[Risk, ...]:
    """Return risks of which all calls are approved. Raises ``InvalidRequest``."""
    require_list("approve", approve, "['low']")
    if wrong := [one for one in approve if one not in RISKS]:
        raise InvalidRequest(f"approve={wrong!r}: a risk is {', '.join(RISKS)}")
    return tuple(approve)


def checked_inputs(inputs: Mapping[str, Any], agent: str | None) -> dict[str, Any]:
    """Return what an agent is called with, as it can be stored. Raises ``InvalidRequest``."""
    require_mapping("inputs", inputs, "{NAME: VALUE}")
    if agent is None:
        raise InvalidRequest("inputs are an agent's own: name the agent, too")
    try:
        return dict(json.loads(storable(json.dumps(dict(inputs), ensure_ascii=False, allow_nan=False))))
    except (TypeError, ValueError) as error:
        raise InvalidRequest(f"the inputs cannot be kept: {error}") from None


def checked_folder(cwd: str | Path | None) -> str | None:
    """Return the folder that a job is to work in, as it can be stored. Raises ``InvalidRequest``."""
    folder = str(cwd) if cwd else None
    if folder != storable(folder):
        raise InvalidRequest(f"the name of the folder {folder!r} is no UTF-8: rename it, or go through a link to it")
    return folder


def require_agent(agent: str, names: Iterable[str]) -> None:
    """Raise ``UnknownAgent`` unless ``agent`` is one of ``names``."""
    names = sorted(names)
    if agent in names:
        return
    near = nearest(agent, names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"
    raise UnknownAgent(f"no agent is named {agent!r}: {hint}")
