"""Routers of other packages are strategies like ours; what goes wrong in one is no choice."""

import asyncio
from pathlib import Path

import pytest

from ekiden.dispatcher.routing import plugin_routers
from ekiden.dispatcher.routing.base import RoutingResult
from ekiden.dispatcher.routing.strategies import Strategies
from ekiden.dispatcher.routing_bootstrap import strategies_of, strategy_in_force
from ekiden.shared.definitions.catalog import Catalog, build_catalog
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.errors import ConfigurationError
from ekiden.shared.settings.files import change_setting, project_file
from ekiden.shared.settings.model import load_settings
from tests.unit.conftest import Install

ROUTERS = """
import asyncio

from ekiden.dispatcher.routing.base import Route, RoutingResult


class LongestName:
    async def route(self, prompt, catalog, around=None):
        agent = max(catalog.names, key=len)
        return RoutingResult(route=Route(agent=agent, stage="longest-name", score=1.0, confidence=100.0))


class Absent:
    async def route(self, prompt, catalog, around=None):
        return RoutingResult(route=Route(agent="nobody", stage="absent", score=1.0, confidence=100.0))


class Broken:
    async def route(self, prompt, catalog, around=None):
        raise ValueError("password=hunter22hunter22")


class Exits:
    async def route(self, prompt, catalog, around=None):
        raise SystemExit(3)


class Cancels:
    async def route(self, prompt, catalog, around=None):
        raise asyncio.CancelledError


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no text")


class Mute:
    async def route(self, prompt, catalog, around=None):
        raise Unprintable


class Slow:
    async def route(self, prompt, catalog, around=None):
        await asyncio.Event().wait()


class Wrong:
    async def route(self, prompt, catalog, around=None):
        return "debugger"


number = 7
"""


@pytest.fixture
def strategies(install: Install) -> Strategies:
    attributes = {
        "longest-name": "LongestName",
        "absent": "Absent",
        "broken": "Broken",
        "wrong": "Wrong",
        "exits": "Exits",
        "cancels": "Cancels",
        "mute": "Mute",
        "slow": "Slow",
        "n": "number",
    }
    install("my-routers", ROUTERS, routers={**attributes, "rule": "LongestName"})
    return strategies_of(load_settings(routers_packages=["my-routers"]))


def catalog() -> Catalog:
    agents = [
        AgentDefinition(name=name, title=name, description="x", instructions="x") for name in ("debugger", "code-fixer")
    ]
    return build_catalog(agents)[0]


def route(strategies: Strategies, name: str) -> RoutingResult:
    return asyncio.run(strategies[name].route("the tests fail", catalog()))


def test_a_router_of_a_plug_in_is_a_strategy_by_the_name_of_its_entry_point(strategies: Strategies) -> None:
    ours, faulty = (
        {"rule", "semantic", "llm", "hybrid"},
        {"absent", "broken", "wrong", "exits", "cancels", "mute", "slow"},
    )
    assert set(strategies) == ours | faulty | {"longest-name"}
    found = route(strategies, "longest-name").route
    assert found is not None
    assert (found.agent, found.stage) == ("code-fixer", "longest-name")


def test_what_is_no_router_and_what_takes_a_name_of_ours_is_told(strategies: Strategies) -> None:
    first, second = strategies.problems
    assert "(my_routers:number) is of the type int, where a Router is expected" in first
    assert "'rule' of my-routers 1.2 (my_routers:LongestName) is a name of Ekiden's own" in second


@pytest.mark.parametrize(
    ("name", "note"),
    [
        ("absent", "it chose 'nobody', which no request goes to here"),
        ("broken", "the router failed: ValueError: password=[redacted]"),
        ("wrong", "the router failed: TypeError: a router answers with a RoutingResult, not with str"),
        ("exits", "the router failed: SystemExit: 3"),
        ("cancels", "the router failed: CancelledError: "),
        ("mute", "the router failed: Unprintable: (its text cannot be had)"),
    ],
)
def test_what_goes_wrong_in_a_plug_ins_router_is_no_choice(strategies: Strategies, name: str, note: str) -> None:
    result = route(strategies, name)
    assert result.route is None
    assert [(stage.stage, stage.note) for stage in result.stages] == [(name, note)]


def test_a_request_that_is_stopped_is_no_fault_of_the_router(strategies: Strategies) -> None:
    async def stopped() -> None:
        task = asyncio.create_task(strategies["slow"].route("the tests fail", catalog()))
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(stopped())


def test_a_plug_ins_router_is_not_waited_for_without_end(
    strategies: Strategies, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin_routers, "MAX_WAIT_S", 0.01)
    (stage,) = route(strategies, "slow").stages
    assert stage.note.startswith("the router failed: TimeoutError")


def test_the_settings_may_choose_it_and_a_strategy_that_nobody_has_is_told_with_its_place(
    strategies: Strategies,
) -> None:
    assert strategy_in_force(load_settings(routing_strategy="longest-name"), strategies) == "longest-name"
    with pytest.raises(
        ConfigurationError, match=r"agents\.routing\.strategy.*'longest-nam'.*did you mean 'longest-name'"
    ):
        strategy_in_force(load_settings(routing_strategy="longest-nam"), strategies)


def test_a_strategy_that_a_folder_names_and_nobody_has_stops_nobody_until_it_is_trusted(
    strategies: Strategies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "clone" / ".git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "clone")
    change_setting(project_file(), "agents.routing.strategy", "no-such")
    with pytest.raises(ConfigurationError, match="no-such"):
        strategy_in_force(load_settings(), strategies)
    monkeypatch.delenv("EKIDEN_TRUST")
    assert strategy_in_force(load_settings(), strategies) == "hybrid"
    assert "ignored settings agents.routing.strategy, whose values are wrong" in capsys.readouterr().err
