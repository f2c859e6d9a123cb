"""What a pool of recordings is put together of decides as one does that asks models."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ekiden.dispatcher.journal.decisions import decisions_of
from ekiden.dispatcher.journal.differences import first_difference
from ekiden.shared.approvals import Answer
from ekiden.shared.ids import session_of
from ekiden.shared.recordings import recording_of, write_recording
from ekiden.shared.records import Delegated, Entry, Guarded
from ekiden.shared.relay.leg import journal_of
from ekiden.shared.settings.model import load_settings
from ekiden.shared.stores.opening import Stores
from ekiden.workers.bootstrap import build
from ekiden.workers.rail_judge import JUDGE
from ekiden.workers.tools.builtin.asking import ask_user
from ekiden.workers.tools.builtin.state import set_state
from tests.contract.test_approvals import Inbox
from tests.scenarios.relay import Relay, on_server, team
from tests.unit.workers.helped import judged
from tests.unit.workers.test_graphs import agent, edge, graph
from tests.unit.workers.world import Replies, Said, said

Journals = dict[str, list[Entry]]

FLOW = graph(
    {"name": "ask", "ask_user": "Which one of ${task.prompt}?"},
    {"name": "note", "tool": "set_state", "args": {"values": {"which": "${ask}"}}},
    {"name": "each", "agent": "teller", "for_each": "['a', 'b']"},
    {"name": "keep", "tool": "set_state", "for_each": "['c', 'd']", "args": {"values": {"last": "${item}"}}},
    {"name": "tell", "agent": "teller"},
    edges=[edge("ask", "note"), edge("note", "each"), edge("each", "keep"), edge("keep", "tell")],
) | {"tools": ["set_state"]}
TELLER = agent("teller", tools=["set_state"])


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty project with an empty home."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


async def journals_of(relay: Relay, first: str) -> Journals:
    """Run a job to its end; whoever is asked answers the same."""
    job = await relay.submit("do it", agent=first)
    async with asyncio.timeout(30):
        await relay.drain()
        for view in await relay.stores.jobs.waiting(job):
            await Inbox(relay.stores).answer(
                view.id, replace(Answer("answered", view.digest, answer="这个"), by="anna")
            )
        await relay.drain()
    found, behind = Journals(), [job]
    while behind:
        one = behind.pop(0)
        found[one] = await journal_of(relay.stores.jobs, one)
        behind += [entry.record.child for entry in found[one] if isinstance(entry.record, Delegated)]
    return found


def again(agents: list[Any], first: str, folder: Path, replies: Mapping[str, Sequence[Said]], **values: Any) -> Any:
    """Run a job, and again by what a pool of its recordings is put together of; return both runs' journals."""

    async def recorded(stores: Stores) -> Journals:
        return await journals_of(Relay(stores, team(*agents), Replies(replies), tools=[set_state, ask_user]), first)

    async def played(stores: Stores) -> Journals:
        made = await build(load_settings(playback=folder, **values), stores)
        return await journals_of(Relay(stores, team(*agents), Replies({}), worker=made.handler), first)

    journals = on_server(recorded)
    write_recording(folder, session_of(next(iter(journals))), recording_of(journals))
    return journals, on_server(played)


def test_a_graph_of_agents_tools_questions_and_lists_goes_the_same_way_again(tmp_path: Path) -> None:
    first, second = again([FLOW, TELLER], "flow", tmp_path, {"teller": [said("told")] * 3})
    assert first_difference(decisions_of(first), decisions_of(second), 0) is None
    assert len(first) == len(second) == 9
    assert decisions_of(second)[next(iter(second))][-1].told.count("told") == 1


def test_what_a_guardrails_judge_said_is_held_against_the_threshold_of_the_settings(tmp_path: Path) -> None:
    rail = {"name": "kind", "on": "output", "prompt": "It scolds nobody.", "policy": "warn"}
    lead = agent("lead", tools=["set_state"], guardrails=[rail])
    replies: Mapping[str, Sequence[Said]] = {"lead": [said("ok")], JUDGE: [judged(0.75)]}
    runs = again([lead], "lead", tmp_path, replies, guardrails_threshold=0.9)
    found = [[one.record.status for one in next(iter(run.values())) if isinstance(one.record, Guarded)] for run in runs]
    assert found[0] != found[1], found
