"""The handler of an agent leg: what a worker lacks, which definition counts, what a leg is equipped with."""

import gc
import socket
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ekiden.shared.errors import ModelUnavailable
from ekiden.shared.llm.base import ModelReply
from ekiden.shared.records import LegSuspended, Noticed
from ekiden.shared.relay.leg import Leg
from ekiden.shared.relay.message import queue_for
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.redis import as_any
from ekiden.shared.stores.views import PoolView, ToolView
from ekiden.workers.definitions import Definitions
from ekiden.workers.lacking import LOOKS
from ekiden.workers.sandbox.sandbox import OFF, Sandbox
from ekiden.workers.tools.base import ToolContext
from ekiden.workers.tools.builtin.shell import bash
from tests.contract.relay_world import claimed
from tests.scenarios.relay import Relay, Story, on_server, team
from tests.unit.workers.world import Replies, What, call, calls, handing_over, said, tool_named

SOLO = {"name": "solo", "tools": ["look"]}


async def announce(stores: Stores, *tools: str) -> None:
    """Let a pool be there that serves the agent and has these tools."""
    await stores.pools.announce(PoolView("other", "worker", (queue_for("solo"),), tuple(map(ToolView, tools))))


def test_a_worker_without_the_tools_gives_the_leg_back_less_and_less_often_until_one_has_them() -> None:
    async def scenario(stores: Stores) -> None:
        model = Replies({"solo": [calls(call("c1", "look")), said("seen")]})
        bare = Relay(stores, team(SOLO), model)
        await announce(stores, "look")
        job = await bare.submit("do it", agent="solo")
        await bare.drain()
        for _ in range(8):
            assert (await stores.jobs.job(job)).status == "suspended"
            assert await bare.wake(job) == "ok"
            await bare.drain()
        pauses = (await bare.story(job)).of(LegSuspended)
        assert [pause.delay_s for pause in pauses] == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
        assert {(pause.cause, pause.detail) for pause in pauses} == {
            ("missing_tools", "tools look (this worker has no --workspace-root)")
        }
        assert model.requests == []
        equipped = Relay(stores, team(SOLO), model, tools=[tool_named("look")])
        await bare.wake(job)
        await equipped.drain()
        assert (await stores.jobs.job(job)).result == "seen"

    on_server(scenario)


def test_a_definition_of_a_later_version_is_left_to_a_worker_of_that_version() -> None:
    async def scenario(stores: Stores) -> None:
        relay = Relay(stores, team({"name": "solo"}), Replies({"solo": [said("done")]}))
        job = await relay.submit("do it", agent="solo")
        await relay.step()
        [key] = [key async for key in stores.client.scan_iter("ekiden:catalog:*")]
        digest = (await stores.catalogs.manifest((await stores.jobs.job(job)).catalog))["solo"]
        text = await stores.catalogs.definition(key.rpartition(":")[2], digest)
        await as_any(stores.client.hset(key, digest, text.replace('"max_turns":30', '"max_turns":"many"')))
        for _ in range(2):
            await relay.drain()
            await relay.wake(job)
        pauses = (await relay.story(job)).of(LegSuspended)
        assert [(pause.cause, pause.delay_s) for pause in pauses] == [("catalog", 0.5), ("catalog", 1)]
        assert "'limits.max_turns'" in pauses[0].detail
        await as_any(stores.client.hset(key, digest, text))  # as the later version reads it
        await relay.drain()
        assert (await stores.jobs.job(job)).result == "done"

    on_server(scenario)


def test_being_given_back_by_a_worker_that_stops_does_not_slow_the_search_for_tools() -> None:
    async def scenario(stores: Stores) -> None:
        bare = Relay(stores, team(SOLO), Replies({}))
        await announce(stores, "look")
        job = await bare.submit("do it", agent="solo")
        await bare.step()
        lease = (await claimed(stores, job)).lease
        assert (await stores.jobs.suspend(lease, "c", [LegSuspended(leg=1, cause="retry", delay_s=0)], 0))[0] == "ok"
        await bare.wake(job)
        await bare.drain()
        assert [pause.delay_s for pause in (await bare.story(job)).of(LegSuspended)] == [0, 0.5]

    on_server(scenario)


