"""An agent that has nothing but its output: models that can write by a schema do, and nobody else notices."""

import json
from typing import Any

import pytest

from ekiden.shared.llm.base import ModelReply, ToolSpec
from ekiden.shared.messages import TextPart, answered
from tests.unit.llm.conftest import Worlds
from tests.unit.llm.wires import ANTHROPIC, GEMINI, OPENAI, World, result

REPORT = ToolSpec(
    name="complete_task",
    description="End the task with its result.",
    parameters={
        "type": "object",
        "properties": {"report": {"$ref": "#/$defs/Report", "description": "What was found."}},
        "required": ["report"],
        "$defs": {"Report": {"type": "object", "properties": {"kind": {"const": "bug"}}}},
    },
)
FOUND = {"report": {"kind": "bug", "where": "购物车"}}
BOTH = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


@pytest.fixture(params=[GEMINI, OPENAI], ids=repr)
def world(request: pytest.FixtureRequest, worlds: Worlds) -> World:
    return worlds.of(request.param)


def ask(world: World, *messages: Any, **more: Any) -> ModelReply:
    return world.ask(*messages, tools=(REPORT,), answer_as="complete_task", **more)


def schema_sent(world: World) -> dict[str, Any] | None:
    config = world.sent.get("generationConfig", {})
    found: dict[str, Any] | None = config.get("responseJsonSchema")
    return found or world.sent.get("response_format", {}).get("json_schema", {}).get("schema")


@BOTH
@pytest.mark.parametrize("text", ["{}", "```json\n{}\n```"], ids=["bare", "fenced"])
def test_what_the_model_writes_is_the_call_of_its_only_tool(world: World, text: str, stream: bool) -> None:
    world.rule("^go", {"thought": "Hm.", "text": text.format(json.dumps(FOUND))})
    reply = ask(world, "go", stream=stream, prompt_id="solo-1#1")
    thought, call = reply.message.parts
    assert isinstance(thought, TextPart)
    assert thought.thought
    assert [(one.id, one.name, one.args) for one in reply.message.calls] == [("solo-1#1-0", "complete_task", FOUND)]
    assert call == reply.message.calls[0]
    assert (reply.finish, world.shown) == ("stop", "")
    assert not world.sent.get("tools")
    assert (schema_sent(world) or {})["required"] == ["report"]
    assert "End the task with its result." in world.sent_text


def test_what_does_not_fit_is_mended_in_a_turn_more(world: World) -> None:
    world.rule("^go", {"text": json.dumps({"report": 7})})
    said = ask(world, "go").message
    world.rule("not accepted", {"text": json.dumps(FOUND)})
    wrong = answered([result(said.calls[0], "not accepted: /report must be an object", is_error=True)])
    again = ask(world, "go", said, wrong).message
    assert again.calls[0].args == FOUND
    assert again.calls[0].id != said.calls[0].id
    assert '{\\"report\\": 7}' in world.sent_text


def test_what_is_no_json_is_a_call_with_its_problem(world: World) -> None:
    world.rule("^go", {"text": "All is well."})
    (call,) = ask(world, "go").message.calls
    assert "no JSON object" in (call.problem or "")


def test_a_server_that_takes_no_schema_is_asked_for_the_call_from_then_on(world: World) -> None:
    world.rule("^go", {"error": 400, "message": "response_format is not supported"}, times=1)
    world.rule("^go", {"calls": [{"name": "complete_task", "args": FOUND}]})
    model = "gemini-2.5-pro" if world.wire is GEMINI else "local/gpt-5-mini"
    for _ in range(2):
        assert ask(world, "go", model=model).message.calls[0].args == FOUND
    assert len(world.server.requests) == 3
    assert schema_sent(world) is None


def test_a_refusal_and_a_cut_answer_are_what_they_are(world: World) -> None:
    world.rule("^go", "refusal")
    assert ask(world, "go").finish == "refused"
    world.server.reset()
    world.rule("^go", "cut off")
    assert (ask(world, "go").finish, ask(world, "go").message.calls) == ("max_tokens", ())


def test_beside_other_tools_and_of_models_that_write_no_schema_the_call_is_asked_for(
    world: World, worlds: Worlds
) -> None:
    world.rule("^go", {"calls": [{"name": "complete_task", "args": FOUND}]})
    other = ToolSpec(name="look", description="Looks.", parameters={"type": "object"})
    assert world.ask("go", tools=(REPORT, other), answer_as="complete_task").message.calls[0].args == FOUND
    assert schema_sent(world) is None
    anthropic = worlds.of(ANTHROPIC)
    anthropic.rule("^go", {"calls": [{"name": "complete_task", "args": FOUND}]})
    assert ask(anthropic, "go").message.calls[0].args == FOUND
