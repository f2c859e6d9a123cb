"""What users ask first goes to an agent of the shipped team that a developer would accept: by the real encoder."""

import asyncio
import json
import re
from pathlib import Path

import pytest
import yaml

from ekiden.dispatcher.routing.base import NO_CONTEXT
from ekiden.dispatcher.routing.strategies import RoutingValues, routers
from ekiden.shared.definitions.catalog import Catalog, build_catalog
from ekiden.shared.definitions.loader import SHIPPED, load_folder
from ekiden.shared.definitions.parsing import definition_from

ROOT = Path(__file__).parents[3]
TEAM = ROOT / "agents" / "software"
ASKED = [json.loads(line) for line in Path(__file__).with_name("first_requests.jsonl").read_text("utf-8").splitlines()]
FOR_THE_STAND_IN = ("fix the failing tests", "fix my tests", "修复失败的测试")
NOBODYS = ("hello, how are you", "what is the capital of mongolia", "write a poem about the sea", "给我讲个笑话")


def test_first_requests_reach_an_agent_that_a_developer_would_accept() -> None:
    catalog = build_catalog(load_folder(TEAM, SHIPPED).definitions)[0]
    router = routers(RoutingValues())["hybrid"]

    async def chosen(text: str) -> str | None:
        route = (await router.route(text, catalog, NO_CONTEXT)).route
        return route.agent if route else None

    async def scenario() -> None:
        went = {row["text"]: await chosen(row["text"]) for row in ASKED}
        wrong = {row["text"]: went[row["text"]] for row in ASKED if went[row["text"]] not in row["takes"]}
        assert len(ASKED) >= 60
        assert len(wrong) <= len(ASKED) / 10, wrong
        assert {went[text] for text in FOR_THE_STAND_IN} <= {"debugger", "code-fixer"}
        assert [text for text in NOBODYS if await chosen(text) is not None] == []

    asyncio.run(scenario())


FOR_BILLING = (
    "Where is my invoice?",
    "I want a refund",
    "my bill is wrong, I was charged twice",
    "我的发票在哪里？",
    "我要退款",
    "我的账单不对，被扣了两次钱",
)
FOR_THE_SOFTWARE_TEAM = {
    "fix the failing test in invoice.py": "debugger",
    "write unit tests for the parser": "test-writer",
}


def test_the_team_of_the_readme_is_found_alone_and_beside_the_shipped_one() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    files = [text.partition("\n---\n") for text in re.findall(r"```markdown\n---\n(.*?)```", readme, re.DOTALL)]
    own = [definition_from(yaml.safe_load(front), body) for front, _, body in files]
    both = [*own, *load_folder(TEAM, SHIPPED).definitions]
    router = routers(RoutingValues())["hybrid"]

    async def chosen(text: str, catalog: Catalog) -> str | None:
        route = (await router.route(text, catalog, NO_CONTEXT)).route
        return route.agent if route else None

    async def scenario() -> None:
        for catalog in (build_catalog(own)[0], build_catalog(both)[0]):
            assert {text: await chosen(text, catalog) for text in FOR_BILLING} == dict.fromkeys(FOR_BILLING, "billing")
        assert {text: await chosen(text, catalog) for text in FOR_THE_SOFTWARE_TEAM} == FOR_THE_SOFTWARE_TEAM

    asyncio.run(scenario())


FOR_TEAMS_OF_OTHER_TRADES = {
    "support": {
        "where is my parcel?": "frontdesk",
        "why has my order not arrived yet?": "frontdesk",
        "change the delivery address of my order": "orders",
        "you charged my card twice, please fix it": "refunds",
        "please review my refund": "refunds",
        "为什么退款失败了": "refunds",
        "我的包裹怎么还没到": "frontdesk",
    },
    "travel": {
        "plan a trip to rome": "concierge",
        "change my flight to friday": "concierge",
        "check the weather in Kyoto": "guide",
        "修改一下我的行程": "concierge",
        "帮我看看明天的天气": "guide",
    },
}


@pytest.mark.parametrize("trade", FOR_TEAMS_OF_OTHER_TRADES)
def test_the_shipped_team_takes_no_requests_from_a_team_of_another_trade(trade: str) -> None:
    files = yaml.safe_load((ROOT / f"agents/_projects/{trade}.yaml").read_text("utf-8"))["files"]
    fronts = [text.split("---\n", 2)[1:] for name, text in files.items() if name.startswith(".gemini/agents/")]
    own = [definition_from(yaml.safe_load(front), body) for front, body in fronts]
    catalog = build_catalog([*own, *load_folder(TEAM, SHIPPED).definitions])[0]
    router = routers(RoutingValues())["hybrid"]
    asked = FOR_TEAMS_OF_OTHER_TRADES[trade]

    async def scenario() -> dict[str, str | None]:
        routes = {text: (await router.route(text, catalog, NO_CONTEXT)).route for text in asked}
        return {text: route.agent if route else None for text, route in routes.items()}

    assert asyncio.run(scenario()) == asked


SERVICES = {
    "parcels": "Finds out where parcels are, and answers complaints about deliveries.",
    "payments": "Answers questions about payments, cards and refunds.",
    "internet": "Helps customers with their internet connection and their router.",
    "gym": "Trainer: makes workout plans and says how to eat.",
}
WITH_WORDS_OF_SOFTWARE_WORK = {
    "my parcel is very slow": "parcels",
    "my internet is so slow": "internet",
    "optimize my workout plan": "gym",
    "the build is slow, make it faster": "performance-optimizer",
    "the app crashes with a TypeError": "debugger",
}


def test_words_of_software_work_win_no_requests_that_are_clearly_a_users_agents() -> None:
    own = [definition_from({"name": name, "description": text}, "You help.") for name, text in SERVICES.items()]
    catalog = build_catalog([*own, *load_folder(TEAM, SHIPPED).definitions])[0]
    router = routers(RoutingValues())["hybrid"]

    async def scenario() -> dict[str, str | None]:
        routes = {text: (await router.route(text, catalog, NO_CONTEXT)).route for text in WITH_WORDS_OF_SOFTWARE_WORK}
        return {text: route.agent if route else None for text, route in routes.items()}

    assert asyncio.run(scenario()) == WITH_WORDS_OF_SOFTWARE_WORK


TRAVEL = {
    "flights": "Books, changes and cancels flights.",
    "hotels": "Finds hotels and reserves rooms.",
    "trains": "Looks up train times and sells tickets.",
    "visas": "Says which visa a traveller needs, and how to apply for it.",
    "luggage": "Handles lost, late and damaged luggage.",
}


def test_the_examples_of_the_shipped_team_raise_no_threshold_of_a_users_team() -> None:
    own = [definition_from({"name": name, "description": text}, "You help.") for name, text in TRAVEL.items()]
    catalog = build_catalog([*own, *load_folder(TEAM, SHIPPED).definitions])[0]
    router = routers(RoutingValues())["semantic"]

    async def chosen(text: str) -> str | None:
        route = (await router.route(text, catalog, NO_CONTEXT)).route
        return route.agent if route else None

    assert asyncio.run(chosen("I want to fly to Lisbon on Monday")) == "flights"
    assert asyncio.run(chosen("the tests of this project fail with a TypeError")) == "debugger"
    assert asyncio.run(chosen("write a poem about the sea")) is None