def test_a_model_that_is_away_is_waited_for_without_a_worker_and_nothing_is_done_twice() -> None:
    async def scenario(stores: Stores) -> None:
        async def there_at_last() -> ModelReply:
            if tries := next(answers, None):
                raise tries
            return said("there")

        away = ModelUnavailable("overloaded")
        answers = iter([away, away, ModelUnavailable("rate limit", retry_after_s=7)])
        model = Replies({"solo": [calls(call("c1", "write")), there_at_last]})
        relay = Relay(stores, team({"name": "solo"}), model, tools=[tool_named("write", ran=ran)])
        job = await relay.submit("do it", agent="solo")
        await relay.drain()
        for _ in range(3):
            view = await stores.jobs.job(job)
            assert view.status == "suspended"
            assert view.attempts <= 0  # to wait is no failed attempt
            await relay.wake(job)
            await relay.drain()
        story = await relay.story(job)
        assert story.view.result == "there"
        assert [(pause.cause, pause.delay_s, pause.detail) for pause in story.of(LegSuspended)] == [
            ("retry", 0.5, "overloaded"),
            ("retry", 1, "overloaded"),
            ("retry", 7, "rate limit"),
        ]

    ran: list[str] = []
    on_server(scenario)
    assert ran == ["c1"]


def test_the_wait_for_a_model_begins_short_again_after_it_has_answered() -> None:
    async def scenario(stores: Stores) -> None:
        async def second_try(reply: ModelReply) -> ModelReply:
            if id(reply) not in tried:
                tried.add(id(reply))
                raise ModelUnavailable("overloaded")
            return reply

        tried: set[int] = set()
        replies = [calls(call("c1", "look")), calls(call("c2", "look")), said("there")]
        model = Replies({"solo": [partial(second_try, reply) for reply in replies]})
        relay = Relay(stores, team({"name": "solo"}), model, tools=[tool_named("look")])
        job = await relay.submit("do it", agent="solo")
        await relay.drain()
        for _ in replies:
            await relay.wake(job)
            await relay.drain()
        story = await relay.story(job)
        assert story.view.result == "there"
        assert [pause.delay_s for pause in story.of(LegSuspended)] == [0.5, 0.5, 0.5]

    on_server(scenario)


@pytest.mark.parametrize(
    ("tools", "status"),
    [
        ({"allow": ["lo*"]}, "done"),
        ({"allow": ["*"]}, "done"),
        ({"allow": ["look", "mcp.github.*"]}, "suspended"),
        ({"allow": ["look", "mcp.linear.*", "lookup_order"]}, "done"),  # nobody has them
        ({"allow": ["look", "read_file"]}, "suspended"),  # workers ship with it
        ({"allow": ["look", "bash"], "deny": ["bash"]}, "done"),  # what is denied is not missed
        ({"deny": ["bash"]}, "done"),
        ([], "done"),
        (None, "done"),
    ],
)
def test_only_tools_that_the_file_names_and_permits_can_be_missing(tools: object, status: str) -> None:
    async def scenario(stores: Stores) -> Story:
        await announce(stores, "mcp.github.list_issues")
        relay = Relay(
            stores, team({"name": "solo", "tools": tools}), Replies({"solo": [said("ok")]}), tools=[tool_named("look")]
        )
        return await relay.told("do it", agent="solo")

    assert on_server(scenario).view.status == status


def test_an_agent_does_without_a_tool_that_no_worker_has_and_says_so_once() -> None:
    errors = [ModelUnavailable("away")]

    async def away_once() -> ModelReply:
        if errors:
            raise errors.pop()
        return said("done")

    async def scenario(stores: Stores) -> None:
        model = Replies({"solo": [calls(call("c1", "lookup_order")), away_once]})
        solo = {"name": "solo", "tools": ["look", "lookup_order", "mcp.github.*"]}
        relay = Relay(stores, team(solo), model, tools=[tool_named("look")])
        job = await relay.submit("do it", agent="solo")
        await relay.drain()
        await relay.wake(job)
        await relay.drain()
        story = await relay.story(job)
        assert story.view.result == "done"
        assert [notice.text for notice in story.of(Noticed)] == [
            "solo: no worker has 'lookup_order', 'mcp.github.*', the agent works without"
        ]
        assert story.results["c1"] == "Unauthorized tool call: there is no tool 'lookup_order': offered are look"

    on_server(scenario)


