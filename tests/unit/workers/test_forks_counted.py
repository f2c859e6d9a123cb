"""What a fork shares with the job that it comes from is that job's: it is counted there, and once."""

from collections.abc import Sequence

import pytest

from ekiden.dispatcher.journal.policy_replay import replayed
from ekiden.dispatcher.journal.rails_replay import rails_replayed
from ekiden.dispatcher.journal.replay import totals
from ekiden.dispatcher.journal.story_reader import story_of
from ekiden.shared.policy.engine import Policy
from ekiden.shared.records import Entry
from ekiden.shared.relay.leg import journal_of
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.views import JobView
from tests.scenarios.relay import team
from tests.unit.workers.test_forks import World, on_world


class Reader:
    """The part of a client that reads some jobs."""

    def __init__(self, stores: Stores, *jobs: str) -> None:
        self._stores, self._jobs = stores, jobs

    async def jobs(self, most: int) -> Sequence[JobView]:
        return [await self._stores.jobs.job(job) for job in self._jobs[:most]]

    async def entries(self, job: str) -> list[Entry]:
        return await journal_of(self._stores.jobs, job)

    async def journals(self, job: str) -> dict[str, list[Entry]]:
        return {job: await self.entries(job)}


@pytest.mark.parametrize(
    ("what", "calls", "inputs", "told"),
    [
        ("lead begins", 7, 2, "2 agents, 7 tools, 1 handoff"),
        ("lead makes the calls of turn 5: look", 3, 1, "2 agents, 3 tools, 1 handoff"),
        ("fixer begins", 2, 1, "1 agent, 2 tools"),
        ("fixer begins turn 2", 0, 0, "1 agent"),
    ],
)
def test_calls_and_judgements_count_where_they_were_made(what: str, calls: int, inputs: int, told: str) -> None:
    rails = [{"name": "short", "validator": "no_secrets", "on": ["input", "tool_input", "tool_output", "handoff"]}]
    agents = team({"name": "lead", "guardrails": rails}, {"name": "fixer", "guardrails": rails})

    async def scenario(world: World) -> None:
        fork = (await world.forked(what)).job
        reader = Reader(world.stores, fork)
        made = await replayed(reader, Policy(), since_s=3600, limit=9, shown=0)  # type: ignore[arg-type]  # reads alone
        assert made.calls == calls
        counts: dict[str, int] = {}
        for name in ("lead", "fixer"):
            agent = agents.definition(name)
            found = await rails_replayed(reader, agent, since_s=3600, limit=9, shown=0)  # type: ignore[arg-type]
            for (_, at, _), count in found.counts.items():
                counts[at] = counts.get(at, 0) + count
        assert (counts.get("tool_input", 0), counts.get("tool_output", 0)) == (calls, calls)
        assert (counts.get("input", 0), counts.get("handoff", 0)) == (inputs, "handoff" in told)
        assert totals([story_of(fork, await reader.entries(fork))]) == told

    on_world(scenario)


@pytest.mark.parametrize(
    ("what", "judged"), [("lead begins turn 3", {"lead": 1, "fixer": 1}), ("fixer begins", {"fixer": 1})]
)
def test_what_a_fork_adds_is_held_against_guardrails_as_well(what: str, judged: dict[str, int]) -> None:
    rails = {"guardrails": [{"name": "short", "max_length": 30, "on": "input"}]}
    agents = team({"name": "lead", **rails}, {"name": "fixer", **rails})

    async def scenario(world: World) -> None:
        fork = (await world.forked(what, prompt="word " * 10)).job
        reader = Reader(world.stores, fork)
        found = {}
        for name in ("lead", "fixer"):
            replay = await rails_replayed(reader, agents.definition(name), since_s=3600, limit=9, shown=0)  # type: ignore[arg-type]
            found[name] = replay.counts["short", "input", False]
        assert {name: 1 for name, count in found.items() if count} == judged

    on_world(scenario)
