"""Our own rules: the setting ``policy.rules``, a list of objects."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ekiden.shared.errors import DefinitionError
from ekiden.shared.policy.command_patterns import CommandPattern, prefix_command, wildcard_command
from ekiden.shared.policy.conditions import PATH_ARGUMENTS, ArgumentIs, By, Condition, PathIs, RiskIs
from ekiden.shared.policy.conditions import Annotated as AnnotatedTool
from ekiden.shared.policy.decision import Verdict
from ekiden.shared.policy.path_patterns import path_pattern
from ekiden.shared.policy.rule_files import Loaded, PlaceOf, first_problem, in_place_of
from ekiden.shared.policy.rules import Rule
from ekiden.shared.policy.tool_patterns import tool_patterns
from ekiden.shared.policy.tool_use import SHELL
from ekiden.shared.risk import Risk

__all__ = ["read_setting_rules"]

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}
_LONGEST_S = 30 * 86_400


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _as_seconds(value: Any) -> Any:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd]?)", value.strip()) if isinstance(value, str) else None
    return float(found[1]) * _UNITS[found[2]] if found else value


_Text = Annotated[str, Field(min_length=1)]
_Texts = Annotated[tuple[_Text, ...], BeforeValidator(_as_list), Field(min_length=1)]
_Risks = Annotated[tuple[Risk, ...], BeforeValidator(_as_list), Field(min_length=1)]
_Annotation = Literal["read_only", "idempotent", "destructive", "open_world"]


class _SettingRule(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    decision: Literal["allow", "ask", "ask_user", "deny"]
    tool: _Texts = ("*",)
    agent: _Texts | None = None
    user: _Texts | None = None
    args: dict[str, Any] = Field(default_factory=dict)
    command: _Texts | None = None
    risk: _Risks | None = None
    annotations: dict[_Annotation, bool] = Field(default_factory=dict)
    priority: int = Field(0, ge=0, le=999)
    reason: str = ""
    approvers: Annotated[tuple[_Text, ...], BeforeValidator(_as_list)] = ()
    separate: bool = False
    timeout: Annotated[float, BeforeValidator(_as_seconds), Field(gt=0, le=_LONGEST_S)] | None = None
    allow_redirection: bool = False


def read_setting_rules(value: Any, source: str, base: Path | None, place_of: PlaceOf) -> Loaded:
    """Read the list of rules. What cannot be read is a problem, and is asked about; it never raises.

    Args:
        value: What stands under ``policy.rules``.
        source: The file or setting, as people know it.
        base: The folder that paths are relative to; None: the job's.
        place_of: Where what is below that stands.
    """
    if not isinstance(value, list):
        problem = f"'policy.rules' must be a list of rules, not {type(value).__name__}"
        return Loaded((in_place_of(source, source, problem),), (f"{place_of([])}: {problem}",))
    rules: list[Rule] = []
    problems: list[str] = []
    for place, said in enumerate(value, 1):
        name = f"rule {place} of {source}"
        try:
            if not isinstance(said, dict):
                raise DefinitionError(f"a rule is an object with a decision, not {type(said).__name__}")
            rules.append(_rule(_SettingRule.model_validate(said), source, name, base))
        except (ValidationError, DefinitionError) as error:
            problem = first_problem(error) if isinstance(error, ValidationError) else str(error)
            problems.append(f"{place_of([place - 1])}: rule {place} of policy.rules: {problem}")
            if not (isinstance(said, dict) and said.get("decision") == "allow"):
                rules.append(in_place_of(source, name, problem))
    return Loaded(tuple(rules), tuple(problems))


def _rule(said: _SettingRule, source: str, name: str, base: Path | None) -> Rule:
    verdict: Verdict = "ask" if said.decision == "ask_user" else said.decision
    restricts = verdict != "allow"
    if verdict != "ask" and (said.approvers or said.separate or said.timeout):
        raise DefinitionError("approvers, separate and timeout are for questions: write decision: ask")
    if "command" in said.args and not restricts:
        raise DefinitionError("a command is allowed by its words, not by its text: write command: … instead of args")
    tools = tuple(tool for one in said.tool for tool in tool_patterns(one, restricts=restricts))
    of_others = [one for one in said.tool if one != "*" and SHELL not in tool_patterns(one, restricts=False)]
    if said.command is not None and of_others:
        raise DefinitionError(f"a command is one of the tool {SHELL!r}: write tool: {SHELL}")
    return Rule(
        verdict,
        source,
        name,
        (SHELL,) if said.command is not None else tools,
        commands=tuple(_command(text, restricts) for text in said.command or ()),
        conditions=tuple(_conditions(said, base)),
        priority=said.priority,
        reason=said.reason,
        approvers=said.approvers,
        separate=said.separate,
        timeout_s=said.timeout,
        allows_redirection=said.allow_redirection,
    )


def _command(text: str, restricts: bool) -> CommandPattern:
    return wildcard_command(text) if "*" in text else prefix_command(text, restricts=restricts)


def _conditions(said: _SettingRule, base: Path | None) -> list[Condition]:
    found: list[Condition] = []
    for field, names in (("agent", said.agent), ("user", said.user)):
        if names is not None:
            found.append(By(field, names))
    if said.risk is not None:
        found.append(RiskIs(said.risk))
    if said.annotations:
        found.append(AnnotatedTool(tuple(said.annotations.items())))
    return found + [_argument(name, value, base) for name, value in said.args.items()]


def _argument(name: str, value: Any, base: Path | None) -> Condition:
    values = tuple(value) if isinstance(value, list) else (value,)
    texts = [one for one in values if isinstance(one, str)]
    if name in PATH_ARGUMENTS and len(texts) == len(values):
        return PathIs(tuple(path_pattern(text, base) for text in texts))
    return ArgumentIs(name, values)
