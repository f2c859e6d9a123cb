"""What commands in a sandbox reach, and what they do not: real programs that try."""

import asyncio
import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import psutil
import pytest

from ekiden.shared.processes.tools import start
from ekiden.workers.sandbox.view import Place
from ekiden.workers.tools.builtin import git
from tests.unit.sandbox.conftest import Workshop

SECRET = "s3cret-of-the-worker"


def test_what_a_build_needs_works(shop: Workshop) -> None:
    said = shop.run(
        "set -e; echo text > file; cp file copy; mv copy moved; mkdir -p a/b; ln -s file link; cat link > /dev/null; "
        "t=$(mktemp); echo temporary > $t; cat $t; cat <(echo substituted); python -c 'import json, ssl, sqlite3; "
        "print(json.dumps([1]))'; ls ~ > /dev/null; head -c 3 /dev/urandom | wc -c; getent passwd root | cut -d: -f1; "
        "sh -c 'exit 7' || echo $?"
    )
    assert said == "temporary\nsubstituted\n[1]\n3\nroot\n7\nexit code: 0"


def test_git_commits_and_its_hooks_and_settings_are_only_read(shop: Workshop, mechanism: str) -> None:
    subprocess.run(["git", "init", "-q", str(shop.context.cwd)], check=True)
    said = shop.run(
        "git config user.name A; echo x > f && git add f && "
        "git -c user.name=A -c user.email=a@b.c commit -qm one && git log --format=%s; git checkout -qb two && echo on"
    )
    assert said.endswith("one\non\nexit code: 0"), said
    if mechanism == "bubblewrap":
        attack = (
            "echo x > .git/hooks/pre-commit; echo x >> .git/config; mv .git/config c; mv .git/hooks h; mv .git git; "
            "rm -rf .git/hooks; ln -sf /bin/true .git/hooks/post-commit; mkdir -p .git/modules/a/hooks; true"
        )
        shop.run(attack)
        git = shop.context.cwd / ".git"
        assert not (git / "hooks/pre-commit").exists()
        assert not (git / "hooks/post-commit").exists()
        assert "x" not in (git / "config").read_text().split()


def test_a_hook_that_a_command_made_runs_in_its_sandbox_when_a_tool_commits(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git, "vouches_for", lambda project: True)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(shop.folder / "settings"))
    (shop.folder / "settings").write_text("[user]\nname = Ada\nemail = ada@example.org\n[core]\npager = false\n")
    env = {**shop.context.env, "GIT_CONFIG_GLOBAL": str(shop.folder / "settings")}
    hook = f"touch ran; cat {shop.folder}/outside/secret.txt > stolen; touch {shop.folder}/outside/escaped"
    shop.run(
        "git init -q; git config user.email repo@example.org; mkdir -p .git/hooks; "
        f"printf '#!/bin/sh\\n{hook}\\ntrue' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; echo x > f"
    )
    context = replace(shop.context, env=env)
    asyncio.run(git.git_commit.function(git.GitCommit(message="one"), context))  # type: ignore[arg-type]
    said = subprocess.run(["git", "log", "--format=%an %ae"], cwd=context.cwd, check=True, capture_output=True).stdout
    assert said.decode().strip() == "Ada repo@example.org", (
        "the user's own settings count where the repository has none"
    )
    assert (context.cwd / "ran").exists()
    assert (context.cwd / "stolen").read_text() == ""
    assert not (shop.folder / "outside" / "escaped").exists()


def test_places_that_programs_take_orders_from_are_only_read_where_the_sandbox_can(shop: Workshop) -> None:
    if shop.context.sandbox.mechanism == "landlock":
        assert "take commands from" in shop.context.sandbox.openings(), "it says that it cannot"
        pytest.skip("Landlock takes no right away below a folder that has it")
    for place in (".github/workflows/ci.yml", ".gemini/settings.json", "deep/er/.vscode/tasks.json", ".envrc"):
        (shop.root / place).parent.mkdir(parents=True, exist_ok=True)
        (shop.root / place).write_text("mine")
        said = shop.run(f"echo theirs > {shop.root}/{place}; rm -f {shop.root}/{place}; cat {shop.root}/{place}")
        assert (shop.root / place).read_text() == "mine", place
        assert "mine" in said


