"""Notes in files: what a dead writer leaves, what others put there, and files that have grown."""

import asyncio
import fcntl
import json
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from ekiden.shared.errors import ConfigurationError, StoreUnavailable
from ekiden.shared.memory import files
from ekiden.shared.memory.base import Namespace, Note, Origin, Write
from ekiden.shared.memory.files import FileMemoryStore
from ekiden.shared.memory.memories import Memories
from ekiden.shared.memory.note_lines import Change, read_line
from tests.doubles.letters import Letters

T = TypeVar("T")
SHOP = Namespace("shared", "商店", backend="filesystem")


def kept_in(folder: Path, work: Callable[[FileMemoryStore], Awaitable[T]]) -> T:
    async def whole() -> T:
        return await work(FileMemoryStore(folder))

    return asyncio.run(whole())


async def texts(store: FileMemoryStore) -> list[str]:
    return [one.text for one in (await store.changes(SHOP.id, 0)).notes]


def file_in(folder: Path) -> Path:
    (file,) = folder.glob("*.jsonl")
    return file


def test_people_read_the_file_by_its_name_and_its_lines(tmp_path: Path) -> None:
    folder = tmp_path / "notes"

    async def work(store: FileMemoryStore) -> None:
        mine = Memories(store, Letters())
        await mine.save(SHOP, "退货必须在十四天内申请", key="returns", origin=Origin(by="person", user="李"))

    kept_in(folder, work)
    file = file_in(folder)
    assert "商店" in file.name
    head, line = file.read_text(encoding="utf-8").splitlines()
    assert json.loads(head)["namespace"] == SHOP.id
    (change,) = json.loads(line)
    assert change["note"]["content"] == "退货必须在十四天内申请"
    assert change["note"]["origin"] == {"by": "person", "user": "李"}
    assert (folder.stat().st_mode & 0o777, file.stat().st_mode & 0o777) == (0o700, 0o600)


def test_what_a_dead_writer_has_left_unfinished_is_no_change_and_goes(tmp_path: Path) -> None:
    folder = tmp_path / "notes"

    async def work(store: FileMemoryStore) -> list[str]:
        await store.write(SHOP.id, [Write("a", 0, "whole")])
        with file_in(folder).open("ab") as file:
            file.write(b'[{"id":"b","version":99999999999999,"text":"xyzzy')
        assert await texts(store) == ["whole"]
        assert await store.write(SHOP.id, [Write("c", 0, "later")]) == "ok"
        return await texts(FileMemoryStore(folder))

    assert kept_in(folder, work) == ["whole", "later"]
    assert b"xyzzy" not in file_in(folder).read_bytes()


def test_a_line_that_nobody_can_read_is_passed_over(tmp_path: Path) -> None:
    folder = tmp_path / "notes"

    async def work(store: FileMemoryStore) -> list[str]:
        await store.write(SHOP.id, [Write("a", 0, "whole")])
        with file_in(folder).open("ab") as file:
            file.write(b"nonsense\n[{}]\n" + b"[" * 100_000 + b"\n")
        await store.write(SHOP.id, [Write("c", 0, "later")])
        return await texts(FileMemoryStore(folder))

    assert kept_in(folder, work) == ["whole", "later"]


def test_a_file_in_which_most_lines_count_no_more_is_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_IDLE_LINES", 3)
    folder = tmp_path / "notes"

    async def work(store: FileMemoryStore) -> None:
        reader = FileMemoryStore(folder)
        await store.write(SHOP.id, [Write("first", 0, "first")])
        for number in range(20):
            seen = (await store.versions(SHOP.id)).get("a", 0)
            assert await store.write(SHOP.id, [Write("a", seen, str(number))]) == "ok"
            assert await texts(reader) == ["first", str(number)]
        newest = max((await reader.versions(SHOP.id)).values())
        assert (await reader.changes(SHOP.id, newest)).notes == []

    kept_in(folder, work)
    assert len(file_in(folder).read_bytes().splitlines()) < 10


