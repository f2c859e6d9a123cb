"""``ekiden job fork``: where a job can be forked, the fork, and where its origin is shown."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ekiden.dispatcher.client import Client
from ekiden.dispatcher.forking.workspace import commit_of
from ekiden.dispatcher.local.locks import RunningCommands, is_command_running
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.records import JobRequested
from ekiden.shared.stores.opening import Stores
from tests.contract.test_forks import origin
from tests.unit.cli.test_catalog_diff import ran
from tests.unit.cli.test_jobs import ekiden, there


@pytest.fixture
def job(valkey_url: str) -> str:
    """A job whose next leg is agent b's."""

    async def scenario(stores: Stores, _: Client) -> str:
        return (await origin(stores))[0]

    return there(valkey_url, scenario)


def forked(url: str, job: str, *args: str) -> dict[str, Any]:
    at = json.loads(ekiden(url, "job", "fork", job, "--json").splitlines()[-1])["seq"]
    found: dict[str, Any] = json.loads(ekiden(url, "job", "fork", job, "--at", str(at), *args, "--json"))
    return found


def test_lists_the_steps_without_at(valkey_url: str, job: str) -> None:
    rows = ekiden(valkey_url, "job", "fork", job).splitlines()
    assert rows[0].split() == ["SEQ", "ANSWERS", "REUSED", "NEXT"]
    assert rows[1].split() == ["1", "0", "the", "routing"]
    assert rows[-1].endswith("b begins")


def test_tells_what_there_is_now_and_what_is_not_rewound(valkey_url: str, job: str) -> None:
    text = ekiden(valkey_url, "job", "fork", job, "--at", "1", "--prompt", "etwas anderes")
    assert f"forked from {job} at 1: 0 answers of models reused; files stay as they are now" in text


def test_its_origin_is_shown_wherever_the_fork_is(valkey_url: str, job: str) -> None:
    made = forked(valkey_url, job, "--prompt", "und auf Deutsch", "--set", "state.x=1")
    assert (made["origin"], made["replies"], made["new"]) == (job, 2, True)
    fork, at = made["job"], made["seq"]
    shown = json.loads(ekiden(valkey_url, "job", "show", fork, "--json"))
    assert (shown["forked"]["job"], shown["forked"]["seq"]) == (job, at)
    assert f"job {job} at {at}" in ekiden(valkey_url, "job", "show", fork)
    chain = json.loads(ekiden(valkey_url, "job", "chain", fork, "--json"))
    assert (chain["forked"]["job"], chain["chain"], chain["total_output_tokens"]) == (job, ["user", "a", "b"], 0)
    assert f"forked from job {job} at {at}: 2 answers reused; the user adds: und auf Deutsch" in ekiden(
        valkey_url, "job", "chain", fork
    )
    assert json.loads(ekiden(valkey_url, "trace", "show", fork, "--json"))["forked"] == {"job": job, "seq": at}
    assert f"forked from job {job} at {at}" in ekiden(valkey_url, "trace", "show", fork)
    events = [json.loads(line) for line in ekiden(valkey_url, "job", "events", fork, "--json").splitlines()]
    assert [one for one in events if one["type"] == "forked"]
    assert json.loads(ekiden(valkey_url, "sessions", "state", fork.partition(".")[0], "--json"))["variables"] == {
        "x": 1
    }


def test_a_job_that_was_delegated_before_the_fork_is_named_and_is_the_other_jobs(valkey_url: str) -> None:
    async def scenario(stores: Stores, client: Client) -> tuple[str, str]:
        job = await ran(stores)
        point = next(one for one in await client.fork_points(job) if one.what == "fixer begins")
        return job, (await client.fork(job, point.seq)).job

    job, fork = there(valkey_url, scenario)
    chain = ekiden(valkey_url, "job", "chain", fork)
    assert f"scout (job {job}.1, of the job that this one was forked from)" in chain
    assert "fixer (waits for a worker)" in ekiden(valkey_url, "trace", "show", fork)
    assert ekiden(valkey_url, "job", "events", fork)
    for form in ("json", "otlp", "openai", "turns"):
        exported = ekiden(valkey_url, "trace", "export", fork, "--format", form)
        assert f"{job}.1" not in exported or form == "json"
    assert json.loads(ekiden(valkey_url, "catalog", "diff", "--json"))["jobs"] == 2


def test_its_trace_begins_with_its_own_steps_and_links_to_the_other_jobs(valkey_url: str) -> None:
    async def scenario(_: Stores, client: Client) -> tuple[str, str, str]:
        job = await client.submit("the tests fail")
        request = (await client.entries(job))[0].record
        assert isinstance(request, JobRequested)
        return job, (await client.fork(job, 1)).job, request.traceparent or ""

    job, fork, trace = there(valkey_url, scenario)
    (resource,) = json.loads(ekiden(valkey_url, "trace", "export", fork, "--format", "otlp"))["resourceSpans"]
    (root,) = resource["scopeSpans"][0]["spans"]
    about = {one["key"]: next(iter(one["value"].values())) for one in root["attributes"]}
    assert (about["ekiden.fork.job"], about["ekiden.fork.seq"]) == (job, "1")
    (link,) = root["links"]
    assert trace.split("-")[1:3] == [link["traceId"], link["spanId"]]
    assert root["traceId"] != link["traceId"]


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (("--prompt", "x"), "--prompt is for a fork: name its step by --at"),
        (("--at", "1", "--prompt", " "), "--prompt is empty"),
        (("--at", "1", "--set", "x=1"), "session variables can be set, as in --set state.ticket=4711"),
        (("--at", "2"), "cannot be forked at 2: the nearest points are 1 (the routing)"),
        (("--at", "1", "--catalog", "/nowhere"), "there is no such folder"),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_remedy(
    valkey_url: str, job: str, args: tuple[str, ...], why: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        ekiden(valkey_url, "job", "fork", job, *args)
    assert why in str(refused.value)


def test_names_the_commit_that_a_folder_has_checked_out(tmp_path: Path) -> None:
    assert commit_of(str(tmp_path)) == commit_of(None) == commit_of("/nowhere") == ""
    git = ["git", "-C", str(tmp_path), "-c", "user.name=t", "-c", "user.email=t@t"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    assert len(commit_of(str(tmp_path))) == 40


def test_commands_that_run_pools_are_known_while_they_run(tmp_path: Path) -> None:
    assert not is_command_running(tmp_path)
    with RunningCommands(tmp_path) as running:
        assert is_command_running(tmp_path)
        running.join()
        assert is_command_running(tmp_path)
    assert not is_command_running(tmp_path)


def test_what_is_for_a_fork_that_runs_here_is_refused_for_others(valkey_url: str, job: str) -> None:
    with pytest.raises(InvalidRequest, match="--unfinished is for --follow"):
        ekiden(valkey_url, "job", "fork", job, "--at", "1", "--unfinished", "cancel")