def test_the_projects_environment_runs_its_tests_and_is_only_read(shop: Workshop, mechanism: str) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(shop.context.cwd / ".venv")], check=True)
    (shop.context.cwd / "test_it.py").write_text(
        "import unittest\nclass T(unittest.TestCase):\n def test(self): pass\n"
    )
    said = shop.run(
        ".venv/bin/python -m unittest -q test_it 2>&1 | tail -1; python3 -c 'import sys; print(sys.prefix)'; "
        "python -m nosuch"
    )
    project = f"{shop.context.cwd}/.venv"
    missing = "(nosuch is not installed here: the project's environment .venv has it not, nor has this worker)"
    assert said == f"OK\n{project}\n{project}/bin/python: No module named nosuch\n{missing}\nexit code: 1"
    if mechanism == "bubblewrap":
        shop.run("echo evil > .venv/bin/python; echo 'import evil' > .venv/lib/x.pth; mv .venv v")
        assert not (shop.context.cwd / ".venv/lib/x.pth").exists()
        assert (shop.context.cwd / ".venv/bin/python").is_symlink()


@pytest.mark.parametrize(
    "write",
    [
        "echo x > {out}/new",
        "echo x > {out}/secret.txt",
        "ln -s {out} way; echo x > way/new",
        "ln {out}/secret.txt hard && echo x > hard",
        "echo x > /proc/self/root{out}/new",
        "echo x > /proc/self/cwd/../../outside/new",
        "mv {out}/secret.txt stolen",
        "rm -rf {out}",
        "python -c 'import os; os.truncate(\"{out}/secret.txt\", 0)'",
        "mkdir m && mount --bind {out} m; echo x > m/new",
        "unshare -Urm sh -c 'mount --bind {out} job; echo x > job/new'",
        "chmod 777 {out}; chown 1 {out}/secret.txt; echo x > {out}/new",
    ],
)
def test_nothing_is_written_outside_the_workspace(shop: Workshop, write: str) -> None:
    outside = shop.folder / "outside"
    shop.run(write.format(out=outside))
    assert [path.name for path in outside.iterdir()] == ["secret.txt"]
    assert (outside / "secret.txt").read_text() == "s3cret"
    assert not list(shop.root.rglob("stolen"))


@pytest.mark.parametrize(
    "read",
    [
        "cat {out}/secret.txt",
        "ln -s {out}/secret.txt l; cat l",
        "ln {out}/secret.txt h; cat h",
        "cat /proc/self/root{out}/secret.txt",
        "cat /proc/$PPID/root{out}/secret.txt",
        "cat /proc/*/root{out}/secret.txt",
        "cp -r {out} here; cat here/*",
        "chroot / cat {out}/secret.txt",
        "cp {out}/secret.txt s; cat s",
    ],
)
def test_nothing_of_another_folder_is_read(shop: Workshop, read: str) -> None:
    assert "s3cret" not in shop.run(read.format(out=shop.folder / "outside"))


