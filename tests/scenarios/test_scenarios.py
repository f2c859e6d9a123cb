"""Plays the YAML files beside this one: a request, a team, what its model says, and what must come of it.

    request: TEXT
    agent: NAME                  # optional: the agent that the user names
    fallback: prompt_user        # or none
    cycles: parent               # or deny, limit:<n>
    agents: [FRONT MATTER, …]    # ``prompt`` is the body
    script: {NAME: [RULE, …]}    # as in shared/llm/scripting/script.py, under ``agents``
    expect:
      status: done
      reason: GOAL
      answer: REGEX              # found in the answer or error
      chain: [NAME, …]           # who had control
      refusals: [CODE, …]
      tools: [RESULT, …]         # what finished tools gave, transfers beyond the first included
      reads: {NAME: [REGEX, …]}  # found in the first thing that the agent's latest leg asked its model
      never_reads: {NAME: [REGEX, …]}   # found in nothing that the agent's model was asked

The tools are ``look(at)``, which only reads, and ``note(text)``.
"""

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from pydantic import BaseModel, ConfigDict, Field

from shared.llm.base import ModelRequest
from shared.llm.scripted import ScriptedModel
from shared.messages import Message
from shared.stores.opening import Stores
from tests.scenarios.relay import Listener, Relay, Story, on_fakeredis, team
from workers.tools.base import Tool, ToolContext, tool

FILES = sorted(Path(__file__).parent.glob("*.yaml"))


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Expected(_Strict):
    status: Literal["done", "failed", "suspended"] = "done"
    reason: str = "GOAL"
    answer: str
    chain: list[str]
    refusals: list[str] = Field(default_factory=list)
    tools: list[str] = Field(default_factory=list)
    reads: dict[str, list[str]] = Field(default_factory=dict)
    never_reads: dict[str, list[str]] = Field(default_factory=dict)


class Scenario(_Strict):
    request: str
    agent: str | None = None
    fallback: str = "prompt_user"
    cycles: str = "parent"
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


TOOLS: tuple[Tool, ...] = (look, note)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    scenario = Scenario.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    script = yaml.safe_dump({"agents": scenario.script}, allow_unicode=True)
    model = Listener(ScriptedModel.from_text(script, str(path)))
    story = on_fakeredis(lambda stores: played(stores, scenario, model))
    expect = scenario.expect
    assert (story.view.status, story.view.reason) == (expect.status, expect.reason), story.view.result
    assert re.search(expect.answer, story.view.result or ""), story.view.result
    assert story.chain == expect.chain
    assert story.codes == expect.refusals
    assert list(story.results.values()) == expect.tools
    assert_read(model, expect.reads, expect.never_reads)


async def played(stores: Stores, scenario: Scenario, model: Listener) -> Story:
    relay = Relay(
        stores, team(*scenario.agents), model, tools=TOOLS, cycles=scenario.cycles, fallback=scenario.fallback
    )
    return await relay.told(scenario.request, agent=scenario.agent)


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
