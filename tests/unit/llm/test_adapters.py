"""What every adapter does, whatever the words of its provider: one contract, asked of each through its real client."""

import asyncio
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ekiden.shared.errors import (
    EkidenError,
    ModelAccessDenied,
    ModelError,
    ModelUnavailable,
    QuotaExhausted,
    RequestRefused,
    UnknownModel,
)
from ekiden.shared.llm.base import Delta, ToolSpec
from ekiden.shared.llm.schema import wire_name
from ekiden.shared.messages import Message, TextPart, ToolCall, answered
from ekiden.shared.tls import tls_context
from tests.unit.llm.wires import NOWHERE, WEATHER, WIRES, Wire, World, asked, result, results_for

BOTH = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
OSLO = {"name": "get_weather", "args": {"city": "Oslo"}}
BERGEN = {"name": "get_weather", "args": {"city": "Bergen"}}
NOTHING = {"type": "object", "properties": {}}


def called(message: Message) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, call.args) for call in message.calls]


@BOTH
def test_the_reply_is_the_same_streamed_or_whole(world: World, stream: bool) -> None:
    world.rule("^hello", {"thought": "A greeting.", "text": ["你好", ", ", "there"]})
    reply = world.ask("hello", stream=stream)
    parts = [(part.text, part.thought) for part in reply.message.parts if isinstance(part, TextPart)]
    assert parts == [("A greeting.", True), ("你好, there", False)]
    assert (reply.finish, reply.model, reply.message.model) == ("stop", world.wire.model, world.wire.model)
    assert reply.usage.input_tokens > 0
    assert reply.usage.output_tokens > 0


def test_a_listener_gets_text_and_thoughts_as_they_come(world: World) -> None:
    world.rule("^hello", {"thought": "A greeting.", "text": ["Hi ", "there"]})
    world.ask("hello", stream=True)
    assert world.deltas == [Delta("A greeting.", thought=True), Delta("Hi "), Delta("there")]


@BOTH
@pytest.mark.parametrize(("played", "finish"), [("cut off", "max_tokens"), ("refusal", "refused")])
def test_the_cause_of_an_end_decides_and_is_not_tried_again(
    world: World, played: str, finish: str, stream: bool
) -> None:
    world.rule("^go", played)
    got = world.ask("go", stream=stream)
    assert got.finish == finish
    assert got.detail
    assert len(world.server.requests) == 1


@BOTH
def test_parallel_calls_come_with_ids_of_their_own_beside_text(world: World, stream: bool) -> None:
    world.rule("^go", {"text": "I look.", "calls": [OSLO, BERGEN]})
    message = world.ask("go", stream=stream).message
    assert called(message) == [("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Bergen"})]
    assert len({call.id for call in message.calls}) == 2
    assert message.text == "I look."
    assert len(world.server.requests) == 1  # no client calls a function by itself


@BOTH
def test_ids_that_a_provider_repeats_are_replaced(world: World, stream: bool) -> None:
    world.rule("^go", {"calls": [OSLO | {"id": "call_0"}, OSLO | {"id": "call_0"}]})
    first = world.ask("go", stream=stream).message
    again = world.ask("go", first, results_for(first, "rain", "rain"), "go", stream=stream).message
    assert len({call.id for call in (*first.calls, *again.calls)}) == 4


def test_every_call_is_answered_in_call_order(world: World) -> None:
    """The doubles refuse what their providers refuse: calls without a result, results without a call."""
    world.rule("^go", {"text": "I look.", "calls": [OSLO, BERGEN]})
    said = world.ask("go").message
    failed = result(said.calls[1], "no such town", is_error=True)
    world.rule("", {"text": "rain"})
    assert world.ask("go", said, answered([failed, result(said.calls[0], "rain")]), "and?").message.text == "rain"
    assert world.sent_text.index('"rain"') < world.sent_text.index("no such town")


def test_a_call_without_a_result_is_answered_all_the_same(world: World) -> None:
    world.rule("^go", {"calls": [OSLO, BERGEN]})
    said = world.ask("go").message
    world.ask("go", said, answered([result(said.calls[1], "sun")]), "and now?")
    assert "No result was recorded." in world.sent_text


