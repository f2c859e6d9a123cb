import asyncio
import contextvars
import json
import threading
from typing import Any

import pytest
from pydantic import BaseModel, Field
from structlog.testing import capture_logs

from ekiden.shared.errors import DefinitionError, ToolError
from ekiden.shared.llm.base import ToolSpec
from ekiden.shared.messages import ToolCall, ToolResult
from ekiden.workers.tools.base import ToolContext, ToolOutput, schema_tool, tool
from ekiden.workers.tools.tool_runner import ToolRunner
from tests.ticking import beside_a_ticking_loop


class Say(BaseModel):
    """Say a text."""

    text: str
    times: int = Field(default=1, ge=1)
    tags: list[int] = []


@tool(Say, read_only=True)
def say(args: Say, context: ToolContext) -> str:
    return args.text * args.times


@tool(Say)
async def say_async(args: Say, context: ToolContext) -> str:
    await asyncio.sleep(0)
    return args.text


@tool(Say)
def where(args: Say, context: ToolContext) -> str:
    return threading.current_thread().name


@tool(Say)
def refuse(args: Say, context: ToolContext) -> str:
    raise ToolError("not today")


@tool(Say)
def break_down(args: Say, context: ToolContext) -> str:
    raise {"KeyError": KeyError, "SystemExit": SystemExit, "StopIteration": StopIteration}[args.text]("boom")


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@tool(Say)
async def break_down_async(args: Say, context: ToolContext) -> str:
    errors = {"slow": TimeoutError, "odd": BaseException, "mute": Unprintable}
    raise errors[args.text](args.text)


@tool(Say)
def number(args: Say, context: ToolContext) -> str:
    return 7  # type: ignore[return-value] # the mistake under test


@pytest.fixture
def tool_runner() -> ToolRunner:
    return ToolRunner([say, say_async, where, refuse, break_down, break_down_async, number])


def _run(tool_runner: ToolRunner, context: ToolContext, name: str, **args: Any) -> ToolResult:
    return asyncio.run(tool_runner.run(ToolCall(id="c7", name=name, args=args), context))


def test_answers_a_call_of_a_synchronous_tool(tool_runner: ToolRunner, context: ToolContext) -> None:
    expected = ToolResult(call_id="c7", name="say", content="haha")
    assert _run(tool_runner, context, "say", text="ha", times="2", mood="ignored") == expected


def test_answers_a_call_of_an_asynchronous_tool(tool_runner: ToolRunner, context: ToolContext) -> None:
    assert _run(tool_runner, context, "say_async", text="早").content == "早"


def test_runs_synchronous_tools_off_the_event_loop(tool_runner: ToolRunner, context: ToolContext) -> None:
    assert _run(tool_runner, context, "where", text="").content.startswith("tool")


def test_runs_no_more_synchronous_tools_at_once_than_it_has_threads(context: ToolContext) -> None:
    running, most, lock, met = 0, 0, threading.Lock(), threading.Barrier(2)

    @tool(Say)
    def count(args: Say, context: ToolContext) -> str:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        met.wait(timeout=60)  # passes only when two run beside each other
        with lock:
            running -= 1
        return ""

    async def six(tool_runner: ToolRunner) -> None:
        calls = [ToolCall(id=str(n), name="count", args={"text": ""}) for n in range(6)]
        results = await asyncio.gather(*(tool_runner.run(call, context) for call in calls))
        assert not any(result.is_error for result in results)

    tool_runner = ToolRunner([count], threads=2)
    asyncio.run(six(tool_runner))
    assert most == 2


def test_takes_the_callers_context_into_the_thread(context: ToolContext) -> None:
    bound: contextvars.ContextVar[str] = contextvars.ContextVar("bound")

    @tool(Say)
    def look(args: Say, context: ToolContext) -> str:
        return bound.get()

    async def call(tool_runner: ToolRunner) -> ToolResult:
        bound.set("here")
        return await tool_runner.run(ToolCall(id="1", name="look", args={"text": ""}), context)

    tool_runner = ToolRunner([look])
    assert asyncio.run(call(tool_runner)).content == "here"


def test_explains_each_problem_of_the_arguments(tool_runner: ToolRunner, context: ToolContext) -> None:
    result = _run(tool_runner, context, "say", times=0, tags=[1, "x"], txt="ha")
    assert result.is_error
    assert result.content.splitlines() == [
        "the arguments of 'say' are not valid:",
        "- text: is required",
        "- times: Input should be greater than or equal to 1, got 0",
        "- tags.1: Input should be a valid integer, unable to parse string as an integer, got 'x'",
        "- txt: not an argument of this tool",
        "expected: text, times (optional), tags (optional)",
    ]


