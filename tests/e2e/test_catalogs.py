"""One catalog in force: pools with different agent files, deploys while jobs run, and the way back."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from ekiden.dispatcher.client import Client
from ekiden.shared.errors import UnknownAgent
from ekiden.shared.stores.views import JobView
from tests.e2e.program import ANSWER_SCRIPT, Program, wait_until

T = TypeVar("T")

EACH = 24
RELAY_SCRIPT = """
agents:
  first:
    - {name: pass-on, delay_s: 2, call: [{tool: transfer_to_second, args: {reason: it is yours}}]}
  "*":
    - {name: answer, say: "done by ${agent}"}
"""


def write_agent(folder: Path, name: str, front: str = "") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    front = f'name: {name}\ndescription: The {name}.\ntools: []\ntriggers: {{patterns: ["{name}!"]}}\n{front}'
    (folder / f"{name}.md").write_text(f"---\n{front}---\nWork.\n")


def own_agents(ekiden: Program) -> Path:
    return ekiden.folder / ".gemini" / "agents"


def ask(url: str, question: Callable[[Client], Awaitable[T]]) -> T:
    async def whole() -> T:
        async with Client(url) as client:
            return await question(client)

    return asyncio.run(whole())


def wait_for(url: str, condition: Callable[[Client], Awaitable[object]], what: str) -> None:
    wait_until(lambda: ask(url, condition), what=what)


async def done(client: Client, job: str) -> JobView:
    return await asyncio.wait_for(client.wait(job), 90)


def said(ekiden: Program, *words: str) -> dict[str, Any]:
    """Run a catalog command and return what it says as JSON."""
    answer = ekiden.run("catalog", *words, "--json")
    assert answer.returncode == 0, answer.stderr
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


def test_two_dispatchers_with_different_files_route_every_job_by_the_catalog_in_force(
    ekiden: Program, redis_url: str, tmp_path: Path
) -> None:
    ekiden.env |= ekiden.scripts(ANSWER_SCRIPT)
    for folder, names in (("old", ["alpha"]), ("new", ["alpha", "zeta"]), ("other", ["omega"])):
        for name in names:
            write_agent(tmp_path / folder, name)
    ekiden.start("dispatcher", "--agents-dir", tmp_path / "old")
    ekiden.start("worker")
    wait_for(redis_url, lambda client: has_pools(client, 2), "the first two pools")
    ekiden.start("dispatcher", "--agents-dir", tmp_path / "new", "--publish")
    other = ekiden.start("dispatcher", "--agents-dir", tmp_path / "other")
    wait_for(redis_url, lambda client: has_pools(client, 4), "the other two dispatchers")
    other.wait_for("catalog_differs")
    assert "added omega; removed alpha" in other.output

    async def all_of_them(client: Client) -> Counter[tuple[str, str | None, str | None]]:
        named = [client.submit("go", agent=name) for _ in range(EACH // 2) for name in ("alpha", "zeta")]
        routed = [client.submit(f"{name}!") for _ in range(EACH // 2) for name in ("alpha", "zeta")]
        jobs = await asyncio.gather(*named, *routed)
        views = await asyncio.gather(*(done(client, job) for job in jobs))
        assert len({view.catalog for view in views}) == 1
        return Counter((view.agent, view.status, view.result) for view in views)

    assert ask(redis_url, all_of_them) == {
        ("alpha", "done", "forty-two, says alpha"): EACH,
        ("zeta", "done", "forty-two, says zeta"): EACH,
    }
    with pytest.raises(UnknownAgent):
        ask(redis_url, lambda client: client.submit("go", agent="omega"))


async def has_pools(client: Client, count: int) -> bool:
    return len(await client.pools()) >= count


def test_a_deploy_changes_nothing_for_running_jobs_and_can_be_rolled_back(ekiden: Program, redis_url: str) -> None:
    ekiden.env |= ekiden.scripts(RELAY_SCRIPT)
    write_agent(own_agents(ekiden), "first", "handoffs: [{to: second}]\n")
    write_agent(own_agents(ekiden), "second")
    ekiden.start("dispatcher")
    worker = ekiden.start("worker")
    wait_for(redis_url, lambda client: has_pools(client, 2), "the pools")
    before = said(ekiden, "show")["catalog"]
    running = ask(redis_url, lambda client: client.submit("go", agent="first"))
    wait_for(redis_url, lambda client: is_at(client, running, "first"), "the first agent")

    write_agent(own_agents(ekiden), "first", "version: 2.0.0\n")  # hands over to nobody any more
    (own_agents(ekiden) / "second.md").unlink()
    write_agent(own_agents(ekiden), "third")
    published = said(ekiden, "publish")
    assert (published["added"], published["removed"], published["changed"]) == (["third"], ["second"], ["first"])
    worker.process.kill()
    worker.ends()
    ekiden.start("worker")  # one that never saw the old catalog in force serves its agents while jobs need them

    old = ask(redis_url, lambda client: done(client, running))
    assert (old.status, old.result, old.catalog) == ("done", "done by second", before)
    new = ask(redis_url, submitted_and_done("third"))
    assert (new.result, new.catalog) == ("done by third", published["catalog"])
    with pytest.raises(UnknownAgent):
        ask(redis_url, lambda client: client.submit("go", agent="second"))

    rolled_back = said(ekiden, "rollback")
    assert (rolled_back["catalog"], rolled_back["replaced"]) == (before, published["catalog"])
    again = ask(redis_url, submitted_and_done("second"))
    assert (again.result, again.catalog) == ("done by second", before)


def submitted_and_done(agent: str) -> Callable[[Client], Awaitable[JobView]]:
    async def whole(client: Client) -> JobView:
        return await done(client, await client.submit("go", agent=agent))

    return whole


async def is_at(client: Client, job: str, agent: str) -> bool:
    view = await client.job(job)
    return (view.status, view.agent) == ("running", agent)
