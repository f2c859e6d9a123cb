"""Output processors: what callers read of a structured result."""

import asyncio
import threading
from typing import Any

import pytest

from ekiden.shared.definitions.model import OUTPUT_PROCESSORS
from ekiden.shared.messages import ToolResult
from ekiden.shared.records import Delegated, Noticed, ToolFinished
from ekiden.shared.settings.plugins import Allowed
from ekiden.shared.stores.opening import Stores
from ekiden.workers.processors import OURS, Processors, as_markdown, loaded_processors
from tests.scenarios.relay import Relay, Story, on_server, team
from tests.unit.workers.world import Replies, call, calls, said

REPORT = {
    "SummaryOfFindings": "总计为空。",
    "ExplorationTrace": ["grep total", "read cart.py"],
    "RelevantLocations": [{"FilePath": "cart.py", "KeySymbols": ["total", "load"], "Lines": 3}],
}
SOLO = {"name": "solo", "complete_task": True, "output": {"name": "report", "schema": {"type": "object"}}}


def told(process: str, report: Any = REPORT) -> Story:
    agent = {**SOLO, "output": {**SOLO["output"], "process": process}}  # type: ignore[dict-item]
    model = Replies({"solo": [calls(call("c1", "complete_task", report=report))]})

    async def scenario(stores: Stores) -> Story:
        return await Relay(stores, team(agent), model).told("look", agent="solo")

    return on_server(scenario)


def shaped(process: Any, output: Any = REPORT, timeout_s: float = 10.0) -> tuple[str, str]:
    async def run() -> tuple[str, str]:
        return await Processors({"mine": process}, timeout_s).shape("mine", output)

    return asyncio.run(run())


def test_the_answer_is_what_the_processor_makes_and_the_object_stays_for_programs() -> None:
    story = told("markdown")
    assert story.view.result == as_markdown(REPORT)
    assert story.end.output == REPORT


def test_people_read_headings_and_items() -> None:
    assert as_markdown(REPORT) == (
        "## SummaryOfFindings\n\n总计为空。\n\n"
        "## ExplorationTrace\n\n- grep total\n- read cart.py\n\n"
        "## RelevantLocations\n\n- FilePath: cart.py\n  KeySymbols: total, load\n  Lines: 3"
    )


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ("x", "x"),
        ({}, "{}"),
        ([], "none"),
        (None, "null"),
        ({"a": {"b": True}}, "## a\n\n### b\n\ntrue"),
        ([[1, 2]], "- 1, 2"),
    ],
)
def test_whatever_the_result_is_it_can_be_read(output: Any, text: str) -> None:
    assert as_markdown(output) == text


def test_an_agent_that_delegates_reads_what_the_processor_made() -> None:
    solo = {**SOLO, "output": {**SOLO["output"], "process": "markdown"}}  # type: ignore[dict-item]
    lead = {"name": "lead", "subagents": ["solo"]}
    model = Replies(
        {
            "lead": [calls(call("d1", "delegate_to_solo", objective="look")), said("ok")],
            "solo": [calls(call("c1", "complete_task", report=REPORT))],
        }
    )

    async def scenario(stores: Stores) -> Story:
        return await Relay(stores, team(lead, solo), model).told("go", agent="lead")

    story = on_server(scenario)
    assert story.of(Delegated)
    result: ToolResult = story.of(ToolFinished)[0].result
    assert "## SummaryOfFindings\n\n总计为空。" in result.content


def test_a_processor_that_is_nowhere_leaves_the_json_and_the_job_says_so() -> None:
    story = told("nosuch")
    assert (story.view.status, story.end.output) == ("done", REPORT)
    assert '"SummaryOfFindings": "总计为空。"' in str(story.view.result)
    [notice] = story.of(Noticed)
    assert "no worker here has the output processor 'nosuch': json, markdown are there" in notice.text


def fails(output: Any) -> str:
    raise KeyError("no such field")


def leaves(output: Any) -> str:
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("process", "why"),
    [
        (fails, "KeyError: 'no such field'"),
        (leaves, "SystemExit: 3"),
        (lambda output: 7, "must return a text, not int"),
    ],
)
def test_a_processor_that_fails_leaves_the_json_and_says_why(process: Any, why: str) -> None:
    text, problem = shaped(process)
    assert '"SummaryOfFindings"' in text
    assert "the output processor 'mine' failed" in problem
    assert why in problem


def test_a_processor_that_hangs_is_given_up() -> None:
    gate = threading.Event()
    text, problem = shaped(lambda output: str(gate.wait()), timeout_s=0.05)
    gate.set()
    assert '"SummaryOfFindings"' in text
    assert "TimeoutError" in problem


def test_what_a_processor_does_to_the_object_changes_nothing() -> None:
    report = {"a": [1]}
    assert shaped(lambda output: str(output["a"].clear()), report) == ("None", "")
    assert report == {"a": [1]}


def test_a_plugin_brings_one_and_none_takes_the_name_of_ours() -> None:
    processors, problems = loaded_processors(Allowed(modules=("tests.unit.workers.test_processors:fails",)))
    assert problems == ()
    assert "failed" in asyncio.run(_shape(processors, "fails"))[1]
    assert frozenset(OURS) == OUTPUT_PROCESSORS


async def _shape(processors: Processors, name: str) -> tuple[str, str]:
    return await processors.shape(name, REPORT)
