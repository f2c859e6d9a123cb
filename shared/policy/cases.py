"""Tables of calls with what is expected of them: a policy's tests."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ekiden.shared.definitions.tool_names import own_name
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.policy.builtin_risks import risk_of_tool
from ekiden.shared.policy.engine import Judgement
from ekiden.shared.policy.rule_files import first_problem
from ekiden.shared.policy.tool_use import SHELL, ToolUse
from ekiden.shared.risk import Risk
from ekiden.shared.yaml_places import LocatedYaml

__all__ = ["Case", "CaseResult", "read_cases", "tool_use"]

_CONTROLS = ("delegate_to_", "transfer_to_", "handoff_to")


class Case(BaseModel):
    """One call, and what the policy is to say of it."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    tool: str = Field(SHELL, min_length=1)
    args: dict[str, Any] = Field(default_factory=dict)
    command: str | None = None
    """The same as ``args: {command: …}``."""
    agent: str = ""
    user: str | None = None
    risk: Risk | None = None
    expect: Literal["allow", "ask", "deny"]
    rule: str = ""
    """Part of the name of the rule that is to win."""

    @model_validator(mode="after")
    def _has_one_command(self) -> "Case":
        if self.command is not None and (self.tool != SHELL or "command" in self.args):
            raise ValueError(f"'command' is one of {SHELL!r}, given once")
        return self

    def use(self, cwd: Path) -> ToolUse:
        """Return the call."""
        args = self.args if self.command is None else {**self.args, "command": self.command}
        return tool_use(self.tool, args, cwd=cwd, agent=self.agent, user=self.user, risk=self.risk)


@dataclass(frozen=True)
class CaseResult:
    """What became of a case."""

    place: int
    case: Case
    judgement: Judgement

    @property
    def is_right(self) -> bool:
        """Whether it is what was expected."""
        decision = self.judgement.decision
        return decision.verdict == self.case.expect and self.case.rule in decision.rule


def tool_use(
    tool: str,
    args: Mapping[str, Any],
    *,
    cwd: Path,
    agent: str = "",
    user: str | None = None,
    risk: Risk | None = None,
) -> ToolUse:
    """Return a call as a worker would see it. ``tool``: in any spelling; ``risk``: None takes the tool's usual one."""
    name = own_name(tool) or tool
    is_control = name.startswith(_CONTROLS)
    level = risk or risk_of_tool(name)
    return ToolUse(name, args, agent, user, tool_risk=level, cwd=cwd, is_control=is_control)


def read_cases(text: str, file: str) -> list[Case]:
    """Return the cases of a YAML or JSON file: a list of objects, or an object with the list as ``cases``.

    Raises:
        InvalidRequest: there are none, or one is wrong: names it with its line, and what was expected.
    """
    located = LocatedYaml(text, file)
    above = ["cases"] if isinstance(located.data, dict) else []
    data = located.data.get("cases") if above else located.data
    if not isinstance(data, list) or not data:
        expected = "expected a list of cases, each {tool, args, expect}, and at least one"
        raise InvalidRequest(f"{located.place(above)}: {expected}")
    cases = []
    for place, said in enumerate(data):
        try:
            cases.append(Case.model_validate(said))
        except ValidationError as error:
            at = located.place([*above, place])
            raise InvalidRequest(f"{at}: case {place + 1}: {first_problem(error)}") from None
    return cases
