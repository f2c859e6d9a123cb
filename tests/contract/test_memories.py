"""Notes as the store keeps them: read once, then only what is new; nothing of what two write at once is lost."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import pytest

from ekiden.shared.embedding.encoder import Vectors
from ekiden.shared.errors import InvalidRequest, ModelUnavailable
from ekiden.shared.memory import base, files, known, vectors
from ekiden.shared.memory.base import CHECK, MemoryStore, Namespace, Origin, Write, Written
from ekiden.shared.memory.files import FileMemoryStore
from ekiden.shared.memory.memories import Memories, Wanted
from ekiden.shared.signing import Signing, signing_of
from ekiden.shared.stores import keys, memories
from ekiden.shared.stores.memories import RedisMemoryStore
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.redis import as_any
from tests.conftest import Backend, fake_backend, real_backend
from tests.doubles.letters import Letters

T = TypeVar("T")
SHOP = Namespace("shared", "shop")
BY_ANN = Origin(by="person", user="ann")


@dataclass
class InFiles(Backend):
    """Keeps notes in a folder; what else there is, on a server."""

    folder: Path

    def run(self, scenario: Callable[[Stores], Awaitable[T]]) -> T:
        async def with_files(stores: Stores) -> T:
            return await scenario(replace(stores, memories=FileMemoryStore(self.folder)))  # type: ignore[arg-type]

        return super().run(with_files)


@pytest.fixture(params=["fakeredis", "valkey", "files"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """Every kind of store: the contract holds on each."""
    if request.param == "valkey":
        return real_backend()
    fake = fake_backend()
    return fake if request.param == "fakeredis" else InFiles(fake.run_main, tmp_path / "notes")


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets how many notes a namespace may have."""

    def set_most(count: int) -> None:
        monkeypatch.setattr(memories, "MOST_NOTES", count)
        monkeypatch.setattr(files, "MOST_NOTES", count)

    return set_most


