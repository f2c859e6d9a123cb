"""A fork is run again: it is given the steps that it shares, and decides the others anew."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from ekiden.dispatcher.forking.again import beginning_of
from ekiden.dispatcher.journal.decisions import decisions_of
from ekiden.dispatcher.journal.differences import first_difference
from ekiden.shared.definitions.catalog import Catalog
from ekiden.shared.ids import session_of
from ekiden.shared.recordings import recording_of, write_recording
from ekiden.shared.records import Entry
from ekiden.shared.relay.leg import journal_of
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.sessions import SessionMessage, SessionView
from ekiden.shared.stores.submissions import Fork
from ekiden.workers.playback.recorded import Recordings
from ekiden.workers.tools.builtin.state import set_state
from tests.scenarios.relay import Relay, on_server, team
from tests.unit.workers.test_forks import FIXER, LEAD, TEAM, World
from tests.unit.workers.world import Replies, call, calls, tool_named

TOOLS = [tool_named("look"), tool_named("write"), set_state]
SETTING = calls(call("s", "set_state", values={"later": 1, "n": "set again"}))


@dataclass
class Forked:
    """A fork that has ended, and what it takes to run it again."""

    fork: Fork
    entries: list[Entry]
    session: SessionView
    said: list[SessionMessage]

    def again(self, folder: Path, catalog: Catalog = TEAM) -> list[Entry]:
        """Run it on another server, from what it recorded."""
        write_recording(folder, session_of(self.fork.job), recording_of({self.fork.job: self.entries}))

        async def scenario(stores: Stores) -> list[Entry]:
            relay = Relay(stores, catalog, Replies({}), tools=TOOLS, recordings=Recordings(folder))
            await self.begin(stores, catalog)
            await relay.drain()
            return await journal_of(stores.jobs, self.fork.job)

        return on_server(scenario)

    async def begin(self, stores: Stores, catalog: Catalog = TEAM) -> None:
        """Begin it on another server."""
        await stores.catalogs.publish(*catalog.to_store(), replaces=None)
        session = replace(self.session, id=session_of(self.fork.origin), active=None)
        await stores.sessions.restore(session, self.said, {}, is_untrusted=False)
        pinned = catalog.digest if self.fork.leg else ""
        assert await stores.forks.begin(replace(self.fork, catalog=pinned))


def forked(what: str, *, before: str = "", **how: Any) -> Forked:
    """``before``: of which point of the job a fork is made first, which is then the one that is forked."""

    async def scenario(stores: Stores) -> Forked:
        world = World(stores, tools=TOOLS)
        world.model = Replies({"lead": [SETTING, *LEAD[1:]], "fixer": FIXER, "writer": FIXER})
        world.relay = Relay(stores, TEAM, world.model, tools=TOOLS)
        await world.run(state={"n": "given"})
        first = world.job
        if before:
            world.job = (await world.forked(before, prompt="at first", state={"n": "of the first"})).job
        job = (await world.forked(what, **how)).job
        entries = await journal_of(stores.jobs, job)
        fork = await beginning_of(stores, job, entries)
        assert fork is not None
        assert await beginning_of(stores, first, await journal_of(stores.jobs, first)) is None
        view = await stores.sessions.session(session_of(job))
        said = await stores.sessions.messages(view.id)
        return Forked(fork, entries, view, [one for one in said if one.job != job])

    return on_server(scenario)


@pytest.mark.parametrize(
    ("what", "how"),
    [
        ("the routing", {"prompt": "else"}),
        ("lead begins", {"state": {"n": "of the fork"}}),
        ("lead begins turn 3", {"prompt": "briefly"}),
        ("lead begins turn 6", {"agent": "writer"}),
        ("fixer begins turn 2", {}),
    ],
)
def test_a_fork_goes_the_same_way_again(tmp_path: Path, what: str, how: Any) -> None:
    fork = forked(what, **how)
    found = {fork.fork.job: fork.again(tmp_path)}
    assert first_difference(decisions_of({fork.fork.job: fork.entries}), decisions_of(found)) is None


def test_a_fork_of_a_fork_goes_the_same_way_again(tmp_path: Path) -> None:
    fork = forked("lead begins turn 4", before="lead begins turn 3", prompt="briefly", state={"x": 1})
    assert fork.fork.state == {"n": "of the first", "later": 1, "x": 1}
    found = {fork.fork.job: fork.again(tmp_path)}
    assert first_difference(decisions_of({fork.fork.job: fork.entries}), decisions_of(found)) is None


def test_a_fork_by_other_agents_differs_behind_what_it_shares(tmp_path: Path) -> None:
    fork = forked("lead begins turn 3")
    other = team({"name": "lead", "handoffs": ["fixer"], "prompt": "Else."}, {"name": "fixer"}, {"name": "writer"})
    found = first_difference(
        decisions_of({fork.fork.job: fork.entries}), decisions_of({fork.fork.job: fork.again(tmp_path, other)})
    )
    assert found is not None
    assert (found.step.agent, found.step.about, found.what) == ("lead", "turn 3", "another prompt")


@pytest.mark.parametrize(
    ("what", "how", "began"),
    [
        ("lead begins", {}, {"n": "given"}),
        ("lead begins turn 3", {}, {"n": "set again", "later": 1}),
        ("lead begins turn 3", {"state": {"n": None, "x": 1}}, {"later": 1, "x": 1, "n": None}),
    ],
)
def test_variables_are_those_that_the_fork_began_with(what: str, how: Any, began: dict[str, Any]) -> None:
    assert forked(what, **how).fork.state == began
