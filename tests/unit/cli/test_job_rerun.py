"""``ekiden job rerun`` of what cannot be run again: nothing is started, and it is said why."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from typer.testing import CliRunner

from ekiden.dispatcher.cli.commands import job_rerun
from ekiden.dispatcher.cli.main import app
from ekiden.dispatcher.journal.decisions import Decision
from ekiden.dispatcher.journal.differences import Difference
from ekiden.dispatcher.local.rerun import Rerun
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.stores.opening import Stores, open_stores
from ekiden.shared.stores.redis import as_any
from tests.scenarios.relay import Relay, team
from tests.unit.workers.world import Replies, call, calls, said

LEAD = {"name": "lead", "subagents": ["scout"]}
REPLIES = {"lead": [calls(call("c", "delegate_to_scout", objective="x")), said("ok")], "scout": [said("found")]}


async def ended(relay: Relay) -> str:
    job = await relay.submit("do it", agent="lead")
    await relay.drain()
    return job


async def queued(relay: Relay) -> str:
    return await relay.submit("do it", agent="lead")


async def unrouted(relay: Relay) -> str:
    job = await relay.submit("what is the capital of Peru?")
    await relay.drain()
    return job


@pytest.mark.parametrize(
    ("begin", "words", "told"),
    [
        (queued, [], "has not ended (queued): only what has can be run again"),
        (unrouted, [], "nobody was found for job"),
        (ended, ["--from", "999"], "and none of the number 999"),
    ],
)
def test_what_cannot_be_run_again_is_said(
    begin: Callable[[Relay], Awaitable[str]], words: list[str], told: str, valkey_url: str
) -> None:
    job = asyncio.run(on(valkey_url, begin))
    done = CliRunner().invoke(app, ["job", "rerun", job, "--redis", valkey_url, *words])
    assert isinstance(done.exception, InvalidRequest), done.output
    assert told in str(done.exception)


def test_a_delegated_job_is_run_again_with_the_one_that_it_is_a_part_of(valkey_url: str) -> None:
    job = asyncio.run(on(valkey_url, ended))
    done = CliRunner().invoke(app, ["job", "rerun", f"{job}.1", "--redis", valkey_url])
    assert f"job {job}.1 is a part of {job}: run that again" in str(done.exception)


def test_two_steps_that_differ_are_shown_from_where_they_do(valkey_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    job = asyncio.run(on(valkey_url, ended))
    was, now = (
        Decision(9, 0, 1, "lead", "model_reply", "turn 1", f'{{"text":"{"the same " * 99}{end}"}}')
        for end in ("A", "B")
    )

    async def differing(_: object, job: str, __: int) -> Rerun:
        return Rerun(job, 9, 9, Difference(job, was, now), ())

    monkeypatch.setattr(job_rerun, "rerun", differing)
    lines = CliRunner().invoke(app, ["job", "rerun", job, "--redis", valkey_url]).output.splitlines()
    assert [line.strip()[-8:] for line in lines if line.rstrip().endswith(('A"}', 'B"}'))] == ['same A"}', 'same B"}']


async def on(url: str, begin: Callable[[Relay], Awaitable[str]]) -> str:
    stores: Stores = open_stores(url)
    try:
        await as_any(stores.client.flushall())
        fronts: list[dict[str, Any]] = [LEAD, {"name": "scout"}]
        return await begin(Relay(stores, team(*fronts), Replies(REPLIES)))
    finally:
        await stores.close()
