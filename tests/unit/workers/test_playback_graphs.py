"""Graphs are run again, too."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ekiden.dispatcher.journal.decisions import decisions_of
from ekiden.shared.records import Ended
from ekiden.workers.rail_judge import JUDGE
from tests.unit.workers.helped import judged
from tests.unit.workers.test_graphs import REPAIR, REPAIRERS, agent, edge, gave, graph
from tests.unit.workers.test_playback import Job, difference
from tests.unit.workers.world import said

TOOL = graph(
    {"name": "look", "tool": "look", "args": {"what": "${task.prompt}"}},
    {"name": "tell", "agent": "teller"},
    edges=[edge("look", "tell"), edge("tell", "END")],
)
BESIDE = graph(
    "start",
    "left",
    "right",
    {"name": "both", "agent": "teller", "join": "all"},
    edges=[
        edge("start", "left"),
        edge("start", "right"),
        edge("left", "both"),
        edge("right", "both"),
        edge("both", "END"),
    ],
)


@pytest.mark.parametrize(
    ("agents", "replies"),
    [
        (
            [REPAIR, *REPAIRERS],
            {
                "debug-analyzer": [gave(analysis={"can_auto_fix": True, "needs_human": False})],
                "code-fixer": [gave(fix={"applied": True})],
                "code-reviewer": [said("well done")],
            },
        ),
        ([TOOL, agent("teller")], {"teller": [said("told")]}),
        (
            [BESIDE, *map(agent, ("start", "left", "right", "teller"))],
            {name: [said(name)] for name in ("start", "left", "right", "teller")},
        ),
    ],
    ids=["edges", "tool", "side by side"],
)
def test_a_graph_takes_the_same_edges_again(agents: Sequence[Any], replies: Any, tmp_path: Path) -> None:
    job = Job(replies, agents, first="flow")
    first, second = runs = job.again(tmp_path)
    assert difference(runs) is None
    assert job.ran == []
    assert [step.kind for step in next(iter(decisions_of(first).values()))].count("ended") == 1
    assert first.keys() == second.keys()


def test_what_guardrails_and_hooks_said_at_its_edges_holds_again(tmp_path: Path) -> None:
    blocks = {"hooks": {"BeforeHandoff": [{"matcher": "right", "command": "echo 'not to the right' >&2; exit 2"}]}}
    judges = {"guardrails": [{"name": "kind", "prompt": "It is kind.", "on": ["handoff", "input"], "policy": "warn"}]}
    agents = [*map(agent, ("start", "left", "right", "teller"))]
    replies = {name: [said(name)] for name in ("start", "left", "right", "teller")} | {JUDGE: [judged(0.9)]}

    assert difference(Job(replies, [BESIDE | judges, *agents], first="flow").again(tmp_path)) is None
    (tmp_path / "blocked").mkdir()
    runs = Job(replies, [BESIDE | judges | blocks, *agents], first="flow").again(tmp_path / "blocked")
    assert difference(runs) is None
    for run in runs:
        [*_, end] = next(iter(run.values()))
        assert isinstance(end.record, Ended)
        assert "blocked start → right at BeforeHandoff: not to the right" in str(end.record.error)