@pytest.mark.parametrize("signature", [None, "c2lnbmF0dXJl"])
def test_neither_signatures_nor_ids_of_another_model_are_sent(world: World, signature: str | None) -> None:
    call = ToolCall(id="call_of_another", name="get_weather", args={"city": "Oslo"}, signature=signature)
    parts = (TextPart(text="Secretly.", thought=True, signature=signature), TextPart(text="I look."), call)
    said = Message(role="model", parts=parts, model="another/model")
    assert world.ask("go", said, results_for(said, "rain"), "and now?").finish == "stop"
    assert "Oslo" in world.sent_text
    assert "rain" in world.sent_text
    assert not [word for word in ("call_of_another", "c2lnbmF0dXJl", "Secretly") if word in world.sent_text]


@pytest.mark.parametrize("call_id", ["x" * 80, "agent#1-0", "调用"])
def test_ids_that_providers_refuse_are_replaced_by_the_same_ones_each_time(world: World, call_id: str) -> None:
    call = ToolCall(id=call_id, name="get_weather", args={"city": "Oslo"})
    said = Message(role="model", parts=(call,), model=world.wire.model)
    sent = set()
    for _ in range(2):
        world.ask("go", said, results_for(said, "rain"))
        sent.add(world.sent_text)
    assert len(sent) == 1


@pytest.mark.parametrize("name", ["mcp.github.search", "代码修复", "9 lives", "x" * 80])
def test_names_that_providers_refuse_are_mapped_both_ways(world: World, name: str) -> None:
    tool = ToolSpec(name=name, description="Does it.", parameters=NOTHING)
    world.rule("^go", {"calls": [{"name": wire_name(name)}]})
    said = world.ask("go", tools=(tool,)).message
    assert called(said) == [(name, {})]
    world.ask("go", said, results_for(said, "done"), "and now?", tools=(tool,))
    assert f'"{name}"' not in world.sent_text
    assert world.sent_text.count(f'"{wire_name(name)}"') >= 2


def test_forced_tools_are_the_only_ones_that_may_be_called(world: World) -> None:
    other, third = (WEATHER.model_copy(update={"name": name}) for name in ("get_time", "get_news"))
    world.rule("^go", {"calls": [{"name": "get_time", "args": {"city": "Oslo"}}]})
    for forced in (("get_time",), ("get_time", "get_news")):
        reply = world.ask("go", tools=(WEATHER, other, third), forced_tools=forced)
        assert [call.name for call in reply.message.calls] == ["get_time"]


def test_a_made_up_tool_keeps_its_name(world: World) -> None:
    world.rule("^go", {"calls": [{"name": "fly"}]})
    assert [call.name for call in world.ask("go").message.calls] == ["fly"]


@BOTH
def test_a_malformed_call_is_corrected_once_and_both_calls_are_paid(world: World, stream: bool) -> None:
    world.rule("thrown away.*get_weather", {"text": "better"})
    world.rule("^go", "malformed")
    reply = world.ask("go", stream=stream)
    assert (reply.message.text, reply.finish) == ("better", "stop")
    assert world.shown == ("better" if stream else "")
    alone = world.ask("thrown away get_weather")
    assert reply.usage.input_tokens > alone.usage.input_tokens


@BOTH
def test_silence_is_asked_about_a_few_times(world: World, stream: bool) -> None:
    world.rule("", {"thought": "Hm."})
    assert world.ask("go", stream=stream).finish == "empty"
    assert len(world.server.requests) == 3


@BOTH
def test_an_answer_without_an_end_was_cut(world: World, stream: bool) -> None:
    world.rule("^go", "no end")
    with pytest.raises(ModelUnavailable, match="broke off"):
        world.ask("go", stream=stream)


