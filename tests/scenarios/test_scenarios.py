"""Plays the YAML files beside this one: a request, a team, what its model says, and what must come of it.

Each is played in both styles of handoffs. Files are written with a tool for each target; for the single style the team
is told so, and the script's calls are put into the other words.

    request: TEXT
    agent: NAME                  # optional: the agent that the user names
    fallback: prompt_user        # or none
    cycles: parent               # or deny, limit:<n>
    state: {NAME: VALUE}         # optional: session variables that the request sets
    styles: [tools, single]      # ``tools`` leaves the team as it is
    agents: [FRONT MATTER, …]    # ``prompt`` is the body
    script: {NAME: [RULE, …]}    # as in shared/llm/scripting/script.py, under ``agents``
    expect:
      status: done
      reason: GOAL
      answer: REGEX              # found in the answer or error
      chain: [NAME, …]           # who had control
      refusals: [CODE, …]
      notices: [REGEX, …]        # found in what the user is told meanwhile, one each, in order
      tools: [RESULT, …]         # what finished tools gave, transfers beyond the first included
      reads: {NAME: [REGEX, …]}  # found in the first thing that the agent's latest leg asked its model
      never_reads: {NAME: [REGEX, …]}   # found in nothing that the agent's model was asked

The tools are ``look(at)``, which only reads, ``note(text)`` and ``set_state(values)``.
"""

import asyncio
import re
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from pydantic import BaseModel, ConfigDict, Field

from ekiden.shared.definitions.transfer_names import ToolNames
from ekiden.shared.llm.base import ModelRequest
from ekiden.shared.llm.scripted import ScriptedModel
from ekiden.shared.messages import Message
from ekiden.shared.records import Noticed
from ekiden.shared.stores.opening import Stores
from ekiden.workers.tools.base import Tool, ToolContext, tool
from ekiden.workers.tools.builtin.state import set_state
from tests.scenarios.relay import Listener, Relay, Story, on_server, team

FILES = sorted(Path(__file__).parent.glob("*.yaml"))


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Expected(_Strict):
    status: Literal["done", "unfinished", "failed", "suspended"] = "done"
    reason: str = "GOAL"
    answer: str
    chain: list[str]
    refusals: list[str] = Field(default_factory=list)
    notices: list[str] = Field(default_factory=list)
    tools: list[str] = Field(default_factory=list)
    reads: dict[str, list[str]] = Field(default_factory=dict)
    never_reads: dict[str, list[str]] = Field(default_factory=dict)


class Scenario(_Strict):
    request: str
    agent: str | None = None
    fallback: str = "prompt_user"
    cycles: str = "parent"
    state: dict[str, Any] = Field(default_factory=dict)
    styles: tuple[Literal["tools", "single"], ...] = ("tools", "single")
    agents: list[dict[str, Any]]
    script: dict[str, Any]
    expect: Expected


class Look(BaseModel):
    """Look at something."""

    at: str


class Note(BaseModel):
    """Write something down."""

    text: str


@tool(Look, read_only=True)
async def look(args: Look, context: ToolContext) -> str:
    await asyncio.sleep(0)
    return f"looked at {args.at}"


@tool(Note)
async def note(args: Note, context: ToolContext) -> str:
    await asyncio.sleep(0)
    return f"noted {args.text}"


TOOLS: tuple[Tool, ...] = (look, note, set_state)


def scenario_in(path: Path) -> Scenario:
    return Scenario.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))


PLAYED = [pytest.param(path, style, id=f"{path.stem}-{style}") for path in FILES for style in scenario_in(path).styles]


@pytest.mark.parametrize(("path", "style"), PLAYED)
def test_scenario(path: Path, style: str) -> None:
    scenario = scenario_in(path)
    if style == "single":
        scenario = in_single_style(scenario)
    script = yaml.safe_dump({"agents": scenario.script}, allow_unicode=True)
    model = Listener(ScriptedModel.from_text(script, str(path)))
    story = on_server(lambda stores: played(stores, scenario, model))
    expect = scenario.expect
    assert (story.view.status, story.view.reason) == (expect.status, expect.reason), story.view.result
    assert re.search(expect.answer, story.view.result or ""), story.view.result
    assert story.chain == expect.chain
    assert story.codes == expect.refusals
    assert list(story.results.values()) == expect.tools
    told = [record.text for record in story.of(Noticed)]
    assert len(told) == len(expect.notices), told
    assert all(map(re.search, expect.notices, told)), told
    assert_read(model, expect.reads, expect.never_reads)


async def played(stores: Stores, scenario: Scenario, model: Listener) -> Story:
    relay = Relay(
        stores, team(*scenario.agents), model, tools=TOOLS, cycles=scenario.cycles, fallback=scenario.fallback
    )
    job = await relay.submit(scenario.request, agent=scenario.agent, state=scenario.state)
    async with asyncio.timeout(30):
        await relay.drain()
    return await relay.story(job)


def in_single_style(scenario: Scenario) -> Scenario:
    """Give the team the single tool, and let its model call that one."""
    names = ToolNames(agent["name"] for agent in scenario.agents)
    rules = chain.from_iterable(scenario.script.values())
    for call in chain.from_iterable(rule.get("call", []) for rule in rules):
        call.update(in_single_words(call, names))
    agents = [{"transfer": "single", **agent} for agent in scenario.agents]
    return scenario.model_copy(update={"agents": agents})


def in_single_words(call: Mapping[str, Any], names: ToolNames) -> dict[str, Any]:
    namespace, is_transfer, called = call["tool"].partition("transfer_to_")
    if not is_transfer:
        return {}
    target = names.agent_for(is_transfer + called) or called
    return {"tool": f"{namespace}transfer_to_agent", "args": {"agent_name": target, **call.get("args", {})}}


def assert_read(model: Listener, reads: Mapping[str, list[str]], never: Mapping[str, list[str]]) -> None:
    for agent, patterns in reads.items():
        [*_, opening] = [request for request in model.asked(agent) if request.messages[-1].role == "user"]
        for pattern in patterns:
            assert re.search(pattern, shown(opening)), (agent, pattern, shown(opening))
    for agent, patterns in never.items():
        for pattern in patterns:
            assert not re.search(pattern, "\n".join(map(shown, model.asked(agent)))), (agent, pattern)


def shown(request: ModelRequest) -> str:
    """Everything that the model reads, as lines."""
    tools = [f"tool {spec.name}: {spec.description}" for spec in request.tools]
    return "\n".join([request.instructions, *tools, *(line for one in request.messages for line in lines(one))])


def lines(message: Message) -> list[str]:
    said = [f"{message.role}: {message.text}"] if message.text else []
    called = [f"call {call.name} {call.args}" for call in message.calls]
    return [*said, *called, *(f"result {result.name}: {result.content}" for result in message.results)]
