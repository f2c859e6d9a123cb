"""Every scenario goes the same way when it is run again from what it recorded, with no model and no tool."""

import asyncio
from pathlib import Path

import pytest
import yaml

from ekiden.dispatcher.journal.decisions import decisions_of
from ekiden.dispatcher.journal.differences import first_difference
from ekiden.shared.ids import session_of
from ekiden.shared.llm.base import ChatModel, ModelReply, ModelRequest, OnDelta
from ekiden.shared.llm.scripted import ScriptedModel
from ekiden.shared.recordings import recording_of, write_recording
from ekiden.shared.records import Entry
from ekiden.shared.relay.leg import journal_of
from ekiden.shared.stores.opening import Stores
from ekiden.workers.playback.recorded import Recordings
from tests.scenarios.relay import Relay, on_server, team
from tests.scenarios.test_scenarios import FILES, TOOLS, Scenario, scenario_in


class Unplugged:
    """A model that must not be asked."""

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        raise AssertionError(f"{request.agent} was asked")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_scenario_goes_the_same_way_again(path: Path, tmp_path: Path) -> None:
    scenario = scenario_in(path)
    script = yaml.safe_dump({"agents": scenario.script}, allow_unicode=True)
    model = ScriptedModel.from_text(script, str(path))
    first = on_server(lambda stores: journals_of(stores, scenario, model))
    write_recording(tmp_path, session_of(next(iter(first))), recording_of(first))
    second = on_server(lambda stores: journals_of(stores, scenario, Unplugged(), Recordings(tmp_path)))
    assert first_difference(decisions_of(first), decisions_of(second)) is None


async def journals_of(
    stores: Stores, scenario: Scenario, model: ChatModel, recordings: Recordings | None = None
) -> dict[str, list[Entry]]:
    relay = Relay(
        stores,
        team(*scenario.agents),
        model,
        tools=TOOLS,
        cycles=scenario.cycles,
        fallback=scenario.fallback,
        recordings=recordings,
    )
    job = await relay.submit(scenario.request, agent=scenario.agent, state=scenario.state)
    async with asyncio.timeout(30):
        await relay.drain()
    return {job: await journal_of(stores.jobs, job)}
