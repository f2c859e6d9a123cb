"""One agent's schema that takes for ever to apply, beside others on the same worker: it is refused, and they go on."""

import asyncio
import json
from itertools import groupby
from typing import Any

from ekiden.dispatcher.client import Client
from ekiden.shared.records import Entry, LegStarted, Refused
from ekiden.shared.stores.views import JobView
from tests.e2e.program import Program, wait_until

LEVELS = 7
FAN: dict[str, Any] = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 10} for n in range(LEVELS)}
BOMB = {
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/a0"}},
    "$defs": {**FAN, f"a{LEVELS}": {"type": "string"}},
}
"""Ten million ways to look at one text, in two kilobytes."""
NODE = {"properties": {"c": {"$ref": "#/$defs/n"}}, "required": ["x"]}
TREE = {"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"anyOf": [NODE] * 10}}}
"""What the value makes dear: nothing is wrong with it by itself."""
DEEP: Any = {}
for _ in range(12):
    DEEP = {"c": DEEP}
JOBS = 12


def agent(name: str, **fields: Any) -> str:
    head = {"name": name, "description": f"The {name}.", "tools": [], **fields}
    return f"---\n{json.dumps(head)}\n---\nYou are {name}.\n"


AGENTS = {
    "evil": agent("evil", handoffs=[{"to": "good", "payload": {"schema": BOMB}}]),
    "dear": agent("dear", handoffs=[{"to": "good", "payload": {"schema": TREE}}]),
    "good": agent("good"),
}
SCRIPT = {
    "agents": {
        "dear": [
            {"name": "hand", "times": 2, "call": [{"tool": "transfer_to_good", "args": {"reason": "go", "a": DEEP}}]},
            {"name": "end", "say": "given up"},
        ],
        "good": [{"name": "work", "delay_s": 0.3, "say": "done"}],
    }
}


async def told(url: str) -> dict[str, list[tuple[JobView, list[Entry]]]]:
    """Submit dear jobs among good ones, wait for all, and return what became of them, by agent."""
    async with Client(url) as client, asyncio.timeout(90):
        names = ["dear", *["good"] * JOBS, "dear", *["good"] * JOBS]
        jobs = [(name, await client.submit("go", agent=name)) for name in names]
        ended = [(name, await client.wait(job), await client.entries(job)) for name, job in jobs]
    ended.sort(key=lambda one: one[0])
    return {name: [(view, entries) for _, view, entries in some] for name, some in groupby(ended, lambda one: one[0])}


def test_the_neighbours_of_an_agent_with_an_endless_schema_finish(ekiden: Program, redis_url: str) -> None:
    folder = ekiden.folder / ".gemini" / "agents"
    folder.mkdir(parents=True)
    for name, text in AGENTS.items():
        (folder / f"{name}.md").write_text(text)
    ekiden.env |= {**ekiden.scripts(json.dumps(SCRIPT)), "EKIDEN_LEASE_S": "3"}

    checked = ekiden.run("agents", "validate", "evil")
    assert checked.returncode != 0
    said = " ".join((checked.stdout + checked.stderr).split())
    assert "evil.md" in said
    assert "'payload' of the handoff to 'good': it would be applied" in said

    ekiden.start("dispatcher")
    worker = ekiden.start("worker", "--agents", "dear,good")
    wait_until(lambda: len(json.loads(ekiden.run("status", "--json").stdout)["pools"]) == 2, what="the pools")
    refused = ekiden.run("submit", "go", "--agent", "evil")
    assert refused.returncode == 2
    assert "'evil'" in refused.stderr

    jobs = asyncio.run(told(redis_url))
    assert [view.status for view, _ in jobs["good"]] == ["done"] * 2 * JOBS
    for view, entries in jobs["dear"]:
        assert (view.status, view.result) == ("done", "given up")
        texts = [entry.record.message for entry in entries if isinstance(entry.record, Refused)]
        assert len(texts) == 2
        assert all("to check it by its JSON Schema takes too long" in text for text in texts)
    for _, entries in (*jobs["good"], *jobs["dear"]):
        attempts = [entry.record.attempt for entry in entries if isinstance(entry.record, LegStarted)]
        assert set(attempts) == {1}, "no lease was lost: the event loop was never held"
    assert worker.process.poll() is None
