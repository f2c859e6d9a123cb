"""Who follows a job is told when the server has gone back in time, and sees the job to its end."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from ekiden.shared.records import Noticed
from ekiden.shared.stores.base import Claimed
from ekiden.shared.stores.opening import Stores, open_stores
from tests.contract.relay_world import claimed, done, submitted
from tests.e2e.program import Program
from tests.integration.proxy import Server


def on(server: Server, work: Callable[[Stores], Awaitable[str]]) -> str:
    async def whole() -> str:
        stores = open_stores(server.url)
        try:
            return await work(stores)
        finally:
            await stores.close()

    return asyncio.run(whole())


async def notice(stores: Stores, job: str, text: str) -> Claimed:
    leg = await claimed(stores, job, text)
    await stores.jobs.append(leg.lease, "1", [Noticed(text=text)], used_ms=0, is_progress=True)
    return leg


@pytest.mark.parametrize("as_json", [False, True])
def test_following_goes_on_with_what_a_server_still_has(ekiden: Program, tmp_path: Path, as_json: bool) -> None:
    async def work_that_is_forgotten(stores: Stores) -> str:
        await notice(stores, job, "void step")
        return job

    async def work_that_stands(stores: Stores) -> str:
        leg = await notice(stores, job, "valid step")
        await stores.jobs.finish(leg.lease, "end", [done("42", leg=0)], [])
        return job

    (tmp_path / "server").mkdir()
    server = Server(tmp_path / "server")
    try:
        job = on(server, submitted)
        before = server.written()
        on(server, work_that_is_forgotten)
        following = ekiden.start("job", "follow", job, "--redis", server.url, *(["--json"] if as_json else []))
        following.wait_for("void step")
        server.go_back(before)
        following.wait_for("the server went back in time: steps 2 to 3 are forgotten")
        on(server, work_that_stands)
        assert following.ends() == 0
        assert "valid step" in following.output
        assert following.output.count("went back in time") == 1
        assert "Traceback" not in following.output
    finally:
        server.kill()
