"""gemini-cli's rules: ``[[rule]]`` tables in TOML files, as they are."""

import re
import tomllib
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ekiden.shared.errors import DefinitionError
from ekiden.shared.patterns import compile_pattern
from ekiden.shared.policy.command_patterns import CommandPattern, prefix_command, regex_command
from ekiden.shared.policy.conditions import Annotated as AnnotatedTool
from ekiden.shared.policy.conditions import By, Condition, JsonFits
from ekiden.shared.policy.decision import Verdict
from ekiden.shared.policy.rule_files import Loaded, first_problem, in_place_of
from ekiden.shared.policy.rules import Rule
from ekiden.shared.policy.tool_patterns import server_patterns, tool_patterns
from ekiden.shared.policy.tool_use import SHELL

__all__ = ["read_toml_rules"]

_MODE = "default"
"""gemini-cli's approval mode in which jobs run: somebody is asked where a rule says so."""
_HEAD = re.compile(r"^[ \t]*\[\[[ \t]*(rule|safety_checker)[ \t]*\]\]", re.MULTILINE)
_HINTS = {
    "readOnlyHint": "read_only",
    "destructiveHint": "destructive",
    "idempotentHint": "idempotent",
    "openWorldHint": "open_world",
}
_VERDICTS: dict[str, Verdict] = {"allow": "allow", "ask_user": "ask", "deny": "deny"}


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


_Names = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], BeforeValidator(_as_list)]


class _TomlRule(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=False, hide_input_in_errors=True)

    tool_name: _Names | None = Field(None, alias="toolName")
    subagent: str | None = None
    mcp_name: str | None = Field(None, alias="mcpName", min_length=1)
    args_pattern: str | None = Field(None, alias="argsPattern")
    command_prefix: _Names | None = Field(None, alias="commandPrefix")
    command_regex: str | None = Field(None, alias="commandRegex")
    decision: Literal["allow", "deny", "ask_user"]
    priority: int = Field(0, ge=0, le=999)
    modes: tuple[Literal["default", "autoEdit", "yolo", "plan"], ...] = ()
    interactive: bool | None = None
    tool_annotations: dict[str, bool] = Field(default_factory=dict, alias="toolAnnotations")
    allow_redirection: bool = Field(False, alias="allowRedirection")
    allow_redirection_: bool = Field(False, alias="allow_redirection")
    deny_message: str = Field("", alias="denyMessage")
    deny_message_: str = Field("", alias="deny_message")


def read_toml_rules(text: str, file: str) -> Loaded:
    """Read the rules of a file. What cannot be read is a problem, and is asked about; it never raises.

    Args:
        text: What the file holds.
        file: Its name, as people know it.
    """
    try:
        tables = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        line = found[1] if (found := re.search(r"line (\d+)", str(error))) else "1"
        return _refused(file, f"{file}:{line}", f"no valid TOML: {error}")
    if strange := sorted(tables.keys() - {"rule", "safety_checker"}):
        return _refused(file, f"{file}:1", f"{strange[0]!r} is not understood: rules stand in tables [[rule]]")
    lines = {kind: _lines(text, kind) for kind in ("rule", "safety_checker")}
    entries = [(kind, place, table) for kind in lines for place, table in enumerate(_tables(tables.get(kind)))]
    read = [_read(file, kind, place, table, lines[kind]) for kind, place, table in entries]
    rules = tuple(rule for rule, _, _ in read if rule is not None)
    return Loaded(rules, tuple(p for _, p, _ in read if p), tuple(note for _, _, note in read if note))


def _refused(file: str, place: str, problem: str) -> Loaded:
    return Loaded(
        (in_place_of(file, place, problem),), (f"{place}: {problem}. Until it is mended, every tool is asked about",)
    )


def _tables(found: Any) -> list[Any]:
    return found if isinstance(found, list) else [found] if found is not None else []


def _lines(text: str, kind: str) -> list[int]:
    return [text.count("\n", 0, head.start()) + 1 for head in _HEAD.finditer(text) if head[1] == kind]


