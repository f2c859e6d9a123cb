"""Programs with the rights of their roles: a job from who may only push, run by pools, watched by who only reads."""

import asyncio
import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

from ekiden.dispatcher import intake
from ekiden.dispatcher.client import Client
from ekiden.shared.stores import keys
from ekiden.shared.stores.acl import ROLES
from tests.e2e.program import ANSWER_SCRIPT, Program, Running, wait_until
from tests.integration.roles import RoleServer, server_with_roles

REQUESTS = 100
SIGNS = {"EKIDEN_SIGNING_KEY": "k1:0123456789abcdef0123456789abcdef"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RoleServer]:
    folder = tmp_path / "server"
    folder.mkdir()
    with server_with_roles(folder) as one:
        yield one


def pools(ekiden: Program, server: RoleServer) -> tuple[Running, Running]:
    env = {**ekiden.scripts(ANSWER_SCRIPT), **SIGNS}
    dispatcher = ekiden.start("dispatcher", "--redis", server.url("pool"), env=env)
    words = ("--agents", "debugger", "--workspace-root", ekiden.folder)
    return dispatcher, ekiden.start("worker", "--redis", server.url("pool"), *words, env=env)


def denied(server: RoleServer) -> set[tuple[str, str]]:
    """Who was refused what since this was last asked."""
    with Redis.from_url(server.root_url, decode_responses=True) as root:
        found = {(str(entry["username"]), str(entry["object"])) for entry in root.acl_log(128)}
        root.acl_log_reset()
        return found


NEEDLESS = {(f"ekiden-{role}", name) for role in ROLES for name in ("config|get", "client|setinfo")}
"""How a server keeps its data is asked of it, and it need not say; nor need it know who redis-py is."""
SUBMITTING = {("ekiden-submitter", name) for name in ("evalsha", "acl|whoami")}
"""Whether it may run scripts itself shows when it tries; and who may not is no known author."""


def test_a_job_goes_its_way_from_a_submitter_through_pools_to_an_observer(ekiden: Program, server: RoleServer) -> None:
    for running in pools(ekiden, server):
        running.wait_for("Serving")
    submit = ("submit", "go", "--agent", "debugger", "--redis", server.url("submitter"))
    submitted = ekiden.run(*submit, "--wait", "--json", env=SIGNS)
    assert submitted.returncode == 0, submitted.stderr
    job = json.loads(submitted.stdout.splitlines()[-1])["job"]
    session = job.partition(".")[0]
    assert denied(server) <= NEEDLESS | SUBMITTING

    def observe(*args: object) -> str:
        done = ekiden.run(*args, "--redis", server.url("observer"))
        assert done.returncode == 0, (args, done.stderr)
        return done.stdout

    assert job in observe("jobs")
    assert "forty-two, says debugger" in observe("job", "show", job)
    assert observe("job", "result", job).strip() == "forty-two, says debugger"
    assert "debugger" in observe("job", "chain", job)
    assert json.loads(observe("job", "events", job, "--json").splitlines()[0])["job"] == job
    assert "forty-two" in observe("job", "follow", job)
    assert "debugger" in observe("trace", "show", job)
    assert "ekiden.dispatch" in observe("status")
    assert session in observe("sessions", "list")
    assert "forty-two" in observe("sessions", "show", session)
    assert "debugger" in observe("catalog", "show")
    assert denied(server) <= NEEDLESS

    for words in (["submit", "x"], ["job", "cancel", job], ["job", "retry", job], ["sessions", "clear", session]):
        done = ekiden.run(*words, "--redis", server.url("observer"))
        assert done.returncode == 7, (words, done.stdout, done.stderr)
        assert "`ekiden acl` prints what each may do" in done.stderr
        assert "Traceback" not in done.stderr
    assert ekiden.run("job", "cancel", job, "--redis", server.url("submitter")).returncode == 7
    ekiden.start(*submit)  # which waits for an answer that it never gets
    wait_until(lambda: "no request: the request is not signed" in observe("status", "--dead-letters"))


def is_caught_in_the_middle(running: Running, root: Redis) -> bool:
    """Freeze a dispatcher; let it go on unless it has taken requests and not served them yet."""
    running.process.send_signal(signal.SIGSTOP)
    if root.zcard(keys.INTAKE_TAKEN):
        return True
    running.process.send_signal(signal.SIGCONT)
    return False


@pytest.mark.parametrize("kind", ["dispatcher", "worker"])
def test_a_pool_that_may_not_run_scripts_ends_with_one_line(ekiden: Program, server: RoleServer, kind: str) -> None:
    running = ekiden.start(kind, "--redis", server.url("observer"))
    assert running.ends() == 7
    last = running.output.splitlines()[-1]
    assert last.startswith("ekiden: the Redis user of this address may not do that")
    assert "serving jobs pool" in last


def test_requests_that_a_killed_dispatcher_had_taken_are_served_by_the_next(
    ekiden: Program, server: RoleServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "ANSWER_S", 90.0)

    async def submit_all() -> list[str]:
        async with Client(server.url("submitter")) as client:
            asked = [
                asyncio.create_task(client.submit(f"{number}", request_id=f"{number}")) for number in range(REQUESTS)
            ]
            await asyncio.to_thread(kill_in_the_middle)
            return await asyncio.gather(*asked)

    def kill_in_the_middle() -> None:
        with Redis.from_url(server.root_url, decode_responses=True) as root:
            wait_until(lambda: root.llen(keys.INTAKE) == REQUESTS)
            first = ekiden.start("dispatcher", "--redis", server.url("pool"))
            wait_until(lambda: is_caught_in_the_middle(first, root))
            first.process.kill()
            first.ends()
        ekiden.start("dispatcher", "--redis", server.url("pool"))

    jobs = asyncio.run(submit_all())
    assert len(set(jobs)) == REQUESTS

    async def summaries() -> list[str]:
        async with Client(server.url("observer")) as client:
            return [view.summary for view in await client.jobs(2 * REQUESTS)]

    assert sorted(asyncio.run(summaries()), key=int) == [str(number) for number in range(REQUESTS)]
