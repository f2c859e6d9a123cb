"""The format of scripts: YAML files that say what the scripted model answers, and when.

    let:                                  # optional: computed when used, by every rule of the file
      run: test_run(results.tests)
    tables: {…}                           # optional: data, read as ``tables.<name>``
    blocks: {look: [RULE, …]}             # optional: rules for several agents, taken in with ``- use: look``
    agents:
      code-fixer:                         # "*" answers for every agent, after the agent's own rules
        - name: fix                       # unique in the agent; letters, digits, dashes
          when:                           # all of it must hold; optional, like everything below
            turn: 1                       # or {min: 2, max: 5}; the turn of the leg, from 1
            user: REGEX                   # found in the request or brief; named groups become values
            results: {tests: REGEX}       # found in the newest result with that label; named groups likewise
            tool_offered: NAME            # or a list: all of them
            tool_missing: NAME
            if: not run.passed            # an expression, after ``let``
          times: 1                        # how often in a leg [1]
          let: {limit: time_limit(run)}   # expressions; computed when used
          say: "It fails in ${run.path}."
          call: [{tool: bash, label: tests, args: {command: "…"}}]
          fresh: true                     # a new beginning: rules see only the calls from here on, and count anew
          think: "**Looking** …"          # thoughts, before what it says
          delay_s: 1.0                    # the model takes this long
          pace_s: 0.05                    # from word to word of what it thinks and says
          finish: stop                    # or unfinished: it could not be done, and what is said tells why;
                                          # or max_tokens, refused, malformed_call, empty
          usage: {input_tokens: 10}       # [estimated: a token is four characters]
          fail: TEXT                      # raises ModelError instead

The first rule that fits answers. A call may have ``each: EXPRESSION``: it is then made once for every item, ``${it}``.
Variables: ``agent, user, turn, used`` (how often this rule has answered), ``results`` (newest by label), ``calls``
(since the latest fresh start), ``history`` (of the whole leg), ``tables``. Regexes are RE2's, match across lines (``.``
takes line ends, ``^`` and ``$`` are those of a line) and may hold ``${…}``, taken literally.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ekiden.shared.errors import DefinitionError
from ekiden.shared.faults import fault_in
from ekiden.shared.llm.base import FinishReason
from ekiden.shared.llm.scripting.expressions import expressions_in, render
from ekiden.shared.llm.scripting.functions import FUNCTIONS
from ekiden.shared.llm.scripting.regexes import compiled, searched
from ekiden.shared.messages import Usage
from ekiden.shared.patterns import escaped
from ekiden.shared.yaml_places import line_at

try:
    from yaml import CSafeLoader as _Loader
except ImportError:  # PyYAML without libyaml
    from yaml import SafeLoader as _Loader  # type: ignore[assignment]  # the same interface, other bases

__all__ = ["VARIABLES", "Call", "Range", "Rule", "Script", "ScriptError", "When", "found_in", "parse_script"]

_MOST_ALIASES = 20
VARIABLES = frozenset({"agent", "user", "turn", "used", "results", "calls", "history", "tables"})


class ScriptError(DefinitionError):
    """A script that could not work: where, and why."""

    def __init__(self, file: str, line: int | None, message: str) -> None:
        """Keep the parts of the text; ``line``: from 1, None where it has none."""
        super().__init__(f"{file}:{line}: {message}" if line else f"{file}: {message}")
        self.file = file
        self.line = line
        self.message = message


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Range(_Strict):
    """The turns in which a rule may answer, both ends included."""

    min: int = 1
    max: int = 1_000_000


class When(_Strict):
    """What must hold for a rule to answer."""

    turn: int | Range = Range()
    user: str | None = None
    results: dict[str, str] = Field(default_factory=dict)
    tool_offered: str | list[str] = Field(default_factory=list)
    tool_missing: str | list[str] = Field(default_factory=list)
    condition: str | bool | None = Field(default=None, alias="if")


class Call(_Strict):
    """A tool call to make."""

    tool: str
    label: str = Field(default="", pattern=r"^[\w-]*$")
    args: dict[str, Any] = Field(default_factory=dict)
    each: str | None = None


class Rule(_Strict):
    """One answer, and when it is given."""

    name: str = Field(pattern=r"^[\w-]+$")
    when: When = When()
    times: int = 1
    let: dict[str, Any] = Field(default_factory=dict)
    say: str = ""
    call: list[Call] = Field(default_factory=list)
    fresh: bool = False
    think: str = ""
    delay_s: float = Field(default=0, ge=0)
    pace_s: float = Field(default=0, ge=0)
    finish: FinishReason = "stop"
    usage: Usage | None = None
    fail: str | None = None


class _File(_Strict):
    let: dict[str, Any] = Field(default_factory=dict)
    tables: dict[str, Any] = Field(default_factory=dict)
    blocks: dict[str, list[dict[str, Any]]] = Field(default_factory=dict)
    agents: dict[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class Script:
    """The rules of one agent, with what its file computes for all of them."""

    rules: tuple[Rule, ...]
    let: Mapping[str, Any]
    tables: Mapping[str, Any]

    @property
    def fresh_rules(self) -> frozenset[str]:
        """The names of the rules that begin anew."""
        return frozenset(rule.name for rule in self.rules if rule.fresh)


@dataclass(frozen=True)
class _Place:
    """What of a file is looked at."""

    text: str
    source: str
    agent: str = ""
    rule: str | None = ""

    def error(self, said: str, inside: Sequence[str | int] = ()) -> ScriptError:
        """Return an error in this place, or in what is ``inside`` it."""
        agent = f"agent {self.agent!r}" if self.agent else ""
        rule = f"rule {self.rule!r}" if self.rule != "" else ""
        who = ", ".join(filter(None, (agent, rule)))
        return ScriptError(self.source, self._line(inside), f"{who}: {said}" if who else said)

    def _line(self, inside: Sequence[str | int]) -> int:
        """Return the line, from 1, of the rule of an agent, which may be one of a block; else what is nearest."""
        root = _Loader(self.text).get_single_node()
        if not self.agent:
            return 1 + (line_at(root, tuple(inside)) or 0)
        for entry in _entries(root, self.agent) if self.rule else ():
            if any(key.value == "name" and value.value == self.rule for key, value in entry.value):
                line = line_at(entry, tuple(inside))
                return 1 + int(entry.start_mark.line if line is None else line)
        return 1 + (line_at(root, ("agents", self.agent)) or 0)


def _entries(root: yaml.Node | None, agent: str) -> list[yaml.MappingNode]:
    """Return the rules of a file, those of ``agent`` first."""
    parts = {key.value: value for key, value in root.value} if isinstance(root, yaml.MappingNode) else {}
    lists = [pair for part in ("agents", "blocks") if part in parts for pair in parts[part].value]
    lists.sort(key=lambda pair: pair[0].value != agent)
    return [entry for _, entries in lists for entry in entries.value if isinstance(entry, yaml.MappingNode)]


def parse_script(text: str, source: str) -> dict[str, Script]:
    """Read and check one file; ``source`` names it in errors. Returns the scripts by agent.

    Raises:
        ScriptError: for anything that could not work, with file, line and rule.
    """
    whole = _Place(text, source)
    try:
        _refuse_alias_bombs(text, source)
        file = _File.model_validate(_Loader(text).get_single_data())
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        said = f"not valid YAML: {' '.join(str(error).split())}"
        raise ScriptError(source, mark and mark.line + 1, said) from None
    except ValidationError as error:
        raise _first(error, whole) from None
    _check_let(file.let, set(VARIABLES) - {"used"}, whole)
    scripts = {}
    for agent, entries in file.agents.items():
        where = replace(whole, agent=agent)
        rules = tuple(_rule(entry, where) for entry in _flattened(entries, file.blocks, where))
        _check_rules(rules, VARIABLES | set(file.let), where)
        _check_endings(rules, where)
        scripts[agent] = Script(rules, file.let, file.tables)
    return scripts


def found_in(text: str, pattern: str, scope: Mapping[str, Any]) -> dict[str, str] | None:
    """Search ``text`` for a script's regex; return its named groups, or None where it does not occur.

    Its placeholders stand for the values of ``scope``, taken literally.
    """
    found = searched(str(render(pattern, scope, FUNCTIONS, quote=escaped)), text)
    return None if found is None else {name: value or "" for name, value in found.groupdict().items()}


def _refuse_alias_bombs(text: str, source: str) -> None:
    if (
        "*" in text
        and sum(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=_Loader)) > _MOST_ALIASES
    ):
        said = f"more than {_MOST_ALIASES} YAML aliases. Write the values out, or use 'blocks'"
        raise ScriptError(source, None, said)


def _flattened(
    entries: Iterable[dict[str, Any]], blocks: Mapping[str, list[dict[str, Any]]], where: _Place
) -> list[dict[str, Any]]:
    rules: list[dict[str, Any]] = []
    for entry in entries:
        if "use" not in entry:
            rules.append(entry)
        elif entry["use"] in blocks:
            rules += blocks[entry["use"]]
        else:
            raise where.error(f"uses block {entry['use']!r}; the file has {sorted(blocks)}")
    return rules


def _rule(entry: dict[str, Any], where: _Place) -> Rule:
    try:
        return Rule.model_validate(entry)
    except ValidationError as error:
        raise _first(error, replace(where, rule=entry.get("name"))) from None


def _check_rules(rules: Iterable[Rule], known: set[str] | frozenset[str], where: _Place) -> None:
    seen: set[str] = set()
    for rule in rules:
        here = replace(where, rule=rule.name)
        if rule.name in seen:
            raise here.error("there is another rule of this name; names are unique in an agent")
        seen.add(rule.name)
        _check_rule(rule, set(known), here)


def _check_rule(rule: Rule, known: set[str], here: _Place) -> None:
    for pattern in (rule.when.user, *rule.when.results.values()):
        if pattern is not None:
            _check_names(pattern, known, here)
            known |= _groups(pattern, here)
    _check_let(rule.let, known, here)
    known |= set(rule.let)
    if isinstance(rule.when.condition, str):
        _check_names(f"${{{rule.when.condition}}}", known, here)
    _check_names([rule.say, rule.fail], known, here)
    for call in rule.call:
        _check_names(f"${{{call.each}}}" if call.each else "", known, here)
        _check_names(call.args, known | ({"it"} if call.each else set()), here)


def _check_endings(rules: Iterable[Rule], where: _Place) -> None:
    """Refuse calls of Ekiden's own tools in a form that these never take."""
    for rule in rules:
        for call in rule.call:
            given = ", ".join(map(str, call.args)) or "nothing"
            said = ""
            if call.tool == "set_state" and call.args.keys() != {"values"}:
                said = f"set_state takes {{values: {{name: value}}}}, and is given {given}"
            elif call.tool == "complete_task" and len(call.args) > 1 and "status" not in call.args:
                said = f"complete_task takes one value, by the name of the agent's output, and is given {given}: write "
                said += f"{{NAME: {{{given}}}}}, with what 'output' of the agent's file calls it"
            if said:
                raise replace(where, rule=rule.name).error(said)