def _read(file: str, kind: str, place: int, table: Any, lines: list[int]) -> tuple[Rule | None, str, str]:
    """Return a rule, what is wrong with it, and what else was not taken as it is written."""
    what = f"rule {place + 1}" if kind == "rule" else f"safety checker {place + 1}"
    name, at = f"{what} of {file}", f"{file}:{lines[place] if place < len(lines) else 1}: {what}"
    try:
        if kind != "rule":
            raise DefinitionError("safety checkers are programs of gemini-cli, which do not run here: remove it")
        return _rule(_TomlRule.model_validate(table), file, name, at)
    except (ValidationError, DefinitionError) as error:
        problem = first_problem(error) if isinstance(error, ValidationError) else str(error)
    if isinstance(table, Mapping) and table.get("decision") == "allow":
        return None, f"{at}: {problem}. Until it is mended, nothing that the file allows counts", ""
    tools = _tools_of(table)
    asked = "every tool is" if "*" in tools else f"{', '.join(tools)} are"
    return in_place_of(file, name, problem, tools), f"{at}: {problem}. Until it is mended, {asked} asked about", ""


def _tools_of(table: Any) -> tuple[str, ...]:
    """Return the tools that a rule which cannot be read is about, as far as that is plain."""
    names = _as_list(table.get("toolName")) if isinstance(table, Mapping) and "mcpName" not in table else None
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and name for name in names):
        return ("*",)
    return tuple(tool for name in names for tool in tool_patterns(name, restricts=True))


def _rule(said: _TomlRule, file: str, name: str, at: str) -> tuple[Rule | None, str, str]:
    verdict = _VERDICTS[said.decision]
    restricts = verdict != "allow"
    if said.args_pattern is not None and not restricts:
        note = (
            f"{at}: it allows by 'argsPattern', and a text in another argument could fit as well: it allows nothing "
            "here. Name the command ('commandPrefix'), or the argument in the setting policy.rules"
        )
        return None, "", note
    if (said.modes and _MODE not in said.modes) or said.interactive is False:
        return None, "", ""  # jobs run in the default mode, and somebody can always be asked
    rule = Rule(
        verdict,
        file,
        name,
        _tools(said, restricts),
        commands=_commands(said, restricts),
        conditions=tuple(_conditions(said)),
        priority=said.priority,
        reason=said.deny_message or said.deny_message_,
        allows_redirection=said.allow_redirection or said.allow_redirection_,
    )
    return rule, "", ""


def _tools(said: _TomlRule, restricts: bool) -> tuple[str, ...]:
    if said.mcp_name is not None:
        return server_patterns(said.mcp_name, said.tool_name or ())
    names = said.tool_name or ((SHELL,) if said.command_prefix or said.command_regex is not None else ("*",))
    return tuple(tool for name in names for tool in tool_patterns(name, restricts=restricts))


def _commands(said: _TomlRule, restricts: bool) -> tuple[CommandPattern, ...]:
    if said.command_prefix is None and said.command_regex is None:
        return ()
    if any(SHELL not in tool_patterns(name, restricts=False) for name in said.tool_name or ()):
        raise DefinitionError('commands are those of one tool: write toolName = "run_shell_command"')
    if said.args_pattern is not None or None not in (said.command_prefix, said.command_regex):
        raise DefinitionError("of 'commandPrefix', 'commandRegex' and 'argsPattern' a rule has one")
    if said.command_regex is not None:
        return (regex_command(said.command_regex, restricts=restricts),)
    return tuple(prefix_command(one, restricts=restricts) for one in said.command_prefix or ())


def _conditions(said: _TomlRule) -> list[Condition]:
    found: list[Condition] = []
    if said.subagent is not None:
        found.append(By("agent", (said.subagent,)))
    if said.args_pattern is not None:
        found.append(JsonFits(compile_pattern(said.args_pattern)))
    if said.tool_annotations:
        if strange := sorted(said.tool_annotations.keys() - _HINTS.keys()):
            raise DefinitionError(f"the annotation {strange[0]!r} is not known; known are {', '.join(_HINTS)}")
        found.append(AnnotatedTool(tuple((_HINTS[name], value) for name, value in said.tool_annotations.items())))
    return found
