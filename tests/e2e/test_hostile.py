"""What goes wrong around the program (servers, models, disks, terminals): one line, what to do, an exit code."""

import asyncio
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from rich.cells import cell_len

from ekiden.shared.embedded import attach
from ekiden.shared.stores import keys
from ekiden.shared.stores.opening import open_stores
from tests.doubles.gemini.server import GeminiServer
from tests.doubles.impostors import old_redis, tls_server, web_server
from tests.e2e.program import ANSWER_SCRIPT, EKIDEN, Program, wait_until
from tests.integration.scratch import scratch_server

MEGABYTE = 1_000_000


# Servers that are none, or not the one that was meant.


@contextmanager
def locked(folder: Path) -> Iterator[str]:
    with scratch_server(folder, requirepass="right") as server:
        yield f"redis://:wrong-secret@127.0.0.1:{server.port}"


@contextmanager
def without_tls(folder: Path) -> Iterator[str]:
    with scratch_server(folder) as server:
        yield f"rediss://127.0.0.1:{server.port}"


@contextmanager
def with_tls(folder: Path) -> Iterator[str]:
    with tls_server(folder) as port:
        yield f"redis://127.0.0.1:{port}"


@contextmanager
def no_redis(folder: Path) -> Iterator[str]:
    with web_server() as port:
        yield f"redis://127.0.0.1:{port}"


@contextmanager
def too_old(folder: Path) -> Iterator[str]:
    with old_redis() as port:
        yield f"redis://127.0.0.1:{port}"


@contextmanager
def evicting(folder: Path) -> Iterator[str]:
    with scratch_server(folder, maxmemory="100mb", **{"maxmemory-policy": "allkeys-lru"}) as server:
        yield server.url


SERVERS: list[tuple[Callable[[Path], AbstractContextManager[str]], int, str]] = [
    (locked, 2, "refuses the user name or password"),
    (without_tls, 2, "speaks no TLS: write redis://"),
    (with_tls, 2, "speaks TLS: write rediss://"),
    (no_redis, 3, "is no Redis server"),
    (too_old, 2, "has version 6.2.14: Ekiden needs Redis 7 or later"),
    (evicting, 2, "CONFIG SET maxmemory-policy noeviction"),
]


@pytest.mark.parametrize(("server", "code", "text"), SERVERS, ids=[server.__name__ for server, _, _ in SERVERS])
def test_a_server_that_cannot_be_used_is_refused_by_whoever_would_use_it(
    ekiden: Program, tmp_path: Path, server: Callable[[Path], AbstractContextManager[str]], code: int, text: str
) -> None:
    with server(tmp_path) as url:
        started = [ekiden.start(*words, "--redis", url) for words in (["submit", "x"], ["worker"], ["dispatcher"])]
        for running in started:
            assert running.ends() == code, running.output
            *before, last = running.output.splitlines()
            assert last.startswith("ekiden: "), running.output
            assert text in last
            said = [line for line in before if "stands in the command line" not in line]  # of a password in --redis
            assert len(said) <= 1, "at most what it wanted to serve"
            assert "secret" not in running.output
    assert not ekiden.data.exists()


def test_pools_warn_once_of_a_server_that_keeps_nothing(ekiden: Program, tmp_path: Path) -> None:
    with scratch_server(tmp_path, appendonly="no") as server:
        running = ekiden.start("dispatcher", "--redis", server.url)
        running.wait_for("keep them with CONFIG SET appendonly yes")
        wait_until(lambda: json.loads(ekiden.run("status", "--json", "--redis", server.url).stdout)["pools"])
        ekiden.end_all()
        assert running.output.count("keeps nothing on disk") == 1, running.output


# Models that answer badly, and what people write; all on one pair of pools.

AGENTS = {
    "plain": "tools: []",
    "unserved": "tools: []\nmodel: gemini-99-imaginary",
    "调度": "tools: [read_file]\nhandoffs: [{to: 代码修复}]",
    "代码修复": "tools: []",
}
HOSTILE = "a\x00b\x1b[2Jc\x1b]0;title\x07d\x9b2Je\x08\x7ff\u202eg\U000e0041"
"""Would clear the screen, rename the window, ring, and erase, if a terminal got to see it."""
CHINESE = "请修复这个错误 🎉"


@dataclass(frozen=True)
class PoolComponents:
    """Pools that ask the double, and the program to send them work with."""

    ekiden: Program
    gemini: GeminiServer
    url: str

    def submit(self, *words: str, agent: str = "plain", stdin: str = "") -> "subprocess.CompletedProcess[str]":
        return self.ekiden.run("submit", "--agent", agent, *words, stdin=stdin)

    def fails(self, *, agent: str = "plain") -> str:
        """Submit, and return the one line with which it fails."""
        self.gemini.requests.clear()
        done = self.submit("work", "--wait", agent=agent)
        assert (done.returncode, done.stdout) == (1, ""), done
        assert done.stderr.count("\n") == 1, done.stderr
        return done.stderr


