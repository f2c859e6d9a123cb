"""``ekiden.run`` and ``ekiden.arun`` in this process, with real pools below it."""

import asyncio
import re
from pathlib import Path

import pytest

import ekiden as package
from ekiden.shared.embedded import attach
from tests.e2e.program import PATIENCE_S, SLOW_SCRIPT, Program

PAGE = Path(__file__).parents[2] / "docs" / "python.md"


@pytest.fixture
def here(ekiden: Program, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Let this process be in the program's folder, with its environment."""
    assert ekiden.run("--version").returncode == 0  # whatever tests start programs with has its own environment by now
    for name in ("HOME", "TMPDIR", "EKIDEN_DATA_DIR"):
        monkeypatch.setenv(name, ekiden.env[name])
    monkeypatch.chdir(ekiden.folder)
    return ekiden


def example() -> str:
    found = re.search(
        r"<!-- not run: tests/e2e/test_embedding.py does -->\n```python\n(.*?)```", PAGE.read_text(), re.DOTALL
    )
    assert found is not None
    return found[1]


def test_the_example_of_the_page_answers_in_a_folder_that_init_has_made(here: Program) -> None:
    assert here.run("init", "support").returncode == 0
    names: dict[str, object] = {}
    exec(example(), names)
    result = names["result"]
    assert isinstance(result, package.Result)
    assert "order 1001: sent on Monday" in result.answer
    assert result.chain == ("frontdesk", "orders")
    assert result.problems == ()
    assert result.job in here.run("jobs").stdout
    here.wait_until_gone()


def test_a_cancelled_call_cancels_its_job_and_leaves_no_pool_behind(
    here: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EKIDEN_SCRIPTS_DIR", here.scripts(SLOW_SCRIPT)["EKIDEN_SCRIPTS_DIR"])

    async def scenario() -> None:
        call = asyncio.create_task(package.arun("it fails", agent="debugger"))
        with attach(here.data) as server:
            async with asyncio.timeout(PATIENCE_S), package.Client(server.url) as client:
                while [job.status for job in await client.jobs()] != ["running"]:  # noqa: ASYNC110 - another process's
                    await asyncio.sleep(0.02)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(scenario())
    assert '"status": "cancelled"' in here.run("jobs", "--json").stdout
    here.wait_until_gone()
