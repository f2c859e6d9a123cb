"""Calls while they run: how long they may, what they learn of their cancellation, show and keep."""

import asyncio
import re
import threading
from dataclasses import replace

import pytest

from ekiden.shared.errors import StoreUnavailable, ToolError
from ekiden.shared.messages import ToolCall, ToolResult
from ekiden.workers.tools.base import Tool, ToolContext, tool
from ekiden.workers.tools.builtin.kept import read_output
from ekiden.workers.tools.running import Running, Shown
from ekiden.workers.tools.tool_runner import ToolRunner

LONG_S = 30.0


class Memory:
    """Keeps outputs in memory, as many as it may."""

    def __init__(self, room: int = 100) -> None:
        self.kept: dict[str, str | bytes] = {}
        self.room = room

    async def keep(self, content: str | bytes) -> str | None:
        if len(self.kept) >= self.room:
            return None
        self.kept[ref := f"r{len(self.kept)}"] = content
        return ref

    async def read(self, ref: str) -> str | bytes | None:
        return self.kept.get(ref)


class Away(Memory):
    async def keep(self, content: str | bytes) -> str | None:
        raise StoreUnavailable("the server does not answer")


def run(one: Tool, context: ToolContext, runner: ToolRunner | None = None, **args: object) -> ToolResult:
    made = ToolCall(id="c1", name=one.name, args=args)
    return asyncio.run((runner or ToolRunner([one])).run(made, context))


def test_a_synchronous_tool_that_does_not_return_ends_as_an_error_and_learns_of_it(context: ToolContext) -> None:
    learnt = threading.Event()

    @tool(timeout_s=0.05)
    def wait(context: ToolContext) -> str:
        """Wait until nobody waits any more."""
        while not context.cancelled:
            threading.Event().wait(0.001)
        with pytest.raises(ToolError, match="cancelled"):
            context.raise_if_cancelled()
        learnt.set()
        return "too late"

    result = run(wait, context)
    assert (result.is_error, result.content) == (
        True,
        "Outcome unknown: 'wait' was given up after 0.05 s. Check what it did before you repeat it.",
    )
    assert learnt.wait(LONG_S)


def test_a_coroutine_that_does_not_return_is_cancelled(context: ToolContext) -> None:
    @tool
    async def wait() -> str:
        """Wait."""
        await asyncio.Event().wait()
        return ""

    result = run(wait, context, ToolRunner([wait], timeout_s=0.05))
    assert (result.is_error, "given up after 0.05 s" in result.content) == (True, True)


def test_a_tools_own_timeout_is_no_end_of_its_time(context: ToolContext) -> None:
    @tool(timeout_s=LONG_S)
    async def ask() -> str:
        """Ask."""
        raise TimeoutError("the other side did not answer")

    assert "failed unexpectedly: TimeoutError: the other side" in run(ask, context).content


def test_calls_that_never_return_hold_no_places_and_are_counted(context: ToolContext) -> None:
    may_end = threading.Event()

    @tool(timeout_s=0.05)
    def hang() -> str:
        """Hang."""
        may_end.wait(LONG_S)
        return ""

    @tool
    def work() -> str:
        """Work."""
        return "done"

    async def scenario() -> None:
        runner = ToolRunner([hang, work], threads=2)
        results = await asyncio.gather(*(runner.run(ToolCall(id=str(n), name="hang"), context) for n in range(5)))
        assert all(result.is_error for result in results)
        assert runner.stuck == 5
        assert (await runner.run(ToolCall(id="w", name="work"), context)).content == "done"
        may_end.set()
        async with asyncio.timeout(LONG_S):
            while runner.stuck:
                await asyncio.sleep(0.01)  # threads end, no event tells

    asyncio.run(scenario())