@BOTH
@pytest.mark.parametrize(
    ("reply", "error"),
    [
        ({"error": 429}, ModelUnavailable),
        ("no quota", QuotaExhausted),
        ({"error": 500}, ModelUnavailable),
        ({"error": 503}, ModelUnavailable),
        ({"error": 400, "message": "bad tools"}, RequestRefused),
        ({"error": 401}, ModelAccessDenied),
        ({"error": 403}, ModelAccessDenied),
        ({"disconnect": True}, ModelUnavailable),
        ({"raw": "<html>busy</html>", "status": 502}, ModelUnavailable),
        ({"raw": "<html>not here</html>", "status": 404}, ModelError),
    ],
    ids=str,
)
def test_each_failure_has_its_name(
    world: World, reply: str | dict[str, Any], error: type[EkidenError], stream: bool
) -> None:
    world.rule("^go", reply)
    with pytest.raises(error) as raised:
        world.ask("go", stream=stream)
    assert type(raised.value) is error
    assert "<html>" not in str(raised.value)
    assert len(world.server.requests) == 1  # nobody tries again behind our back


def test_who_does_not_speak_the_language_is_named_by_its_address(world: World) -> None:
    world.rule("^go", {"raw": "<html>not here</html>", "status": 404})
    with pytest.raises(ModelError, match=world.wire.address):
        world.ask("go")


@BOTH
@pytest.mark.parametrize(("reply", "after_s"), [({"retry_after": 7}, 7.0), ({}, None)], ids=["told", "not told"])
@pytest.mark.parametrize("status", [429, 503])
def test_what_the_server_says_of_coming_back_is_kept(
    world: World, status: int, reply: dict[str, Any], after_s: float | None, stream: bool
) -> None:
    world.rule("^go", {"error": status, **reply})
    with pytest.raises(ModelUnavailable) as raised:
        world.ask("go", stream=stream)
    if status == 503 or after_s is not None:  # Gemini says it of every limit
        assert raised.value.retry_after_s == after_s


@pytest.mark.parametrize("reply", ["broken", {"text": ["first ", "half ", "rest"], "cut_after": 1}], ids=str)
def test_a_stream_that_breaks_is_unavailable_after_what_it_showed(world: World, reply: str | dict[str, Any]) -> None:
    world.rule("^go", reply)
    with pytest.raises(ModelUnavailable):
        world.ask("go", stream=True)
    assert world.shown.startswith("first ")


@BOTH
@pytest.mark.usefixtures("waits_pass")
def test_a_model_that_hangs_is_given_up_at_our_own_deadline(world: World, stream: bool) -> None:
    world.timeout_s = 0.3
    world.rule("^go", {"hang": 30, "text": "late"})
    with pytest.raises(ModelUnavailable, match=r"0\.3 s"):
        world.ask("go", stream=stream)


@pytest.mark.usefixtures("waits_pass")
def test_a_slow_first_word_is_waited_for(world: World) -> None:
    world.timeout_s = 60.0
    world.rule("^go", {"hang": 59.0, "text": "late"})
    assert world.ask("go", stream=True).message.text == "late"


@pytest.mark.usefixtures("waits_pass")
def test_a_stream_that_drips_does_not_outlive_the_deadline(world: World) -> None:
    world.timeout_s = 1.0
    world.rule("^go", {"text": ["drip "] * 1_000, "chunk_delay": 0.1})
    with pytest.raises(ModelUnavailable, match="did not answer"):
        world.ask("go", stream=True)
    assert world.shown


@BOTH
def test_a_cancelled_call_ends_within_a_second(world: World, stream: bool) -> None:
    world.rule("^go", {"hang": 30, "text": "late"})

    async def cancelled() -> float:
        listener = world.deltas.append if stream else None
        call = asyncio.create_task(world.model.reply(asked("go", model=world.wire.model), listener))
        await asyncio.to_thread(world.await_request)
        began = time.monotonic()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        return time.monotonic() - began

    assert world.runner.run(cancelled()) < 1.0


@pytest.mark.usefixtures("waits_pass")
def test_a_deadline_of_the_caller_is_not_taken_for_ours(world: World) -> None:
    world.rule("^go", {"hang": 30})

    async def call() -> None:
        async with asyncio.timeout(0.3):
            await world.model.reply(asked("go", model=world.wire.model))

    with pytest.raises(TimeoutError):
        world.runner.run(call())


def test_a_wrong_key_is_named_by_its_variable_and_not_said(world: World) -> None:
    world.server.keys = {"another"}
    with pytest.raises(ModelAccessDenied, match=world.wire.key_variable) as raised:
        world.ask("go")
    assert "secret-test-key" not in str(raised.value)