def test_the_home_and_what_administrators_put_into_etc_are_not_seen(
    shop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id_rsa").write_text("s3cret")
    monkeypatch.setenv("HOME", str(home))
    env = {**shop.context.env, "HOME": str(home), "XDG_CONFIG_HOME": str(home)}
    said = shop.run(
        f"cat ~/.ssh/id_rsa {home}/.ssh/id_rsa $XDG_CONFIG_HOME/.ssh/id_rsa; cat /etc/shadow; echo $HOME", env=env
    )
    assert "s3cret" not in said
    assert "root:" not in said
    assert str(home) not in said.splitlines()[-2]


def test_what_a_workspace_says_of_its_python_opens_nothing(shop: Workshop) -> None:
    """Environments that were made to lead into a home, and to a Python of the workspace's own that does."""
    home, fake = shop.folder / "outside", shop.context.cwd / "fake"
    (home / "bin").mkdir()
    (home / "bin" / "python").touch()
    (fake / "bin").mkdir(parents=True)
    (fake / "bin" / "python").touch()
    (fake / "lib" / "python3.11").mkdir(parents=True)
    (fake / "lib" / "python3.11" / "os.py").touch()
    (fake / "include").symlink_to(home)
    for name, base in (("one", home), ("two", fake)):
        (shop.context.cwd / name / "bin").mkdir(parents=True)
        (shop.context.cwd / name / "pyvenv.cfg").touch()
        (shop.context.cwd / name / "bin" / "python").symlink_to(base / "bin" / "python")
    assert "s3cret" not in shop.run(f"cat {home}/secret.txt fake/include/secret.txt; ls -R .")


def test_a_link_that_was_put_in_a_read_only_place_meanwhile_starts_nothing(shop: Workshop, mechanism: str) -> None:
    if mechanism != "bubblewrap":
        pytest.skip("nothing is put in its place again there")
    (shop.root / ".vscode").symlink_to(shop.folder / "outside")
    place = Place(shop.root, shop.context.cwd, read_only=[shop.root / ".vscode"])  # as it was when we looked
    confinement = shop.context.sandbox.confinement(place, network=False)
    with pytest.raises(OSError, match="cannot be confined: Too many levels of symbolic links"):
        asyncio.run(start(["cat", ".vscode/secret.txt"], cwd=shop.root, env={}, confinement=confinement))


def test_data_of_a_server_in_the_workspace_are_not_seen_where_the_sandbox_can(shop: Workshop, mechanism: str) -> None:
    if mechanism != "bubblewrap":
        pytest.skip("Landlock takes no right away below a folder that has it; sockets are out of reach all the same")
    data = shop.context.cwd / "data"
    data.mkdir()
    (data / "keeper.lock").touch()
    (data / "dump.rdb").write_text("s3cret")
    assert "s3cret" not in shop.run("cat data/dump.rdb; ls data")


def test_a_private_folder_is_gone_with_its_command(shop: Workshop) -> None:
    said = shop.run("echo $TMPDIR; echo x > $TMPDIR/left-behind; echo x > ~/in-home && ls $TMPDIR ~")
    assert said.endswith("exit code: 0")
    assert said.count("left-behind") == said.count("in-home") == 2
    assert not Path(said.splitlines()[0], "left-behind").exists()
    assert "left-behind" not in shop.run("ls $TMPDIR")


@pytest.fixture
def worker_with_a_secret() -> Iterator[psutil.Process]:
    """A process of this user that holds a secret in its environment, its memory and its arguments."""
    code = f"import time; held = '{SECRET}'; print(flush=True); time.sleep(300)"
    env = {**os.environ, "API_KEY": SECRET}
    with subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield psutil.Process(process.pid)
        process.kill()


def test_no_process_outside_is_read(shop: Workshop, worker_with_a_secret: psutil.Process) -> None:
    pid = worker_with_a_secret.pid
    said = shop.run(
        f"cat /proc/{pid}/environ /proc/{pid}/cmdline; cat /proc/*/environ; cat /proc/$PPID/environ; "
        f"head -c 100000000 /proc/{pid}/mem; ls -l /proc/{pid}/fd; env; ps aux; "
        "pid=$PPID; while [ -r /proc/$pid/stat ]; do cat /proc/$pid/environ; pid=$(cut -d' ' -f4 /proc/$pid/stat); done"
    )
    assert SECRET not in said


def test_no_process_outside_is_ended_traced_or_changed(shop: Workshop, worker_with_a_secret: psutil.Process) -> None:
    if 0 < shop.context.sandbox.abi < 6:
        pytest.skip("Landlock holds signals from version 6 on (Linux 6.12); doctor and journal say so")
    pid = worker_with_a_secret.pid
    nice, limit = worker_with_a_secret.nice(), worker_with_a_secret.rlimit(psutil.RLIMIT_NOFILE)
    trace = (
        "import ctypes; libc = ctypes.CDLL(None, use_errno=True); "
        f"print('traced' if libc.ptrace(16, {pid}, 0, 0) == 0 else 'refused')"
    )
    said = shop.run(
        f"kill -STOP {pid}; kill -9 {pid} && echo killed; kill -9 $PPID; "
        f'python -c "{trace}"; prlimit --pid {pid} --nofile=1:1',
    )
    said += shop.run(f'python -c "{trace}"; prlimit --pid {pid} --nofile=1:1')
    assert "killed" not in said
    assert "refused" in said
    assert worker_with_a_secret.status() in (psutil.STATUS_SLEEPING, psutil.STATUS_RUNNING)
    assert (worker_with_a_secret.nice(), worker_with_a_secret.rlimit(psutil.RLIMIT_NOFILE)) == (nice, limit)


class Listeners:
    """Local servers that note who has reached them."""

    def __init__(self, folder: Path) -> None:
        self.reached: list[str] = []
        self.unix = folder / "outside" / "server.sock"
        self.tcp = self._serve(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0))[1]
        self.udp = self._serve(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0))[1]
        self._serve(socket.AF_UNIX, socket.SOCK_STREAM, str(self.unix))
        self.abstract = f"ekiden-test-{os.getpid()}-{id(self)}"
        self._serve(socket.AF_UNIX, socket.SOCK_STREAM, f"\0{self.abstract}")

    def _serve(self, family: int, kind: int, address: object) -> tuple[str, int]:
        server = socket.socket(family, kind)
        server.bind(address)  # type: ignore[arg-type] # of the family
        if kind == socket.SOCK_STREAM:
            server.listen()

        def listen() -> None:
            try:
                while True:
                    if kind == socket.SOCK_STREAM:
                        server.accept()[0].close()
                    else:
                        server.recv(100)
                    self.reached.append(f"{family!r} {kind!r}")
            except OSError:
                return

        threading.Thread(target=listen, daemon=True).start()
        self._servers = [*getattr(self, "_servers", []), server]
        return cast("tuple[str, int]", server.getsockname())

    def close(self) -> None:
        for server in self._servers:
            server.close()


