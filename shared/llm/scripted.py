"""The scripted model: plays YAML scripts instead of thinking. The keyless stand-in, and the test double.

What it decides comes from the request alone, so a leg that is resumed in another process goes on alike; it remembers
what it has read of a conversation only as long as that goes on. The format of scripts is described in
``shared/llm/scripting/script.py``.
"""

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ekiden.shared.errors import DefinitionError, ModelError, TooCostly
from ekiden.shared.llm.base import Delta, ModelReply, ModelRequest, OnDelta
from ekiden.shared.llm.scripting.expressions import Expression, render
from ekiden.shared.llm.scripting.functions import FUNCTIONS
from ekiden.shared.llm.scripting.history import Leg, Legs, call_id, size_of
from ekiden.shared.llm.scripting.script import Call, Range, Rule, Script, ScriptError, found_in, parse_script
from ekiden.shared.messages import Message, Part, TextPart, ToolCall, Usage
from ekiden.shared.step_limits import run_limited
from ekiden.shared.trust.rights import content_of, fault_of

__all__ = ["ScriptedModel", "read_scripts"]

_NAME = "scripted"
_ANY_AGENT = "*"
_WORD = re.compile(r"\s*\S{1,20}(?:\s+\Z)?")
_NO_REPLY = (
    "This answer comes from the scripted stand-in for a model, and it has no scripted reply for the agent {agent!r} at "
    "this point of the conversation. Give the agent a real model (its name in `model:`, and the provider's key in the "
    "environment) to get a real answer, or a script of its own (`ekiden.scripts_dir`: docs/scripts.md)."
)


@dataclass(frozen=True)
class _Decision:
    """What is to be answered."""

    rule: Rule
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    failure: str | None = None
    thought: str = ""


class ScriptedModel:
    """A ``ChatModel`` that answers by rules. Safe to share."""

    def __init__(self, scripts: Mapping[str, Script]) -> None:
        self._scripts = dict(scripts)
        self._legs = Legs()

    @classmethod
    def from_text(cls, text: str, source: str = "script") -> "ScriptedModel":
        """Make a model from one YAML text. Raises ``DefinitionError`` for a script that could not work."""
        return cls(parse_script(text, source))

    @classmethod
    def from_folders(cls, *folders: Path) -> "ScriptedModel":
        """Make a model from all ``*.yaml`` files of folders, the nearest first, as far as one plays every agent.

        An agent's script is the nearest one. Raises ``DefinitionError`` like ``from_text``.
        """
        scripts: dict[str, Script] = {}
        for folder in folders:
            if _ANY_AGENT not in scripts:
                scripts = {**_scripts_in(folder), **scripts}
        return cls(scripts)

    @property
    def plays(self) -> frozenset[str]:
        """The agents whose script says more than that it can do nothing; ``*``: all."""
        scripts = self._scripts.items()
        return frozenset(name for name, one in scripts if any(rule.finish != "unfinished" for rule in one.rules))

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        """Return what the first fitting rule says, or plainly that no rule fits."""
        leg = self._legs.of(request.messages)
        try:
            decided = await run_limited(lambda: self._decided(request, leg))
        except (DefinitionError, TooCostly, ValueError) as error:
            raise ModelError(f"the script of agent {request.agent!r} cannot be played on: {error}") from None
        rule = decided.rule
        if rule.delay_s:
            await asyncio.sleep(rule.delay_s)
        if decided.failure is not None:
            raise ModelError(decided.failure)
        texts = [TextPart(text=decided.thought, thought=True)] if decided.thought else []
        texts += [TextPart(text=decided.text)] if decided.text else []
        for part in texts:
            await _write(part, rule.pace_s, on_delta)
        parts: tuple[Part, ...] = (*texts, *decided.calls)
        message = Message(role="model", parts=parts, model=_NAME)
        usage = rule.usage or _estimated(request, leg, message)
        return ModelReply(message=message, finish=rule.finish, usage=usage, model=_NAME)

    def _decided(self, request: ModelRequest, leg: Leg) -> _Decision:
        rule, scope = self._choose(request, leg)
        if rule.fail is not None:
            return _Decision(rule, failure=str(render(rule.fail, scope, FUNCTIONS)))
        text = str(render(rule.say, scope, FUNCTIONS)) if rule.say else ""
        thought = str(render(rule.think, scope, FUNCTIONS)) if rule.think else ""
        return _Decision(rule, text, tuple(_tool_calls(rule, scope, leg.next_call)), thought=thought)

    def _choose(self, request: ModelRequest, leg: Leg) -> tuple[Rule, Mapping[str, Any]]:
        for agent in (request.agent, _ANY_AGENT):
            if (script := self._scripts.get(agent)) is None:
                continue
            since = leg.since(script.fresh_rules)
            base = _Scope({**_known(request, leg, since), "tables": script.tables}).with_let(script.let)
            for rule in script.rules:
                if (scope := _fitted(rule, request, leg, since, base)) is not None:
                    return rule, scope
        return Rule(name="no-reply", say=_NO_REPLY.format(agent=request.agent), finish="unfinished"), {}


