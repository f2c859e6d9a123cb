"""What servers of Chat Completions answer, and what their ends mean."""

from typing import Any

import pytest

from ekiden.shared.llm.chat_completions.textual_calls import calls_in
from ekiden.shared.messages import TextPart
from tests.unit.llm.openai.conftest import QWEN
from tests.unit.llm.wires import World, results_for

BOTH = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
OSLO = {"name": "get_weather", "args": {"city": "Oslo"}}


def called(reply: Any) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, call.args) for call in reply.message.calls]


@BOTH
@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thoughts_come_in_either_field(world: World, field: str, stream: bool) -> None:
    world.rule("^hello", {"thought": "A greeting.", "thought_as": field, "text": ["你好", ", ", "there"]})
    reply = world.ask("hello", stream=stream)
    assert reply.message.parts == (TextPart(text="A greeting.", thought=True), TextPart(text="你好, there"))
    assert (reply.finish, reply.model, reply.message.model) == ("stop", QWEN, QWEN)
    assert reply.usage.input_tokens > 0
    assert reply.usage.output_tokens > 0


@BOTH
@pytest.mark.parametrize(
    "text",
    [
        ["<think>A greeting.</think>\n\nHi there"],
        ["<th", "ink>A greeting", ".</think>\n\nHi", " there"],
        [" <think>A greeting.</", "th", "ink>Hi", " there"],
    ],
)
def test_thoughts_in_tags_are_thoughts(world: World, text: list[str], stream: bool) -> None:
    world.rule("^hello", {"text": text})
    reply = world.ask("hello", stream=stream)
    assert reply.message.parts == (TextPart(text="A greeting.", thought=True), TextPart(text="Hi there"))
    assert world.shown == ("Hi there" if stream else "")


@BOTH
@pytest.mark.parametrize(
    ("reply", "finish", "detail"),
    [
        ({"finish": "length", "text": "<think>I wonder"}, "max_tokens", "length"),
        ({"finish": "length", "calls": [{"name": "get_weather", "raw": '{"city": "Os'}]}, "max_tokens", ""),
        ({"finish": "content_filter", "text": "Well,"}, "refused", "content_filter"),
        ({"refusal": "I can't help with that."}, "refused", "I can't help with that."),
        ({"error": 400, "code": "content_filter"}, "refused", "blocked by the provider's content filter"),
        ({"finish": "tool_calls", "text": "It rains."}, "stop", ""),
        ({"finish": "stop", "calls": [OSLO]}, "stop", ""),
    ],
)
def test_the_cause_decides_and_is_not_tried_again(
    world: World, reply: dict[str, Any], finish: str, detail: str, stream: bool
) -> None:
    world.rule("^go", reply)
    got = world.ask("go", stream=stream)
    assert got.finish == finish
    assert not detail or got.detail == detail
    assert len(world.server.requests) == 1


@BOTH
@pytest.mark.parametrize("more", [{}, {"in_pieces": True}, {"all_first": True}], ids=["plain", "pieces", "one index"])
def test_parallel_calls_come_with_ids_of_their_own(world: World, more: dict[str, Any], stream: bool) -> None:
    bergen = {"name": "get_weather", "args": {"city": "Bergen"}}
    world.rule("^go", {"text": "I look.", "calls": [OSLO, bergen], **more})
    reply = world.ask("go", stream=stream)
    assert called(reply) == [("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Bergen"})]
    assert reply.message.text == "I look."


@BOTH
def test_ids_that_are_missing_are_replaced(world: World, stream: bool) -> None:
    world.rule("^go", {"calls": [OSLO | {"id": ""}, OSLO | {"id": ""}]})
    first = world.ask("go", stream=stream).message
    assert len({call.id for call in first.calls}) == 2
    again = world.ask("go", first, results_for(first, "rain", "rain"), "go", stream=stream).message
    assert len({call.id for call in (*first.calls, *again.calls)}) == 4