def test_what_an_agent_lacks_for_its_files_restrictions_is_told_in_each_job() -> None:
    async def scenario(stores: Stores) -> Story:
        solo = {"name": "solo", "tools": "*", "permissionMode": "plan"}
        bash, look = tool_named("bash"), tool_named("ls")
        model = Replies({"solo": [calls(call("c1", "bash")), said("ok")]})
        return await Relay(stores, team(solo), model, tools=[bash, look]).told("do it", agent="solo")

    story = on_server(scenario)
    [notice] = story.of(Noticed)
    assert notice.text.startswith("solo: 'permissionMode' is 'plan': the agent has no tool beyond the safe ones")
    assert story.results["c1"] == "Unauthorized tool call. Tool not allowed for this agent: 'bash'; offered are ls"


@pytest.mark.parametrize(
    ("leader", "child", "reaches"),
    [(True, True, True), (None, True, None), (True, None, None), (False, True, False), (True, False, False)],
)
def test_commands_of_a_child_reach_a_network_only_where_those_of_all_above_do(
    leader: bool | None, child: bool | None, reaches: bool | None
) -> None:
    given: list[bool | None] = []

    async def look(args: What, context: ToolContext) -> str:
        given.append(context.network)
        return "seen"

    async def scenario(stores: Stores) -> Story:
        front: list[dict[str, Any]] = [
            {"name": "lead", "subagents": ["solo"], "network": leader},
            {"name": "solo", "network": child},
        ]
        agents = [{key: value for key, value in one.items() if value is not None} for one in front]
        delegated = call("c1", "delegate_to_solo", objective="look")
        model = Replies({"lead": [calls(delegated), said("ok")], "solo": [calls(call("c2", "look")), said("ok")]})
        relay = Relay(stores, team(*agents), model, tools=[tool_named("look", look)])
        return await relay.told("do it", agent="lead")

    assert on_server(scenario).view.result == "ok"
    assert given == [reaches]


@pytest.mark.parametrize(
    ("sandbox", "network", "told"),
    [
        (OFF, None, "network open, files and processes of the worker's user open"),
        (OFF, True, "files and processes of the worker's user open"),
        (Sandbox("bubblewrap"), None, None),
        (Sandbox("landlock", abi=7, has_filter=True), None, "files in the workspace that programs take commands from"),
    ],
)
def test_what_commands_reach_that_they_should_not_is_told_once_in_a_leg_that_may_run_some(
    sandbox: Sandbox, network: bool | None, told: str | None
) -> None:
    def notices_of(agent: str) -> list[str]:
        async def scenario(stores: Stores) -> Story:
            solo = {"name": "solo", "tools": ["bash"]} | ({"network": network} if network is not None else {})
            reader = {"name": "reader", "tools": ["ls"]}
            replies = Replies({"solo": [calls(call("c1", "ls")), said("ok")], "reader": [said("ok")]})
            relay = Relay(stores, team(solo, reader), replies, tools=[bash, tool_named("ls")], sandbox=sandbox)
            return await relay.told("do it", agent=agent)

        return [notice.text for notice in on_server(scenario).of(Noticed)]

    assert notices_of("reader") == []
    notices = notices_of("solo")
    assert len(notices) == (told is not None)
    if told is not None:
        assert notices[0].startswith(f"commands are not fully confined on this worker: {told}")


@pytest.mark.parametrize(("folder", "status"), [("root/job", "done"), ("root", "done"), ("elsewhere", "suspended"),
                                                ("root/../elsewhere", "suspended"), ("root/link", "suspended"),
                                                ("rooted", "suspended")])  # fmt: skip
def test_a_folder_outside_the_workspace_root_is_another_workers(tmp_path: Path, folder: str, status: str) -> None:
    for name in ("root/job", "elsewhere", "rooted"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "root/link").symlink_to(tmp_path / "elsewhere")

    async def scenario(stores: Stores) -> Story:
        relay = Relay(stores, team(SOLO), Replies({"solo": [said("ok")]}), tools=[on_files], root=tmp_path / "root")
        return await relay.told("do it", agent="solo", cwd=tmp_path / folder)

    on_files = replace(tool_named("look"), needs_workspace=True)
    story = on_server(scenario)
    assert story.view.status == status
    if status == "suspended":
        [pause] = story.of(LegSuspended)
        assert f"folder {tmp_path / folder} (this worker's --workspace-root is {tmp_path / 'root'})" == pause.detail


