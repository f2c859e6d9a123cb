"""What a process reads of a journal that it knows, and when it does not believe what it knows."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ekiden.shared.errors import Forged
from ekiden.shared.ids import drawn_id
from ekiden.shared.records import Entry, LegSuspended, Noticed
from ekiden.shared.relay import journals as journals_module
from ekiden.shared.relay.journals import SHORTEST, Journals
from ekiden.shared.relay.verification import MessageVerifier
from ekiden.shared.signing import Signing
from ekiden.shared.stores import keys
from ekiden.shared.stores.base import Claimed
from ekiden.shared.stores.opening import Stores
from tests.conftest import Backend, real_backend
from tests.contract.relay_world import claim_of, submitted
from tests.contract.rewinding import remembered, rewind
from tests.contract.test_signing import rewrite, rows_of, signed

LONG = SHORTEST + 8


@pytest.fixture
def backend() -> Backend:
    return real_backend()


def journals_of(stores: Stores, signing: Signing | None = None) -> Journals:
    return Journals(stores.jobs, MessageVerifier(signing) if signing else MessageVerifier())


async def opened(stores: Stores, journals: Journals, job: str) -> tuple[Claimed, int, list[Entry]]:
    """Claim the job's leg and read its journal; with how many entries came with the claim."""
    claim = replace(await claim_of(stores, job, drawn_id()), known=journals.length(job))
    leg = await stores.jobs.claim(claim, 30.0)
    assert isinstance(leg, Claimed), leg
    came = len(leg.rows) // 3
    return leg, came, await journals.read(leg)


async def left(stores: Stores, leg: Claimed, *texts: str) -> None:
    """Note something in a leg, and let it wait for nothing."""
    notes = [Noticed(leg=leg.lease.leg, text=text) for text in texts]
    number = leg.lease.leg
    pause = LegSuspended(leg=number, cause="retry", delay_s=0.0)
    verdict = await stores.jobs.suspend(leg.lease, f"{leg.lease.fence}.s", [*notes, pause], 0.0)
    assert verdict == ("ok", "")
    await stores.client.zadd(keys.TIMERS, {leg.lease.job: 0})
    await stores.jobs.requeue(leg.lease.job, 0.0, 5)


def said(entries: Sequence[Entry]) -> list[str]:
    return [entry.record.text for entry in entries if isinstance(entry.record, Noticed)]


async def known_to(stores: Stores, journals: Journals, request_id: str = "r1", *more: str) -> str:
    """A job whose long journal is known; its leg waits."""
    job = await submitted(stores, request_id=request_id)
    leg, _, _ = await opened(stores, journals, job)
    await left(stores, leg, *map(str, range(LONG)), *more)
    leg, _, _ = await opened(stores, journals, job)
    await left(stores, leg, "once more")
    return job


def test_of_a_journal_that_is_known_only_what_is_new_is_read(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        journals = journals_of(stores)
        job = await known_to(stores, journals)
        leg, came, entries = await opened(stores, journals, job)
        assert came == len([" the last that is known", "once more", "suspended", "started"])
        assert entries == await stores.jobs.journal(job)
        await left(stores, leg, "and more")
        _, came, entries = await opened(stores, journals, job)
        assert (came, said(entries)) == (4, [*map(str, range(LONG)), "once more", "and more"])

    backend.run(scenario)


def test_what_another_process_has_written_meanwhile_is_read_and_no_more(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        journals, others = journals_of(stores), journals_of(stores)
        job = await known_to(stores, journals)
        leg, came, _ = await opened(stores, others, job)
        assert came > LONG
        await left(stores, leg, "by another")
        _, came, entries = await opened(stores, journals, job)
        assert came == 7
        assert said(entries)[-2:] == ["once more", "by another"]
        assert entries == await stores.jobs.journal(job)

    backend.run(scenario)


def test_a_server_that_went_back_and_came_as_far_by_another_way_is_believed(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        journals = journals_of(stores)
        job = await submitted(stores)
        before = await remembered(stores)
        for text in ("forgotten", "as it is"):
            leg, _, _ = await opened(stores, journals_of(stores) if text == "as it is" else journals, job)
            await left(stores, leg, text, *map(str, range(LONG)))
            if text == "forgotten":
                leg, _, entries = await opened(stores, journals, job)
                assert journals.length(job) == len(entries)
                await rewind(stores, before)
        _, _, entries = await opened(stores, journals, job)
        assert said(entries)[0] == "as it is"
        assert entries == await stores.jobs.journal(job)

    backend.run(scenario)


def test_a_server_that_has_forgotten_the_end_of_what_is_known_is_believed(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        journals = journals_of(stores)
        job = await submitted(stores)
        leg, _, _ = await opened(stores, journals, job)
        await left(stores, leg, *map(str, range(LONG)))
        before = await remembered(stores)
        for _ in range(3):
            leg, _, _ = await opened(stores, journals, job)
            await left(stores, leg, "forgotten")
        await rewind(stores, before)
        leg, _, entries = await opened(stores, journals, job)
        assert said(entries) == [*map(str, range(LONG))]
        assert leg.lease.seq == len(entries)

    backend.run(scenario)


def test_signatures_are_checked_of_what_is_new_from_where_the_known_ends(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        ours = signed(stores)
        journals = journals_of(ours, ours.signing)
        job = await known_to(ours, journals)
        leg, came, _ = await opened(ours, journals, job)
        assert came == 4
        await left(ours, leg, "said")
        rows = [
            (row, fields | {"r": fields["r"].replace('"said"', '"meant"')})
            for row, fields in await rows_of(stores, job)
        ]
        await rewrite(stores, job, rows)
        await stores.client.expire(keys.journal(job), 1000)
        with pytest.raises(Forged):
            await opened(ours, journals, job)

    backend.run(scenario)


def test_what_is_kept_is_bounded_and_short_or_ended_journals_are_not(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals_module, "MOST_SIZE", 100 * 1_000)

    async def scenario(stores: Stores) -> None:
        journals = journals_of(stores)
        short = await submitted(stores, request_id="short")
        await opened(stores, journals, short)
        first, second, third = [await known_to(stores, journals, name) for name in ("1", "2", "3")]
        assert [journals.length(job) > 0 for job in (short, first, second, third)] == [False, False, True, True]
        large = await known_to(stores, journals, "4", "x" * 70_000)
        assert journals.length(large) == 0
        journals.forget(third)
        assert journals.length(third) == 0

    backend.run(scenario)