@pytest.fixture(scope="module")
def pools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PoolComponents]:
    root = tmp_path_factory.mktemp("served")
    folder = root / "folder"
    (folder / ".gemini" / "agents").mkdir(parents=True)
    for number, (name, settings) in enumerate(AGENTS.items()):
        text = f"---\nname: {name}\ndescription: {name}\n{settings}\n---\nYou are {name}.\n"
        (folder / ".gemini" / "agents" / f"{number}.md").write_text(text, "utf-8")
    (folder / "说明.txt").write_text("内容 🎉 完\n", "utf-8")
    with GeminiServer() as gemini, attach(root / "server") as server:
        env = {**os.environ}
        env |= {"HOME": str(root), "LANG": "C.UTF-8", "TERM": "xterm-256color", "EKIDEN_DATA_DIR": str(root / "data")}
        env |= {"EKIDEN_REDIS_URL": server.url, "GEMINI_API_KEY": "test", "GEMINI_BASE_URL": gemini.url}
        env |= {
            "EKIDEN_MODEL_CIRCUIT_FAILURES": "0"
        }  # else a quota that is used up keeps the other tests from the model
        ekiden = Program(folder, env)
        try:
            ekiden.start("dispatcher")
            ekiden.start("worker", "--workspace-root", folder)
            wait_until(lambda: len(json.loads(ekiden.run("status", "--json").stdout)["pools"]) == 2)
            yield PoolComponents(ekiden, gemini, server.url)
        finally:
            ekiden.end_all()
    ekiden.wait_until_gone()


@pytest.fixture
def served(pools: PoolComponents) -> PoolComponents:
    pools.gemini.reset()
    pools.gemini.keys = None
    return pools


def test_a_key_that_is_refused(served: PoolComponents) -> None:
    served.gemini.keys = {"another"}
    assert "Check GEMINI_API_KEY" in served.fails()


def test_a_model_that_does_not_exist(served: PoolComponents) -> None:
    line = served.fails(agent="unserved")
    assert "no model 'gemini-99-imaginary'" in line
    assert "'ekiden models' lists the usable ones" in line


def test_a_model_that_answers_nothing(served: PoolComponents) -> None:
    served.gemini.add({"reply": {"empty": True}})
    assert "gave an empty answer: submit again, or choose another model" in served.fails()
    assert len(served.gemini.requests) == 3, "asked again twice"


def test_a_quota_that_is_gone_for_the_day_is_not_waited_for(served: PoolComponents) -> None:
    served.gemini.add({"reply": {"error": 429, "per_day": True, "retry_delay": 3600}})
    assert "The day's quota of model 'gemini-2.5-flash' is used up" in served.fails()
    assert len(served.gemini.requests) == 1


def test_a_prompt_of_a_megabyte_is_answered(served: PoolComponents) -> None:
    prompt = "🎉" + "x" * MEGABYTE
    served.gemini.add({"reply": {"text": "read it"}})
    done = served.submit("-", "--wait", stdin=prompt)
    assert (done.returncode, done.stdout) == (0, "read it\n"), done.stderr
    assert served.gemini.requests[0].body["contents"] == [{"role": "user", "parts": [{"text": prompt}]}]
    listed = served.ekiden.run("jobs").stdout.splitlines()[1]
    assert len(listed) < 300


def test_control_characters_never_reach_the_terminal(served: PoolComponents) -> None:
    served.gemini.add({"reply": {"text": f"said {HOSTILE} end"}})
    code, screen = on_terminal(served.ekiden, "submit", "--agent", "plain", "-", "--follow", stdin=f"wipe {HOSTILE}")
    assert code == 0, screen
    asked = served.gemini.requests[0].body["contents"][0]["parts"][0]["text"]
    assert asked.startswith("wipe a")
    job = newest(served)["id"]
    for words in (
        ["jobs"],
        ["job", "events", job],
        ["job", "result", job],
        ["job", "show", job],
        ["job", "chain", job],
    ):
        code, more = on_terminal(served.ekiden, *words)
        assert code == 0, more
        screen += more
    assert "a\\u0000b" in screen
    for harm in ("\x00", "\x07", "\x08", "\x7f", "\x9b", "\x1b]", "\x1b[2J", "\u202e", "\U000e0041"):
        assert harm not in screen, repr(screen)
    piped = served.ekiden.run("job", "events", job, "--json").stdout
    assert all(json.loads(line) for line in piped.splitlines())
    assert not set(piped) & set("\x00\x07\x08\x1b\x9b\u202e\U000e0041")