def test_an_agent_without_file_tools_runs_wherever_the_folder_is(tmp_path: Path) -> None:
    async def scenario(stores: Stores) -> Story:
        tools = [replace(tool_named("write"), needs_workspace=True), tool_named("look")]
        relay = Relay(stores, team(SOLO), Replies({"solo": [said("ok")]}), tools=tools, root=tmp_path / "root")
        return await relay.told("do it", agent="solo", cwd=tmp_path / "elsewhere")

    assert on_server(scenario).view.status == "done"


def test_tools_get_the_jobs_folder_and_a_key_of_their_own(tmp_path: Path) -> None:
    got: list[ToolContext] = []

    async def look(args: What, context: ToolContext) -> str:
        got.append(context)
        return "ok"

    async def scenario(stores: Stores) -> None:
        for cwd in (tmp_path / "job", None):
            model = Replies({"solo": [calls(call("c1", "look")), said("ok")]})
            relay = Relay(stores, team({"name": "solo"}), model, tools=[tool_named("look", look)], root=tmp_path)
            story = await relay.told(f"do it in {cwd}", agent="solo", cwd=cwd)
            assert got[-1].idempotency_key == f"{story.view.id}:1:c1"

    on_server(scenario)
    assert [(context.cwd, context.root) for context in got] == [(tmp_path / "job", tmp_path), (tmp_path, tmp_path)]


def test_a_job_keeps_the_definitions_that_routed_it() -> None:
    async def scenario(stores: Stores) -> None:
        model = Replies({"solo": [said("ok")]})
        old = Relay(stores, team({"name": "solo", "prompt": "Old."}), model)
        job = await old.submit("do it", agent="solo")
        await old.step()
        new = Relay(stores, team({"name": "solo", "prompt": "New."}), model)
        await new.submit("another", agent="solo")
        assert await new.drain() == ["ok", "ok", "ok"]
        assert (await stores.jobs.job(job)).is_over
        instructions = [request.instructions[:4] for request in model.requests]
        assert instructions == ["Old.", "New."]

    on_server(scenario)


def test_a_definition_is_read_once() -> None:
    async def scenario(stores: Stores) -> None:
        catalog = team({"name": "solo"})
        await Relay(stores, catalog, Replies({})).submit("do it")
        definitions = Definitions(stores.catalogs)
        first = await definitions.definition(catalog.digest, "solo")
        await stores.client.flushall()
        assert await definitions.definition(catalog.digest, "solo") is first

    on_server(scenario)


def test_a_catalog_that_the_server_lost_fails_the_job_with_what_to_do() -> None:
    async def scenario(stores: Stores) -> Story:
        relay = Relay(stores, team({"name": "solo"}), Replies({"solo": list[ModelReply]()}))
        job = await relay.submit("do it", agent="solo")
        await relay.step()
        async for key in stores.client.scan_iter("ekiden:catalog:*"):
            await stores.client.delete(key)
        await relay.drain()
        return await relay.story(job)

    story = on_server(scenario)
    assert (story.view.status, story.view.reason) == ("failed", "ERROR")
    assert "start `ekiden dispatcher`" in str(story.view.result)


@pytest.mark.parametrize(
    ("fields", "offered"),
    [
        ({}, ["read_file", "weigh"]),
        ({"tools": {"deny": ["weigh"]}}, ["read_file"]),
        ({"tools": ["*"]}, ["bash", "browse", "read_file", "weigh"]),
        ({"tools": ["weigh"]}, ["weigh"]),
        ({"tools": ["*"], "permissionMode": "plan"}, ["read_file"]),
    ],
)
def test_an_agent_whose_file_names_no_tools_has_those_that_only_read(
    fields: dict[str, Any], offered: list[str]
) -> None:
    tools = [
        tool_named("bash"),
        tool_named("read_file", read_only=True),
        tool_named("weigh", read_only=True),
        tool_named("browse", read_only=True, untrusted=True),
    ]

    async def scenario(stores: Stores) -> list[str]:
        model = Replies({"solo": [said("ok")]})
        await Relay(stores, team({"name": "solo", "tools": None} | fields), model, tools=tools).told("go", agent="solo")
        return [spec.name for spec in model.requests[0].tools]

    assert on_server(scenario) == offered


