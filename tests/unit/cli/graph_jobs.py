"""A job that is a graph, run once: with two nodes of one agent, a list, a tool, a loop; its journals at each step."""

from functools import cache
from typing import Any

from ekiden.shared.definitions.catalog import Catalog
from ekiden.shared.records import Delegated, Entry
from ekiden.shared.relay.leg import journal_of
from ekiden.shared.stores.opening import Stores
from ekiden.workers.tools.builtin.asking import ask_user
from tests.scenarios.relay import Relay, on_server, team
from tests.unit.workers.test_graphs import ByLeg, agent, edge, gave, graph
from tests.unit.workers.world import said, tool_named

__all__ = ["AGENTS", "Journals", "ran", "says", "steps_of"]

Journals = dict[str, list[Entry]]

FLOW = graph(
    {"name": "draft", "agent": "writer"},
    {"name": "check", "agent": "checker", "for_each": "['a', 'b']"},
    {"name": "length", "tool": "measure", "args": {"text": "x"}},
    {"name": "revise", "agent": "writer"},
    {"name": "decide", "agent": "editor"},
    edges=[
        edge("draft", "check"),
        edge("draft", "length"),
        edge("check", "revise"),
        edge("length", "revise"),
        edge("revise", "decide"),
        edge("decide", "draft", "!verdict.good", max_rounds=1),
        edge("decide", "END", default=True),
    ],
)
AGENTS = ({**FLOW, "tools": ["measure"]}, agent("writer"), agent("checker"), agent("editor", "verdict"))


def says() -> dict[str, Any]:
    """Return what its agents say: the editor is content with the second draft."""
    return {
        "writer": [said("one"), said("two"), said("three"), said("four")],
        "checker": [said("right") for _ in range(4)],
        "editor": [gave(verdict={"good": False}), gave(verdict={"good": True})],
    }


def steps_of(*agents: Any, first: str = "flow", replies: dict[str, Any]) -> tuple[Catalog, list[Journals]]:
    """Run a job to its end; return its catalog, and the journals of it and of those below after each message."""
    catalog = team(*agents)

    async def scenario(stores: Stores) -> list[Journals]:
        relay = Relay(stores, catalog, ByLeg(replies), tools=[tool_named("measure"), ask_user])
        job = await relay.submit("write", agent=first)
        seen = [await _journals(stores, job)]
        while await relay.step() is not None:
            seen.append(await _journals(stores, job))
        return seen

    return catalog, on_server(scenario)


@cache
def ran() -> tuple[Catalog, list[Journals]]:
    """Run ``FLOW``."""
    return steps_of(*AGENTS, replies=says())


async def _journals(stores: Stores, job: str) -> Journals:
    found = {job: await journal_of(stores.jobs, job)}
    for one in found[job]:
        if isinstance(one.record, Delegated):
            found |= await _journals(stores, one.record.child)
    return found
