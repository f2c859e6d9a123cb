"""What Gemini is sent: the double refuses what the real one would."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field

from ekiden.shared.llm.base import ToolSpec
from ekiden.shared.messages import Message, TextPart, ToolCall, ToolResult, answered, user_message
from ekiden.workers.completion import Completion
from ekiden.workers.delegation import Delegations
from ekiden.workers.untrusted import Untrusted
from tests.doubles.gemini.wire import declarations
from tests.scenarios.relay import team
from tests.unit.llm.gemini.conftest import OTHER_SIGNING, PLAIN, SIGNING
from tests.unit.llm.wires import World, result, results_for
from tests.unit.workers.offered import leg_of, transfers_of

TWO = {"calls": [{"name": "get_weather", "args": {"city": city}} for city in ("Oslo", "Rome")], "text": "Both."}


def parts(world: World, kind: str) -> list[dict[str, Any]]:
    return [part for content in world.sent["contents"] for part in content["parts"] if kind in part]


def roles(world: World) -> list[str]:
    return [content["role"] for content in world.sent["contents"]]


def test_sends_instructions_temperature_and_the_tools_schema(world: World) -> None:
    world.ask("hello", temperature=0.2)
    assert world.sent["systemInstruction"]["parts"][0]["text"] == "You know the weather."
    assert world.sent["generationConfig"]["temperature"] == 0.2
    (declared,) = world.sent["tools"][0]["functionDeclarations"]
    assert declared["name"] == "get_weather"
    assert declared["parameters_json_schema"]["required"] == ["city"]


@pytest.mark.parametrize("model", [SIGNING, PLAIN])
def test_parallel_calls_come_back_with_their_responses_in_call_order(world: World, model: str) -> None:
    world.rule("^two", TWO)
    first = world.ask("two", model=model).message
    oslo, rome = first.calls
    results = answered([result(rome, "sun"), result(oslo, "rain", is_error=True)])
    world.server.add({"when": {"answered": "get_weather"}, "reply": {"text": "rain and sun"}})
    assert world.ask("two", first, results, model=model).message.text == "rain and sun"
    responses = [part["functionResponse"]["response"] for part in parts(world, "functionResponse")]
    assert responses == [{"error": "rain"}, {"output": "sun"}]
    assert roles(world) == ["user", "model", "user"]


def test_a_thought_signature_goes_back_byte_for_byte_on_its_part(world: World) -> None:
    world.rule("^two", TWO)
    first = world.ask("two", model=SIGNING).message
    assert [bool(call.signature) for call in first.calls] == [True, False]
    stored = Message.model_validate_json(first.model_dump_json())
    world.ask("two", stored, results_for(stored, "rain", "sun"), model=SIGNING)
    calls = parts(world, "functionCall")
    assert base64.urlsafe_b64decode(calls[0]["thoughtSignature"]) == base64.b64decode(first.calls[0].signature or "")
    assert "thoughtSignature" not in calls[1]
    assert [part["functionCall"]["id"] for part in calls] == [call.id for call in first.calls]


@pytest.mark.parametrize("stream", [True, False])
def test_a_signature_on_an_empty_part_is_kept_there(world: World, stream: bool) -> None:
    world.rule("^hello", {"text": ["Hi ", "there"], "signature_apart": True})
    first = world.ask("hello", model=SIGNING, stream=stream).message
    assert [part.text for part in first.parts if isinstance(part, TextPart)] == ["Hi there", ""]
    world.ask("hello", first, "go on", model=SIGNING)
    assert [bool(part.get("thoughtSignature")) for part in world.sent["contents"][1]["parts"]] == [False, True]


def test_another_model_reads_the_steps_as_text_without_signatures(world: World) -> None:
    world.rule("^two", TWO)
    first = world.ask("two", model=SIGNING).message
    reply = world.ask("two", first, results_for(first, "rain", "sun"), model=OTHER_SIGNING)
    assert reply.finish == "stop"
    assert not parts(world, "functionCall")
    assert not parts(world, "thoughtSignature")
    assert roles(world) == ["user", "model", "user"]
    told = world.sent["contents"][2]["parts"][0]["text"]
    assert "get_weather" in told
    assert '{"city": "Oslo"}\nResult:\nrain' in told


def test_an_older_model_takes_the_calls_of_another_as_calls(world: World) -> None:
    call = ToolCall(id="call_1", name="get_weather", args={"city": "Oslo"}, signature="c2ln")
    made = Message(role="model", parts=(call,), model="scripted")
    world.ask("weather?", made, results_for(made, "rain"), model=PLAIN)
    assert parts(world, "functionCall") == [{"functionCall": {"name": "get_weather", "args": {"city": "Oslo"}}}]


def test_ids_that_gemini_did_not_give_do_not_go_to_it(world: World) -> None:
    world.rule("^two", TWO)
    first = world.ask("two", model=PLAIN).message
    assert len({call.id for call in first.calls}) == 2
    world.ask("two", first, results_for(first, "rain", "sun"), model=PLAIN)
    assert all("id" not in part["functionCall"] for part in parts(world, "functionCall"))


def test_calls_without_an_id_are_numbered_in_their_turn_and_their_ids_never_go_back(world: World) -> None:
    world.rule("^two", TWO)
    first = world.ask("two", model=PLAIN, prompt_id="预报员-1#3").message
    assert [call.id for call in first.calls] == ["预报员-1#3-0", "预报员-1#3-1"]
    old = Message(role="model", parts=(first.calls[0].model_copy(update={"id": "own-0123456789ab"}),), model=PLAIN)
    world.ask("two", first, results_for(first, "rain", "sun"), old, results_for(old, "rain"), model=PLAIN)
    assert all("id" not in part["functionCall"] for part in parts(world, "functionCall"))
    assert all("id" not in part["functionResponse"] for part in parts(world, "functionResponse"))


def test_an_id_that_gemini_repeats_is_replaced_by_one_of_our_own(world: World) -> None:
    world.rule("^go", {"calls": [{"name": "get_weather", "args": {"city": "Oslo"}, "id": "same"}]}, again=True)
    first = world.ask("go", model=SIGNING).message
    second = world.ask("go", first, results_for(first, "rain"), model=SIGNING).message
    assert first.calls[0].id == "same"
    assert second.calls[0].id != "same"
    third = world.ask("go", first, results_for(first, "rain"), second, results_for(second, "sun"), model=SIGNING)
    assert third.finish == "stop"


def test_thoughts_do_not_go_back(world: World) -> None:
    world.rule("^hello", {"thought": "The user greets.", "text": "Hi"})
    first = world.ask("hello").message
    assert [part.thought for part in first.parts if isinstance(part, TextPart)] == [True, False]
    world.ask("hello", first, "and now?")
    assert world.sent["contents"][1]["parts"] == [{"text": "Hi"}]


def test_texts_that_follow_each_other_become_one_content(world: World) -> None:
    world.ask("one", user_message("two"), Message(role="model", parts=()), "three")
    assert roles(world) == ["user"]
    assert [part["text"] for part in world.sent["contents"][0]["parts"]] == ["one", "two", "three"]


@pytest.mark.parametrize("name", ["mcp.github.search", "代码修复", "9lives", "a b", "x" * 80])
def test_names_that_gemini_would_refuse_are_mapped_both_ways(world: World, name: str) -> None:
    tool = ToolSpec(name=name, description="Search the issues.", parameters={"type": "object", "properties": {}})
    made = world.ask("search the issues", tools=(tool,)).message
    assert [call.name for call in made.calls] == [name]
    world.ask("search the issues", made, results_for(made, "none"), tools=(tool,))
    (declared,) = world.sent["tools"][0]["functionDeclarations"]
    assert parts(world, "functionCall")[0]["functionCall"]["name"] == declared["name"] != name


def test_the_namespace_that_gemini_invents_is_taken_off(world: World) -> None:
    world.rule("^go", {"calls": [{"name": "default_api.get_weather", "args": {}}]})
    assert [call.name for call in world.ask("go").message.calls] == ["get_weather"]


def test_forced_tools_are_the_only_ones_that_may_be_called(world: World) -> None:
    other = ToolSpec(name="mcp.book", description="Book a flight.", parameters={"type": "object", "properties": {}})
    reply = world.ask("the weather of a city", tools=(WEATHER_TOO, other), forced_tools=("mcp.book",))
    assert [call.name for call in reply.message.calls] == ["mcp.book"]
    assert world.sent["toolConfig"]["functionCallingConfig"]["mode"] == "ANY"


WEATHER_TOO = ToolSpec(name="weather", description="The weather of a city.", parameters={"type": "object"})


@pytest.mark.parametrize(
    ("model", "thinks"),
    [(SIGNING, True), (PLAIN, True), ("gemini-2.5-flash-lite", False), ("gemini-2.0-flash", False)],
)
def test_only_models_that_think_are_asked_for_their_thoughts(world: World, model: str, thinks: bool) -> None:
    assert world.ask("hello", model=model).finish == "stop"
    assert ("thinkingConfig" in world.sent.get("generationConfig", {})) is thinks


def test_pydantics_references_with_a_description_are_accepted(world: World) -> None:
    schema = {
        "type": "object",
        "properties": {"to": {"$ref": "#/$defs/Place", "description": "Where."}},
        "$defs": {"Place": {"type": "object", "properties": {"kind": {"const": "city"}}}},
    }
    tool = ToolSpec(name="travel", description="Travel.", parameters=schema)
    assert world.ask("hello", tools=(tool,)).finish == "stop"


class Finding(BaseModel):
    file: str
    below: "list[Finding]" = []


class Report(BaseModel):
    findings: list[Finding]
    first: Finding = Field(description="The worst.")


@pytest.mark.parametrize("use", ["output", "payload", "spread payload", "inputs"])
def test_schemas_as_pydantic_writes_them_reach_the_model_wherever_a_file_has_them(world: World, use: str) -> None:
    schema = Report.model_json_schema()
    taken = {**schema, "minProperties": 1} if use == "payload" else schema  # which cannot stand beside other fields
    lead: dict[str, Any] = {"name": "lead"}
    if "payload" in use:
        lead["handoffs"] = [{"to": "scout", "payload": {"schema": taken}}]
    else:
        lead |= {"complete_task": True, "output": {"name": "report", "schema": taken}, "subagents": ["scout"]}
    value = {key: one for key, one in schema.items() if key != "required"}  # which says there whether the input is
    catalog = team(lead, {"name": "scout", "inputs": {"report": value}})
    agent, leg = catalog.definition("lead"), leg_of("lead")
    if use == "output":
        offered = Completion(agent, leg.context).specs
    elif use == "inputs":
        offered = Delegations(
            agent, leg, {"scout": catalog.definition("scout")}, Untrusted(leg, Path("/"), denies=False)
        ).specs
    else:
        offered = transfers_of(catalog, leg).specs

    assert world.ask("hello", tools=offered).finish == "stop"
    [declared] = declarations(world.sent)
    assert set(declared["parametersJsonSchema"]["$defs"]) == {"Finding"}
    assert "#/$defs/Finding" in json.dumps(declared["parametersJsonSchema"]["properties"])


def test_a_result_for_nobodys_call_is_left_out(world: World) -> None:
    orphan = answered([ToolResult(call_id="gone", name="get_weather", content="rain")])
    assert world.ask("hello", orphan).finish == "stop"
    assert roles(world) == ["user"]
