"""What routers are shown of a catalog, with what was learned."""

import asyncio

import pytest

from ekiden.dispatcher.learning.taught import taught
from ekiden.dispatcher.learning.taught_catalog import TaughtCatalogs
from ekiden.dispatcher.routing.semantic import SemanticRouter
from ekiden.shared.definitions.catalog import Catalog, build_catalog
from ekiden.shared.definitions.parsing import definition_from
from ekiden.shared.errors import CatalogNotReady
from ekiden.shared.lessons import Lesson, State, taken_in
from ekiden.shared.stores.opening import Stores
from tests.scenarios.relay import on_server

AGENTS = {
    "debugger": ("Finds bugs in programs.", ["the program crashes", "why does this raise an error"]),
    "billing": ("Handles payments.", ["refund my order", "I was charged twice"]),
}
CATALOG = build_catalog(
    [
        definition_from({"name": name, "description": about, "triggers": {"examples": examples}}, "x")
        for name, (about, examples) in AGENTS.items()
    ]
)[0]


def lesson(text: str = "the money has not come", agent: str = "billing", **fields: object) -> Lesson:
    return Lesson.model_validate({"text": text, "agent": agent, "evidence": "named", "at_ms": 1, **fields})


def examples(catalog: Catalog, agent: str = "billing") -> tuple[str, ...]:
    return catalog.agents[agent].triggers.examples[2:]


def test_lessons_are_further_examples_and_the_files_catalog_stays_what_it_is() -> None:
    digest = CATALOG.digest

    found = taught(CATALOG, [lesson()])

    assert examples(found) == ("the money has not come",)
    assert found.digest != digest
    assert found.agents["billing"].digest != CATALOG.agents["billing"].digest
    assert found.agents["debugger"] is CATALOG.agents["debugger"]
    assert (CATALOG.digest, examples(CATALOG)) == (digest, ())


@pytest.mark.parametrize(("state", "at_once", "once_accepted"), [("new", 1, 0), ("accepted", 1, 1), ("refused", 0, 0)])
def test_what_counts_is_what_people_have_not_refused_or_have_accepted(
    state: State, at_once: int, once_accepted: int
) -> None:
    learned = [lesson(state=state)]

    assert len(examples(taught(CATALOG, learned))) == at_once
    assert len(examples(taught(CATALOG, learned, accepted_only=True))) == once_accepted


def test_what_a_file_says_stands_and_agents_that_are_gone_learn_nothing() -> None:
    assert taught(CATALOG, [lesson("Refund my order!", "debugger"), lesson(agent="gone")]) is CATALOG


def test_where_users_contradict_each_other_the_stronger_evidence_counts_then_the_newer() -> None:
    weak = lesson(agent="debugger", evidence="answered", user="ann", at_ms=9)
    assert examples(taught(CATALOG, [weak, lesson(user="bob")])) == ("the money has not come",)

    later = lesson(agent="debugger", user="ann", at_ms=9)
    assert examples(taught(CATALOG, [later, lesson(user="bob")])) == ()


def test_a_corrected_request_is_found_the_next_time() -> None:
    router = SemanticRouter()

    async def best(catalog: Catalog) -> str:
        return (await router.route("why does my payslip raise an error", catalog)).candidates[0].agent

    async def scenario() -> None:
        assert await best(CATALOG) == "debugger"
        assert await best(taught(CATALOG, [lesson("Why does my payslip raise an error?")])) == "billing"

    asyncio.run(scenario())


def test_until_what_is_new_has_been_prepared_requests_go_by_what_was_known() -> None:
    prepared: list[Catalog] = []
    is_slow = [True]

    async def prepare(catalog: Catalog) -> None:
        prepared.append(catalog)
        if is_slow[0]:
            raise CatalogNotReady("still being learned")

    async def scenario(stores: Stores) -> None:
        catalogs = TaughtCatalogs(stores.lessons, "on", prepare)
        assert await catalogs(CATALOG) is CATALOG
        await catalogs.follow(CATALOG)
        assert prepared == []

        await stores.lessons.change(lambda known: taken_in(known, [lesson()]))
        with pytest.raises(CatalogNotReady):
            await catalogs.follow(CATALOG)
        assert await catalogs(CATALOG) is CATALOG
        is_slow[0] = False
        await catalogs.follow(CATALOG)
        assert await catalogs(CATALOG) is prepared[-1]
        assert examples(prepared[-1]) == ("the money has not come",)

    on_server(scenario)


@pytest.mark.parametrize(("mode", "expected"), [("on", 1), ("suggest", 0), ("off", 0)])
def test_the_setting_says_what_counts(mode: str, expected: int) -> None:
    async def nothing(catalog: Catalog) -> None:
        raise AssertionError(catalog)

    async def scenario(stores: Stores) -> None:
        await stores.lessons.change(lambda known: taken_in(known, [lesson()]))
        catalogs = TaughtCatalogs(stores.lessons, mode, nothing)  # type: ignore[arg-type]  # of the table
        assert len(examples(await catalogs(CATALOG))) == expected
        assert await catalogs(CATALOG) is await catalogs(CATALOG)

    on_server(scenario)