@pytest.mark.parametrize("lang", ["C", "C.UTF-8"])
def test_chinese_and_emoji_in_prompts_names_and_tool_results(served: PoolComponents, lang: str) -> None:
    from ekiden.shared.definitions.transfer_names import transfer_tool_name

    handoff = {"name": transfer_tool_name("代码修复"), "args": {"reason": "需要修复 🔧"}}
    served.gemini.add(
        {"when": {"answered": "read_file"}, "reply": {"calls": [handoff]}},
        {
            "when": {"system": "You are 调度"},
            "reply": {"text": "看看", "calls": [{"name": "read_file", "args": {"path": "说明.txt"}}]},
        },
        {"when": {"system": "You are 代码修复"}, "reply": {"text": "已修复 🎉"}},
    )
    served = replace(served, ekiden=replace(served.ekiden, env={**served.ekiden.env, "LANG": lang}))
    followed = served.submit(CHINESE, "--follow", agent="调度")
    assert followed.returncode == 0, followed.stderr
    for text in ("调度", "代码修复", "说明.txt", "需要修复 🔧", "已修复 🎉"):
        assert text in followed.stdout
    assert served.gemini.requests[0].body["contents"][0]["parts"][0]["text"] == CHINESE
    answered = served.gemini.requests[1].body["contents"][-1]["parts"][0]["functionResponse"]
    assert "内容 🎉 完" in answered["response"]["output"]
    job = newest(served)["id"]
    assert served.ekiden.run("job", "result", job).stdout == "已修复 🎉\n"
    assert "调度" in served.ekiden.run("job", "chain", job).stdout


def bytes_of(*parts: object) -> dict[str, str]:
    """An answer of Gemini's that is sent as it is."""
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}
    whole = json.dumps({"candidates": [candidate], "modelVersion": "gemini-2.5-flash"})
    return {"raw": f"data: {whole}\r\n\r\n"}


def test_half_characters_nul_and_bottomless_arguments_cost_no_job(served: PoolComponents) -> None:
    deep: object = []
    for _ in range(300):
        deep = {"in": [deep]}
    calls = [{"functionCall": {"name": "read_file", "args": {"path": path}}} for path in ("a\x00b\ud800", deep)]
    served.gemini.add(
        {"when": {"answered": "read_file"}, "reply": bytes_of({"text": "hi \ud83d there \x00"})},
        {"reply": bytes_of({"text": "half \udc00"}, *calls)},
    )
    done = served.submit("work", "--follow", agent="调度")
    assert done.returncode == 0, done
    assert "half \ufffd" in done.stdout
    assert "hi \ufffd there" in done.stdout
    [odd, bottomless] = served.gemini.requests[1].body["contents"][-1]["parts"]
    assert "error" in odd["functionResponse"]["response"]
    assert "more than 64 levels" in bottomless["functionResponse"]["response"]["error"]
    job = newest(served)["id"]
    exports = [["trace", "export", job, "--content", "--format", form] for form in ("json", "otlp", "openai")]
    for words in (["job", "events", job, "--json"], ["job", "show", job], ["trace", "show", job], *exports):
        shown = served.ekiden.run(*words)
        assert (shown.returncode, shown.stderr) == (0, ""), words
        assert shown.stdout.encode()
    session = job.partition(".")[0]
    assert served.submit("go on", "--wait", "--session", session, agent="调度").returncode == 0


def test_a_terminal_of_forty_columns(served: PoolComponents) -> None:
    served.gemini.add({"reply": {"text": f"{CHINESE} and a sentence that is much longer than forty columns. " * 3}})
    code, screen = on_terminal(served.ekiden, "submit", CHINESE, "--agent", "plain", "--follow", columns=40)
    assert code == 0, screen
    job = newest(served)["id"]
    assert "forty columns" in screen
    screen = ""  # what a model says is shown as it comes: the terminal itself breaks it into lines
    for words in (["jobs"], ["status"], ["agents", "list"], ["job", "chain", job]):
        code, more = on_terminal(served.ekiden, *words, columns=40)
        assert code == 0, more
        screen += more
    assert job in screen
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen).split("\r\n")
    assert [line for line in lines if cell_len(line) > 40 and " " in line.strip()] == [], "a word stays in one piece"


