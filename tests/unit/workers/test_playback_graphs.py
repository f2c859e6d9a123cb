"""Graphs are run again, too."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ekiden.dispatcher.journal.decisions import decisions_of
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