@pytest.mark.parametrize("args", [["text"], "text", None, 3])
def test_explains_arguments_that_are_no_object(args: Any, tool_runner: ToolRunner, context: ToolContext) -> None:
    call = ToolCall.model_construct(id="c7", name="say", args=args)
    result = asyncio.run(tool_runner.run(call, context))
    assert result.is_error
    assert f"expected an object, got {type(args).__name__}" in result.content


def test_does_not_repeat_long_input_in_its_explanation(tool_runner: ToolRunner, context: ToolContext) -> None:
    assert len(_run(tool_runner, context, "say", text="", times="x" * 10_000).content) < 500


def test_names_the_offered_tools_when_one_is_unknown(tool_runner: ToolRunner, context: ToolContext) -> None:
    result = _run(tool_runner.only([say, refuse]), context, "sya")
    assert result.is_error
    assert (
        result.content == "Unauthorized tool call: there is no tool 'sya': did you mean 'say'? offered are refuse, say"
    )


def test_does_not_run_a_tool_that_is_not_offered(tool_runner: ToolRunner, context: ToolContext) -> None:
    narrow = tool_runner.only([refuse])
    assert _run(narrow, context, "say", text="x").is_error
    assert (
        _run(tool_runner.only([]), context, "say", text="x").content
        == "Unauthorized tool call. Tool not allowed for this agent: 'say'; this agent is offered none"
    )
    assert _run(tool_runner, context, "say", text="x").content == "x"


def test_turns_a_tool_error_into_its_text(tool_runner: ToolRunner, context: ToolContext) -> None:
    with capture_logs() as logs:
        result = _run(tool_runner, context, "refuse", text="")
    assert (result.content, result.is_error) == ("not today", True)
    assert not [log for log in logs if log["log_level"] == "error"]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("break_down", "KeyError", "KeyError: 'boom'"),
        ("break_down", "SystemExit", "SystemExit: boom"),
        ("break_down", "StopIteration", "RuntimeError: StopIteration"),
        ("break_down_async", "slow", "TimeoutError: slow"),
        ("break_down_async", "odd", "BaseException: odd"),
        ("break_down_async", "mute", "Unprintable: (its text cannot be had)"),
        ("number", "", "TypeError: a tool must return text, or a ToolOutput, not int"),
    ],
)
def test_survives_a_tool_that_fails_unexpectedly_and_logs_it(
    name: str, text: str, expected: str, tool_runner: ToolRunner, context: ToolContext
) -> None:
    with capture_logs() as logs:
        result = _run(tool_runner, context, name, text=text)
    assert result.is_error
    assert result.content == f"the tool {name!r} failed unexpectedly: {expected}"
    [error] = [log for log in logs if log["log_level"] == "error"]
    assert (error["tool"], error["job"]) == (name, context.job)


def test_lets_a_cancellation_through(context: ToolContext) -> None:
    @tool(Say)
    async def wait(args: Say, context: ToolContext) -> str:
        await asyncio.Event().wait()
        return ""

    async def cancelled(tool_runner: ToolRunner) -> None:
        running = asyncio.ensure_future(tool_runner.run(ToolCall(id="1", name="wait", args={"text": ""}), context))
        await asyncio.sleep(0)
        running.cancel()
        await running

    tool_runner = ToolRunner([wait])
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled(tool_runner))


@pytest.mark.parametrize("name", ["say", "refuse_at_length"])
def test_caps_what_a_model_has_to_read(name: str, context: ToolContext) -> None:
    @tool(Say)
    def refuse_at_length(args: Say, context: ToolContext) -> str:
        raise ToolError(args.text * args.times)

    tool_runner = ToolRunner([say, refuse_at_length])
    result = _run(tool_runner, context, name, text="0123456789", times=20_000)
    assert result.content.startswith("0123456789")
    assert result.content.endswith("(cut: the first 100,000 of 200,000 characters)")
    assert len(result.content) < 100_100


def test_results_can_always_be_encoded(context: ToolContext) -> None:
    @tool(Say)
    def odd_name(args: Say, context: ToolContext) -> str:
        return b"caf\xe9.txt".decode(errors="surrogateescape")

    tool_runner = ToolRunner([odd_name])
    result = _run(tool_runner, context, "odd_name", text="")
    assert json.loads(result.model_dump_json())["content"] == "caf\ufffd.txt"


def test_logs_how_long_a_call_took(tool_runner: ToolRunner, context: ToolContext) -> None:
    with capture_logs() as logs:
        _run(tool_runner, context, "say", text="x")
    [log] = logs
    assert log["tool"] == "say"
    assert 0 <= log["duration_s"] < 60


