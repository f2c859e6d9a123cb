"""What Gemini answers, and what its ends mean."""

from typing import Any

import pytest

from ekiden.shared.errors import MalformedCall, ModelUnavailable
from ekiden.shared.llm.sanitizing import SanitizingModel
from tests.unit.llm.gemini.conftest import PLAIN, SIGNING
from tests.unit.llm.wires import World, asked, results_for

BOTH = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


@BOTH
def test_thoughts_count_as_output(world: World, stream: bool) -> None:
    world.rule("^hello", {"thought": "t" * 40, "text": "x" * 80})
    usage = world.ask("hello", stream=stream, instructions="", tools=()).usage
    assert usage.output_tokens == 10 + 20
    assert usage.input_tokens > 0


@BOTH
@pytest.mark.parametrize(
    ("reply", "finish", "detail"),
    [
        ({"finish": "MAX_TOKENS", "empty": True}, "max_tokens", "MAX_TOKENS"),
        ({"safety": True}, "refused", "SAFETY"),
        ({"finish": "RECITATION", "text": "It was the best of"}, "refused", "RECITATION"),
        ({"finish": "SPII", "empty": True}, "refused", "SPII"),
        ({"block": "PROHIBITED_CONTENT"}, "refused", "blocked: PROHIBITED_CONTENT"),
    ],
)
def test_the_cause_decides_and_is_not_tried_again(
    world: World, reply: dict[str, Any], finish: str, detail: str, stream: bool
) -> None:
    world.rule("^go", reply)
    got = world.ask("go", stream=stream)
    assert (got.finish, got.detail) == (finish, detail)
    assert len(world.server.requests) == 1


def test_a_refused_reply_carries_no_calls(world: World) -> None:
    world.rule("^go", {"finish": "SAFETY", "calls": [{"name": "get_weather"}], "text": "Well,"})
    assert world.ask("go").message.calls == ()


@BOTH
@pytest.mark.parametrize("reason", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE"])
def test_a_malformed_call_is_corrected_once(world: World, reason: str, stream: bool) -> None:
    world.rule("^go", {"finish": reason}, times=1)
    world.rule(f"thrown away.*{reason}.*get_weather", {"text": "better"})
    reply = world.ask("go", stream=stream)
    assert (reply.message.text, reply.finish) == ("better", "stop")
    assert reply.usage.input_tokens > 150  # both calls are counted
    assert world.shown == ("better" if stream else "")


def test_a_call_that_stays_malformed_is_an_error(world: World) -> None:
    world.server.add({"reply": {"finish": "MALFORMED_FUNCTION_CALL"}})
    with pytest.raises(MalformedCall, match=PLAIN):
        world.ask("go")
    assert len(world.server.requests) == 2


@BOTH
@pytest.mark.parametrize("reply", [{"empty": True}, {"no_content": True}, {"thought": "Hm."}])
def test_silence_after_a_tool_result_is_asked_about_a_few_times(
    world: World, reply: dict[str, Any], stream: bool
) -> None:
    world.rule("^go", {"calls": [{"name": "get_weather"}]})
    first = world.ask("go", model=SIGNING).message
    world.server.reset()
    world.server.add({"reply": reply})
    got = world.ask("go", first, results_for(first, "rain"), model=SIGNING, stream=stream)
    assert got.finish == "empty"
    assert len(world.server.requests) == 3


def test_silence_that_ends_is_forgotten(world: World) -> None:
    world.server.add({"reply": {"thought": "Hm.", "empty": True}, "times": 1}, {"reply": {"text": "rain"}})
    assert world.ask("go").message.text == "rain"
    last = world.sent["contents"][-1]["parts"][-1]["text"]
    assert "empty" in last


@BOTH
@pytest.mark.parametrize("reply", [{"no_candidate": True}, {"text": ["half", "…"], "no_finish": True}])
def test_an_answer_without_an_end_was_cut(world: World, reply: dict[str, Any], stream: bool) -> None:
    world.rule("^go", reply)
    with pytest.raises(ModelUnavailable, match="broke off"):
        world.ask("go", stream=stream)


NESTED = '{"candidates":[{"content":{"role":"model","parts":[%s]},"finishReason":"STOP"}]}'


def nested_call(levels: int, stream: bool) -> str:
    args = '{"a":' * levels + "1" + "}" * levels
    answer = NESTED % f'{{"functionCall":{{"name":"get_weather","args":{args}}}}}'
    return f"data: {answer}\r\n\r\n" if stream else answer


@BOTH
def test_deep_arguments_are_a_call_that_the_model_is_told_of(world: World, stream: bool) -> None:
    world.rule("^go", {"raw": nested_call(300, stream)})
    storing = SanitizingModel(world.model)
    on_delta = world.deltas.append if stream else None
    (call,) = world.runner.run(storing.reply(asked("go"), on_delta)).message.calls
    assert (call.name, call.args) == ("get_weather", {})
    assert "levels" in (call.problem or "")


@BOTH
def test_arguments_too_deep_to_be_read_at_all_are_asked_for_again(world: World, stream: bool) -> None:
    world.rule("nest too deep", {"text": "flatter"})
    world.rule("^go", {"raw": nested_call(100_000, stream)})
    assert world.ask("go", stream=stream).message.text == "flatter"
