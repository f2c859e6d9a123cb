"""A server that asks in place of a result: its question for people, their answer for it."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest

from ekiden.shared.errors import ToolError
from ekiden.shared.mcp.entries import server_of
from ekiden.workers.mcp.hub import Hub
from ekiden.workers.mcp.programs import Starter
from ekiden.workers.mcp.questions import answers_of, question_of
from ekiden.workers.mcp.toolbox import McpTools
from ekiden.workers.tools.base import Answered, Tool, ToolContext, ToolOutput, ToolQuestion
from tests.unit.mcp.test_hub import DOUBLE, Remembered

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    hub = Hub({}, Starter({"PATH": os.environ["PATH"]}))
    yield hub
    hub.close()


async def refund(hub: Hub, folder: Path, answered: Answered | None = None, *how: str, order: str = "7") -> ToolOutput:
    entry = server_of("shop", {"command": sys.executable, "args": [str(DOUBLE), *(how or ("modern",))]})
    tools: dict[str, Tool] = {tool.name: tool for tool in (await McpTools(hub, Remembered()).of({"shop": entry})).tools}
    context = ToolContext("j", 1, "a", "c", folder, folder, answered=answered)
    output: Any = await tools["mcp_shop_refund"].function({"text": order}, context)  # type: ignore[misc]
    assert isinstance(output, ToolOutput)
    return output


async def question(hub: Hub, folder: Path, *how: str) -> ToolQuestion:
    with pytest.raises(ToolQuestion) as asked:
        await refund(hub, folder, None, *how)
    return asked.value


async def test_a_yes_or_no_is_a_choice_and_the_answer_goes_on_in_another_process(hub: Hub, tmp_path: Path) -> None:
    asked = await question(hub, tmp_path)
    assert "Refund order 7?" in asked.text
    assert asked.choices == ("yes", "no")
    other = Hub({}, Starter({"PATH": os.environ["PATH"]}))
    try:
        for said, became in (("yes", "accept True for 7"), ("no", "accept False for 7"), ("是", "accept True for 7")):
            assert (await refund(other, tmp_path, Answered(asked.state, "answered", said))).text == became
    finally:
        other.close()


async def test_whoever_does_not_answer_declines_and_nobody_at_all_cancels(hub: Hub, tmp_path: Path) -> None:
    asked = await question(hub, tmp_path)
    assert (await refund(hub, tmp_path, Answered(asked.state, "denied", "no time"))).text == "decline None for 7"
    assert (await refund(hub, tmp_path, Answered(asked.state, "expired"))).text == "cancel None for 7"


async def test_a_server_that_has_forgotten_its_question_asks_anew_once(hub: Hub, tmp_path: Path) -> None:
    how = ("forgets", str(tmp_path / "forgot"))
    asked = await question(hub, tmp_path, *how)
    with pytest.raises(ToolQuestion):
        await refund(hub, tmp_path, Answered(asked.state, "answered", "yes"), *how)
    assert (await refund(hub, tmp_path, Answered(asked.state, "answered", "yes"), *how)).text == "accept True for 7"


async def test_a_server_that_wants_a_models_answer_gets_none(hub: Hub, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="asks for 'sampling/createMessage', which no agent gives"):
        await refund(hub, tmp_path, order="sampling")


def form(**properties: Any) -> types.InputRequiredResult:
    schema = {"type": "object", "properties": properties}
    params = types.ElicitRequestFormParams(message="Fill in", requested_schema=schema)
    return types.InputRequiredResult(input_requests={"q": types.ElicitRequest(params=params)}, request_state="s")


def answer(result: types.InputRequiredResult, text: str) -> Any:
    answers, state = answers_of(Answered(question_of("shop", result).state, "answered", text))
    assert state == "s"
    given = answers["q"]
    assert isinstance(given, types.ElicitResult)
    return given.content


def test_fields_are_typed_as_the_form_says() -> None:
    assert answer(form(n={"type": "integer"}), " 7 ") == {"n": 7}
    assert answer(form(n={"type": "number"}), "0.5") == {"n": 0.5}
    assert answer(form(n={"type": "number"}), "nan") == {"n": "nan"}
    assert answer(form(n={"type": "number"}), '{"n": NaN}') == {"n": '{"n": NaN}'}
    assert answer(form(n={"type": "integer"}), "seven") == {"n": "seven"}
    assert answer(form(color={"type": "string", "enum": ["red", "blue"]}), "red") == {"color": "red"}


def test_a_form_of_several_fields_is_answered_with_json() -> None:
    several = form(name={"type": "string", "title": "Name"}, age={"type": "integer"})
    text = question_of("shop", several).text
    assert "Answer with a JSON object" in text
    assert "name (string): Name" in text
    assert answer(several, '{"name": "李", "age": 3, "other": 1}') == {"name": "李", "age": 3}


def test_an_address_is_shown_and_done_is_the_answer() -> None:
    params = types.ElicitRequestURLParams(message="Log in", url="https://example.com/login")
    result = types.InputRequiredResult(input_requests={"q": types.ElicitRequest(params=params)}, request_state="s")
    asked = question_of("shop", result)
    assert "Open https://example.com/login" in asked.text
    assert asked.choices == ("done",)
    assert answer(result, "done") is None


def test_what_no_person_can_give_is_an_error() -> None:
    with pytest.raises(ToolError, match="does not say with what"):
        question_of("shop", types.InputRequiredResult(input_requests={}, request_state="s"))
