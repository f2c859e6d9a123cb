"""The stand-in's own lines for the router: they know the agents of the software pack by some words, and say so."""

import asyncio

import pytest

from ekiden.dispatcher.routing.base import NO_CONTEXT, RequestContext, RoutingResult
from ekiden.dispatcher.routing.llm import ModelRouter, RouterModel
from ekiden.dispatcher.routing.rules import RuleRouter
from ekiden.shared.definitions.catalog import Catalog, build_catalog
from ekiden.shared.definitions.loader import load_folder
from ekiden.shared.definitions.parsing import definition_from
from ekiden.shared.llm.scripted import ScriptedModel
from ekiden.shared.packs import shipped_agents_dir


def routed(prompt: str, catalog: Catalog, context: RequestContext = NO_CONTEXT) -> RoutingResult:
    model = ScriptedModel.from_folders(shipped_agents_dir() / "_scripts")
    router = ModelRouter(lambda _: RouterModel(model, "scripted"), RuleRouter())
    return asyncio.run(router.route(prompt, catalog, context))


@pytest.fixture(scope="module")
def shipped() -> Catalog:
    return build_catalog(load_folder(shipped_agents_dir() / "software", "global").definitions)[0]


@pytest.mark.parametrize(
    ("prompt", "agent", "word"),
    [
        ("这个 TypeError 怎么解决？", "debugger", "TypeError"),
        ("Please add some tests for the parser", "test-writer", "add some tests"),
        ("review my change", "reviewer", "review"),
        ("Is the login SECURE?", "security-auditor", "SECURE"),
        ("make it faster", "performance-optimizer", "faster"),
        ("the README is out of date", "documenter", "README"),
        ("repair line 3", "code-fixer", "repair"),
        ("where are the retries handled?", "codebase-investigator", "where are"),
    ],
)
def test_the_agent_whose_words_occur_is_called_and_the_stand_in_says_what_it_is(
    shipped: Catalog, prompt: str, agent: str, word: str
) -> None:
    route = routed(prompt, shipped).route

    assert route is not None
    assert route.agent == agent
    assert route.reason == f"The request says `{word}`; chosen by a scripted stand-in for a model."


def test_what_has_none_of_the_words_is_nobodys(shipped: Catalog) -> None:
    result = routed("why is the sky blue", shipped, RequestContext(("the tests fail",)))

    assert result.route is None
    assert "a scripted stand-in for a model" in result.stages[0].note


def test_agents_that_are_not_there_are_not_called() -> None:
    catalog = build_catalog([definition_from({"name": "parcels", "description": "Finds parcels."}, "x")])[0]

    assert routed("the tests fail", catalog).route is None