def test_a_job_that_does_not_exist_or_has_expired(served: PoolComponents) -> None:
    job = served.submit("work").stdout.strip()
    wait_until(lambda: served.ekiden.run("job", "result", job).returncode == 0)
    expire(served.url, job)
    asked = [(command, job) for command in ("show", "result", "events", "chain", "cancel")]
    for command, lost in (*asked, ("show", "aaaaaaaaaaaaaaaa.7")):
        done = served.ekiden.run("job", command, lost)
        assert (done.returncode, done.stdout) == (4, ""), (command, done)
        assert lost in done.stderr
        assert "`ekiden jobs` lists those that there are" in done.stderr
        assert done.stderr.count("\n") == 1
    gone = served.submit("more", "--session", "aaaaaaaaaaaaaaaa")
    assert gone.returncode == 4, gone
    assert gone.stderr.count("\n") == 1


def newest(served: PoolComponents) -> dict[str, str]:
    found: dict[str, str] = json.loads(served.ekiden.run("jobs", "--json").stdout.splitlines()[0])
    return found


def expire(url: str, job: str) -> None:
    """Do what the server does with a job when its time has come."""

    async def whole() -> None:
        stores = open_stores(url)
        await stores.client.delete(keys.job(job), keys.journal(job))
        await stores.close()

    asyncio.run(whole())


def on_terminal(ekiden: Program, *words: str, columns: int = 80, stdin: str = "") -> tuple[int, str]:
    """Run with a terminal to write to; return the exit code and all that the terminal got."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with subprocess.Popen(
        [*EKIDEN, *words], cwd=ekiden.folder, env=ekiden.env, stdin=subprocess.PIPE, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        assert process.stdin is not None
        process.stdin.write(stdin.encode())
        process.stdin.close()
        screen = b""
        try:
            while part := os.read(ours, 65_536):
                screen += part
        except OSError:  # Linux' way to say that the other side is closed
            pass
        os.close(ours)
    return process.returncode, screen.decode("utf-8", "replace")


# The embedded server.


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A megabyte where the embedded server keeps its data. To be named before ``ekiden``, which ends what uses it."""
    folder = tmp_path / "data"
    folder.mkdir()
    mount(folder, "size=1m,mode=700")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def mount(folder: Path, options: str) -> None:
    try:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True, check=False
        )
    except FileNotFoundError:
        pytest.skip("there is no program `mount`")
    if done.returncode:
        pytest.skip(f"a tmpfs cannot be mounted here: {done.stderr.decode().strip()}")


def test_a_disk_that_gets_full_refuses_what_is_too_large_and_goes_on(disk: Path, ekiden: Program) -> None:
    (disk / "bash.told").touch()
    env = ekiden.scripts(ANSWER_SCRIPT)
    done = ekiden.run("run", "-", stdin="it fails with an error" + "x" * 2 * MEGABYTE, env=env)
    assert done.returncode == 3, done
    assert "cannot write to its disk" in done.stderr
    assert done.stderr.count("\n") == 1
    ekiden.wait_until_gone()
    small = ekiden.run("run", "it fails with an error", env=env)
    assert small.returncode == 0, small
    assert ekiden.run("jobs", "--json").stdout.count("\n") == 1, "the refused one left nothing"


def test_a_job_outlives_a_full_disk(disk: Path, ekiden: Program) -> None:
    with GeminiServer() as gemini:
        gemini.add({"reply": {"text": "y" * MEGABYTE}})
        env = {"GEMINI_API_KEY": "test", "GEMINI_BASE_URL": gemini.url}
        running = ekiden.start("run", "it fails with an error", env=env)
        running.wait_for("the server cannot write to its disk: make room there")
        mount(disk, "remount,size=20m")
        assert running.ends() == 0, running.output[:2000]
        assert "y" * 100 in running.output


def test_a_disk_without_any_room_is_named(disk: Path, ekiden: Program) -> None:
    with (disk / "fill").open("wb", buffering=0) as fill, suppress(OSError):
        while fill.write(b"x" * 65_536):
            pass
    for command in (["run", "x"], ["up"]):
        done = ekiden.run(*command)
        assert done.returncode == 2, done
        assert "No space left on device" in done.stderr
        assert "set EKIDEN_REDIS_URL" in done.stderr
        assert done.stderr.count("\n") == 1


def test_of_two_that_come_up_in_one_folder_at_once_one_serves(ekiden: Program) -> None:
    both = [ekiden.start("up"), ekiden.start("up")]
    wait_until(lambda: sum(running.process.poll() is not None for running in both) == 1)
    refused, serving = sorted(both, key=lambda running: running.process.poll() is None)
    assert refused.ends() == 2
    assert re.fullmatch(
        r"ekiden: `ekiden up` runs already in .*: use it, stop it, or give another .*\n", refused.output
    )
    serving.wait_for("ready")