async def _write(part: TextPart, pace_s: float, on_delta: OnDelta | None) -> None:
    """Let whoever listens see a text grow, as fast as the script says."""
    for word in _WORD.findall(part.text):
        if on_delta is not None:
            on_delta(Delta(word, thought=part.thought))
        if pace_s:
            await asyncio.sleep(pace_s)


def read_scripts(folder: Path) -> tuple[dict[str, Script], list[ScriptError]]:
    """Return the scripts of a folder by agent, and what is wrong with its files: one with a fault has no script."""
    scripts: dict[str, Script] = {}
    files: dict[str, Path] = {}
    faults = []
    for path in sorted(folder.glob("*.yaml")):
        try:
            found = parse_script(_text_of(path), str(path))
        except ScriptError as error:
            faults.append(error)
            continue
        twice = [agent for agent in found if agent in files]
        faults += [
            ScriptError(str(path), None, f"agent {agent!r} has a script in {files[agent].name}, too: remove one")
            for agent in twice
        ]
        scripts |= {agent: script for agent, script in found.items() if agent not in files}
        files |= {agent: path for agent in found if agent not in files}
    return scripts, faults


def _scripts_in(folder: Path) -> dict[str, Script]:
    scripts, faults = read_scripts(folder)
    if faults:
        raise faults[0]
    return scripts


def _text_of(path: Path) -> str:
    if (content := content_of(path)) is None:
        raise ScriptError(str(path), None, fault_of(path))
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise ScriptError(str(path), None, "cannot be read: it is no UTF-8: save it as such") from None


class _Scope(dict[str, Any]):
    """Variables, some of them computed when they are first read."""

    def with_let(self, let: Mapping[str, Any]) -> "_Scope":
        """Return a scope that has the values of ``let`` besides."""
        inner = _Scope(self)
        for name, value in let.items():
            inner[name] = _Later(Expression(value, FUNCTIONS).value) if isinstance(value, str) else value
        return inner

    def __getitem__(self, name: str) -> Any:
        value = super().__getitem__(name)
        if isinstance(value, _Later):
            value = value.value(self)
        return value


class _Later:
    """A value that is computed once, when it is first asked for; copies of a scope share it."""

    def __init__(self, compute: Callable[[Mapping[str, Any]], Any]) -> None:
        self._compute = compute
        self._found: list[Any] = []

    def value(self, scope: Mapping[str, Any]) -> Any:
        """Compute the value, or return what was computed before."""
        if not self._found:
            self._found.append(self._compute(scope))
        return self._found[0]


def _known(request: ModelRequest, leg: Leg, since: int) -> dict[str, Any]:
    return {
        "agent": request.agent,
        "user": leg.user,
        "turn": leg.turn,
        "results": leg.results_since(since),
        "calls": _Later(lambda _: leg.calls_since(since)),
        "history": leg.calls,
    }


def _fitted(rule: Rule, request: ModelRequest, leg: Leg, since: int, base: _Scope) -> Mapping[str, Any] | None:
    """Return the rule's variables if it fits, else None. Cheap conditions come first."""
    used = leg.answers(rule.name, 0 if rule.fresh else since)
    if used >= rule.times or not _turn_fits(rule, leg.turn) or not _tools_fit(rule, request):
        return None
    scope = _Scope(base)
    scope["used"] = used
    for pattern, text in _texts(rule, base):
        found = None if text is None else found_in(text, pattern, scope)
        if found is None:
            return None
        scope.update(found)
    scope = scope.with_let(rule.let)
    condition = rule.when.condition
    if isinstance(condition, str):
        condition = bool(Expression(condition, FUNCTIONS).value(scope))
    return None if condition is False else scope


def _turn_fits(rule: Rule, turn: int) -> bool:
    wanted = rule.when.turn
    return wanted.min <= turn <= wanted.max if isinstance(wanted, Range) else wanted == turn


def _tools_fit(rule: Rule, request: ModelRequest) -> bool:
    offered = {tool.name for tool in request.tools}
    forced = set(request.forced_tools)
    return (
        offered >= _names(rule.when.tool_offered)
        and not offered & _names(rule.when.tool_missing)
        and (not forced or bool(forced & {call.tool for call in rule.call}))
    )


def _names(value: str | list[str]) -> set[str]:
    return {value} if isinstance(value, str) else set(value)


def _texts(rule: Rule, scope: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    if rule.when.user is not None:
        yield rule.when.user, scope["user"]
    for label, pattern in rule.when.results.items():
        yield pattern, scope["results"].get(label)


def _tool_calls(rule: Rule, scope: Mapping[str, Any], number: int) -> Iterator[ToolCall]:
    for call in rule.call:
        for inner in _repeated(call, scope):
            args = render(call.args, inner, FUNCTIONS)
            yield ToolCall(id=call_id(rule.name, call.label or call.tool, number), name=call.tool, args=args)
            number += 1


def _repeated(call: Call, scope: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if call.each is None:
        return [scope]
    inner: list[Mapping[str, Any]] = []
    for item in Expression(call.each, FUNCTIONS).value(scope) or ():
        copy = _Scope(scope)
        copy["it"] = item
        inner.append(copy)
    return inner


def _estimated(request: ModelRequest, leg: Leg, message: Message) -> Usage:
    return Usage(input_tokens=(len(request.instructions) + leg.size) // 4, output_tokens=size_of(message) // 4)