TRY_ALL = """
import socket
def attempt(name, do):
    try:
        do(); print(name, "sent")
    except OSError as error:
        print(name, type(error).__name__)
def tcp(): socket.create_connection(("127.0.0.1", {tcp}), 2)
def udp(): socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", {udp}))
def unix(): socket.socket(socket.AF_UNIX).connect("{unix}")
def abstract(): socket.socket(socket.AF_UNIX).connect("\\0{abstract}")
def raw(): socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
def vsock(): socket.socket(40, socket.SOCK_STREAM)
for one in (tcp, udp, unix, abstract, raw, vsock): attempt(one.__name__, one)
"""


@pytest.fixture
def listeners(shop: Workshop) -> Iterator[Listeners]:
    found = Listeners(shop.folder)
    yield found
    found.close()


def _try_all(shop: Workshop, listeners: Listeners, *, network: bool) -> dict[str, str]:
    code = TRY_ALL.format(tcp=listeners.tcp, udp=listeners.udp, unix=listeners.unix, abstract=listeners.abstract)
    (shop.context.cwd / "attempt.py").write_text(code)
    lines = shop.run("python attempt.py", network=network).splitlines()
    return dict(line.split(" ", 1) for line in lines if line.count(" ") == 1)


def test_no_local_server_is_reached(shop: Workshop, listeners: Listeners) -> None:
    said = _try_all(shop, listeners, network=False)
    assert {said[way] for way in ("tcp", "unix", "abstract", "raw", "vsock")} <= {
        "PermissionError",
        "ConnectionRefusedError",
        "FileNotFoundError",
    }, said
    assert listeners.reached == [], "what was sent by UDP has reached nobody either"


