"""The contract of JobStore for graphs: steps along edges, and branches that are waited for one by one."""

from typing import Any

from ekiden.shared.handoff import GraphPosition
from ekiden.shared.outcomes import ALL_SUCCEED, ANY_ENDS, AS_LONG_AS_THEY_CAN
from ekiden.shared.stores import keys
from ekiden.shared.stores.base import Claimed
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.redis import as_any
from tests.conftest import Backend
from tests.contract.relay_world import claimed, moved, step_to, submitted
from tests.contract.test_children import (
    FAILED,
    children_of,
    end,
    sends_of,
    status_of,
    suspended_on,
    waiting_parent,
)


async def stepped(stores: Stores, leg: Claimed, to: str, at: GraphPosition) -> Claimed:
    """Take a step of the graph ``flow`` to a node of that name, or back to the graph, and claim the leg behind it."""
    at = at.model_copy(update={"node": "" if to == "flow" else to})
    left: list[str] = list(leg.context.metadata.handoff_chain[at.chain_length :])
    context = leg.context.step(to, "so", (at,))
    there: dict[str, Any] = {"context": context, "is_step": True, "left": (*left, *(["flow"] if to == "flow" else []))}
    assert await stores.jobs.transfer(leg.lease, f"{leg.lease.fence}.e", **step_to(leg, to, **there)) == ("ok", "")
    return await claimed(stores, leg.lease.job)


async def visits_of(stores: Stores, job: str) -> dict[str, str]:
    fields = await as_any(stores.client.hgetall(keys.job(job)))
    return {name.removeprefix("visits:"): value for name, value in fields.items() if name.startswith("visits:")}


async def graph_at(stores: Stores, *agents: str) -> tuple[str, Claimed, GraphPosition]:
    """A job in which ``flow`` has control, behind ``agents``, and the graph's position there."""
    job = await submitted(stores)
    leg = await moved(stores, job, *agents, "flow")
    return job, leg, leg.context.begin_graph(leg.lease.leg)


def test_a_graph_goes_round_and_round_and_gets_no_deeper(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job, leg, at = await graph_at(stores, "lead")
        for to in ("a", "b") * 8:
            leg = await stepped(stores, leg, to, at)
        assert leg.context.metadata.handoff_chain == ("user", "lead", "flow", "b")
        assert (await stores.jobs.job(job)).depth == 1
        assert await visits_of(stores, job) == {"lead": "1", "flow": "1", "a": "0", "b": "1"}

    backend.run(scenario)


def test_who_steps_to_itself_is_in_the_chain_once(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job, leg, at = await graph_at(stores)
        for to in ("a", "a", "flow", "flow", "a"):
            leg = await stepped(stores, leg, to, at)
        assert await visits_of(stores, job) == {"flow": "1", "a": "1"}

    backend.run(scenario)


def test_handoffs_within_a_step_count_until_the_next_one(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job, leg, at = await graph_at(stores)
        for number in range(3):
            leg = await stepped(stores, leg, "a", at.model_copy(update={"step": number}))
            there = step_to(leg, "helper", context=leg.context.advance("helper", "help me"), max_depth=1)
            assert await stores.jobs.transfer(leg.lease, f"{leg.lease.fence}.t", **there) == ("ok", "")
            leg = await claimed(stores, job)
            assert (await stores.jobs.job(job)).depth == 1
            there = step_to(leg, "a", context=leg.context.advance("a", "back"), max_depth=9, cycles="deny")
            verdict = await stores.jobs.transfer(leg.lease, f"{leg.lease.fence}.b", **there)
            assert verdict == ("refused", "CIRCULAR_HANDOFF")

    backend.run(scenario)


def test_the_first_branch_that_ends_wakes_its_graph_once_and_the_others_go_on(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job, [first, second, third] = await waiting_parent(stores, 3, need=ANY_ENDS)
        before = await sends_of(stores, job)
        await end(stores, first, FAILED)
        assert (await status_of(stores, job), await status_of(stores, second)) == ("queued", "queued")
        await end(stores, second)
        leg = await claimed(stores, job)
        await end(stores, third)
        assert await status_of(stores, job) == "running"
        assert await sends_of(stores, job) == before + 1
        await suspended_on(stores, leg, children_of(leg, 3), need=ANY_ENDS)
        assert await status_of(stores, job) == "queued", "what has ended meanwhile is looked at"

    backend.run(scenario)


def test_branches_that_a_graph_names_no_more_are_stopped(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job, [first, second, third] = await waiting_parent(stores, 3, need=ANY_ENDS)
        await end(stores, first)
        leg = await claimed(stores, job)
        await suspended_on(stores, leg, children_of(leg, 3)[1:2], need=ANY_ENDS)
        assert ((await stores.jobs.job(second)).stop, (await stores.jobs.job(third)).stop) == (None, "parent")
        await end(stores, second)
        assert await status_of(stores, job) == "queued"

    backend.run(scenario)


def test_a_graph_that_takes_a_step_waits_for_none_of_its_branches(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job, leg, at = await graph_at(stores)
        await suspended_on(stores, leg, children_of(leg, 2), need=ANY_ENDS)
        await end(stores, f"{job}.1")
        await stepped(stores, await claimed(stores, job), "a", at)
        assert (await stores.jobs.job(f"{job}.2")).stop == "parent"

    backend.run(scenario)


def test_a_graph_that_needs_all_of_its_branches_is_woken_by_the_first_that_fails(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job, [first, second, third] = await waiting_parent(stores, 3, need=ALL_SUCCEED)
        await end(stores, first)
        assert await status_of(stores, job) == "suspended"
        await end(stores, second, FAILED)
        leg = await claimed(stores, job)
        assert (await stores.jobs.job(third)).stop is None, "the graph decides what becomes of it"
        await suspended_on(stores, leg, children_of(leg, 3)[2:], need=ALL_SUCCEED)
        assert await status_of(stores, job) == "suspended"
        await end(stores, third)
        assert await status_of(stores, job) == "queued", "that was the last one"

    backend.run(scenario)


def test_a_graph_that_needs_all_of_its_branches_finds_one_that_has_failed_meanwhile(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job, [first, second, _] = await waiting_parent(stores, 3, need=ANY_ENDS)
        await end(stores, first)
        leg = await claimed(stores, job)
        await end(stores, second, FAILED)
        await suspended_on(stores, leg, children_of(leg, 3), need=ALL_SUCCEED)
        assert await status_of(stores, job) == "queued"

    backend.run(scenario)


def test_a_graph_that_needs_some_of_its_branches_is_woken_as_soon_as_too_few_are_left(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job, [first, second, third] = await waiting_parent(stores, 3, need=AS_LONG_AS_THEY_CAN + 2)
        await end(stores, first, FAILED)
        assert await status_of(stores, job) == "suspended", "two are left"
        await end(stores, second, FAILED)
        assert await status_of(stores, job) == "queued"
        assert (await stores.jobs.job(third)).stop is None, "the graph decides what becomes of it"

    backend.run(scenario)


def test_a_graph_that_has_enough_of_its_branches_stops_the_others(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        job, [first, second, third] = await waiting_parent(stores, 3, need=AS_LONG_AS_THEY_CAN + 1)
        await end(stores, first, FAILED)
        assert await status_of(stores, job) == "suspended"
        await end(stores, second)
        assert await status_of(stores, job) == "queued"
        assert (await stores.jobs.job(third)).stop == "parent"

    backend.run(scenario)