def _check_let(let: Mapping[str, Any], known: set[str], here: _Place) -> None:
    for name, value in let.items():
        if isinstance(value, str):
            _check_names(f"${{{value}}}", known, here)
        known = known | {name}


def _check_names(template: Any, known: set[str], here: _Place) -> None:
    try:
        names = {name for expression in expressions_in(template, FUNCTIONS) for name in expression.names}
    except ValueError as error:
        raise here.error(str(error)) from None
    if unknown := sorted(names - known):
        raise here.error(f"unknown variable {unknown[0]!r}; here are {', '.join(sorted(known))}")


def _groups(pattern: str, here: _Place) -> set[str]:
    try:
        return set(compiled(re.sub(r"\$\{[^{}]+\}", "x", pattern)).groupindex)
    except DefinitionError as error:
        raise here.error(str(error)) from None


def _first(error: ValidationError, where: _Place) -> ScriptError:
    """Return the first complaint in one line: the key, and what is wrong with it."""
    found = error.errors()[0]
    key = ".".join(str(part) for part in found["loc"]) or "the file"
    said = f"unknown key {key!r}" if found["type"] == "extra_forbidden" else f"{key}: {fault_in(found)}"
    if found["type"] == "string_type" and not isinstance(found["input"], dict | list):
        said += ": put it in quotes"  # YAML takes a bare no, 1 or null for something else
    return where.error(said, found["loc"])