def test_a_store_tells_what_is_new_and_what_is_gone(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        store = stores.memories
        assert await store.write("n", [Write("a", 0, "first"), Write("b", 0, "second")]) == "ok"
        before = await store.changes("n", 0)
        assert [(note.id, note.text) for note in before.notes] == [("a", "first"), ("b", "second")]
        assert before.count == 2
        assert before.check == sum(note.version for note in before.notes) % CHECK

        versions = {note.id: note.version for note in before.notes}
        assert await store.write("n", [Write("a", versions["a"], "changed"), Write("b", versions["b"], None)]) == "ok"
        after = await store.changes("n", max(versions.values()))
        assert [(note.id, note.text) for note in after.notes] == [("a", "changed")]
        assert await store.versions("n") == {"a": after.notes[0].version}
        assert (after.count, after.check) == (1, after.notes[0].version % CHECK)

    backend.run(scenario)


def test_a_store_makes_all_changes_or_none(backend: Backend, few: Callable[[int], None]) -> None:
    few(2)

    async def scenario(stores: Stores) -> None:
        store = stores.memories
        assert await store.write("n", [Write("a", 0, "first")]) == "ok"
        assert await store.write("n", [Write("b", 0, "new"), Write("a", 0, "unseen")]) == "changed"
        assert await store.write("n", [Write("a", 7, None)]) == "changed"
        assert await store.write("n", [Write("b", 0, "x"), Write("c", 0, "x")]) == "full"
        assert (await store.changes("n", 0)).count == 1
        assert await store.write("n", [Write("b", 0, "x")]) == "ok"
        seen = (await store.versions("n"))["a"]
        assert await store.write("n", [Write("a", seen, "still")]) == "ok"  # no more than there were

    backend.run(scenario)


def test_namespaces_are_apart_and_leave_nothing_behind(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        store = stores.memories
        await store.write(SHOP.id, [Write("a", 0, "x")])
        await store.write(Namespace("user", user="a:b 李").id, [Write("a", 0, "y"), Write("b", 0, "z")])
        assert [Namespace.of(one) for one in await store.namespaces()] == [SHOP, Namespace("user", user="a:b 李")]
        assert await store.drop(Namespace("user", user="a:b 李").id) == 2
        await store.write(SHOP.id, [Write("a", (await store.versions(SHOP.id))["a"], None)])
        assert await store.namespaces() == []
        assert await stores.client.dbsize() == 0

    backend.run(scenario)


def test_many_who_write_at_once_lose_nothing(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        workers = [Memories(stores.memories, Letters()) for _ in range(4)]
        texts = [f"parcel {n} is late" for n in range(12)]
        await asyncio.gather(
            *(workers[n % 4].save(SHOP, text, origin=BY_ANN, once=f"call {n}") for n, text in enumerate(texts)),
            *(worker.save(SHOP, f"of worker {n}", key="who", origin=BY_ANN) for n, worker in enumerate(workers)),
        )
        for worker in workers:
            notes = await worker.all(SHOP)
            assert sorted(note.content for note in notes if not note.key) == sorted(texts)
            assert len([note for note in notes if note.key == "who"]) == 1

    backend.run(scenario)


def test_a_process_reads_the_rest_and_sees_what_others_take_away(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        one, other = Memories(stores.memories, Letters()), Memories(stores.memories, Letters())
        first = await one.save(SHOP, "apples", origin=BY_ANN)
        assert [note.content for note in await other.all(SHOP)] == ["apples"]
        await one.save(SHOP, "pears", origin=BY_ANN)
        await one.forget(SHOP, lambda note: note.id == first.id)
        assert [note.content for note in await other.all(SHOP)] == ["pears"]

    backend.run(scenario)


def test_a_process_that_knows_more_than_the_server_forgets_it(valkey: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        client = as_any(stores.client)
        mine = Memories(stores.memories, Letters())
        await mine.save(SHOP, "kept", key="a", origin=BY_ANN)
        names = [keys.memory(SHOP.id), keys.memory_order(SHOP.id)]
        fields, order = await client.hgetall(names[0]), await client.zrange(names[1], 0, -1, withscores=True)
        await mine.save(SHOP, "lost", key="a", origin=BY_ANN)
        await mine.save(SHOP, "lost too", key="b", origin=BY_ANN)

        await client.delete(*names)  # the server comes back as it was, and others go on
        await client.hset(names[0], mapping=fields)
        await client.zadd(names[1], dict(order))
        await Memories(stores.memories, Letters()).save(SHOP, "since then", key="c", origin=BY_ANN)

        assert sorted(note.content for note in await mine.all(SHOP)) == ["kept", "since then"]

    valkey.run(scenario)


def test_many_notes_are_read_in_pages(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memories, "_PAGE", 3)

    async def scenario(stores: Stores) -> None:
        for n in range(7):
            await stores.memories.write("n", [Write(f"id{n}", 0, str(n))])
        assert [note.text for note in (await stores.memories.changes("n", 0)).notes] == list("0123456")

    backend.run(scenario)


def test_the_most_notes_there_may_be_are_told(backend: Backend, few: Callable[[int], None]) -> None:
    few(1)

    async def scenario(stores: Stores) -> None:
        mine = Memories(stores.memories, Letters())
        await mine.save(SHOP, "one", origin=BY_ANN)
        with pytest.raises(InvalidRequest, match="the memory is full"):
            await mine.save(SHOP, "another", origin=BY_ANN)

    backend.run(scenario)


def test_another_encoder_reads_notes_anew(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        await Memories(stores.memories, Letters("letters 1")).save(SHOP, "aaa", origin=BY_ANN)
        newer = Letters("letters 2")
        mine = Memories(stores.memories, newer)
        assert [found.note.content for found in await mine.recall(SHOP, "a", Wanted())] == ["aaa"]
        assert newer.read == ["a", "aaa"]
        again = Letters("letters 2")
        await Memories(stores.memories, again).recall(SHOP, "a", Wanted())
        assert again.read == ["a"]  # what the first has made is kept

    backend.run(scenario)


class Away(Letters):
    """Answers while somebody is there."""

    def __init__(self, name: str = "letters 1") -> None:
        super().__init__(name)
        self.is_there = False

    def encode(self, texts: Sequence[str]) -> Vectors:
        if not self.is_there:
            raise ModelUnavailable("the provider is away")
        return super().encode(texts)


def test_where_the_encoder_does_not_answer_notes_are_kept_found_by_words_and_get_their_vectors_later(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "_SILENT_S", 0.0)

    async def scenario(stores: Stores) -> None:
        encoder = Away()
        mine = Memories(stores.memories, encoder)
        await mine.save(SHOP, "包裹中午发出 parcels leave at noon", origin=BY_ANN)
        found = await mine.recall(SHOP, "when do parcels leave", Wanted(threshold=0.9))
        assert [one.note.content for one in found] == ["包裹中午发出 parcels leave at noon"]
        assert mine.trouble == "letters 1 makes no vectors: the provider is away"
        encoder.is_there = True
        assert await mine.recall(SHOP, "zzz", Wanted(threshold=0.9)) == []
        assert mine.trouble == ""
        assert encoder.read == ["zzz", "包裹中午发出 parcels leave at noon"]

    backend.run(scenario)


def test_an_encoder_that_has_not_answered_is_left_alone_for_a_while(valkey: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        encoder = Away()
        mine = Memories(stores.memories, encoder)
        await mine.save(SHOP, "parcels", origin=BY_ANN)
        encoder.is_there = True
        assert len(await mine.recall(SHOP, "parcels", Wanted())) == 1
        assert encoder.read == []
        assert mine.trouble

    valkey.run(scenario)


def test_two_encoders_that_share_notes_make_each_vector_once(valkey: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        first, second = Letters("first"), Letters("second")
        ours = [Memories(stores.memories, one) for one in (first, second)]
        for mine in ours * 2:
            await mine.save(SHOP, "parcels", key="a", origin=BY_ANN)
        first.read, second.read = [], []
        for _ in range(3):
            for mine in ours:
                assert len(await mine.recall(SHOP, "parcels", Wanted())) == 1
        assert (first.read, second.read) == (["parcels"] * 3, ["parcels"] * 3)
        await ours[0].save(SHOP, "letters", key="a", origin=BY_ANN)
        await ours[1].recall(SHOP, "x", Wanted())
        assert second.read[3:] == ["x", "letters"]  # of what is said now, not of what was

    valkey.run(scenario)


class Waiting(Letters):
    """Encodes several texts at once when it is told to."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.may_go = threading.Event()

    def encode(self, texts: Sequence[str]) -> Vectors:
        if len(texts) > 1:
            assert self.may_go.wait(30)
        return super().encode(texts)


def test_many_notes_get_their_new_vectors_in_the_background(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        old = Memories(stores.memories, Letters("letters 1"))
        await old.put(SHOP, [base.Note(id=f"{n:016}", content=f"note about {'x' * n}") for n in range(70)])
        newer = Waiting("letters 2")
        mine = Memories(stores.memories, newer)
        found = await mine.recall(SHOP, "xxx", Wanted())
        assert [one.note.content for one in found] == ["note about xxx"]  # by its words, for now
        newer.may_go.set()
        async with asyncio.timeout(30):
            await asyncio.gather(*mine._refreshing.values())
        assert len(await mine.recall(SHOP, "xxx", Wanted(most=70))) == 70
        mine.close()

    backend.run(scenario)


def test_what_others_have_written_is_no_note(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        signing = signing_of("k:" + "s" * 40)
        signed = signed_store(stores, signing)
        await Memories(signed, Letters()).save(SHOP, "ours", origin=BY_ANN)
        await Memories(stores.memories, Letters()).save(SHOP, "a stranger's", key="x", origin=BY_ANN)
        await stores.memories.write(SHOP.id, [Write("b" * 16, 0, "no JSON")])
        mine = Memories(signed, Letters())
        assert [note.content for note in await mine.all(SHOP)] == ["ours"]
        await mine.save(SHOP, "ours, too", origin=BY_ANN)
        assert "b" * 16 in await stores.memories.versions(SHOP.id)  # a later version may read it

    backend.run(scenario)


def signed_store(stores: Stores, signing: Signing) -> MemoryStore:
    """The same store, of a deployment that signs."""
    kept: MemoryStore = stores.memories
    if isinstance(kept, FileMemoryStore):
        return FileMemoryStore(kept._folder, signing)
    return RedisMemoryStore(stores.client, signing)


class Clock:
    """Time as a test has it."""

    def __init__(self) -> None:
        self.now_ms = 1_795_000_000_000

    def __call__(self) -> int:
        return self.now_ms


READ = BY_ANN.model_copy(update={"untrusted": "what web_fetch returns"})


def test_a_note_that_nobody_doubts_takes_nothing_from_one_that_strangers_may_have_written(valkey: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        clock = Clock()
        mine = Memories(stores.memories, Letters(), clock)
        known = await mine.save(SHOP, "Clean up: rm -rf ./build", tags=["ops"], origin=BY_ANN, ttl_s=60)
        clock.now_ms += 1_000
        again = await mine.save(SHOP, "CLEAN up: rm -rf ./build", tags=["obey"], origin=READ, ttl_s=9_999)
        assert again == known.model_copy(update={"used_ms": clock.now_ms})
        other = await mine.save(SHOP, "Clean up: rm -rf . /build", origin=READ)
        assert await mine.all(SHOP) == [other, again]
        clock.now_ms += 60_000
        assert (await mine.save(SHOP, "Clean up: rm -rf ./build", origin=READ)).origin == READ, "the other is over"
        vouched = await mine.save(SHOP, "clean up: rm -rf ./build", origin=BY_ANN)
        assert (vouched.origin, vouched.tags) == (BY_ANN, ())
        assert await mine.all(SHOP) == [vouched, other]

    valkey.run(scenario)


def test_tags_of_a_stranger_do_not_stay_where_somebody_vouches_for_the_text(valkey: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        mine = Memories(stores.memories, Letters())
        await mine.save(SHOP, "closed on Sundays", tags=["obey"], origin=READ)
        await mine.save(SHOP, "Closed on Sundays", tags=["hours"], origin=BY_ANN)
        await mine.save(SHOP, "Closed on Sundays", tags=["week"], origin=BY_ANN)
        assert [(note.tags, note.origin) for note in await mine.all(SHOP)] == [(("hours", "week"), BY_ANN)]

    valkey.run(scenario)


def test_a_note_is_gone_when_its_time_is_over(valkey: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        clock = Clock()
        mine = Memories(stores.memories, Letters(), clock)
        await mine.save(SHOP, "sale until tonight", origin=BY_ANN, ttl_s=60)
        clock.now_ms += 59_000
        assert [found.note.content for found in await mine.recall(SHOP, "sale", Wanted())] == ["sale until tonight"]
        clock.now_ms += 1_000
        assert await mine.recall(SHOP, "sale", Wanted()) == []
        assert await mine.recall(SHOP, "sale", Wanted("words")) == []
        assert await mine.all(SHOP) == []
        await mine.save(SHOP, "closed", origin=BY_ANN)  # who writes clears up
        assert (await stores.memories.changes(SHOP.id, 0)).count == 1

    valkey.run(scenario)


def test_a_note_that_nobody_uses_counts_less_and_one_that_is_used_does_not(valkey: Backend) -> None:
    wanted = Wanted(most=1, half_life_s=100)

    async def scenario(stores: Stores) -> None:
        clock = Clock()
        mine = Memories(stores.memories, Letters(), clock)
        old = await mine.save(SHOP, "abc", origin=BY_ANN)
        clock.now_ms += 100_000
        new = await mine.save(SHOP, "abd", origin=BY_ANN)
        (found,) = await mine.recall(SHOP, "abc", wanted)
        assert found.note.id == new.id
        clock.now_ms += 50_000
        (found,) = await mine.recall(SHOP, "abc", Wanted(most=1))
        assert found.note.id == old.id
        await mine.recall(SHOP, "abc", Wanted(most=2, half_life_s=100))  # of use, both of them
        (found,) = await Memories(stores.memories, Letters(), clock).recall(SHOP, "abc", wanted)
        assert found.note.id == old.id

    valkey.run(scenario)


def test_words_of_any_script_find_a_note(valkey: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        mine = Memories(stores.memories, Letters())
        await mine.save(SHOP, "退货必须在十四天内申请", origin=BY_ANN, with_vector=False)
        await mine.save(SHOP, "Parcels were delayed", key="delays", origin=BY_ANN, with_vector=False)
        by_words = Wanted("words", threshold=0.2)
        assert [one.note.key for one in await mine.recall(SHOP, "is there a delay of the parcel?", by_words)] == [
            "delays"
        ]
        assert [one.note.key for one in await mine.recall(SHOP, "几天之内可以退货？", by_words)] == [""]
        assert await mine.recall(SHOP, "zzz", by_words) == []

    valkey.run(scenario)


def test_a_process_keeps_the_namespaces_used_last_and_reads_the_others_again(
    valkey: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known, "_KEPT", 2)

    async def scenario(stores: Stores) -> None:
        mine = Memories(stores.memories, Letters())
        spaces = [Namespace("user", user=str(n)) for n in range(4)]
        for space in spaces:
            await mine.save(space, f"about {space.user}", origin=BY_ANN)
        for space in spaces:
            await mine.all(space)
        assert list(mine._known._indexes) == [spaces[2].id, spaces[3].id]
        assert [note.content for note in await mine.all(spaces[0])] == ["about 0"]

    valkey.run(scenario)


class Interrupted(RedisMemoryStore):
    """Something happens once, between a write and its answer."""

    then: Callable[[], Awaitable[None]] | None = None

    async def write(self, namespace: str, writes: Sequence[Write]) -> Written:
        verdict = await super().write(namespace, writes)
        if (then := self.then) is not None:
            self.then = None
            await then()
        return verdict


def test_a_vector_that_was_made_late_never_comes_in_front_of_a_newer_note(valkey: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        other, store = Memories(stores.memories, Letters()), Interrupted(stores.client)
        mine = Memories(store, Letters())
        await other.save(SHOP, "closes at six", key="closing", origin=BY_ANN, with_vector=False)

        async def changed_by_another() -> None:
            await other.save(SHOP, "closes at eight", key="closing", origin=BY_ANN)
            await mine.all(SHOP)

        store.then = changed_by_another
        await mine.recall(SHOP, "closes", Wanted())
        assert [note.content for note in await mine.all(SHOP)] == ["closes at eight"]

    valkey.run(scenario)