def test_runs_the_builtin_shell_through_the_gate(context: ToolContext) -> None:
    from ekiden.workers.tools.registry import builtin_registry

    tool_runner = ToolRunner(builtin_registry(workspace=True))
    result = _run(tool_runner, context, "bash", command="python -c 'print(6 * 7)'")
    missing = _run(tool_runner, context, "read_file", path="gone.py")
    assert result.content == "42\nexit code: 0"
    assert (missing.is_error, "'gone.py'" in missing.content) == (True, True)


def test_a_tools_name_without_end_is_answered_in_a_moment(context: ToolContext) -> None:
    call = ToolCall(id="c", name="echo" * 1_000_000)
    result = asyncio.run(beside_a_ticking_loop(lambda: ToolRunner([say]).run(call, context)))
    assert "there is no tool" in result.content
    assert len(result.content) < 500


PLACE = ToolSpec(
    name="place",
    description="Say where a city is.",
    parameters={
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 20}, "zoom": {"type": "integer"}},
        "required": ["city"],
        "additionalProperties": False,
    },
)


@schema_tool(PLACE, read_only=True)
async def place(args: dict[str, Any], context: ToolContext) -> ToolOutput:
    return ToolOutput(f"{args['city']} is in the east.", {"city": args["city"], "at": [52.5, None]})


def test_a_tool_with_a_schema_alone_takes_its_arguments_as_they_are(context: ToolContext) -> None:
    result = _run(ToolRunner([place]), context, "place", city="Berlin")
    assert result.content == "Berlin is in the east."
    assert result.data == {"city": "Berlin", "at": [52.5, None]}
    assert place.spec == PLACE


def test_arguments_that_do_not_fit_the_schema_are_told_one_by_one(context: ToolContext) -> None:
    result = _run(ToolRunner([place]), context, "place", zoom="near", town="Berlin")
    assert result.is_error
    assert result.data is None
    first, *problems = result.content.splitlines()
    assert first == "the arguments of 'place' are not valid:"
    assert len(problems) == 3
    assert all(any(word in line for line in problems) for word in ("city", "zoom", "town"))


def test_a_schema_that_cannot_be_checked_makes_no_tool() -> None:
    with pytest.raises(DefinitionError, match="no JSON Schema"):
        schema_tool(PLACE.model_copy(update={"parameters": {"type": "thing"}}))


def test_what_costs_too_much_to_check_holds_no_event_loop(context: ToolContext) -> None:
    many = {"type": "object", "properties": {"x": {"type": "array", "uniqueItems": True}}}

    @schema_tool(PLACE.model_copy(update={"parameters": many}))
    def place(args: dict[str, Any], context: ToolContext) -> str:
        return "fine"

    call = ToolCall(id="c", name="place", args={"x": [{"n": n} for n in range(3_000)]})
    assert asyncio.run(beside_a_ticking_loop(lambda: ToolRunner([place]).run(call, context))).call_id == "c"


def _giving(output: Any, context: ToolContext) -> ToolResult:
    @tool(Say)
    def give(args: Say, context: ToolContext) -> ToolOutput:
        return output  # type: ignore[no-any-return]

    tool_runner = ToolRunner([give])
    return _run(tool_runner, context, "give", text="")


def test_data_without_a_text_is_read_by_the_model_as_json(context: ToolContext) -> None:
    result = _giving(ToolOutput(data={"n": (1, 2), "é": "x\ud800"}), context)
    assert result.content == '{"n": [1, 2], "é": "x\ufffd"}'
    assert result.data == {"n": [1, 2], "é": "x\ufffd"}


@pytest.mark.parametrize("data", [{"x": object()}, float("nan"), {"x": {1, 2}}])
def test_data_that_is_no_json_is_an_error(data: Any, context: ToolContext) -> None:
    with capture_logs():
        result = _giving(ToolOutput("text", data), context)
    assert (result.is_error, result.data) == (True, None)


def test_data_that_nests_too_deep_for_a_journal_is_an_error(context: ToolContext) -> None:
    deep: Any = []
    for _ in range(100):
        deep = [deep]
    with capture_logs():
        result = _giving(ToolOutput("text", deep), context)
    assert result.is_error
    assert "more than 64 levels" in result.content


def test_data_that_is_too_much_is_left_out_and_the_model_is_told(context: ToolContext) -> None:
    result = _giving(ToolOutput("a long list", ["x" * 1_000] * 101), context)
    assert (result.is_error, result.data) == (False, None)
    assert result.content.startswith("a long list\n(its data is left out: 101,")
