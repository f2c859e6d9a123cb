"""What each role may do on a real server, and that it may do nothing else."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from redis.exceptions import NoPermissionError
from typer.testing import CliRunner

from ekiden.dispatcher.cli.main import app
from ekiden.dispatcher.client import Client
from ekiden.shared.approvals import Answer
from ekiden.shared.errors import ConfigurationError, NotPermitted
from ekiden.shared.relay.message import DISPATCH_QUEUE, queue_for
from ekiden.shared.stores import keys, scripts
from ekiden.shared.stores.acl import ROLES
from ekiden.shared.stores.opening import open_stores
from tests.contract.relay_world import moved, submitted
from tests.contract.test_approvals import asking, suspended_for
from tests.integration.roles import RoleServer, server_with_roles

LUA = Path(scripts.__file__).parent / "lua"
S, J = "abcdefghijklmnop", "abcdefghijklmnop.1"
OUR_KEYS = [
    *(keys.session(S), keys.messages(S), keys.older_messages(S), keys.request(S, "r"), keys.state(S), keys.inbox(S)),
    *(keys.job(J), keys.journal(J), keys.blobs(J), keys.pending(J), keys.live(J), keys.approvals(J)),
    *(keys.queued("ekiden.dispatch"), keys.suspended("retry"), keys.catalog("d"), keys.pool("p"), keys.reply("t")),
    *(keys.memory("n"), keys.memory_order("n")),
    *(
        keys.APPROVALS,
        keys.CATALOG,
        keys.CLOCK,
        keys.DEAD_LETTERS,
        keys.DEADLINES,
        keys.INTAKE_TAKEN,
        keys.INTAKE_TEXTS,
        keys.JOBS,
    ),
    *(keys.JOB_IDS, keys.LEASES, keys.POOLS, keys.PUBLICATIONS, keys.QUEUES, keys.SESSIONS, keys.TIMERS),
    *(keys.UNVOUCHED, f"{keys.MISPLACED}q", DISPATCH_QUEUE, queue_for("debugger")),
]
FOREIGN = ["somebody:else", "ekidens", "ekiden", "{ekiden:}x", "celery"]
WRITES = {
    "del": (), "expire": ("9",), "getdel": (), "hdel": ("f",), "hset": ("f", "v"), "lpop": (), "lpush": ("v",),
    "ltrim": ("1", "0"), "persist": (), "rename": ("ekiden:x",), "restore": ("0", "v"), "rpush": ("v",), "sadd": ("v",),
    "set": ("v",), "xadd": ("*", "f", "v"), "xdel": ("1-0",), "zadd": ("1", "v"), "zrem": ("v",),
}  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RoleServer]:
    with server_with_roles(tmp_path_factory.mktemp("roles")) as one:
        yield one


@pytest.fixture(scope="module")
def root(server: RoleServer) -> Iterator[Any]:
    with Redis.from_url(server.root_url, decode_responses=True, protocol=2) as client:
        client.response_callbacks.clear()  # what the server says, as it says it
        yield client


def is_allowed(root: Any, role: str, *command: str) -> bool:
    return bool(root.execute_command("ACL", "DRYRUN", f"ekiden-{role}", *command) == "OK")


def may_run(root: Any, role: str, name: str, arity: int) -> bool:
    words = name.split("|")
    said = root.execute_command("ACL", "DRYRUN", f"ekiden-{role}", *words, *["1"] * (abs(arity) - len(words)))
    return "no permissions to run" not in said


@pytest.fixture(scope="module")
def commands(root: Any) -> dict[str, tuple[int, set[str]]]:
    """Arity and flags of all that the server can be told, subcommands in place of their containers."""
    names = root.execute_command("COMMAND", "LIST")
    names = [name for name in names if not any(other.startswith(f"{name}|") for other in names)]
    return {one[0]: (one[1], set(one[2])) for one in root.execute_command("COMMAND", "INFO", *names)}


@pytest.mark.parametrize("role", ROLES)
def test_a_role_may_run_its_commands_and_no_other_that_there_is(
    root: Any, commands: dict[str, tuple[int, set[str]]], role: str
) -> None:
    assert len(commands) > 300
    allowed = {name for name, (arity, _) in commands.items() if may_run(root, role, name, arity)}
    for_anybody = {name for name, (_, flags) in commands.items() if "no_auth" in flags}  # AUTH, HELLO, QUIT, RESET
    assert len(for_anybody) == 4
    assert allowed == set(ROLES[role].commands) | for_anybody


@pytest.mark.parametrize(("role", "writes"), [("observer", set()), ("submitter", {"lpush"})])
def test_who_reads_has_no_command_that_writes_runs_scripts_or_sees_passwords(
    commands: dict[str, tuple[int, set[str]]], role: str, writes: set[str]
) -> None:
    flags = {name: commands[name][1] for name in ROLES[role].commands}
    assert {name for name in flags if "write" in flags[name]} == writes
    assert {name for name in flags if flags[name] & {"admin", "pubsub"}} == {"subscribe", "unsubscribe"}
    assert not flags.keys() & {"eval", "evalsha", "fcall", "config|get", "acl|list", "keys", "scan", "monitor"}


@pytest.mark.parametrize("role", ROLES)
def test_nobody_may_look_at_or_touch_what_is_not_ours(root: Any, role: str) -> None:
    for key in FOREIGN:
        assert not is_allowed(root, role, "get", key), key
        for name, words in WRITES.items():
            assert not is_allowed(root, role, name, key, *words), (name, key)


PUSHED = {keys.INTAKE, keys.INTAKE_TAKEN, keys.INTAKE_TEXTS, f"{keys.MISPLACED}q"}
NOTES = {keys.memory("n"), keys.memory_order("n")}
HIDDEN = {"submitter": PUSHED | NOTES, "observer": PUSHED | NOTES | {keys.reply("t")}, "pool": set(), "admin": set()}


@pytest.mark.parametrize("role", ROLES)
def test_everybody_may_read_whatever_is_ours_but_what_others_push_and_are_answered(root: Any, role: str) -> None:
    assert {key for key in [*OUR_KEYS, keys.INTAKE] if not is_allowed(root, role, "get", key)} == HIDDEN[role]


@pytest.mark.parametrize("role", ["submitter", "observer"])
def test_who_reads_may_count_the_requests_that_wait_and_look_at_none(server: RoleServer, role: str) -> None:
    with Redis.from_url(server.root_url) as root, Redis.from_url(server.url(role), driver_info=None) as reader:
        root.lpush(keys.INTAKE, "a secret")
        try:
            assert reader.llen(keys.INTAKE) == 1
            for command in (["LINDEX", keys.INTAKE, 0], ["LRANGE", keys.INTAKE, 0, 9], ["KEYS", "*"], ["SCAN", 0]):
                with pytest.raises(NoPermissionError):
                    reader.execute_command(*command)
        finally:
            root.delete(keys.INTAKE)


@pytest.mark.parametrize("role", ["submitter", "observer"])
def test_who_reads_may_write_nowhere_but_a_submitter_to_the_intake(root: Any, role: str) -> None:
    allowed = {
        (name, key)
        for key in [*OUR_KEYS, keys.INTAKE]
        for name, words in WRITES.items()
        if is_allowed(root, role, name, key, *words)
    }
    assert allowed == ({("lpush", keys.INTAKE)} if role == "submitter" else set())


@pytest.mark.parametrize("role", ["submitter", "observer"])
def test_who_reads_may_listen_to_the_ends_of_jobs_and_to_nothing_else_and_speak_nowhere(root: Any, role: str) -> None:
    assert is_allowed(root, role, "subscribe", f"{keys.ENDED}x.1")
    assert not is_allowed(root, role, "publish", f"{keys.ENDED}x.1", "x")
    assert not is_allowed(root, role, "psubscribe", f"{keys.ENDED}*")
    for channel in (keys.STOPPED, keys.WRITTEN, "__keyspace@0__:x"):
        assert not is_allowed(root, role, "subscribe", channel)
        assert not is_allowed(root, role, "publish", channel, "x")


@pytest.mark.parametrize("role", ["pool", "admin"])
def test_who_runs_scripts_may_use_our_channels_only(root: Any, role: str) -> None:
    assert is_allowed(root, role, "publish", keys.STOPPED, "x")
    assert is_allowed(root, role, "publish", f"{keys.ENDED}x.1", "x")
    assert not is_allowed(root, role, "publish", "celery.pidbox", "x")
    assert not is_allowed(root, role, "psubscribe", "*")


def test_every_command_of_our_scripts_is_one_of_those_who_run_them() -> None:
    calls = [call for path in sorted(LUA.glob("*.lua")) for call in re.findall(r"\bp?call\(([^,)]*)", path.read_text())]
    used = {name.lower() for call in calls for name in re.findall(r"'([A-Z]+)'", call)}
    assert len(used) > 30
    assert used <= set(ROLES["pool"].commands)
    assert used <= set(ROLES["admin"].commands)


def test_a_user_without_a_password_cannot_log_in_and_new_rules_leave_passwords_alone(
    server: RoleServer, root: Any
) -> None:
    [line] = CliRunner().invoke(app, ["acl", "observer"], catch_exceptions=False).stdout.splitlines()
    words = line.replace("ekiden-observer", "ekiden-new").split()
    try:
        root.execute_command(*words)
        new = server.url("observer").replace("ekiden-observer", "ekiden-new")
        with pytest.raises(ConfigurationError, match="refuses the user name or password"):
            asyncio.run(_ping(new))
        root.execute_command("ACL", "SETUSER", "ekiden-new", ">observer", "+flushall", "~*")
        root.execute_command(*words)
        asyncio.run(_ping(new))
        assert root.execute_command("ACL", "DRYRUN", "ekiden-new", "flushall") != "OK"
        assert root.execute_command("ACL", "DRYRUN", "ekiden-new", "get", "somebody:else") != "OK"
    finally:
        root.execute_command("ACL", "DELUSER", "ekiden-new")


async def _ping(url: str) -> None:
    stores = open_stores(url, retries=0)
    try:
        await stores.ping()
    finally:
        await stores.close()


def test_who_answers_an_approval_is_the_user_of_the_server_and_who_only_reads_may_not(server: RoleServer) -> None:
    async def scenario() -> None:
        pool = open_stores(server.url("pool"), retries=0)
        job = await submitted(pool)
        await suspended_for(pool, await moved(pool, job, "lead"), asking(job, 1, approvers=("ekiden-admin",)))
        async with Client(server.url("observer")) as observer, Client(server.url("admin")) as admin:
            [view] = await observer.approvals()
            assert await observer.approval(view.id) == view
            answer = Answer("approved", view.digest, by="whoever it says it is")
            with pytest.raises(NotPermitted):
                await observer.answer(view.id, answer)
            decided = await admin.answer(view.id, answer)
            assert (decided.by, decided.is_claimed) == ("ekiden-admin", False)
        assert [await pool.user(), (await pool.jobs.job(job)).status] == ["ekiden-pool", "queued"]
        await pool.close()

    asyncio.run(scenario())
