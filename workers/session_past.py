"""What an agent reads of its session's earlier jobs."""

from collections.abc import Sequence
from itertools import dropwhile

from ekiden.shared.instructions import shortened
from ekiden.shared.messages import SessionPart
from ekiden.shared.relay.leg import Leg
from ekiden.shared.stores.sessions import SessionMessage
from ekiden.workers.context_budget import Block, Item, Quote
from ekiden.workers.prompt import snapshot_so_far

__all__ = ["exchanges", "part_of"]


def exchanges(leg: Leg, parts: Sequence[SessionPart], fence: str) -> list[Block]:
    """Return the session's earlier requests, each with its answers: the agent's own as they were, others' quoted.

    An agent has a conversation of its own: those jobs in which it had control. What was routed is the common talk of
    whoever the next message is routed to; what the user said to another agent by name is none of its business.

    Args:
        leg: Who reads.
        parts: The snapshots that this job has made, the newest last. They, and those that came with earlier requests,
            stand for what they have where the agent is told all of that anyhow.
        fence: The id of the marks.
    """
    is_common = _is_common(leg)
    its_own = {one.job for one in leg.earlier if leg.agent in _agents(one) or (is_common and not one.to)}
    said: list[tuple[SessionMessage, list[Item]]] = []
    # Where the beginning of a long session is cut off, a user's message still comes first.
    for one in dropwhile(lambda one: one.agent, (one for one in leg.earlier if one.job in its_own)):
        if not one.agent:
            said.append((one, [one.message.text]))
        elif one.agent == leg.agent:
            said[-1][1].append(one.message)
        else:
            said[-1][1].append(Quote(one.agent, (shortened(one.message.text),)))
    before: list[Block] = []
    if (part := _newest(leg, parts)) is not None:
        snapshot = snapshot_so_far(part.text, fence=fence, what="session")
        before = [Block((snapshot,), is_pinned=True, at=(0, part.before - 1))]
        said = [(one, items) for one, items in said if not part.has(_number(one), _agents(one), one.to)]
    return [*before, *(Block(tuple(items), at=(0, _number(one))) for one, items in said)]


def part_of(leg: Leg, parts: Sequence[SessionPart], before: int) -> SessionPart:
    """Return which part of the session a leg's agent is told of before a job: common, where it is told nothing else."""
    is_common = _is_common(leg)
    merged = _newest(leg, parts)
    has_own = any(one.to and leg.agent in _agents(one) for one in leg.earlier if _number(one) < before)
    is_own = not is_common or has_own or (merged is not None and bool(merged.agent))
    return SessionPart(before=before, agent=leg.agent if is_own else "", is_common=is_common)


def _newest(leg: Leg, parts: Sequence[SessionPart]) -> SessionPart | None:
    """Return the snapshot that reaches furthest of those of which the leg's agent is told all anyhow."""
    known = [*(part for one in leg.earlier for part in one.message.snapshots), *parts]
    is_common = _is_common(leg)
    mine = [part for part in known if part.is_for(leg.agent, is_common=is_common)]
    return max(reversed(mine), key=lambda part: part.before, default=None)


def _is_common(leg: Leg) -> bool:
    return leg.request.agent is None


def _agents(one: SessionMessage) -> tuple[str, ...]:
    return (one.agent, *one.agents)


def _number(one: SessionMessage) -> int:
    return int(one.job.rpartition(".")[2])
