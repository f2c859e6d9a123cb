"""Leg 0 over the catalog in force: what it is routed by, and when it is given back."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

import ekiden.dispatcher.routing.rules
from ekiden.dispatcher.bootstrap import build
from ekiden.dispatcher.catalog_in_force import CatalogInForce, CurrentCatalogHandler
from ekiden.dispatcher.dispatch import DispatchHandler
from ekiden.dispatcher.routing.rules import RuleRouter
from ekiden.shared.definitions.catalog import Catalog
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.errors import CatalogNotReady, NoCatalog, UnreadableDefinition
from ekiden.shared.outcomes import Failed, Outcome, Suspended, Transfer
from ekiden.shared.records import JobRequested, LegSuspended
from ekiden.shared.settings.model import load_settings
from ekiden.shared.stores.opening import Stores
from tests.conftest import Backend
from tests.scenarios.relay import on_server
from tests.unit.test_dispatch import Leg, Session, catalog_of

OLD, NEW = catalog_of("billing"), catalog_of("billing", "debugger")
DEBUG = JobRequested(prompt="help", agent="debugger")


def handler(in_force: Callable[[], Awaitable[Catalog]]) -> CurrentCatalogHandler:
    routes = partial(DispatchHandler, router=RuleRouter(), fallback="none", sessions=Session())
    return CurrentCatalogHandler(in_force, routes)


async def run(leg: Leg, in_force: Callable[[], Awaitable[Catalog]]) -> Outcome:
    """Run the leg once; where it is given back, note that as the relay does."""
    outcome = await handler(in_force).run(cast(Any, leg))
    if isinstance(outcome, Suspended):
        leg.records.append(LegSuspended(cause=outcome.cause, delay_s=outcome.delay_s, detail=outcome.detail))
    return outcome


def always(catalog: Catalog | Exception) -> Callable[[], Awaitable[Catalog]]:
    async def in_force() -> Catalog:
        if isinstance(catalog, Exception):
            raise catalog
        return catalog

    return in_force


def test_a_job_is_pinned_to_the_catalog_in_force_when_it_comes() -> None:
    async def scenario() -> None:
        for catalog in (NEW, OLD):
            outcome = await run(Leg(JobRequested(prompt="help", agent="billing")), always(catalog))
            assert isinstance(outcome, Transfer)
            assert (outcome.catalog, outcome.definition) == (catalog.digest, catalog.digests["billing"])

    asyncio.run(scenario())


def test_an_agent_that_the_catalog_lacks_is_looked_for_again_and_then_refused_with_the_reason() -> None:
    async def scenario() -> None:
        leg = Leg(DEBUG)
        outcomes = [await run(leg, always(OLD)) for _ in range(4)]
        given_back = [one for one in outcomes if isinstance(one, Suspended)]
        assert [(one.cause, one.delay_s) for one in given_back] == [("catalog", 0.5), ("catalog", 1), ("catalog", 2)]
        assert given_back[0].detail == f"agent 'debugger' is not in catalog {OLD.digest[:12]}"
        assert isinstance(end := outcomes[-1], Failed)
        assert (end.reason, end.message) == (
            "NO_ROUTE",
            "No agent is named 'debugger'. The catalog has 'billing', 'router-agent'",
        )

    asyncio.run(scenario())


def test_an_agent_that_comes_meanwhile_gets_the_job() -> None:
    async def scenario() -> None:
        leg = Leg(DEBUG)
        assert isinstance(await run(leg, always(OLD)), Suspended)
        outcome = await run(leg, always(NEW))
        assert isinstance(outcome, Transfer)
        assert outcome.context.to_agent == "debugger"

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "trouble", [NoCatalog("none is in force"), CatalogNotReady("being learned"), UnreadableDefinition("too new")]
)
def test_a_catalog_that_is_not_to_be_had_here_gives_the_leg_back_for_as_long_as_that_lasts(trouble: Exception) -> None:
    async def scenario() -> None:
        leg = Leg(DEBUG)
        outcomes = [await run(leg, always(trouble)) for _ in range(9)]
        assert [(one.cause, one.detail) for one in outcomes if isinstance(one, Suspended)] == [
            ("catalog", str(trouble))
        ] * 9
        assert [one.delay_s for one in outcomes if isinstance(one, Suspended)][-2:] == [30, 30]
        assert isinstance(await run(leg, always(NEW)), Transfer)

    asyncio.run(scenario())


def test_what_keeps_many_jobs_waiting_is_logged_once() -> None:
    async def scenario() -> None:
        following = handler(always(NoCatalog("none is in force")))
        with capture_logs() as logs:
            for _ in range(3):
                await following.run(cast(Any, Leg(DEBUG)))
        assert [line["event"] for line in logs] == ["catalog_not_at_hand"]

    asyncio.run(scenario())


async def publish(stores: Stores, catalog: Catalog) -> None:
    await stores.catalogs.publish(*catalog.to_store(), replaces=await stores.catalogs.current())


def test_the_catalog_in_force_is_read_once_and_followed() -> None:
    async def scenario(stores: Stores) -> None:
        in_force = CatalogInForce(stores.catalogs)
        with pytest.raises(NoCatalog, match="ekiden catalog publish"):
            await in_force()
        await publish(stores, OLD)
        first = await in_force()
        assert (first, first.names) == (OLD, OLD.names)
        assert await in_force() is first
        await publish(stores, NEW)
        assert await in_force() == NEW
        await publish(stores, OLD)
        assert await in_force() is first, "the one before is at hand"

    on_server(scenario)


def test_a_job_is_pinned_to_the_digest_that_the_store_has_whatever_this_version_would_make_of_it() -> None:
    async def scenario(stores: Stores) -> None:
        text = OLD.definition("billing").to_json().replace("{", '{"a_later_field": 1, ', 1)
        await stores.catalogs.publish("c-later", {"billing": "d-later"}, {"d-later": text}, replaces=None)
        catalog = await CatalogInForce(stores.catalogs)()
        assert dict(catalog.digests) == {"billing": "d-later"}
        assert catalog.definition("billing").digest != "d-later"
        assert catalog.digest == Catalog({}, {"billing": "d-later"}).digest

    on_server(scenario)


def test_a_catalog_of_a_later_version_is_not_taken_for_another() -> None:
    async def scenario(stores: Stores) -> None:
        text = OLD.definition("billing").to_json().replace('"priority":50', '"priority":"utmost"')
        await stores.catalogs.publish("c-later", {"billing": "d-later"}, {"d-later": text}, replaces=None)
        in_force = CatalogInForce(stores.catalogs)
        for _ in range(2):
            with pytest.raises(UnreadableDefinition, match=r"'triggers\.priority'.*deploy"):
                await in_force()

    on_server(scenario)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project with an empty home."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


def test_a_dispatcher_publishes_before_its_first_leg_and_again_where_the_server_has_lost_everything(
    here: Path, valkey: Backend
) -> None:
    async def scenario(stores: Stores) -> None:
        served = await build(load_settings(), stores)
        assert served.begin is not None
        assert served.follow is not None
        assert await stores.catalogs.current() is None, "a process that runs single legs publishes nothing"
        await served.begin()
        digest = await stores.catalogs.current()
        assert digest is not None
        await stores.client.flushall()
        await served.follow(stores)
        assert await stores.catalogs.current() == digest

    valkey.run(scenario)


def test_a_dispatcher_gets_ready_for_a_new_catalog_before_a_request_comes(
    here: Path, valkey: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[list[str]] = []
    rules = ekiden.dispatcher.routing.rules._Rules

    def noted(agents: list[AgentDefinition]) -> Any:
        compiled.append([agent.name for agent in agents])
        return rules(agents)

    monkeypatch.setattr("ekiden.dispatcher.routing.rules._Rules", noted)

    async def scenario(stores: Stores) -> None:
        served = await build(load_settings(), stores)
        assert served.follow is not None
        await publish(stores, OLD)
        for _ in range(2):
            await served.follow(stores)
        assert compiled == [["billing"]]
        await publish(stores, NEW)
        await served.follow(stores)
        assert compiled == [["billing"], ["billing", "debugger"]]

    valkey.run(scenario)