def test_a_model_that_the_provider_lacks_is_named(world: World) -> None:
    with pytest.raises(UnknownModel, match=world.wire.unknown.rpartition("/")[2]):
        world.ask("go", model=world.wire.unknown)


def test_a_request_without_any_text_is_refused(world: World) -> None:
    with pytest.raises(RequestRefused):
        world.ask("")


def test_a_bug_of_the_listener_is_not_dressed_up(world: World) -> None:
    request = asked("hello", model=world.wire.model)
    with pytest.raises(ZeroDivisionError):
        world.runner.run(world.model.reply(request, lambda delta: 1 / 0))  # type: ignore[arg-type]


@pytest.mark.parametrize("wire", WIRES, ids=repr)
def test_nobody_at_the_address_is_unavailable(wire: Wire) -> None:
    async def call() -> None:
        model = wire.adapter(NOWHERE)
        try:
            await model.reply(asked("go", model=wire.model))
        finally:
            await model.aclose()

    with pytest.raises(ModelUnavailable, match="lost or refused"):
        asyncio.run(call())


def test_one_model_serves_several_event_loops(world: World) -> None:
    model = world.wire.adapter(world.server.url)

    async def ask() -> str:
        try:
            return (await model.reply(asked("hello", model=world.wire.model))).message.text
        finally:
            await model.aclose()

    assert asyncio.run(ask()) == asyncio.run(ask())


def test_lists_the_models_of_the_provider(world: World) -> None:
    assert world.wire.model in world.runner.run(world.model.model_names())


def test_a_redirect_is_not_followed(world: World) -> None:
    """What was said, and the key of those who have it in a header of their own, would go wherever a server says."""
    with world.wire.serve() as other:
        world.rule("^go", {"raw": "{}", "status": 307, "location": other.url})
        with pytest.raises(ModelError, match=world.wire.address):
            world.ask("go")
        assert other.requests == []


def functions_called(act: Callable[[], object]) -> int:
    """How many functions this thread calls meanwhile: time says little on a machine that others use."""
    called, before = 0, sys.getprofile()

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal called
        called += event == "call"

    sys.setprofile(count)
    try:
        act()
    finally:
        sys.setprofile(before)
    return called


def test_no_client_goes_through_a_long_conversation(world: World) -> None:
    """No other leg of the process goes on while one does: it took up to 180 ms for 450 messages."""

    def conversation(turns: int) -> Iterator[Message | str]:
        for turn in range(turns):
            call = ToolCall(id=f"call_{turn}", name="get_weather", args={"city": "Oslo"})
            said = Message(role="model", parts=(TextPart(text="I look."), call), model=world.wire.model)
            yield from (f"go {turn}", said, results_for(said, "rain"))
        yield "go"

    world.ask("go")  # what is made once is made
    few, many = (functions_called(lambda n=n: world.ask(*conversation(n))) for n in (10, 60))  # type: ignore[misc]
    assert (many - few) / 150 < 60


@pytest.mark.parametrize("wire", WIRES, ids=repr)
def test_clients_of_a_process_read_the_certificates_once(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    tls_context()
    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", None)

    async def ask() -> None:
        model = wire.adapter(server.url)
        await model.reply(asked("hello", model=wire.model))
        await model.aclose()

    with wire.serve() as server:
        asyncio.run(ask())


@pytest.fixture(scope="module")
def loaded() -> list[str]:
    """Which clients a process has loaded that asks nobody: with every adapter made, then with a model chosen."""
    code = (
        "import sys, ekiden.shared.llm.making as m; from tests.unit.llm.wires import WIRES\n"
        "clients = 'google.genai', 'openai', 'anthropic', 'httpx2'\n"
        "def tell(): print([name for name in clients if name in sys.modules])\n"
        "for wire in WIRES: wire.adapter('http://127.0.0.1:9')\n"
        "tell()\n"
        "models = m.Models(m.ModelValues(), {'GEMINI_API_KEY': 'k'})\n"
        "models.model(models.choose(None))\n"
        "tell()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_clients_are_loaded_by_the_first_call_only(loaded: list[str]) -> None:
    assert loaded[0] == "[]"


def test_the_client_of_a_model_that_is_chosen_is_loaded_by_its_first_call_only(loaded: list[str]) -> None:
    assert loaded[1] == "[]"
