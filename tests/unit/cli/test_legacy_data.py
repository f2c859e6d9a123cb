"""Data that lie in a folder are named, and taken over only when they are their user's."""

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from ekiden.dispatcher.local.legacy_data import copy_data, legacy_data_in, name_legacy_data
from ekiden.shared import server_supervisor
from ekiden.shared.embedded import attach
from ekiden.shared.errors import ConfigurationError, InvalidRequest
from tests.e2e.program import wait_until


@pytest.fixture(scope="module")
def journals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a server has left behind."""
    folder = tmp_path_factory.mktemp("left")
    with attach(folder) as server, redis.Redis.from_url(server.url) as client:
        client.zadd("ekiden:jobs", {"one": 1})
        client.set("ekiden:short", b"\x00", ex=3_600)
        client.rpush("ekiden.agent.x", "message")
        client.set("other", "x")
    wait_until(lambda: not server_supervisor.is_locked(folder / server_supervisor.SERVER_LOCK))
    return folder / "appendonlydir"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, journals: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with data in it, which is the current folder, and a data folder beside it."""
    shutil.copytree(journals, tmp_path / "project" / ".ekiden" / "appendonlydir")
    (tmp_path / "data").mkdir()
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


def test_data_in_a_folder_are_named_once_with_the_command_that_takes_them_over(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name_legacy_data(tmp_path / "data")
    said = capsys.readouterr().err
    assert repr(str(project / ".ekiden")) in said
    assert "is not used" in said
    assert "`ekiden adopt`" in said
    name_legacy_data(tmp_path / "data")
    assert capsys.readouterr().err == ""


def test_they_are_found_from_a_sub_folder_and_are_none_when_they_are_the_data_folder_itself(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / ".git").mkdir()
    (project / "src").mkdir()
    monkeypatch.chdir(project / "src")
    assert legacy_data_in(tmp_path / "data") == project / ".ekiden"
    assert legacy_data_in(project / ".ekiden") is None
    assert legacy_data_in(Path("../.ekiden")) is None


def test_an_empty_folder_of_that_name_holds_no_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "elsewhere" / ".ekiden").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "elsewhere")
    name_legacy_data(tmp_path / "data")
    assert capsys.readouterr().err == ""


def written(journals: Path, *commands: tuple[str, ...]) -> None:
    """Append commands to the journal of a server that does not run."""
    [journal] = journals.glob("*.incr.aof")
    with journal.open("ab") as file:
        for parts in commands:
            file.write(b"*%d\r\n" % len(parts))
            for part in map(str.encode, parts):
                file.write(b"$%d\r\n%s\r\n" % (len(part), part))


def test_what_is_copied_is_what_ekiden_keeps_with_its_time_to_live(project: Path, tmp_path: Path) -> None:
    copy_data(project / ".ekiden", tmp_path / "data")
    with attach(tmp_path / "data") as server, redis.Redis.from_url(server.url) as client:
        assert sorted(client.keys()) == [b"ekiden.agent.x", b"ekiden:jobs", b"ekiden:short"]
        assert client.zrange("ekiden:jobs", 0, -1) == [b"one"]
        assert client.ttl("ekiden:jobs") == -1
        assert 0 < client.ttl("ekiden:short") <= 3_600
    assert (project / ".ekiden" / "appendonlydir").is_dir(), "nothing is taken away"
    assert not list((tmp_path / "data").glob("adopted-*"))


@pytest.mark.parametrize(
    "command",
    [
        ("CONFIG", "SET", "port", "7799"),
        ("REPLICAOF", "203.0.113.7", "6379"),
        ("MODULE", "LOAD", "/tmp/x.so"),
        ("ACL", "SETUSER", "default", "off"),
        ("EVAL", "return 1", "0"),
        ("FUNCTION", "FLUSH"),
        ("SHUTDOWN",),
        ("FLUSHALL",),
        ("NONE_AT_ALL",),
    ],
    ids=lambda command: command[0],
)
def test_a_journal_with_anything_but_data_is_refused_by_the_command_and_nothing_of_it_is_copied(
    project: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    written(project / ".ekiden" / "appendonlydir", ("SELECT", "0"), command)
    with pytest.raises(ConfigurationError, match=f"no data that Ekiden wrote.*{command[0]}"):
        copy_data(project / ".ekiden", tmp_path / "data")
    assert list((tmp_path / "data").iterdir()) == []


def test_jobs_that_are_there_already_are_not_lost(project: Path, tmp_path: Path) -> None:
    (tmp_path / "data" / "appendonlydir").mkdir()
    with pytest.raises(InvalidRequest, match="has jobs already"):
        copy_data(project / ".ekiden", tmp_path / "data")


@pytest.mark.parametrize("name", ["server.lock", "keeper.lock"])
def test_data_that_a_server_uses_are_not_copied(project: Path, tmp_path: Path, name: str) -> None:
    lock = server_supervisor.open_lock(project / ".ekiden" / name)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(InvalidRequest, match="a server runs"):
            copy_data(project / ".ekiden", tmp_path / "data")
    finally:
        os.close(lock)


def as_link_to_a_file(journals: Path) -> None:
    (journals / "extra").symlink_to("/etc/passwd")


def as_link_to_the_folder(journals: Path) -> None:
    journals.rename(journals.parent / "elsewhere")
    journals.symlink_to(journals.parent / "elsewhere")


def as_link_to_all(journals: Path) -> None:
    journals.parent.rename(journals.parent.parent / "elsewhere")
    journals.parent.symlink_to(journals.parent.parent / "elsewhere")


def as_pipe(journals: Path) -> None:
    os.mkfifo(journals / "pipe")


@pytest.mark.parametrize("spoil", [as_link_to_a_file, as_link_to_the_folder, as_link_to_all, as_pipe])
def test_what_is_no_plain_file_is_refused_and_nothing_is_copied(
    project: Path, tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    spoil(project / ".ekiden" / "appendonlydir")
    with pytest.raises(InvalidRequest, match="neither a folder nor a regular file"):
        copy_data(project / ".ekiden", tmp_path / "data")
    assert list((tmp_path / "data").iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("part", [".", "appendonlydir", "appendonlydir/appendonly.aof.1.incr.aof"])
def test_what_belongs_to_another_user_is_refused(project: Path, tmp_path: Path, part: str) -> None:
    os.chown(project / ".ekiden" / part, 65534, 65534)
    with pytest.raises(InvalidRequest, match="belongs to another user"):
        copy_data(project / ".ekiden", tmp_path / "data")
