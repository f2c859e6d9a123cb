"""For programs, and for ``ekiden graph show --job``: a graph as it stands in a job, now or as it goes on."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from shlex import quote

from ekiden.dispatcher.client import Client
from ekiden.dispatcher.journal.follower import OUTAGE_S
from ekiden.dispatcher.journal.graph_states import GraphStates, GraphView
from ekiden.dispatcher.journal.listening import placed
from ekiden.dispatcher.journal.tree import Placed
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.ids import parent_of
from ekiden.shared.records import Ended, Entry, HandedOff

__all__ = ["graph_of", "graph_views"]


async def graph_of(client: Client, job: str, name: str | None = None) -> GraphView:
    """Return a graph as it stands in ``job``: its last run of that name, without one the first graph that it came to.

    Raises ``UnknownJob``, ``NoCatalog``, and ``InvalidRequest`` where the job has not come to such a graph.
    """
    journals = await client.journals(job)
    states = await _states(client, job)
    for one, entries in journals.items():
        for entry in entries:
            states.note(one, entry)
    if (found := states.view(name)) is None:
        raise InvalidRequest(_why_none(job, name, states, journals[job]))
    return found


async def graph_views(
    client: Client,
    job: str,
    name: str | None = None,
    *,
    outage_s: float = OUTAGE_S,
    note: Callable[[str], None] = lambda _: None,
) -> AsyncGenerator[GraphView, None]:
    """Give the same each time that it has changed, from its beginning, until ``job`` ends.

    ``note`` is told why nothing happens, if that is known. Raises as ``graph_of`` once the job has ended, and
    ``StoreUnavailable`` where no server answers for ``outage_s``.
    """
    states: GraphStates | None = None
    before: list[Placed] = []
    last: GraphView | None = None
    async with aclosing(placed(client, job, note, outage_s=outage_s)) as heard:
        async for one in heard:
            before.append(one)
            if states is None and not isinstance(one.entry.record, HandedOff):
                continue  # nobody has routed it, and its catalog is not known
            states = states or await _states(client, job)
            may_differ = [states.note(*known) for known in before]
            before = []
            if any(may_differ) and (found := states.view(name)) is not None and found != last:
                last = found
                yield found
    if last is None:
        entries = await client.entries(job)
        raise InvalidRequest(_why_none(job, name, states or GraphStates(job, {}), entries))


async def _states(client: Client, job: str) -> GraphStates:
    digest = (await client.job(job)).catalog
    return GraphStates(job, (await client.catalog(digest)).agents if digest else {})


def _why_none(job: str, name: str | None, states: GraphStates, entries: list[Entry]) -> str:
    moves = [entry.record.context for entry in entries if isinstance(entry.record, HandedOff)]
    if moves and moves[0].does_part:
        at = moves[0].graphs[-1]
        return (
            f"job {job} does node {at.node!r} of graph {at.graph!r}, and no graph: "
            f"`ekiden graph show {quote(at.graph)} --job {parent_of(job)}` shows that"
        )
    if states.names:
        return f"job {job} has not come to a graph {name!r}: it has {', '.join(states.names)}"
    agents = ", ".join(dict.fromkeys(context.to_agent for context in moves))
    end = next((entry.record for entry in reversed(entries) if isinstance(entry.record, Ended)), None)
    how = "" if agents else ": nobody has got it yet"
    if end is not None and end.status != "done":
        how = f": {end.status} ({end.reason})"
    why = f": {end.error}" if end and end.error else ""
    return f"job {job} has come to no graph{f', but to {agents}' if agents else ''}{how}{why}"
