"""What was learned from requests, as the store keeps it, and which jobs are looked at for it."""

import asyncio

from ekiden.dispatcher.learning.lookout import look
from ekiden.shared.lessons import Lesson, taken_in
from ekiden.shared.records import Ended, Routed, Unrouted
from ekiden.shared.signing import signing_of
from ekiden.shared.stores import keys
from ekiden.shared.stores.lessons import RedisLessonStore
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.submissions import NewSession
from tests.conftest import Backend
from tests.contract.relay_world import claimed, done, moved, step_to, submission

INVOICE = Lesson(text="Where is my invoice?", agent="billing", evidence="named", user="ann", at_ms=1)
REFUND = Lesson(text="I want my money back", agent="refunds", evidence="passed_on", user="bob", at_ms=2)


async def teach(stores: Stores, *lessons: Lesson) -> None:
    await stores.lessons.change(lambda known: taken_in(known, lessons))


def test_lessons_are_kept_changed_and_forgotten(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        assert await stores.lessons.version() == ""
        await teach(stores, INVOICE, REFUND)
        first = await stores.lessons.known()
        assert first.lessons == {INVOICE.id: INVOICE, REFUND.id: REFUND}
        assert await stores.lessons.version() == first.version != ""
        assert 0 < await stores.client.ttl(keys.LESSONS) <= keys.LESSONS_TTL_S

        await teach(stores, INVOICE)
        assert await stores.lessons.version() == first.version  # nothing is new

        accepted = INVOICE.model_copy(update={"state": "accepted"})
        await stores.lessons.change(lambda _: {accepted.id: accepted})
        second = await stores.lessons.known()
        assert second.lessons == {accepted.id: accepted}
        assert second.version != first.version

    backend.run(scenario)


def test_who_changes_them_at_the_same_time_overwrites_nobody(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        many = [INVOICE.model_copy(update={"text": f"Where is invoice {n}, please?"}) for n in range(10)]
        await asyncio.gather(*(teach(stores, one) for one in many))
        assert len((await stores.lessons.known()).lessons) == len(many)

    backend.run(scenario)


def test_what_others_have_written_is_no_lesson_and_is_left_alone(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        await teach(stores, INVOICE)
        await stores.client.hset(keys.LESSONS, mapping={"a" * 12: "no JSON", REFUND.id: INVOICE.model_dump_json()})
        await teach(stores, INVOICE.model_copy(update={"text": "Another request"}))
        assert len((await stores.lessons.known()).lessons) == 2
        assert await stores.client.hget(keys.LESSONS, "a" * 12) == "no JSON"

        signed = RedisLessonStore(stores.client, signing_of(f"k1:{'s' * 32}"))
        assert (await signed.known()).lessons == {}
        await signed.change(lambda known: taken_in(known, [REFUND]))
        assert (await signed.known()).lessons == {REFUND.id: REFUND}

    backend.run(scenario)


def test_only_one_looks_at_a_time(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        assert [await stores.lessons.may_look(60), await stores.lessons.may_look(60)] == [True, False]

    backend.run(scenario)


async def ask(stores: Stores, prompt: str, number: str, agent: str | None = None) -> str:
    """Submit the request of ann as the first of a session; return its job."""
    job = await stores.jobs.reserve(None, number, "ann")
    asked = submission(job, prompt, number)
    request = asked.request.model_copy(update={"agent": agent})
    assert await stores.jobs.submit(
        type(asked)(job, request, asked.context, asked.outbox, asked.deadline_s, NewSession("ann"))
    )
    return job


async def refuse(stores: Stores, job: str) -> None:
    lease = (await claimed(stores, job)).lease
    end = Ended(status="failed", reason="NO_ROUTE", error="nobody")
    await stores.jobs.finish(lease, "c", [Unrouted(why="nobody"), end], ())


async def answer(stores: Stores, job: str, *agents: str, stage: str = "agent") -> None:
    """Carry the job over agents who do nothing, to the last, who answers."""
    lease = await claimed(stores, job)
    step = step_to(lease, agents[0])
    routed = Routed(agent=agents[0], stage=stage, score=1, confidence=50)
    step["records"] = [routed, *step["records"]]
    assert (await stores.jobs.transfer(lease.lease, "route", **step))[0] == "ok"
    leg = await moved(stores, job, *agents[1:])
    assert (await stores.jobs.finish(leg.lease, "end", [done(leg=leg.lease.leg)], ()))[0] == "ok"


def test_a_corrected_request_is_learned_once_across_sessions(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        await refuse(stores, await ask(stores, INVOICE.text, "r1"))
        corrected = await ask(stores, f"  {INVOICE.text}", "r2", "billing")
        await answer(stores, corrected, "billing")
        await answer(stores, await ask(stores, REFUND.text, "r3"), "desk", "refunds", stage="rule")
        unfinished = await ask(stores, "This one is not over", "r4")

        assert await look(stores, 100) == 2
        found = {one.text: one for one in (await stores.lessons.known()).lessons.values()}
        assert {text: (one.agent, one.evidence, one.user) for text, one in found.items()} == {
            INVOICE.text: ("billing", "chosen", "ann"),
            REFUND.text: ("refunds", "passed_on", "ann"),
        }
        assert found[INVOICE.text].job == corrected
        await stores.lessons.change(lambda _: {})
        assert await look(stores, 100) == 0
        assert (await stores.lessons.known()).lessons == {}  # what is forgotten stays so

        await answer(stores, unfinished, "desk", "refunds", stage="rule")
        assert await look(stores, 100) == 1

    backend.run(scenario)


def test_a_journal_that_is_gone_teaches_nothing_and_stops_nobody(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        first, second = await ask(stores, INVOICE.text, "r1"), await ask(stores, REFUND.text, "r2")
        for job in (first, second):
            await answer(stores, job, "desk", "refunds", stage="rule")
        await stores.client.delete(keys.journal(first))
        assert await look(stores, 100) == 2
        assert [one.text for one in (await stores.lessons.known()).lessons.values()] == [REFUND.text]

    backend.run(scenario)
