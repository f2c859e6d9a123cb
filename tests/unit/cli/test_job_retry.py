"""``ekiden job retry --call``: what a person says of calls of which nobody knows whether they were done."""

import asyncio
import json

import pytest
from typer.testing import CliRunner

from ekiden.dispatcher.cli.main import app
from ekiden.dispatcher.client import Client
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.messages import Message, ToolCall
from ekiden.shared.records import ModelReplied, Record, Retried, ToolStarted
from ekiden.shared.relay.termination import stop_job
from ekiden.shared.stores.opening import Stores
from tests.contract.relay_world import claimed, step_to, submitted
from tests.unit.cli.test_jobs import ekiden, there


@pytest.fixture
def job(valkey_url: str) -> str:
    """A job that has failed while two tools ran, whose worker was lost."""
    made = tuple(ToolCall(id=one, name="pay", args={"to": "bob"}) for one in ("c1", "c2"))
    begun: list[Record] = [ToolStarted(leg=1, call_id=one.id, name="pay", is_known=True) for one in made]

    async def scenario(stores: Stores, _: Client) -> str:
        job = await submitted(stores)
        route = await claimed(stores, job)
        await stores.jobs.transfer(route.lease, "t0", **step_to(route, "payer"))
        leg = await claimed(stores, job, lease_s=0.0)
        reply = ModelReplied(leg=1, turn=1, message=Message(role="model", parts=made))
        await stores.jobs.append(leg.lease, "t1", [reply, *begun], used_ms=1, is_progress=True)
        assert await stop_job(stores.jobs, job, "deadline") == "ok"
        return job

    return there(valkey_url, scenario)


def retried(url: str, job: str) -> list[Retried]:
    async def read() -> list[Retried]:
        async with Client(url) as client:
            return [entry.record for entry in await client.entries(job) if isinstance(entry.record, Retried)]

    return asyncio.run(read())


def test_job_show_names_the_calls_that_nobody_knows_of_and_how_to_say_it(valkey_url: str, job: str) -> None:
    remedy = f"ekiden job retry {job} --call {job}:c1=done[:TEXT]|undone"
    assert f"pay: {remedy}" in " ".join(ekiden(valkey_url, "job", "show", job).split())
    shown = json.loads(ekiden(valkey_url, "job", "show", job, "--json"))["unknown_calls"]
    assert [one["id"] for one in shown] == [f"{job}:c1", f"{job}:c2"]
    assert shown[0] == {"id": f"{job}:c1", "name": "pay", "node": "", "remedy": remedy}


def test_each_may_be_said_in_one_command(valkey_url: str, job: str) -> None:
    done = ekiden(valkey_url, "job", "retry", job[:8], "--call", "c1=done:a=b: c", "--call", f"{job}:c2=undone")
    assert done == f"job {job} goes on\n"
    [record] = retried(valkey_url, job)
    assert [(one.call_id, one.is_done, one.text) for one in record.settled] == [
        ("c1", True, "a=b: c"),
        ("c2", False, ""),
    ]
    assert record.by
    assert "says: c1 was done, c2 was not done" in ekiden(valkey_url, "job", "events", job)
    assert json.loads(ekiden(valkey_url, "job", "show", job, "--json"))["unknown_calls"] == []


def test_what_nobody_has_said_is_named(valkey_url: str, job: str) -> None:
    shown = CliRunner().invoke(app, ["job", "retry", job, "--call", "c1=done", "--redis", valkey_url])
    assert f"nobody knows whether pay was done ({job}:c2)" in shown.stderr
    assert "c1" not in shown.stderr


def test_who_lets_a_job_go_on_and_does_not_follow_it_is_told_that_no_worker_runs(valkey_url: str, job: str) -> None:
    shown = CliRunner().invoke(app, ["job", "retry", job, "--call", "c1=done", "--redis", valkey_url])
    assert "no worker runs: `ekiden worker` goes on with the job" in shown.stderr


@pytest.mark.parametrize("words", [["submit", "hello"], ["job", "fork", "JOB", "--at", "1"]])
def test_so_is_who_begins_one(valkey_url: str, job: str, words: list[str]) -> None:
    shown = CliRunner().invoke(app, [*(job if word == "JOB" else word for word in words), "--redis", valkey_url])
    assert shown.exit_code == 0, shown.output
    assert "no worker runs: `ekiden worker` goes on with the job" in shown.stderr


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (["c1"], "give CALL=done, CALL=done:TEXT or CALL=undone"),
        (["c1=maybe"], "give CALL=done, CALL=done:TEXT or CALL=undone"),
        (["c1=undone:why"], "give CALL=done, CALL=done:TEXT or CALL=undone"),
        (["c1=done", "c1=undone"], "names 'c1' twice"),
        (["c3=done"], "'c3' is no call of which nobody knows whether it was done"),
    ],
)
def test_what_is_no_word_is_refused_and_the_job_stays_as_it_was(
    valkey_url: str, job: str, said: list[str], why: str
) -> None:
    options = [part for one in said for part in ("--call", one)]
    with pytest.raises(InvalidRequest, match=why):
        ekiden(valkey_url, "job", "retry", job, *options)
    assert not retried(valkey_url, job)