def test_a_network_is_reached_where_the_agents_file_says_so_and_nothing_else(
    shop: Workshop, listeners: Listeners
) -> None:
    said = _try_all(shop, listeners, network=True)
    assert (said["tcp"], said["udp"]) == ("sent", "sent")
    assert {said[way] for way in ("unix", "abstract", "raw", "vsock")} == {"PermissionError"}


def test_a_server_of_its_own_is_reached_in_a_network_namespace(shop: Workshop) -> None:
    if shop.context.sandbox.mechanism != "bubblewrap":
        pytest.skip("a filter of system calls cannot tell one's own server from another's")
    code = (
        "import socket; s = socket.create_server(('127.0.0.1', 0)); c = socket.create_connection(s.getsockname()); "
        "u = socket.socket(socket.AF_UNIX); u.bind('own.sock'); print('reached')"
    )
    assert shop.run(f'python -c "{code}"') == "reached\nexit code: 0"


def test_the_machines_own_settings_are_not_written(shop: Workshop) -> None:
    """By root, whom file permissions do not stop."""
    code = (
        "import os, sys\n"
        "for name in sys.argv[1:]:\n"
        "    try:\n"
        "        os.close(os.open(name, os.O_WRONLY)); print('opened', name)\n"
        "    except OSError: pass"
    )
    (shop.context.cwd / "settings.py").write_text(code)
    names = ["kernel/core_pattern", "kernel/hostname", "vm/swappiness", "kernel/modprobe"]
    said = shop.run(f"python settings.py /proc/sysrq-trigger {' '.join(f'/proc/sys/{name}' for name in names)}")
    assert said == "exit code: 0"


def test_system_calls_that_go_behind_the_filter_are_refused(shop: Workshop) -> None:
    code = (
        "import ctypes, errno; libc = ctypes.CDLL(None, use_errno=True)\n"
        "for number in (425, 426, 427, 438, 428):\n"
        "    assert libc.syscall(number, 1, 0, 0, 0, 0, 0) == -1 and ctypes.get_errno() == errno.EPERM, number\n"
        "assert libc.unshare(0x10000000) == -1 and ctypes.get_errno() == errno.EPERM\n"
        "print('refused')\n"
        "libc.syscall(0x40000000 + 41, 2, 1, 0) == -1 and print('x32 refused')\n"
    )
    (shop.context.cwd / "calls.py").write_text(code)
    said = shop.run("python calls.py")
    assert said.startswith("refused"), said
    assert said.endswith("exit code: 0"), said


def test_no_file_is_made_that_runs_as_its_owner_and_other_modes_are_what_they_were(shop: Workshop) -> None:
    made = "os.close(os.open('{name}', os.O_CREAT | os.O_WRONLY, 0o{mode})); print(oct(os.stat('{name}').st_mode))"
    tries = [
        "cp /bin/true a; chmod u+s a; chmod 6755 a",
        "install -m 4755 /bin/true b",
        f'python -c "import os; {made.format(name="c", mode="4755")}"',
        "python -c \"import os, stat; os.mknod('d', stat.S_IFREG | 0o4755)\"",
        "python -c \"import os; os.fchmod(os.open('a', os.O_RDONLY), 0o4755)\"",
    ]
    for one in tries:
        shop.run(one)
    assert [path.name for path in shop.context.cwd.iterdir() if path.stat().st_mode & stat.S_ISUID] == []
    said = shop.run(f'umask 0; python -c "import os; {made.format(name="e", mode="751")}"; chmod 2701 a; stat -c %a a')
    assert said == "0o100751\n2701\nexit code: 0"
