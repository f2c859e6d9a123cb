"""What is Anthropic's own of the Messages API."""

from typing import Any

import pytest

from ekiden.shared.errors import EkidenError, ModelUnavailable, QuotaExhausted
from ekiden.shared.llm import access
from ekiden.shared.llm.anthropic import ANTHROPIC as PROVIDER
from ekiden.shared.llm.models import ModelValues, choose
from ekiden.shared.messages import Message, TextPart, answered
from tests.unit.llm.conftest import Worlds
from tests.unit.llm.wires import ANTHROPIC, WEATHER, World, result, results_for

OSLO = {"name": "get_weather", "args": {"city": "Oslo"}}
HAIKU = "claude-haiku-5-5"
KEYS = {"ANTHROPIC_API_KEY": "k"}


@pytest.fixture
def world(worlds: Worlds) -> World:
    return worlds.of(ANTHROPIC)


def blocks(world: World, kind: str) -> list[dict[str, Any]]:
    contents = [message["content"] for message in world.sent["messages"] if isinstance(message["content"], list)]
    return [block for content in contents for block in content if block["type"] == kind]


def test_sends_instructions_the_tools_schema_and_room_for_a_long_answer(world: World) -> None:
    world.ask("hello", temperature=0.2)
    assert world.sent["system"] == "You know the weather."
    assert world.sent["messages"] == [{"role": "user", "content": "hello"}]
    (tool,) = world.sent["tools"]
    assert tool["input_schema"]["required"] == ["city"]
    assert (world.sent["max_tokens"], world.sent["temperature"]) == (32_000, 0.2)


@pytest.mark.usefixtures("own_model")
@pytest.mark.parametrize(
    ("option", "asked", "said"),
    [
        ("temperature", {"temperature": 0.1}, "temperature: Extra inputs are not permitted"),
        ("tool_choice", {"forced_tools": ("get_weather",)}, "Thinking may not be enabled when tool_choice forces use."),
    ],
)
def test_what_a_model_does_not_take_is_left_out_from_then_on(
    world: World, option: str, asked: dict[str, Any], said: str
) -> None:
    world.rule("^go", {"error": 400, "message": said}, times=1)
    for _ in range(2):
        assert world.ask("go", model=HAIKU, **asked).finish == "stop"
    assert [option in one.body for one in world.server.requests] == [True, False, False]


@pytest.mark.parametrize(
    "played", [{"thought": "Oslo is a town."}, {"redacted": "Z2VoZWlt"}], ids=["plain", "redacted"]
)
def test_thoughts_go_back_with_the_calls_of_the_same_model_only(world: World, played: dict[str, Any]) -> None:
    world.rule("^go", {**played, "calls": [OSLO]})
    said = Message.model_validate_json(world.ask("go").message.model_dump_json())
    world.ask("go", said, results_for(said, "rain"), "thanks")
    sent = blocks(world, "thinking") + blocks(world, "redacted_thinking")
    plain = {"type": "thinking", "thinking": "Oslo is a town.", "signature": "c2lnbmVk"}
    assert sent == [plain if "thought" in played else {"type": "redacted_thinking", "data": "Z2VoZWlt"}]
    world.ask("go", said, results_for(said, "rain"), "thanks", model=HAIKU)
    assert blocks(world, "thinking") + blocks(world, "redacted_thinking") == []


def test_results_say_which_of_them_failed(world: World) -> None:
    world.rule("^go", {"calls": [OSLO, OSLO]})
    said = world.ask("go").message
    failed = result(said.calls[1], "no such town", is_error=True)
    world.ask("go", said, answered([failed, result(said.calls[0], "rain")]))
    assert [(one["content"], one["is_error"]) for one in blocks(world, "tool_result")] == [
        ("rain", False),
        ("no such town", True),
    ]


