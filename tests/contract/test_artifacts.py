"""What jobs keep beside their journals."""

import pytest

from ekiden.shared.relay.live import Live
from ekiden.shared.stores import artifacts, keys
from ekiden.shared.stores.base import Lease
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.redis import as_any
from ekiden.shared.stores.views import LivePiece
from tests.conftest import Backend

JOB = "aaaaaaaaaaaaaaaa.1"


@pytest.mark.parametrize("content", ["", "héllo\n", b"", b"\x00\xff\x89PNG", "x" * 2_000_000])
def test_what_is_kept_is_read_by_its_reference_and_lives_as_long_as_the_journal(
    content: str | bytes, backend: Backend
) -> None:
    async def scenario(stores: Stores) -> None:
        ref = await stores.artifacts.keep(JOB, content)
        assert ref is not None
        assert await stores.artifacts.read(JOB, ref) == content
        assert await stores.artifacts.keep(JOB, content) == ref, "the same content is kept once"
        assert await stores.artifacts.read("bbbbbbbbbbbbbbbb.1", ref) is None
        assert 0 < await as_any(stores.client.ttl(keys.blobs(JOB))) <= keys.SESSION_TTL_S

    backend.run(scenario)


def test_what_is_no_reference_or_was_changed_is_not_there(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        ref = await stores.artifacts.keep(JOB, "text")
        for other in ("", "kept_bytes", "0" * 32, "x" * 10_000):
            assert await stores.artifacts.read(JOB, other) is None
        await as_any(stores.client.hset(keys.blobs(JOB), str(ref), "tanother text"))
        assert await stores.artifacts.read(JOB, str(ref)) is None

    backend.run(scenario)


def test_what_servers_offered_is_kept_once_for_all_jobs_and_is_what_was_kept_or_nothing(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        digest = await stores.listings.keep('{"tools": "日"}')
        key = keys.listing(f"offered:{digest}")
        assert await stores.listings.kept(digest) == '{"tools": "日"}'
        assert 0 < await as_any(stores.client.ttl(key)) <= keys.SESSION_TTL_S
        await as_any(stores.client.set(key, "other", ex=60))
        assert await stores.listings.keep('{"tools": "日"}') == digest
        assert await as_any(stores.client.get(key)) == "other", "what was kept lately costs no second write"
        assert await stores.listings.kept(digest) is None
        assert await stores.listings.kept("0" * 64) is None

    backend.run(scenario)


def test_a_job_keeps_so_much_and_no_more(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "MOST_BYTES", 100)

    async def scenario(stores: Stores) -> None:
        assert await stores.artifacts.keep(JOB, "x" * 60) is not None
        assert await stores.artifacts.keep(JOB, "y" * 60) is None
        assert await stores.artifacts.keep(JOB, "z" * 30) is not None

    backend.run(scenario)


def test_what_a_tool_shows_reaches_the_stream_beside_what_its_model_wrote(backend: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        live = Live(stores.live, Lease(JOB, 1, "7"))
        live.begin(1)
        live.show("c1", "one ")
        live.show("c1", "two")
        live.show("c2", "other")
        live.show("c1", "half", 0.5)
        live.show("c1", "three")
        place, pieces = "0", list[LivePiece]()
        while len(pieces) < 4:
            place, more = await stores.live.read(JOB, place, wait_s=5.0)
            assert more, pieces
            pieces += more
        assert [(one.call, one.text, one.progress) for one in pieces] == [
            ("c1", "one two", None),
            ("c2", "other", None),
            ("c1", "half", 0.5),
            ("c1", "three", None),
        ]

    backend.run(scenario)
