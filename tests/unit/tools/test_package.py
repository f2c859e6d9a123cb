"""The package that ``docs/tools.md`` shows: built, installed by pip, announced and called."""

import asyncio
import re
import shutil
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from ekiden.shared import plugins
from ekiden.shared.messages import ToolCall
from ekiden.shared.settings.plugins import Allowed
from ekiden.workers.tools.base import ToolContext
from ekiden.workers.tools.registry import plugin_tools
from ekiden.workers.tools.running import Running, Shown
from ekiden.workers.tools.tool_runner import ToolRunner
from tests.distributions import install_wheel, place_distribution

PAGE = (Path(__file__).parents[3] / "docs" / "tools.md").read_text("utf-8")


def example(name: str) -> str:
    found = re.search(rf"<!-- tool: {re.escape(name)} -->\n```\w+\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None, name
    return found[1]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pip has put it."""
    folder = tmp_path_factory.mktemp("made") / "site"
    project = tomllib.loads(example("pyproject.toml"))["project"]
    install_wheel(folder, project["name"], example("text_tools.py"), project["version"], project["entry-points"])
    return folder


@pytest.fixture
def site(installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = Path(shutil.copytree(installed, tmp_path / "site"))
    monkeypatch.syspath_prepend(str(folder))
    plugins.fetch.cache_clear()
    monkeypatch.delitem(sys.modules, "text_tools", raising=False)
    return folder


def test_the_package_of_the_page_is_short_and_its_tool_works(site: Path, context: ToolContext) -> None:
    assert sum(bool(line.strip()) for line in (example("pyproject.toml") + example("text_tools.py")).splitlines()) <= 20
    [found], problems = plugin_tools(Allowed(packages=("text-tools",)), ())
    assert problems == ()
    assert (found.package, found.version, found.risk, len(found.view.digest)) == ("text-tools", "1.0", "safe", 16)
    shown: list[Shown] = []

    async def call() -> str:
        made = ToolCall(id="c", name="word_count", args={"text": "a bb ccc", "least": 2})
        result = await ToolRunner([found]).run(made, replace(context, running=Running(shown.append)))
        await asyncio.sleep(0)
        return result.content

    assert asyncio.run(call()) == "2"
    assert shown == [Shown("", 1.0, "2 words")]


def test_a_name_in_two_places_is_refused_in_both_and_both_are_named(site: Path) -> None:
    place_distribution(site, "others", "from text_tools import word_count\n", "3.0", {
        "ekiden.tools": {"word_count": "others:word_count"}
    })  # fmt: skip
    tools, [problem] = plugin_tools(Allowed(packages=("text-tools", "others")), ())
    assert tools == []
    assert "'word_count' is brought by" in problem
    assert "text-tools 1.0" in problem
    assert "others 3.0" in problem
