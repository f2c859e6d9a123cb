"""What users ask first goes to an agent of the shipped team that a developer would accept: by the real encoder."""

import asyncio
import json
from pathlib import Path

from ekiden.dispatcher.routing.base import NO_CONTEXT
from ekiden.dispatcher.routing.strategies import RoutingValues, routers
from ekiden.shared.definitions.catalog import build_catalog
from ekiden.shared.definitions.loader import load_folder

TEAM = Path(__file__).parents[3] / "agents" / "software"
ASKED = [json.loads(line) for line in Path(__file__).with_name("first_requests.jsonl").read_text("utf-8").splitlines()]
FOR_THE_STAND_IN = ("fix the failing tests", "fix my tests", "修复失败的测试")
NOBODYS = ("hello, how are you", "what is the capital of mongolia", "write a poem about the sea", "给我讲个笑话")


def test_first_requests_reach_an_agent_that_a_developer_would_accept() -> None:
    catalog = build_catalog(load_folder(TEAM, "builtin").definitions)[0]
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