@pytest.mark.parametrize(
    ("tools", "below"), [(None, ["weigh"]), ({"deny": ["weigh"]}, []), ([], []), (["bash", "weigh"], ["bash", "weigh"])]
)
def test_an_agent_has_no_tool_that_who_called_it_has_not(tools: object, below: list[str]) -> None:
    async def scenario(stores: Stores) -> list[str]:
        model = Replies(
            {"lead": [calls(call("c1", "delegate_to_hand", objective="x")), said("ok")], "hand": [said("y")]}
        )
        agents = {"name": "lead", "subagents": ["hand"], "tools": tools}, {"name": "hand", "tools": ["bash", "weigh"]}
        known = [tool_named("bash"), tool_named("weigh", read_only=True)]
        await Relay(stores, team(*agents), model, tools=known).told("go", agent="lead")
        return [spec.name for spec in model.asked("hand")[0].tools]

    assert on_server(scenario) == below


def legs_alive() -> list[Leg]:
    return [one for one in gc.get_objects() if isinstance(one, Leg)]


def test_an_ended_leg_and_its_journal_are_gone_before_the_collector_of_cycles_looks() -> None:
    async def scenario(stores: Stores) -> None:
        model = Replies({"a": [calls(handing_over("c1", "b"))], "b": [said("done")]})
        relay = Relay(stores, team({"name": "a", "handoffs": [{"to": "b"}]}, {"name": "b"}), model)
        gc.collect()
        others = set(map(id, legs_alive()))
        gc.disable()
        try:
            assert (await relay.told("go", agent="a")).end.answer == "done"
            assert [one.job for one in legs_alive() if id(one) not in others] == []
        finally:
            gc.enable()

    on_server(scenario)


async def looked_for(relay: Relay, **asked: Any) -> Story:
    """Give a job its looks, and one more."""
    job = await relay.submit("do it", agent="solo", **asked)
    await relay.drain()
    for _ in range(LOOKS):
        assert await relay.wake(job) == "ok"
        await relay.drain()
    return await relay.story(job)


@pytest.mark.parametrize(
    ("tool", "says"),
    [
        ("read_fil", "lacks tools 'read_fil' (did you mean 'read_file'?). No worker has a tool of that name"),
        ("lok", "'lok' (did you mean 'look'?)"),  # which the other pool brings
        ("bash", "lacks tools bash (this worker has no --workspace-root). No running worker of that agent has them"),
    ],
)
def test_a_tool_that_nobody_has_after_several_looks_fails_the_job_and_a_retry_looks_anew(tool: str, says: str) -> None:
    async def scenario(stores: Stores) -> None:
        await announce(stores, "look")
        relay = Relay(stores, team({"name": "solo", "tools": [tool]}), Replies({}))
        story = await looked_for(relay)
        assert (story.view.status, story.view.reason) == ("failed", "ERROR")
        assert says in (story.view.result or "")
        assert len(story.of(LegSuspended)) == LOOKS
        await relay.retry(story.view.id)
        assert (await stores.jobs.job(story.view.id)).status == "suspended"

    on_server(scenario)


def test_a_folder_that_no_pool_can_have_fails_the_job_and_one_that_another_machine_may_have_is_waited_for(
    tmp_path: Path,
) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    for folder in (root, outside):
        folder.mkdir()
    on_files = [tool_named("look", needs_workspace=True)]

    async def scenario(stores: Stores, folder: Path, host: str) -> Story:
        mine = PoolView("mine", "worker", (queue_for("solo"),), workspace_root=str(root), host=socket.gethostname())
        theirs = replace(mine, id="theirs", workspace_root=str(tmp_path), host=host)
        for pool in (mine, theirs) if host else (mine,):
            await stores.pools.announce(pool)
        return await looked_for(Relay(stores, team(SOLO), Replies({}), tools=on_files, root=root), cwd=folder)

    def ended(folder: Path, host: str = "") -> tuple[str, str]:
        view = on_server(partial(scenario, folder=folder, host=host)).view
        return view.status, view.result or ""

    assert ended(outside)[0] == "failed"
    assert "may work there: give a folder where one may, or start" in ended(outside)[1]
    assert "no such folder on this worker's machine" in ended(root / "nosuch")[1]
    assert ended(root / "nosuch", socket.gethostname())[0] == "failed", "who is here sees what is here"
    assert ended(outside, "elsewhere")[0] == "suspended"
    assert ended(root / "nosuch", "elsewhere")[0] == "suspended"
