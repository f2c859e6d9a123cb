"""A dispatcher that learns while it runs."""

from pathlib import Path
from typing import Any, cast

import pytest

from ekiden.dispatcher import bootstrap
from ekiden.dispatcher.bootstrap import build
from ekiden.shared.outcomes import Failed, Outcome, Suspended, Transfer
from ekiden.shared.records import JobRequested
from ekiden.shared.settings.model import load_settings
from ekiden.shared.stores.opening import Stores
from tests.conftest import Backend
from tests.contract.test_lessons import answer, ask
from tests.unit.learning.test_taught_catalog import CATALOG
from tests.unit.test_catalog_in_force import publish
from tests.unit.test_dispatch import Leg

SKY = "What makes the evening sky so red?"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty project with an empty home, in which nobody waits for a pool that plays models: there is none."""
    monkeypatch.setattr(bootstrap, "has_model", lambda _: True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.mark.parametrize(("mode", "learns"), [("on", True), ("suggest", False), ("off", False)])
def test_it_learns_by_itself_where_that_is_on_and_routes_by_it(mode: str, learns: bool, valkey: Backend) -> None:
    async def scenario(stores: Stores) -> None:
        served = await build(load_settings(routing_learn=mode), stores)
        assert served.begin is not None
        assert served.follow is not None
        await publish(stores, CATALOG)
        await served.begin()

        async def routed() -> Outcome:
            leg = Leg(JobRequested(prompt=SKY), job="abcdefghijklmnop.1")
            while isinstance(outcome := await served.handler.run(cast(Any, leg)), Suspended):
                pass  # a busy machine takes its time to learn a catalog
            return outcome

        assert isinstance(await routed(), Failed)
        await answer(stores, await ask(stores, SKY, "r1"), "debugger", "billing", stage="rule")
        await served.follow(stores)

        assert [one.agent for one in (await stores.lessons.known()).lessons.values()] == ["billing"] * learns
        outcome = await routed()
        assert (isinstance(outcome, Transfer) and outcome.context.to_agent) == ("billing" if learns else False)

    valkey.run(scenario)
