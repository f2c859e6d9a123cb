"""What goes to servers of Chat Completions."""

import copy
from typing import Any

import pytest

from ekiden.shared.llm.base import ToolSpec
from ekiden.shared.messages import Message, TextPart, ToolCall
from tests.unit.llm.openai.conftest import QWEN
from tests.unit.llm.wires import WEATHER, World, result, results_for


def by(*parts: Any, model: str = QWEN) -> Message:
    return Message(role="model", parts=parts, model=model)


def call(name: str = "get_weather", call_id: str = "call_1", **args: Any) -> ToolCall:
    return ToolCall(id=call_id, name=name, args=args)


def test_sends_instructions_temperature_and_the_tools_schema(world: World) -> None:
    world.ask("hello", temperature=0.2)
    assert world.sent["messages"] == [
        {"role": "system", "content": "You know the weather."},
        {"role": "user", "content": "hello"},
    ]
    assert (world.sent["model"], world.sent["temperature"]) == ("qwen3", 0.2)
    (tool,) = world.sent["tools"]
    assert tool["function"]["parameters"]["required"] == ["city"]


def test_every_call_is_answered_in_order_with_its_id(world: World) -> None:
    said = by(TextPart(text="I look."), call(city="Oslo"), call(call_id="call_2", city="Bergen"))
    failed = result(said.calls[1], "no such town", is_error=True)
    world.ask("go", said, Message(role="tool", parts=(failed, result(said.calls[0], "rain"))))
    assistant, first, second = world.sent["messages"][-3:]
    assert [one["id"] for one in assistant["tool_calls"]] == ["call_1", "call_2"]
    assert (first["tool_call_id"], first["content"]) == ("call_1", "rain")
    assert (second["tool_call_id"], second["content"]) == ("call_2", "Error: no such town")


def test_thoughts_go_back_with_the_calls_of_the_same_model_only(world: World) -> None:
    parts = (TextPart(text="Oslo is a town.", thought=True), call(city="Oslo"))
    for said in (by(*parts), by(*parts, model="gemini-2.5-flash"), by(parts[0], TextPart(text="Rain."))):
        results = [results_for(said, "rain")] if said.calls else []
        world.ask("go", said, *results, "thanks")
        sent = next(one for one in world.sent["messages"] if one["role"] == "assistant")
        assert ("reasoning_content" in sent) == (said.model == QWEN and bool(said.calls))


def test_a_message_of_nothing_but_thoughts_is_left_out(world: World) -> None:
    world.ask("go", by(TextPart(text="Hm.", thought=True)), "well?")
    assert [one["role"] for one in world.sent["messages"]] == ["system", "user", "user"]


@pytest.mark.parametrize("name", ["mcp.github.search", "代码修复", "a b", "x" * 80])
def test_names_that_servers_would_refuse_are_mapped_both_ways(world: World, name: str) -> None:
    tool = ToolSpec(name=name, description="", parameters={"type": "object", "properties": {}})
    said = by(call(name=name))
    world.ask("go", said, results_for(said, "done"), tools=(tool,))
    wire = world.sent["tools"][0]["function"]["name"]
    assert (
        wire == next(one for one in world.sent["messages"] if "tool_calls" in one)["tool_calls"][0]["function"]["name"]
    )
    world.rule("^call", {"calls": [{"name": wire}]})
    assert world.ask("call", tools=(tool,)).message.calls[0].name == name


def test_forced_tools_are_the_only_ones_that_may_be_called(world: World) -> None:
    other = (
        copy.replace(WEATHER, name="get_time")
        if hasattr(copy, "replace")
        else WEATHER.model_copy(update={"name": "get_time"})
    )
    third = WEATHER.model_copy(update={"name": "get_news"})
    world.ask("go", tools=(WEATHER, other, third), forced_tools=("get_time",))
    assert world.sent["tool_choice"] == {"type": "function", "function": {"name": "get_time"}}
    world.ask("go", tools=(WEATHER, other, third), forced_tools=("get_time", "get_news"))
    assert world.sent["tool_choice"] == "required"
    assert [one["function"]["name"] for one in world.sent["tools"]] == ["get_time", "get_news"]


@pytest.mark.usefixtures("own_model")
def test_a_model_that_takes_no_temperature_is_asked_without_from_then_on(world: World) -> None:
    refusal = {
        "error": 400,
        "param": "temperature",
        "message": "Unsupported value: 'temperature'",
        "code": "unsupported_value",
    }
    world.rule("^go", refusal, times=1)
    model = "local/gpt-5-mini"
    assert world.ask("go", model=model, temperature=0.1).finish == "stop"
    world.ask("go", model=model, temperature=0.1)
    assert ["temperature" in one.body for one in world.server.requests] == [True, False, False]


@pytest.mark.usefixtures("own_model")
def test_so_are_those_that_were_under_way_when_it_said_so(world: World) -> None:
    refused = {"error": 400, "param": "temperature", "message": "Unsupported value: 'temperature'", "hang": 600}
    world.rule("^go", refused, times=2)
    replies = world.ask_at_once(2, "go", model="local/gpt-5-mini", temperature=0.1)
    assert [reply.finish for reply in replies] == ["stop", "stop"]
