"""A job's chain: who had it and why, what each took, whom it was refused and whom it called."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ekiden.dispatcher.cli.terminal.output import Output, fitted
from ekiden.dispatcher.cli.views.jobs import forked_json
from ekiden.dispatcher.cli.views.notices import Notices, chain_text, forked_text, head_of, on_completion
from ekiden.dispatcher.cli.views.spending import spent_of
from ekiden.dispatcher.journal.story import Leg, Step, Story
from ekiden.shared.ids import parent_of
from ekiden.shared.messages import Usage
from ekiden.shared.records import Decided, Ended, Refused
from ekiden.shared.redaction import redact, redact_all
from ekiden.shared.todos import listed

__all__ = ["Hop", "chain_json", "figures_of", "hops_of", "show_chain"]

_COLUMNS = 160
"""How wide a line may get where there is no terminal."""
_BRANCHES = ("approval", "refused", "delegated")
"""Steps that a chain shows below the agent."""
_STYLES = {"done": "green", "unfinished": "yellow", "cancelled": "yellow", "failed": "red", "dead": "red"}


@dataclass(frozen=True)
class Hop:
    """How control came to an agent, and what it did with it.

    Attributes:
        leg: The agent's stretch of the job.
        from_agent: Who had the job before; of a return, who has ended.
        why: The reason; of a return, the result.
        is_error: A return without a result.
    """

    leg: Leg
    from_agent: str
    why: str
    is_error: bool = False


def hops_of(story: Story) -> list[Hop]:
    """Return the moves of control, without those of the jobs below; the route is the first."""
    hops: list[Hop] = []
    for leg in story.legs:
        if leg.moved is None:
            continue  # the routing
        context = leg.moved.context
        if (back := context.returned) is not None:
            ended = hops[-1].leg.agent if hops else context.from_agent
            hops.append(Hop(leg, ended, back.text, back.is_error))
        else:
            hops.append(Hop(leg, context.from_agent, context.reason))
    return hops


def figures_of(story: Story, leg: Leg) -> str:
    """Return how long the agent had the job, and what it used up meanwhile."""
    if leg.left_ms is not None:
        took = f"{(leg.left_ms - leg.ready_ms) / 1000:.1f} s"
    else:
        took = "still running" if leg.attempts else "waits for a worker" if story.end is None else "never began"
    return ", ".join([took, *spent_of(leg.usage, leg.cost_usd)])


def show_chain(story: Story) -> None:
    """Write the chain in one line, how the job stands, and a line for each agent, with its children as branches."""
    out = Output()
    columns = out.width(_COLUMNS)
    arrow, dots = out.symbols["arrow"], out.symbols["dots"]
    out.line(fitted(redact(chain_text(story.actors, arrow)), columns, dots), "bold")
    drawing = _Drawing(out.symbols)
    out.line(fitted(drawing.state(story), columns, dots), _STYLES.get(story.status, ""))
    if story.forked is not None:
        out.line(fitted(forked_text(story.forked), columns, dots), "yellow")
    for stem, branch in drawing.rows(drawing.branches(story)):
        out.line(stem + fitted(branch.text, max(columns - len(stem), len(dots)), dots), branch.style)
    for step in listed(story.todos).splitlines():
        out.line(f"  {fitted(redact(step), columns - 2, dots)}")


def chain_json(story: Story) -> dict[str, Any]:
    """Return the chain as one object; ``children`` are such objects themselves, in the leg that delegated them."""
    found: dict[str, Any] = redact_all(_job_json(story))
    return found


@dataclass(frozen=True)
class _Branch:
    text: str
    style: str
    below: "tuple[_Branch, ...]" = ()


class _Drawing:
    """Draws a story as a tree."""

    def __init__(self, symbols: Mapping[str, str]) -> None:
        self._symbols = symbols
        self._notices = Notices(symbols)

    def state(self, story: Story) -> str:
        """Say how a job stands, and what it took, with all below it."""
        took = f"{(story.now_ms - story.start_ms) / 1000:.1f} s"
        spent = ", ".join(spent_of(story.total_usage, story.total_cost_usd))
        below = sum(1 for _ in story.tree) - 1
        children = f"{below} child job{'s' * (below > 1)}" if below else ""
        error = (
            self._notices.cut(story.end.error or story.end.answer or "") if story.end and story.status != "done" else ""
        )
        how = f"job {story.job} {story.status}" + (f" ({_reason(story.end)})" if story.end else "")
        parts = filter(None, [how, took, spent, children, error])
        return f" {self._symbols['dot']} ".join(parts)

    def branches(self, story: Story) -> tuple[_Branch, ...]:
        """Return a branch for each agent that had the job."""
        return tuple(self._hop(story, hop) for hop in hops_of(story))

    def rows(self, branches: tuple[_Branch, ...], stem: str = "") -> Iterator[tuple[str, _Branch]]:
        """Yield the branches with what is drawn before each."""
        for branch in branches:
            is_last = branch is branches[-1]
            yield stem + self._symbols["last" if is_last else "fork"], branch
            yield from self.rows(branch.below, stem + ("   " if is_last else self._symbols["bar"]))

    def _hop(self, story: Story, hop: Hop) -> _Branch:
        who = redact(hop.leg.who)
        figures, why = figures_of(story, hop.leg), self._notices.cut(hop.why)
        below = tuple(self._step(story, step) for step in hop.leg.steps if step.kind in _BRANCHES)
        match hop.leg.how:
            case "return":
                how = " without a result" if hop.is_error else ""
                text = f"{self._symbols['return']} {redact(hop.from_agent)} returned to {who}{how} ({figures}): {why}"
                return _Branch(text, "yellow" if hop.is_error else "bold cyan", below)
            case "handoff":
                return _Branch(f"{self._symbols['handoff']} {who} ({figures}): {why}", "bold cyan", below)
            case "automatic":
                text = f"{self._symbols['handoff']} {who} on completion ({figures}): {on_completion(why)}"
                return _Branch(text.removesuffix(": "), "bold cyan", below)
            case "edge":
                return _Branch(f"{self._symbols['arrow']} {who} ({figures}): {why}", "bold cyan", below)
            case _:
                return _Branch(f"{who} ({figures}): {why}", "bold", below)

    def _step(self, story: Story, step: Step) -> _Branch:
        if step.kind == "refused":
            code, _, message = step.detail.partition(": ")
            text = f"{self._symbols['stop']} {redact(step.name)} refused ({code}): {self._notices.cut(message)}"
            return _Branch(text, "yellow")
        if step.kind == "approval":
            took = "" if step.end_ms is None else f" ({(step.end_ms - step.start_ms) / 1000:.1f} s)"
            return _Branch(
                f"{self._symbols['person']} {redact(step.name)}: {self._notices.cut(step.detail)}{took}", "yellow"
            )
        child = story.children.get(step.child)
        if child is None or not child.legs:
            is_own = parent_of(step.child) == story.job
            why = "whose journal is gone" if is_own else "of the job that this one was forked from"
            return _Branch(f"{self._symbols['child']} {redact(step.whom)} (job {step.child}, {why})", "yellow")
        reason = [child.end.reason] if child.end else []
        about = ", ".join([*reason, f"{(child.now_ms - child.start_ms) / 1000:.1f} s", f"job {child.job}"])
        said = self._notices.cut(_result(child))
        text = f"{self._symbols['child']} {redact(step.whom)} {child.status} ({about})"
        return _Branch(f"{text}: {said}" if said else text, _STYLES.get(child.status, "cyan"), self.branches(child))


def _reason(end: Ended) -> str:
    return f"{end.reason}, recovered" if end.recovered else end.reason


def _result(story: Story) -> str:
    return (story.end.answer or story.end.error or "") if story.end else ""


def _job_json(story: Story) -> dict[str, Any]:
    total = story.total_usage
    return {
        "id": story.job,
        "parent": parent_of(story.job),
        "session": story.session,
        "status": story.status,
        "reason": story.end.reason if story.end else None,
        **({"recovered": True} if story.end and story.end.recovered else {}),
        "result": head_of(_result(story)),
        "chain": story.chain,
        "forked": forked_json(story.forked),
        "todos": [todo.model_dump() for todo in story.todos],
        "at_ms": story.start_ms,
        "duration_ms": story.now_ms - story.start_ms,
        **_tokens_json(story.usage, story.cost_usd),
        **{f"total_{name}": value for name, value in _tokens_json(total, story.total_cost_usd).items()},
        "legs": [_leg_json(story, hop) for hop in hops_of(story)],
    }


def _leg_json(story: Story, hop: Hop) -> dict[str, Any]:
    leg = hop.leg
    assert leg.moved is not None
    return {
        "leg": leg.number,
        "agent": leg.agent,
        "node": leg.actor.node if leg.actor else "",
        "how": leg.how,
        "from_agent": hop.from_agent,
        "reason": hop.why,
        "is_error": hop.is_error,
        "run_path": list(leg.moved.context.metadata.handoff_chain),
        "at_ms": leg.ready_ms,
        "duration_ms": None if leg.left_ms is None else leg.left_ms - leg.ready_ms,
        **_tokens_json(leg.usage, leg.cost_usd),
        "refused": [_refusal_json(step.record) for step in leg.steps if isinstance(step.record, Refused)],
        "approvals": [_approval_json(step) for step in leg.steps if step.kind == "approval"],
        "children": [_child_json(story, step) for step in leg.steps if step.kind == "delegated"],
    }


def _tokens_json(usage: Usage, cost_usd: float | None) -> dict[str, Any]:
    return {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens, "cost_usd": cost_usd}


def _approval_json(step: Step) -> dict[str, Any]:
    decided = step.record if isinstance(step.record, Decided) else None
    fields = {"tool": step.name, "call_id": step.call.id if step.call else None, "asked_ms": step.start_ms}
    if decided is None:
        return {**fields, "status": "waiting" if step.end_ms is None else "void"}
    said = {"id": decided.id, "by": decided.by, "why": decided.why, "edited": decided.edited}
    return {**fields, "status": decided.status, "decided_ms": step.end_ms, **said}


def _refusal_json(record: Refused) -> dict[str, Any]:
    return {"name": record.name, "code": record.code, "message": record.message}


def _child_json(story: Story, step: Step) -> dict[str, Any]:
    node = step.actor.node if step.actor else ""
    asked = {"agent": step.name, "node": node, "objective": step.detail, "call_id": step.call.id if step.call else None}
    child = story.children.get(step.child)
    return {**asked, **(_job_json(child) if child else {"id": step.child, "status": None, "legs": []})}
