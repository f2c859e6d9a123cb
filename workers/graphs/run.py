"""The run of a graph that a leg is in, as far as the job's journal tells."""

from ekiden.shared.definitions.graph import Graph
from ekiden.shared.graph_run import GraphRun
from ekiden.shared.handoff import GraphPosition
from ekiden.shared.relay.leg import Leg

__all__ = ["run_of"]


def run_of(leg: Leg, graph: Graph, at: GraphPosition) -> GraphRun:
    """Return the run that a leg's position is in: what earlier legs have folded in this process is not folded again."""
    about, upto = (at.graph, at.run), leg.folds.upto
    known, folded = leg.folds.made.get(about, (0, None))
    if known > upto:  # by a later leg: this one has lost its lease, and does not know yet
        return GraphRun(graph, at, leg.entries)
    run: GraphRun = GraphRun(graph, at) if folded is None else folded.copy(graph, at)
    run.read(leg.entries[known:upto])
    if leg.folds.is_kept:
        leg.folds.made[about] = upto, run.copy(graph, at)
    run.read(leg.entries[upto:])
    return run