@BOTH
@pytest.mark.parametrize("raw", ["{bad", "[1, 2]", '"text"', "7", '{"a":' * 100_000], ids=lambda raw: raw[:8])
def test_arguments_that_are_no_object_are_asked_for_again_and_then_told_to_the_model(
    world: World, raw: str, stream: bool
) -> None:
    world.rule("", {"calls": [{"name": "get_weather", "raw": raw}, OSLO]})
    reply = world.ask("go", stream=stream)
    bad, good = reply.message.calls
    assert "no JSON object" in (bad.problem or "")
    assert (bad.args, good.args, good.problem) == ({}, {"city": "Oslo"}, None)
    assert reply.finish == "stop"
    assert len(world.server.requests) == 2
    assert "thrown away" in world.sent["messages"][-1]["content"]


@BOTH
@pytest.mark.parametrize("raw", ["", "null", '"{}"'])
def test_no_arguments_are_an_empty_object(world: World, raw: str, stream: bool) -> None:
    world.rule("^go", {"calls": [{"name": "get_weather", "raw": raw}]})
    assert called(world.ask("go", stream=stream)) == [("get_weather", {})]


@BOTH
@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>',
        '<function=get_weather>{"city": "Oslo"}</function>',
        '```json\n{"name": "get_weather", "parameters": {"city": "Oslo"}}\n```',
        '{"name": "get_weather", "arguments": {"city": "Oslo"}}',
    ],
)
def test_a_call_that_a_server_gives_as_text_is_a_call(world: World, text: str, stream: bool) -> None:
    world.rule("^go", {"text": text})
    reply = world.ask("go", stream=stream)
    assert called(reply) == [("get_weather", {"city": "Oslo"})]
    assert (reply.message.text, world.shown) == ("", "")


@pytest.mark.parametrize(
    "text",
    [
        'Call it so: {"name": "get_weather", "arguments": {"city": "Oslo"}}',
        '{"name": "delete_all", "arguments": {}}',
        '{"name": "Oslo", "population": 700000}',
        "<tool_call>nothing</tool_call>",
    ],
)
def test_text_that_merely_speaks_of_calls_is_text(world: World, text: str) -> None:
    world.rule("^go", {"text": text})
    reply = world.ask("go")
    assert (reply.message.text, reply.message.calls) == (text, ())


def test_a_call_that_the_model_merely_repeats_is_text(world: World) -> None:
    text = '{"name": "get_weather", "arguments": {"city": "Oslo"}}'
    world.rule("^show", {"text": text})
    assert world.ask(f"show me this file: {text}").message.calls == ()


@pytest.mark.parametrize("text", ["```json" + " " * 50_000 + "x", "<tool_call>{" * 8_000, "<function=f>{" * 7_000])
def test_a_long_text_that_is_no_call_is_seen_to_be_none(text: str) -> None:
    assert calls_in(text, {"f"}) == []  # it took minutes, by the square or the cube of the length


@BOTH
def test_an_image_in_a_reply_is_said_and_left_out(world: World, stream: bool) -> None:
    world.rule("^draw", {"text": "Here.", "images": [{"image_url": {"url": "data:image/png;base64,AAAA"}}]})
    assert "images besides" in world.ask("draw", stream=stream).message.text


@pytest.mark.parametrize(
    ("served", "model"), [("qwen3-2026-01-01", "local/qwen3-2026-01-01"), ("/models/q.gguf", QWEN)]
)
def test_the_model_that_answered_is_named_as_it_is_called_here(world: World, served: str, model: str) -> None:
    world.rule("^go", {"text": "x", "served": served})
    assert world.ask("go").model == model


def test_a_server_that_counts_nothing_is_believed_nothing(world: World) -> None:
    world.rule("^go", {"text": "x", "no_usage": True})
    assert world.ask("go", stream=True).usage.input_tokens == 0