def test_where_very_many_never_returned_no_more_are_begun(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ekiden.workers.tools.threads._MOST_LEFT", 1)
    may_end = threading.Event()

    @tool(timeout_s=0.05)
    def hang() -> str:
        """Hang."""
        may_end.wait(LONG_S)
        return ""

    runner = ToolRunner([hang])
    run(hang, context, runner)
    assert "never returned in this worker, restart it" in run(hang, context, runner).content
    may_end.set()


def test_what_a_tool_shows_reaches_the_loop_in_order_and_has_a_bound(context: ToolContext) -> None:
    shown: list[Shown] = []

    @tool
    def talk(context: ToolContext) -> str:
        """Talk."""
        for number in range(3):
            context.write(f"line {number}\n")
        context.progress(0.5, "half way")
        context.progress(7, "there")
        context.write("x" * 200_000)
        context.write("y")
        return "ok"

    async def scenario() -> None:
        running = Running(shown.append)
        await ToolRunner([talk]).run(ToolCall(id="c", name="talk"), replace(context, running=running))
        await asyncio.sleep(0)
        running.write("nobody hears this")
        await asyncio.sleep(0)

    asyncio.run(scenario())
    text = "".join(one.text for one in shown)
    assert text.startswith("line 0\nline 1\nline 2\nxxx")
    assert text.endswith("(no more than 100,000 characters are shown while a tool runs)\n")
    assert len(text) < 100_200
    assert [one for one in shown if one.fraction is not None][-1].fraction == 1.0


def test_progress_that_is_no_number_is_an_error(context: ToolContext) -> None:
    with pytest.raises(ToolError, match="from 0 to 1"):
        context.progress(float("nan"))


@tool(max_chars=300)
def count(context: ToolContext, lines: int) -> str:
    """Count."""
    return "\n".join(f"line {number}" for number in range(lines))


def test_a_result_that_is_too_long_is_kept_and_read_in_pages(context: ToolContext) -> None:
    outputs = Memory()
    mine = replace(context, outputs=outputs)
    result = run(count, mine, lines=1_000)
    first, note, last = (
        result.content.partition("\n(cut")[0],
        result.content.count("read_output"),
        result.content[-100:],
    )
    assert (first.startswith("line 0\n"), note, last.endswith("line 999")) == (True, 1, True)
    assert len(result.content) < 500
    assert result.whole == "r0"
    read, offset = "", 0
    while offset < len(str(outputs.kept["r0"])):
        page = run(read_output, mine, ref="r0", offset=offset, limit=3_000)
        assert not page.is_error
        read += page.content.rpartition("\n(characters")[0]
        offset += 3_000
    assert read == outputs.kept["r0"] == "\n".join(f"line {number}" for number in range(1_000))


@pytest.mark.parametrize("outputs", [None, Memory(room=0), Away()])
def test_where_nothing_can_be_kept_a_long_result_is_cut(outputs: Memory | None, context: ToolContext) -> None:
    result = run(count, replace(context, outputs=outputs), lines=1_000)
    assert (result.whole, result.is_error) == ("", False)
    assert result.content.endswith("(cut: the first 300 of 8,889 characters)")


def test_what_is_short_enough_refers_to_nothing(context: ToolContext) -> None:
    assert run(count, replace(context, outputs=Memory()), lines=3) == ToolResult(
        call_id="c1", name="count", content="line 0\nline 1\nline 2"
    )


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"ref": "r9"}, "nothing is kept under 'r9'"),
        ({"ref": "r0", "offset": 5}, "it has 5 characters, expected an offset below that"),
        ({"ref": "r1"}, "is no text \\(3 bytes\\)"),
    ],
)
def test_reading_what_is_not_there_is_told(args: dict[str, object], said: str, context: ToolContext) -> None:
    outputs = Memory()
    outputs.kept = {"r0": "hello", "r1": b"\0\1\2"}
    result = run(read_output, replace(context, outputs=outputs), **args)
    assert result.is_error
    assert re.search(said, result.content)


@tool
def draw(context: ToolContext, name: str = "plot.png", size: int = 3) -> str:
    """Draw."""
    context.artifact(name, b"\x89" * size)
    context.artifact("notes.txt", "héllo")
    return "drawn"


def test_artifacts_are_kept_and_named_in_the_result(context: ToolContext) -> None:
    outputs = Memory()
    result = run(draw, replace(context, outputs=outputs))
    assert [(one.name, one.mime, one.size, one.ref) for one in result.artifacts] == [
        ("plot.png", "image/png", 3, "r0"),
        ("notes.txt", "text/plain", 6, "r1"),
    ]
    assert outputs.kept == {"r0": b"\x89\x89\x89", "r1": "héllo"}
    assert result.content == (
        "drawn\n(artifact plot.png: image/png, 3 bytes)\n"
        '(artifact notes.txt: text/plain, 6 bytes, read_output with ref="r1" reads it)'
    )


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"name": "a/b"}, "'a/b' is no name for an artifact"),
        ({"name": ".."}, "'..' is no name"),
        ({"size": 10_000_001}, "10,000,000 bytes together at most"),
    ],
)
def test_an_artifact_without_a_name_for_a_file_or_without_bounds_is_refused(
    args: dict[str, object], said: str, context: ToolContext
) -> None:
    result = run(draw, replace(context, outputs=Memory()), **args)
    assert (result.is_error, said in result.content, result.artifacts) == (True, True, ())


def test_an_artifact_that_cannot_be_kept_is_told(context: ToolContext) -> None:
    result = run(draw, replace(context, outputs=Memory(room=1)))
    assert "(artifact notes.txt is lost" in result.content
    assert [one.name for one in result.artifacts] == ["plot.png"]
