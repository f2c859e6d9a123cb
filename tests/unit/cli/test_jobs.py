"""``ekiden jobs``, ``job …`` and ``sessions state`` on jobs that delegate."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from typer.testing import CliRunner

from ekiden.dispatcher.cli.main import app
from ekiden.dispatcher.cli.views.jobs import work_json, work_rows
from ekiden.dispatcher.client import Client
from ekiden.shared.errors import InvalidRequest, UnknownJob
from ekiden.shared.job_limits import JobLimits
from ekiden.shared.messages import Artifact, Message, ToolCall, ToolResult, Usage
from ekiden.shared.records import Guarded, JobRequested, ModelReplied, Record, Summarised, ToolFinished, ToolStarted
from ekiden.shared.stores.opening import Stores, open_stores
from ekiden.shared.stores.redis import as_any
from tests.contract.relay_world import claimed, done, moved, reply, step_to, submitted
from tests.contract.test_approvals import parked
from tests.contract.test_children import FAILED, end, waiting_parent
from tests.contract.test_sessions_and_live import answered
from tests.unit.cli.test_follower import delegated

T = TypeVar("T")


def there(url: str, scenario: Callable[[Stores, Client], Awaitable[T]]) -> T:
    """Run ``scenario`` on an emptied server."""

    async def whole() -> T:
        stores = open_stores(url)
        await as_any(stores.client.flushall())
        async with Client(url) as client:
            try:
                return await scenario(stores, client)
            finally:
                await stores.close()

    return asyncio.run(whole())


def ekiden(url: str, *args: str) -> str:
    done = CliRunner().invoke(app, [*args, "--redis", url], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture
def parent(valkey_url: str) -> tuple[str, list[str]]:
    """A parent that waits for three children, of which the second has failed; an ordinary job is there, too."""

    async def scenario(stores: Stores, _: Client) -> tuple[str, list[str]]:
        await submitted(stores, request_id="alone")
        job, children = await waiting_parent(stores, 3)
        await end(stores, children[1], FAILED)
        return job, children

    return there(valkey_url, scenario)


def test_jobs_counts_the_children_of_root_jobs(valkey_url: str, parent: tuple[str, list[str]]) -> None:
    job, children = parent
    rows = [line.split() for line in ekiden(valkey_url, "jobs").splitlines()]
    assert rows[0][:5] == ["JOB", "STATUS", "AGENT", "LEG", "CHILDREN"]
    assert rows[1][:5] == [job, "suspended", "lead", "1", "3"]
    assert children[0] not in ekiden(valkey_url, "jobs")
    found = [json.loads(line) for line in ekiden(valkey_url, "jobs", "--json").splitlines()]
    assert [(one["id"], one["child_count"], one["parent"]) for one in found[:1]] == [(job, 3, None)]
    assert found[1]["child_count"] == 0


def test_jobs_and_job_show_tell_what_waits_for_people(valkey_url: str) -> None:
    async def scenario(stores: Stores, _: Client) -> tuple[str, str]:
        other = await submitted(stores, request_id="other")
        return await parked(stores), other

    job, other = there(valkey_url, scenario)
    rows = {line.split()[0]: line.split() for line in ekiden(valkey_url, "jobs").splitlines()}
    assert (rows["JOB"][4], rows[job][4]) == ("ASKS", "1")
    found = map(json.loads, ekiden(valkey_url, "jobs", "--json").splitlines())
    counts = {one["id"]: one["waiting_approvals"] for one in found}
    assert counts == {job: 1, other: 0}
    assert f"approval     {job}:1 bash waits for a person: `ekiden approvals approve {job}:1`" in ekiden(
        valkey_url, "job", "show", job
    )
    assert [one["id"] for one in json.loads(ekiden(valkey_url, "job", "show", job, "--json"))["approvals"]] == [
        f"{job}:1"
    ]


def test_without_any_child_there_is_no_column_for_them(valkey_url: str) -> None:
    there(valkey_url, lambda stores, _: submitted(stores))
    assert "CHILDREN" not in ekiden(valkey_url, "jobs")


def test_a_parent_names_its_children_and_a_child_its_parent(valkey_url: str, parent: tuple[str, list[str]]) -> None:
    job, children = parent
    text = ekiden(valkey_url, "job", "show", job)
    assert f"child        {children[0]} scout queued" in text
    assert f"child        {children[1]} scout failed" in text
    assert f"parent       {job}" in ekiden(valkey_url, "job", "show", children[0])
    found = json.loads(ekiden(valkey_url, "job", "show", job, "--json"))
    assert [(one["id"], one["status"]) for one in found["children"]] == [
        (children[0], "queued"),
        (children[1], "failed"),
        (children[2], "queued"),
    ]
    assert json.loads(ekiden(valkey_url, "job", "show", children[0], "--json"))["parent"] == job


def test_what_was_spent_is_shown_on_the_root(valkey_url: str) -> None:
    async def scenario(stores: Stores, _: Client) -> str:
        route = await claimed(stores, await submitted(stores))
        await stores.jobs.transfer(route.lease, "r", **step_to(route, "lead", limits=JobLimits(max_tokens=2_000)))
        leg = await claimed(stores, route.lease.job)
        spending = reply(tokens=1_234, cost_usd=0.0056)
        await stores.jobs.append(leg.lease, "t", [spending], used_ms=1, is_progress=True)
        return leg.lease.job

    job = there(valkey_url, scenario)
    assert "spent        1234 tokens, $0.0056" in ekiden(valkey_url, "job", "show", job)
    found = json.loads(ekiden(valkey_url, "job", "show", job, "--json"))
    assert found["spent"] == {"tokens": 1_234, "micro_usd": 5_600}
    assert "limits       max_tokens 1,234 of 2,000" in ekiden(valkey_url, "job", "show", job)
    assert found["limits"] == {"max_tokens": {"spent": 1_234, "most": 2_000}}


def test_the_plan_and_what_was_compressed_are_part_of_a_job() -> None:
    todos = [{"description": "look", "status": "in_progress"}]
    plan = ToolResult(call_id="p", name="write_todos", content="", data={"todos": todos})
    usage = Usage(input_tokens=900, output_tokens=40)
    snapshot = Summarised(
        leg=1, text="<state_snapshot>", before=40, tokens_before=16_500, tokens_after=5_000, usage=usage
    )
    refused = Summarised(leg=1, text="", before=80, tokens_before=16_000, tokens_after=9_000, why="the model is broken")
    records: list[Record] = [ToolFinished(leg=1, result=plan), Summarised(leg=1, text="of others"), snapshot, refused]
    assert work_rows(records) == [
        ("plan", "1. [in_progress] look"),
        ("compressed", "16,500 to 5,000 tokens"),
        ("compressed", "16,000 to 9,000 tokens (no snapshot: the model is broken)"),
    ]
    found = work_json(records)
    assert found["todos"] == todos
    made = json.loads(json.dumps(found["compressions"]))[0]
    assert (made["tokens_after"], made["usage"]) == (5_000, usage.model_dump())


def test_what_did_not_pass_a_guardrail_is_part_of_a_job_and_what_passed_is_not() -> None:
    about: dict[str, Any] = {"leg": 1, "at": "output", "policy": "warn", "turn": 1}
    passed = Guarded(rail="json", status="passed", **about)
    warned = Guarded(rail="brief", status="warned", errors=("too long", "password=hunter2222"), **about)
    [(name, text)] = work_rows([passed, warned])
    assert (name, str(text).startswith("brief (output, warn) warned: too long; password=")) == ("guardrail", True)
    [found] = json.loads(json.dumps(work_json([passed, warned])["guardrails"]))
    assert (found["rail"], found["status"], found["errors"][0]) == ("brief", "warned", "too long")
    assert "hunter2222" not in f"{text} {found}"


def test_a_cancelled_parent_says_how_many_children_end_with_it(valkey_url: str, parent: tuple[str, list[str]]) -> None:
    job, _ = parent
    assert ekiden(valkey_url, "job", "cancel", job) == f"job {job} is cancelled; its 2 child jobs end with it\n"
    assert ekiden(valkey_url, "job", "cancel", job) == f"job {job} had ended before\n"


def test_children_are_found_by_their_exact_ids(valkey_url: str) -> None:
    async def scenario(stores: Stores, _: Client) -> str:
        leg = await moved(stores, await submitted(stores), "lead")
        [child] = await delegated(stores, leg, 1)
        return child

    child = there(valkey_url, scenario)
    for words in (["events"], ["chain"], ["chain", "--mermaid"], ["show"]):
        assert "scout" in ekiden(valkey_url, "job", words[0], child, *words[1:])
    assert "scout" in ekiden(valkey_url, "trace", "show", child)
    parent = child.rpartition(".")[0]
    found = [json.loads(line) for line in ekiden(valkey_url, "job", "events", parent, "--json").splitlines()]
    assert {event["job"] for event in found} == {parent, child}
    assert ["user", "lead", "scout"] not in [event["run_path"] for event in found], "it has not begun"
    assert ekiden(valkey_url, "job", "cancel", child) == f"job {child} is cancelled\n"


def test_a_family_is_read_whole_parents_first(valkey_url: str) -> None:
    async def scenario(stores: Stores, client: Client) -> None:
        leg = await moved(stores, await submitted(stores), "lead")
        first, second = await delegated(stores, leg, 2)
        [grandchild] = await delegated(stores, await claimed(stores, first), 1)
        journals = await client.journals(leg.lease.job)
        assert list(journals) == [leg.lease.job, first, second, grandchild]
        assert all(isinstance(entries[0].record, JobRequested) for entries in journals.values())
        assert [view.id for view in await client.children(leg.lease.job)] == [first, second]
        assert await client.count_children([leg.lease.job, first, grandchild]) == [2, 1, 0]

    there(valkey_url, scenario)


def state(url: str, session: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ekiden(url, "sessions", "state", session, "--json"))
    return found


def test_the_state_of_a_session_follows_its_job(valkey_url: str) -> None:
    async def begun(_: Stores, client: Client) -> str:
        return await client.submit("repair the cart", state={"ticket": 4711, "任务": ["x"]})

    job = there(valkey_url, begun)
    session = job.partition(".")[0]
    assert state(valkey_url, session[:6]) == {
        "session": session, "job": job, "current_task": "repair the cart", "task_status": "pending",
        "current_agent": "router", "last_action": "", "variables": {},
    }  # fmt: skip

    async def routed_and_answered() -> list[Record]:
        stores = open_stores(valkey_url)
        leg = await moved(stores, job, "lead")
        records = [entry.record for entry in await stores.jobs.journal(job)]
        await stores.jobs.finish(leg.lease, "f", [done()], [], state={"ticket": 4711})
        await stores.close()
        return records

    request = asyncio.run(routed_and_answered())[0]
    assert isinstance(request, JobRequested)
    assert request.state == {"ticket": 4711, "任务": ["x"]}
    found = state(valkey_url, job)
    assert (found["task_status"], found["current_agent"]) == ("completed", "lead")
    assert (found["last_action"], found["variables"]) == ("route: lead", {"ticket": 4711})
    text = ekiden(valkey_url, "sessions", "state", session)
    assert "task status    completed" in text
    assert "ticket = 4711" in text


def test_the_state_is_of_the_job_that_runs_not_of_one_that_waits_behind_it(valkey_url: str) -> None:
    async def scenario(_: Stores, client: Client) -> str:
        first = await client.submit("the first")
        await client.submit("the second", session=first.partition(".")[0])
        return first

    first = there(valkey_url, scenario)
    found = state(valkey_url, first)
    assert (found["job"], found["current_task"]) == (first, "the first")
    assert "no variables" in ekiden(valkey_url, "sessions", "state", first)


def test_a_variable_that_cannot_be_kept_is_refused_before_anything_happens(valkey_url: str) -> None:
    async def scenario(_: Stores, client: Client) -> int:
        with pytest.raises(InvalidRequest, match="letters, digits"):
            await client.submit("x", state={"a b": 1})
        return len(await client.jobs())

    assert there(valkey_url, scenario) == 0
    refused = CliRunner().invoke(app, ["submit", "x", "--state", "ticket", "--redis", valkey_url])
    assert "has no '='" in str(refused.exception)


def test_a_job_shows_how_the_calls_of_its_turn_stand_and_writes_out_what_its_tools_made(
    valkey_url: str,
) -> None:
    made = ToolCall(id="c1", name="draw"), ToolCall(id="c2", name="bash")
    turn = ModelReplied(leg=1, turn=1, message=Message(role="model", parts=made))

    async def scenario(stores: Stores, _: Client) -> str:
        leg = await moved(stores, await submitted(stores), "lead")
        ref = await stores.artifacts.keep(leg.lease.job, b"\x89PNG")
        kept = Artifact(name="plot.png", mime="image/png", size=4, ref=str(ref))
        result = ToolResult(call_id="c1", name="draw", content="drawn", artifacts=(kept,))
        begun, done = ToolStarted(leg=1, call_id="c1", name="draw"), ToolFinished(leg=1, result=result)
        await stores.jobs.append(leg.lease, "t", [turn, begun, done], used_ms=1, is_progress=True)
        return leg.lease.job

    job = there(valkey_url, scenario)
    text = ekiden(valkey_url, "job", "show", job)
    assert "call         draw (c1): success" in text
    assert "call         bash (c2): scheduled" in text
    assert json.loads(ekiden(valkey_url, "job", "show", job, "--json"))["calls"][1]["state"] == "scheduled"
    assert ekiden(valkey_url, "job", "artifacts", job).split()[3:] == ["4", "image/png", "plot.png"]
    assert json.loads(ekiden(valkey_url, "job", "artifacts", job, "--json"))["name"] == "plot.png"
    found = CliRunner().invoke(app, ["job", "artifacts", job, "plot.png", "--redis", valkey_url])
    assert found.stdout_bytes == b"\x89PNG"
    with pytest.raises(InvalidRequest, match=r"no artifact 'x': it has plot\.png"):
        ekiden(valkey_url, "job", "artifacts", job, "x")


def test_without_an_id_it_is_the_newest_job_but_for_what_changes_one(valkey_url: str) -> None:
    async def scenario(stores: Stores, _: Client) -> str:
        await submitted(stores, request_id="older")
        return await submitted(stores, request_id="newer")

    newest = there(valkey_url, scenario)
    for words in (["job", "show"], ["job", "chain"], ["trace", "show"]):
        done = CliRunner().invoke(app, [*words, "--redis", valkey_url])
        assert newest in done.stdout
        assert done.stderr == f"ekiden: job {newest}, the newest\n"
    assert "Missing argument 'ID'" in CliRunner().invoke(app, ["job", "cancel", "--redis", valkey_url]).output


def test_where_there_is_no_job_it_says_how_one_begins(valkey_url: str) -> None:
    async def nothing(stores: Stores, _: Client) -> None:
        pass

    there(valkey_url, nothing)
    with pytest.raises(UnknownJob, match="there is no job yet: `ekiden run`"):
        ekiden(valkey_url, "job", "show")


def test_a_session_is_exported_to_where_gemini_cli_keeps_it(
    valkey_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(stores: Stores, _: Client) -> str:
        job = await submitted(stores, prompt="修复 cart.py")
        await answered(stores, job, "修复 cart.py", "repaired")
        return job

    monkeypatch.setenv("HOME", str(tmp_path))
    session = there(valkey_url, scenario).partition(".")[0]
    events = json.loads(ekiden(valkey_url, "trace", "export", "--session", session))
    spans = json.loads(ekiden(valkey_url, "trace", "export", "--session", session, "--format", "otlp"))
    assert spans["resourceSpans"][0]["scopeSpans"][0]["spans"]
    told = ekiden(valkey_url, "trace", "export", "--gemini")
    (file,) = (tmp_path / ".gemini" / "traces").glob(f"*/session-{session}.json")
    assert str(file) in told
    assert json.loads(file.read_text()) == events
    assert file.stat().st_mode & 0o777 == 0o600

    ekiden(valkey_url, "sessions", "export", session, "--gemini")
    context = json.loads((tmp_path / ".gemini" / "contexts" / "debugger.json").read_text())
    assert (context["agentName"], context["metadata"]["session"]) == ("debugger", session)
    assert [one["content"] for one in context["conversationHistory"]] == ["修复 cart.py", "repaired"]