@pytest.mark.usefixtures("own_model")
def test_so_is_it_of_requests_that_were_under_way_when_the_model_said_so(world: World) -> None:
    world.rule("^go", {"error": 400, "message": "temperature: Extra inputs are not permitted", "hang": 600}, times=2)
    replies = world.ask_at_once(2, "go", temperature=0.1)
    assert [reply.finish for reply in replies] == ["stop", "stop"]


def test_forced_tools_are_the_only_ones_that_are_offered(world: World) -> None:
    other = WEATHER.model_copy(update={"name": "get_time"})
    world.ask("go", tools=(WEATHER, other), forced_tools=("get_time",))
    assert world.sent["tool_choice"] == {"type": "any"}
    assert [tool["name"] for tool in world.sent["tools"]] == ["get_time"]


@pytest.mark.parametrize("raw", ["{bad", "[1, 2]", "7"])
def test_arguments_that_stay_no_object_are_told_to_the_model(world: World, raw: str) -> None:
    world.rule("", {"calls": [{"name": "get_weather", "raw": raw}, OSLO]})
    reply = world.ask("go")
    bad, good = reply.message.calls
    assert "no JSON object" in (bad.problem or "")
    assert (good.args, good.problem, reply.finish) == ({"city": "Oslo"}, None, "stop")
    assert len(world.server.requests) == 2


def test_a_call_that_was_cut_off_is_none(world: World) -> None:
    world.rule("^go", {"calls": [{"name": "get_weather", "raw": '{"city": "Os'}], "finish": "max_tokens"})
    assert world.ask("go").finish == "max_tokens"


def test_what_is_no_text_is_said_and_left_out(world: World) -> None:
    world.rule("^draw", {"text": "Here.", "images": True})
    assert "has image besides" in world.ask("draw").message.text


def test_what_a_cache_had_counts_as_input(world: World) -> None:
    world.rule("^go", {"text": "x", "usage": {"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 3}})
    usage = world.ask("go").usage
    assert (usage.input_tokens, usage.output_tokens) == (15, 3)


@pytest.mark.parametrize(
    ("reply", "error", "says"),
    [
        ({"error": 529}, ModelUnavailable, "cannot answer now"),
        ({"error": 400, "code": "billing_error"}, QuotaExhausted, "credit"),
        ({"text": ["a"], "stream_error": "rate_limit_error"}, ModelUnavailable, "Rate limit"),
        ({"text": ["a"], "stream_error": "api_error"}, ModelUnavailable, "it is too much"),
    ],
)
def test_each_failure_has_its_name(world: World, reply: dict[str, Any], error: type[EkidenError], says: str) -> None:
    world.rule("^go", reply)
    with pytest.raises(error, match=says):
        world.ask("go", stream=True)


def test_names_of_other_tools_find_their_model_where_its_key_is() -> None:
    for name in ("sonnet", "Opus", "haiku"):
        choice = choose(name, ModelValues(model="scripted"), KEYS)
        assert (choice.provider, name.lower() in choice.name) == (PROVIDER, True)
    assert choose("claude-sonnet-4-6", ModelValues(model="scripted"), KEYS).name == "claude-sonnet-4-6"
    without = choose("sonnet", ModelValues(model="scripted"), {})
    assert (without.name, "set ANTHROPIC_API_KEY" in without.note) == ("scripted", True)


def test_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert PROVIDER.lacks(KEYS) == ""
    assert PROVIDER.lacks({"ANTHROPIC_API_KEY": "a\nb"}).startswith("ANTHROPIC_API_KEY holds characters")
    monkeypatch.setattr(access, "find_spec", lambda name: None)
    assert PROVIDER.lacks(KEYS) == "the Python package anthropic is missing: pip install 'ekiden[anthropic]'"


def test_a_message_of_nothing_but_thoughts_is_left_out(world: World) -> None:
    thought = Message(role="model", parts=(TextPart(text="Hm.", thought=True),), model=ANTHROPIC.model)
    world.ask("go", thought, "well?")
    assert [one["role"] for one in world.sent["messages"]] == ["user", "user"]
