"""What a three-agent job costs the server: no more than it has come down to, so that what is added is seen."""

from typing import Any

from ekiden.shared.ids import first_job_for
from ekiden.shared.outcomes import Answer, Outcome, Transfer
from ekiden.shared.records import Routed
from ekiden.shared.relay.leg import Leg
from ekiden.shared.relay.message import DISPATCH_QUEUE, queue_for
from ekiden.shared.stores import keys
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.redis import as_any
from ekiden.shared.stores.submissions import NewSession, Submission
from ekiden.shared.stores.views import Spent
from tests.conftest import Backend
from tests.contract.relay_world import reply, submission
from tests.unit.relay.legs import Move, runner_of, take

SCRIPTS = 9
"""One to submit, and for each of four legs: claim, and commit, which takes the leg's last step along."""
COMMANDS = 125
"""Of all kinds, also by scripts: as many as are used; four of them for each reply, for budgets and usage."""
REPLIES = 3
KB = 10
AGENTS = ("a", "b", "c")
OWN = {"info", "config|resetstat", "script|load", "rpop", "evalsha", "client|setinfo", "hello", "ping"}
"""What the test itself asks, and Celery in the place of the test."""


def moves() -> dict[str, Move]:
    """What the dispatcher and each agent do, by queue: one step, and hand over or answer."""

    async def route(leg: Leg) -> Outcome:
        leg.hold(Routed(agent="a", stage="agent", score=0, confidence=100))
        return Transfer(leg.context.advance("a", "routed by agent", is_route=True), catalog="digest")

    def hand_over(to: str) -> Move:
        async def move(leg: Leg) -> Outcome:
            leg.hold(reply("over to you", leg.number, tokens=10))
            return Transfer(leg.context.advance(to, "go"), call_id="c", tool_name=f"transfer_to_{to}", catalog="digest")

        return move

    async def answer(leg: Leg) -> Outcome:
        leg.hold(reply("done", leg.number, tokens=10))
        return Answer("done")

    return {
        DISPATCH_QUEUE: route,
        queue_for("a"): hand_over("b"),
        queue_for("b"): hand_over("c"),
        queue_for("c"): answer,
    }


async def run_job(stores: Stores, request_id: str) -> str:
    """Submit a job, and serve each of its messages as pools do."""
    plain = submission(job := first_job_for(request_id), "go", request_id)
    whole = Submission(job, plain.request, plain.context, plain.outbox, plain.deadline_s, NewSession())
    assert await stores.jobs.submit(whole)
    for queue, move in moves().items():
        assert await runner_of(stores, move).run(await take(stores, queue), queue) == "ok"
    view = await stores.jobs.job(job)
    assert (view.status, view.result, view.leg, view.spent) == ("done", "done", 3, Spent(tokens=30))
    return job


async def used(stores: Stores) -> dict[str, int]:
    """How often each command was carried out since the last look."""
    found: dict[str, Any] = await as_any(stores.client.info("commandstats"))
    await as_any(stores.client.config_resetstat())
    return {name.removeprefix("cmdstat_"): figures["calls"] for name, figures in found.items()}


def test_a_three_agent_job_takes_no_more_scripts_and_commands_than_it_did(valkey: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        await run_job(stores, "the first, which loads the scripts")
        await used(stores)
        await run_job(stores, "the second")
        calls = await used(stores)
        assert calls["evalsha"] == SCRIPTS
        commands = sum(count for name, count in calls.items() if name not in OWN)
        assert COMMANDS - 15 < commands <= COMMANDS, f"{commands}: set the figure where it is less now; {calls}"
        assert calls["hmget"] <= 2 * (SCRIPTS + REPLIES) + 1, (
            "the clock, and one look at the job (submit: at its session too)"
        )
        assert calls["hset"] <= SCRIPTS + 2 * REPLIES + 1

    valkey.run(scenario)


def test_a_finished_three_agent_job_takes_no_more_memory_than_it_did(valkey: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job = await run_job(stores, "r")
        names = [name async for name in stores.client.scan_iter(match=keys.session(job.partition(".")[0])[:-7] + "*")]
        assert keys.job(job) in names
        sizes = {name: await as_any(stores.client.memory_usage(name)) for name in names}
        assert sum(sizes.values()) <= KB * 1024, sizes

    valkey.run(scenario)


def test_whose_connection_it_is_is_asked_once(valkey: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        await used(stores)
        assert [await stores.user(), await stores.user()] == ["", ""]
        assert (await used(stores))["acl|whoami"] == 1

    valkey.run(scenario)
