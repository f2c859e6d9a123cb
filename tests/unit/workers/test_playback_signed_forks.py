"""Forks of signed jobs are run again as any others: by who has the keys, and each journal is signed anew."""

from pathlib import Path
from typing import Any

import pytest

from ekiden.dispatcher.forking.again import beginning_of
from ekiden.dispatcher.journal.decisions import decisions_of
from ekiden.dispatcher.journal.differences import first_difference
from ekiden.shared.ids import session_of
from ekiden.shared.recordings import recording_of, write_recording
from ekiden.shared.records import Entry, ToolFinished
from ekiden.shared.relay.leg import journal_of
from ekiden.shared.signing import OFF, Signing
from ekiden.shared.stores.journal_signatures import head_of
from ekiden.shared.stores.opening import Stores
from ekiden.workers.playback.recorded import Recordings
from tests.contract.test_signing import SIGNING, signed
from tests.scenarios.relay import Relay, on_server
from tests.unit.workers.test_forks import FIXER, LEAD, TEAM, World
from tests.unit.workers.test_playback_forks import SETTING, TOOLS, Forked
from tests.unit.workers.world import Replies

OTHER = Signing({"k9": b"another deployment's"})
POINTS = [
    ("the routing", {"prompt": "else"}),
    ("lead begins", {"state": {"n": "of the fork"}}),
    ("lead begins turn 3", {"prompt": "briefly"}),
    ("lead begins turn 6", {"agent": "writer"}),
    ("fixer begins turn 2", {}),
]


def forked(what: str, *, before: str = "", reads: Signing = SIGNING, **how: Any) -> Forked:
    """A fork of a signed job, or of a fork of it; ``reads``: what who runs it again reads it with."""

    async def scenario(stores: Stores) -> Forked:
        ours = signed(stores)
        world = World(ours, tools=TOOLS)
        world.model = Replies({"lead": [SETTING, *LEAD[1:]], "fixer": FIXER, "writer": FIXER})
        world.relay = Relay(ours, TEAM, world.model, tools=TOOLS)
        await world.run(state={"n": "given"})
        if before:
            world.job = (await world.forked(before, prompt="at first")).job
        job = (await world.forked(what, **how)).job
        reader = signed(stores, reads)
        entries = await journal_of(reader.jobs, job)
        fork = await beginning_of(reader, job, entries)
        assert fork is not None
        view = await reader.sessions.session(session_of(job))
        said = await reader.sessions.messages(view.id)
        return Forked(fork, entries, view, [one for one in said if one.job != job])

    return on_server(scenario)


def again(fork: Forked, folder: Path, signing: Signing) -> list[Entry]:
    """Run a fork again in a place that signs so; the whole journal there is signed by its own keys."""
    write_recording(folder, session_of(fork.fork.job), recording_of({fork.fork.job: fork.entries}))

    async def scenario(stores: Stores) -> list[Entry]:
        ours = signed(stores, signing)
        relay = Relay(ours, TEAM, Replies({}), tools=TOOLS, recordings=Recordings(folder))
        await fork.begin(ours)
        await relay.drain()
        entries = await journal_of(ours.jobs, fork.fork.job)
        if signing:
            assert head_of(signing, fork.fork.job, entries)
        return entries

    return on_server(scenario)


def assert_the_same(fork: Forked, found: list[Entry]) -> None:
    assert any(isinstance(entry.record, ToolFinished) for entry in found)
    job = fork.fork.job
    assert first_difference(decisions_of({job: fork.entries}), decisions_of({job: found})) is None


@pytest.mark.parametrize(("what", "how"), POINTS, ids=[what for what, _ in POINTS])
def test_a_fork_of_a_signed_job_goes_the_same_way_again(tmp_path: Path, what: str, how: Any) -> None:
    fork = forked(what, **how)
    assert_the_same(fork, again(fork, tmp_path, SIGNING))


def test_so_does_a_fork_of_such_a_fork(tmp_path: Path) -> None:
    fork = forked("lead begins turn 4", before="lead begins turn 3", prompt="briefly")
    assert_the_same(fork, again(fork, tmp_path, SIGNING))


@pytest.mark.parametrize("signing", [OTHER, OFF], ids=["other keys", "no keys"])
def test_whatever_the_place_signs_with_in_which_it_runs_again(tmp_path: Path, signing: Signing) -> None:
    fork = forked("lead begins turn 3")
    assert_the_same(fork, again(fork, tmp_path, signing))


def test_who_has_no_keys_reads_what_it_began_with_as_who_has_them() -> None:
    ours, theirs = (forked("lead begins turn 3", reads=reads).fork for reads in (SIGNING, OFF))
    assert [type(record) for record in ours.records] == [type(record) for record in theirs.records]
    assert ours.state == theirs.state
