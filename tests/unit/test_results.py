"""What became of a request, as programs and notebooks have it."""

import asyncio
from pathlib import Path
from xml.etree import ElementTree

import pytest

import ekiden
from ekiden.dispatcher.chain_picture import Box, chain_picture
from ekiden.dispatcher.results import Result, result_of
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.llm.scripted import ScriptedModel
from ekiden.shared.prices import Prices
from ekiden.shared.relay.leg import journal_of
from ekiden.shared.stores.opening import Stores
from tests.scenarios.relay import Relay, on_server, team

HOSTILE = "<script>alert('x')</script>"
SCRIPT = f"""
agents:
  front:
    - name: over
      call: [{{tool: transfer_to_back, args: {{reason: "{HOSTILE}"}}}}]
  back:
    - {{name: answer, say: "1 < 2 & {HOSTILE}"}}
  broken:
    - {{name: fail, fail: no more}}
"""


def result(agent: str, problems: tuple[str, ...] = ()) -> Result:
    catalog = team({"name": "front", "handoffs": ["back"]}, {"name": "back"}, {"name": "broken"})

    async def scenario(stores: Stores) -> Result:
        relay = Relay(stores, catalog, ScriptedModel.from_text(SCRIPT))
        job = await relay.submit("do it", agent=agent)
        await relay.drain()
        return result_of(job, {job: await journal_of(stores.jobs, job)}, Prices(), problems)

    return on_server(scenario)


def test_it_has_the_answer_the_chain_and_what_it_took() -> None:
    found = result("front")
    assert (found.ok, found.status, found.answer, found.error) == (True, "done", f"1 < 2 & {HOSTILE}", "")
    assert (found.chain, found.agent, str(found)) == (("front", "back"), "back", found.answer)
    assert found.job.startswith(found.session)
    assert found.usage.input_tokens > 0
    assert found.cost_usd == 0
    assert found.journal is found.journals[found.job]
    assert found.journal[0].record.type == "request"


def test_a_job_that_fails_is_a_result_that_says_why() -> None:
    found = result("broken")
    assert (found.ok, found.status, found.answer) == (False, "failed", "")
    assert "no more" in found.error
    assert str(found).startswith("failed: ")
    assert "no more" in found._repr_html_()


def test_a_notebook_shows_answer_chain_and_problems_and_no_text_is_markup() -> None:
    html = result("front", (f"plug-in {HOSTILE}",))._repr_html_()
    assert "<script" not in html
    assert html.count("&lt;script&gt;") == 3
    root = ElementTree.fromstring(html)
    svg = "{http://www.w3.org/2000/svg}"
    drawn = ["".join(group.find(f"{svg}text").itertext()) for group in root.iter(f"{svg}g")]  # type: ignore[union-attr]
    assert drawn == ["user", "front", "back"]
    assert root.find(".//small") is not None


def test_a_picture_has_room_for_wide_names_and_cuts_long_ones() -> None:
    def width(name: str) -> int:
        return int(ElementTree.fromstring(chain_picture([Box(name)])).attrib["width"])

    assert width("客服前台") == width("frontdes")
    assert width("x" * 40) == width("x" * 4_000)
    assert "\x1b" not in chain_picture([Box("a\x1b[31mb", "\u202ewhy")])
    assert "\u202e" not in chain_picture([Box("a\x1b[31mb", "\u202ewhy")])


def test_in_a_running_loop_the_call_says_what_to_write() -> None:
    async def cell() -> None:
        ekiden.run("hello")

    with pytest.raises(InvalidRequest, match=r"use `await ekiden\.arun\(…\)`"):
        asyncio.run(cell())


def test_a_folder_that_is_none_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="is no folder: give one that exists"):
        ekiden.run("hello", cwd=tmp_path / "nowhere")