def test_of_a_note_that_is_forgotten_no_line_stays(tmp_path: Path) -> None:
    folder = tmp_path / "notes"

    async def work(store: FileMemoryStore) -> list[str]:
        mine = Memories(store, Letters())
        for content in ("ann pays late", "ann pays at once"):
            await mine.save(SHOP, content, key="ann", origin=Origin())
        await mine.save(SHOP, "bob pays", key="bob", origin=Origin())
        await mine.forget(SHOP, lambda note: note.key == "ann")
        return [note.content for note in await Memories(FileMemoryStore(folder), Letters()).all(SHOP)]

    assert kept_in(folder, work) == ["bob pays"]
    assert b"ann" not in file_in(folder).read_bytes()


def test_a_reader_reads_only_what_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []

    def noted(line: bytes) -> Sequence[Change]:
        read.append(line)
        return read_line(line)

    monkeypatch.setattr(files, "read_line", noted)

    async def work(store: FileMemoryStore) -> None:
        for name in "abc":
            await store.write(SHOP.id, [Write(name, 0, name)])
        newest = max((await store.versions(SHOP.id)).values())
        await store.write(SHOP.id, [Write("d", 0, "d")])
        read.clear()
        assert [one.id for one in (await store.changes(SHOP.id, newest)).notes] == ["d"]
        assert len(read) == 1

    kept_in(tmp_path / "notes", work)


@pytest.mark.parametrize("text", ["", "no head\n", '{"ekiden_notes": 99}\n'])
def test_a_file_that_is_none_of_ours_is_named(text: str, tmp_path: Path) -> None:
    folder = tmp_path / "notes"

    async def work(store: FileMemoryStore) -> None:
        await store.write(SHOP.id, [Write("a", 0, "x")])
        file_in(folder).write_text(text, encoding="utf-8")
        with pytest.raises(StoreUnavailable, match=r"no file of notes that this version reads\. Move it away"):
            await store.changes(SHOP.id, 0)
        assert await store.namespaces() == []

    kept_in(folder, work)


def test_a_folder_that_others_may_write_to_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(ConfigurationError, match="notes"):
        kept_in(folder, lambda store: store.write(SHOP.id, [Write("a", 0, "x")]))


def test_a_folder_that_cannot_be_made_is_an_error_that_names_it_and_the_setting(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match=r"memory\.folder"):
        kept_in(tmp_path / "file" / "notes", lambda store: store.write(SHOP.id, [Write("a", 0, "x")]))


def test_who_finds_the_lock_held_for_long_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_WAIT_S", 0.0)
    folder = tmp_path / "notes"

    async def work(store: FileMemoryStore) -> None:
        await store.write(SHOP.id, [Write("a", 0, "x")])
        lock = os.open(folder / ".lock", os.O_RDWR)
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            with pytest.raises(StoreUnavailable, match="has held the lock"):
                await store.write(SHOP.id, [Write("b", 0, "x")])
            assert await texts(store) == ["x"]  # who reads waits for nobody
        finally:
            os.close(lock)

    kept_in(folder, work)


def test_a_file_that_was_cut_is_read_anew(tmp_path: Path) -> None:
    folder = tmp_path / "notes"

    async def work(store: FileMemoryStore) -> None:
        mine, other = Memories(store, Letters()), FileMemoryStore(folder)
        await mine.put(SHOP, [Note(id=f"{n:016}", content=f"note {n}") for n in range(3)])
        await mine.save(SHOP, "the last", origin=Origin())
        lines = file_in(folder).read_bytes().splitlines(keepends=True)
        await other.versions(SHOP.id)
        file_in(folder).write_bytes(b"".join(lines[:-1]))
        assert [note.content for note in await mine.all(SHOP)] == ["note 0", "note 1", "note 2"]

    kept_in(folder, work)
