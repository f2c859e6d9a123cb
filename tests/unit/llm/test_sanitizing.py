"""What a model says is storable, whatever it says and however it comes."""

import asyncio
from typing import Any

import pytest

from ekiden.shared.errors import ModelUnavailable
from ekiden.shared.llm.base import Delta, ModelReply, ModelRequest, OnDelta
from ekiden.shared.llm.sanitizing import SanitizingModel
from ekiden.shared.messages import Message, TextPart, ToolCall
from ekiden.shared.records import ModelReplied, decode_record, encode_record

REQUEST = ModelRequest(agent="a", model="m", instructions="", messages=())


class Says:
    """A model that says this."""

    def __init__(
        self, *parts: TextPart | ToolCall, deltas: tuple[Delta, ...] = (), error: Exception | None = None
    ) -> None:
        self._reply = ModelReply(message=Message(role="model", parts=parts), detail="odd \ud800", model="m\ud800")
        self._deltas = deltas
        self._error = error

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        if self._error is not None:
            raise self._error
        if on_delta is not None:
            for delta in self._deltas:
                on_delta(delta)
        return self._reply


def asked(model: Says, on_delta: OnDelta | None = None) -> ModelReply:
    return asyncio.run(SanitizingModel(model).reply(REQUEST, on_delta))


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


def test_lone_surrogates_of_a_model_become_replacement_characters_everywhere() -> None:
    call = ToolCall(id="c\ud800", name="t\ud800", args={"a\udfff": ["\ud83d", {"b": 1}]}, signature="c2ln")
    reply = asked(Says(TextPart(text="bad \ud800!", signature="c2ln"), TextPart(text="\ud83d", thought=True), call))
    assert reply.message.text == "bad \ufffd!"
    [kept] = reply.message.calls
    assert kept == ToolCall(id="c\ufffd", name="t\ufffd", args={"a\ufffd": ["\ufffd", {"b": 1}]}, signature="c2ln")
    assert (reply.detail, reply.model) == ("odd \ufffd", "m\ufffd")
    record = ModelReplied(leg=1, turn=1, message=reply.message, detail=reply.detail, model=reply.model)
    assert decode_record(encode_record(record)) == record


@pytest.mark.parametrize("levels", [65, 210, 250, 300, 900, 100_000])
def test_arguments_that_nest_too_deep_are_left_out_and_the_call_says_why(levels: int) -> None:
    call = ToolCall.model_construct(id="c", name="t", args=nested(levels), kind="call", signature="c2ln", problem=None)
    [kept] = asked(Says(call)).message.calls
    assert (kept.args, kept.signature) == ({}, "c2ln")
    assert kept.problem is not None
    assert "more than 64 levels" in kept.problem


@pytest.mark.parametrize("number", [float("nan"), float("-inf")])
def test_arguments_that_are_no_json_are_left_out_and_the_call_says_why(number: float) -> None:
    made = ToolCall(id="c", name="t", args={"report": [{"score": number}]})
    [kept] = asked(Says(made)).message.calls
    assert (kept.args, "NaN or an infinity" in (kept.problem or "")) == ({}, True)


def test_arguments_as_deep_as_may_be_are_kept_and_can_be_read_again() -> None:
    reply = asked(Says(ToolCall(id="c", name="t", args=nested(64))))
    record = ModelReplied(leg=1, turn=1, message=reply.message)
    assert decode_record(encode_record(record)) == record
    assert reply.message.calls[0].args == nested(64)


def test_the_halves_of_a_character_in_two_pieces_of_a_stream_are_joined() -> None:
    shown: list[Delta] = []
    pieces = ("smile \ud83d", "\ude00 lone \ud83d", " text", "\udc00", "cut \ud83d")
    asked(Says(deltas=tuple(map(Delta, pieces))), shown.append)
    assert [delta.text for delta in shown] == ["smile ", "😀 lone ", "\ufffd text", "\ufffd", "cut "]


def test_half_a_character_is_forgotten_where_the_answer_begins_anew() -> None:
    shown: list[Delta] = []
    asked(Says(deltas=(Delta("\ud83d"), Delta("", restart=True), Delta("hm", thought=True))), shown.append)
    assert shown == [Delta(""), Delta("", restart=True), Delta("hm", thought=True)]


def test_what_a_provider_says_of_a_failure_is_storable_as_well() -> None:
    with pytest.raises(ModelUnavailable, match="busy \ufffd") as caught:
        asked(Says(error=ModelUnavailable("busy \ud800", 3.0)))
    assert caught.value.retry_after_s == 3.0
