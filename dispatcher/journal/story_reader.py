"""Reads a job's journal into its story: pairs what started with what ended, and notices lost workers."""

import json
from collections.abc import Mapping, Sequence

from ekiden.dispatcher.journal.actors import Actor, Actors
from ekiden.dispatcher.journal.story import Attempt, AttemptEnd, How, Leg, Step, StepKind, Story
from ekiden.shared.ids import parent_of
from ekiden.shared.messages import Message, ToolCall, answered, user_message
from ekiden.shared.prices import Prices
from ekiden.shared.records import (
    GRAPH,
    ApprovalAsked,
    Decided,
    Delegated,
    Ended,
    Entry,
    FellBack,
    Forked,
    Guarded,
    GuardJudged,
    HandedOff,
    Hooked,
    JobRequested,
    LastTurn,
    LegStarted,
    LegSuspended,
    LimitNear,
    LoopDetected,
    ModelCall,
    ModelReplied,
    NodeFinished,
    Noticed,
    Nudged,
    Recalled,
    Record,
    Refused,
    Repairing,
    Retried,
    Routed,
    StateChanged,
    Summarised,
    ToolFinished,
    ToolStarted,
    Unrouted,
)
from ekiden.shared.todos import todos_of
from ekiden.shared.told_calls import ToldCalls

__all__ = ["decision_text", "job_tree_story", "story_of"]

_TOLD = {"nudged": "nudged", "limit_near": "limit near", "loop": "loop"}
"""What a step is called in which a model is told something, by its record."""


def job_tree_story(
    job: str, journals: Mapping[str, Sequence[Entry]], now_ms: int | None = None, prices: Prices | None = None
) -> Story:
    """Read the journals of a job and of those below it, parents first; see ``story_of``."""
    stories: dict[str, Story] = {}
    for one, entries in journals.items():
        parent = stories.get(parent_of(one) or "") if one != job else None
        actor = next((step.actor for step in parent.steps if step.child == one), None) if parent else None
        stories[one] = story_of(one, entries, now_ms, prices, actor)
        if parent is not None:
            parent.adopt(stories[one])
    return stories[job]


def decision_text(decided: Decided) -> str:
    """Say how an approval ended, by whom and why."""
    if decided.status == "expired":
        return "expired: nobody answered in time"
    who = f"{decided.by or 'somebody'}{' (by their own word)' if decided.is_claimed else ''}"
    how = f"{decided.status}{', changed,' if decided.edited is not None else ''}"
    return f"{how} by {who}{f': {decided.why}' if decided.why else ''}"


def story_of(
    job: str,
    entries: Sequence[Entry],
    now_ms: int | None = None,
    prices: Prices | None = None,
    actor: Actor | None = None,
) -> Story:
    """Read a journal. ``now_ms``: the server's clock, for a job that goes on; None: the time of the last entry.

    ``actor``: who does the job, as the journal of the job above says it.
    """
    last_ms = entries[-1].at_ms if entries else 0
    story = Story(job, max(now_ms or 0, last_ms), correlation_id=job)
    teller = _StoryReader(story, prices or Prices(), Actors(actor))
    for entry in entries:
        teller.tell(entry)
    if story.end is not None:
        story.now_ms = last_ms
    return story


class _StoryReader:
    """Puts one entry after the other in its place."""

    def __init__(self, story: Story, prices: Prices, actors: Actors) -> None:
        self._story = story
        self._actors = actors
        self._prices = prices
        self._calls: dict[tuple[int, str], ToolCall] = {}
        self._open: dict[str, Step] = {}
        """Tools that run now, by the id of their call."""
        self._delegated: dict[str, Step] = {}
        """Children whose results are still to come, likewise: they outlive the attempts of their parent's leg."""
        self._asked: dict[str, Step] = {}
        """What people were asked and have not answered, by approval."""
        self._told = ToldCalls()
        self._wait: Step | None = None
        """The pause that children or people end, while it lasts."""
        self._heard: list[Message] = []
        """What the next model call is told."""
        self._woken_ms: int | None = None
        """When the leg's timer rings, or when it was retried."""

    def tell(self, entry: Entry) -> None:
        """Take the next entry."""
        self._story.calls.note(entry.record)
        self._told.note(entry.record)
        self._actors.note(entry.record)
        match entry.record:
            case JobRequested() as request:
                self._story.request = request
                self._story.start_ms = entry.at_ms
                self._story.legs.append(Leg(0, "router", entry.seq, entry.at_ms))
            case LegStarted() as started:
                self._begin(started, entry)
            case Retried():
                self._story.end = self._leg.left_ms = None
                self._woken_ms = entry.at_ms
            case Forked() as forked:
                self._fork(forked, entry)
            case Ended() as end:
                self._finish(end, entry)
            case record:
                self._tell_step(record, entry)

    def _begin(self, started: LegStarted, entry: Entry) -> None:
        leg = self._leg
        leg.agent, leg.actor = started.agent, self._actors.of(started.leg)
        if self._wait is not None:
            self._wait.end_ms, self._wait = entry.at_ms, None
        before = leg.attempts[-1] if leg.attempts else None
        is_takeover = before is not None and before.end == "running"
        if before is not None and is_takeover:
            self._lose(before)
        if not leg.attempts:
            ready_ms = leg.ready_ms
            self._heard = leg.opening(self._story.request)
        else:
            ready_ms = min(self._woken_ms if self._woken_ms is not None else entry.at_ms, entry.at_ms)
        self._woken_ms = None
        number = len(leg.attempts) + 1
        leg.attempts.append(Attempt(number, started.worker, ready_ms, entry.at_ms, is_takeover=is_takeover))

    def _fork(self, forked: Forked, entry: Entry) -> None:
        """What stands before is another job's: no worker of this one has had it."""
        self._story.forked, self._story.end, self._story.start_ms = forked, None, entry.at_ms
        self._woken_ms, self._wait = entry.at_ms, None
        for step in self._story.steps:
            step.end_ms = entry.at_ms
        if self._attempt is not None and self._attempt.end == "running":
            self._close("ended", entry.at_ms)
        if forked.prompt:
            self._heard.append(user_message(forked.prompt))

    def _lose(self, attempt: Attempt) -> None:
        """The worker was lost: nobody knows when, but not before its last word."""
        attempt.end = "lost"
        attempt.end_ms = max([attempt.start_ms, *(step.end_ms or step.start_ms for step in attempt.steps)])
        for step in self._open.values():
            step.end_ms, step.is_lost, step.is_error = attempt.end_ms, True, True
        self._open.clear()

    def _finish(self, end: Ended, entry: Entry) -> None:
        self._story.end = end
        for step in (*self._open.values(), *self._delegated.values(), *self._asked.values()):
            step.end_ms, step.is_error = entry.at_ms, True
        if self._wait is not None:
            self._wait.end_ms = entry.at_ms
        self._open.clear()
        self._asked.clear()
        self._delegated.clear()
        self._leg.left_ms = entry.at_ms
        attempt = self._attempt
        if attempt is not None and attempt.end == "running":
            attempt.end = "lost" if end.status == "dead" else "ended"
            attempt.end_ms = entry.at_ms

    def _tell_step(self, record: Record, entry: Entry) -> None:
        match record:
            case ModelCall():
                self._model(record, entry)
            case Delegated():
                self._delegate(record, entry)
            case ToolStarted(call_id=call_id, name=name, is_known=is_known):
                call = self._calls.get((record.leg, call_id))
                step = self._add(Step("tool", entry.seq, name, entry.at_ms, None, call=call, is_known=is_known))
                self._open[call_id] = step
            case ToolFinished():
                self._tool(record, entry)
            case NodeFinished():
                self._node(record, entry)
            case HandedOff():
                self._hand_off(record, entry)
            case ApprovalAsked() | Decided():
                self._approval(record, entry)
            case LegSuspended():
                self._pause(record, entry)
            case _:
                self._tell_moment(record, entry)

    def _tell_moment(self, record: Record, entry: Entry) -> None:
        match record:
            case Refused(name=name, code=code, message=message, call_id=call_id):
                call = self._calls.get((record.leg, call_id or ""))
                detail = f"{code}: {message}"
                self._add(self._moment("refused", name, entry, detail=detail, is_error=True, call=call))
            case Routed(agent=agent, stage=stage, confidence=confidence):
                how = "as asked" if stage == "agent" else f"{stage}, {confidence:g}% confidence"
                self._route(self._moment("route", agent, entry, detail=how))
            case Unrouted(why=why):
                self._route(self._moment("route", "nobody", entry, detail=why, is_error=True))
            case Noticed(text=text):
                self._add(self._moment("notice", "notice", entry, detail=text))
            case Recalled(text=text, notes=notes):
                self._add(self._moment("notice", "memory", entry, detail="\n".join([text, *notes])))
            case Nudged(text=text) | LimitNear(text=text) | LoopDetected(text=text):
                self._heard.append(user_message(text))
                self._add(self._moment("notice", _TOLD[record.type], entry, detail=f"is told: {text}"))
            case LastTurn(reason=reason, error=error, text=text):
                self._heard.append(user_message(text))
                self._add(self._moment("notice", "last turn", entry, detail=f"{reason}: {error}"))
            case Hooked() | Guarded():
                self._add(self._word_on(record, entry))
            case StateChanged(changes=changes):
                detail = f"state: {json.dumps(changes, ensure_ascii=False)}"
                self._add(self._moment("notice", "state", entry, detail=detail))

    def _word_on(self, record: Hooked | Guarded, entry: Entry) -> Step:
        """Return what others have said of a step."""
        if isinstance(record, Hooked):
            return self._moment("notice", "hook", entry, detail=record.text, is_error=bool(record.block))
        is_error = record.status == "failed"
        return self._moment("guardrail", record.rail, entry, detail=record.text, is_error=is_error)

    def _model(self, record: ModelCall, entry: Entry) -> None:
        attempt = self._attempt
        earliest = attempt.start_ms if attempt else self._story.start_ms
        start_ms = max(entry.at_ms - record.duration_ms, earliest)
        heard: tuple[Message, ...] = ()
        detail, is_error = record.purpose if isinstance(record, Summarised) else "looks for a loop", False
        if isinstance(record, ModelReplied):
            heard, self._heard = tuple(self._heard), []
            is_error = record.finish not in ("stop", "unfinished")
            detail = record.finish if is_error else ""
            self._calls.update({(record.leg, call.id): call for call in record.message.calls})
            if record.model == GRAPH:
                return  # no model: a node's own call
        if isinstance(record, Repairing):
            detail = f"repairs what did not pass {record.rail}"
        if isinstance(record, GuardJudged):
            detail = f"judges by the guardrail {record.rail}"
        if isinstance(record, FellBack):
            detail, is_error = f"{record.why}, {record.to} is asked: {record.text}", True
        name = record.model or "model"
        step = Step("model", entry.seq, name, start_ms, entry.at_ms, detail, is_error, heard=heard, record=record)
        step.cost_usd = self._prices.cost_usd(name, record.usage) if record.cost_usd is None else record.cost_usd
        self._add(step)

    def _route(self, step: Step) -> None:
        asked = [stage for stage in step.stages if stage.model]
        costs = [self._prices.cost_usd(one.model, one.usage) if one.cost_usd is None else one.cost_usd for one in asked]
        known = [cost for cost in costs if cost is not None]
        step.cost_usd = sum(known) if known else None
        self._add(step)

    def _delegate(self, record: Delegated, entry: Entry) -> None:
        call = self._calls.get((record.leg, record.call_id))
        step = Step("delegated", entry.seq, record.agent, entry.at_ms, None, record.objective, call=call)
        step.child, step.actor = record.child, self._actors.below[record.child]
        self._delegated[record.call_id] = self._add(step)

    def _tool(self, record: ToolFinished, entry: Entry) -> None:
        if (todos := todos_of(record)) is not None:
            self._story.todos = todos
        result = record.result
        self._heard.append(answered([result]))
        if (child := self._delegated.pop(result.call_id, None)) is not None:
            child.seq, child.record, child.is_error, child.end_ms = entry.seq, record, result.is_error, entry.at_ms
            return
        step = self._open.pop(result.call_id, None)
        if step is None:  # answered without being run
            call = self._calls.get((record.leg, result.call_id))
            step = self._add(self._moment("tool", result.name, entry, call=call))
        step.seq, step.record, step.is_error = entry.seq, record, result.is_error
        step.told = self._told.of(record)
        step.end_ms = min(entry.at_ms, step.start_ms + record.duration_ms)
        step.detail = result.content if result.is_error else record.untrusted and f"untrusted: {record.untrusted}"

    def _node(self, record: NodeFinished, entry: Entry) -> None:
        if (child := self._delegated.pop(record.call_id, None)) is not None:
            child.seq, child.is_error, child.end_ms = entry.seq, bool(record.error), entry.at_ms
        if record.error or record.next:  # else an item of a list, whose job tells of it
            detail = (
                f"{record.node} failed: {record.error}" if record.error else f"{record.node} → {', '.join(record.next)}"
            )
            self._add(self._moment("notice", f"node {record.node}", entry, detail=detail, is_error=bool(record.error)))

    def _approval(self, record: ApprovalAsked | Decided, entry: Entry) -> None:
        if isinstance(record, ApprovalAsked):
            call = self._calls.get((record.leg, record.call_id))
            step = Step("approval", entry.seq, record.tool, entry.at_ms, None, "waits for a person", call=call)
            self._asked[record.id] = self._add(step)
            return
        self._woken_ms = entry.at_ms
        if (asked := self._asked.pop(record.id, None)) is not None:
            asked.seq, asked.record, asked.end_ms = entry.seq, record, entry.at_ms
            asked.detail, asked.is_error = decision_text(record), record.status in ("denied", "expired")

    def _hand_off(self, record: HandedOff, entry: Entry) -> None:
        context = record.context
        self._story.correlation_id = context.metadata.correlation_id
        how, actor = self._how(record), self._actors.of(record.leg + 1)
        if record.kind != "route":
            call = self._calls.get((record.leg, record.call_id or ""))
            kind: StepKind = "returned" if record.kind == "return" else record.kind
            back = context.returned
            step = self._moment(kind, context.to_agent, entry, detail=back.text if back else context.reason, call=call)
            step.is_error, step.actor = back is not None and back.is_error, actor
            self._add(step)
        else:
            self._story.above = context.metadata.handoff_chain[:-1]
        if how == "delegation":
            self._story.legs.clear()  # it is not routed
        else:
            self._close("handoff", entry.at_ms)
            self._leg.left_ms = entry.at_ms
        leg = Leg(record.leg + 1, context.to_agent, entry.seq, entry.at_ms, how=how, moved=record, actor=actor)
        self._story.legs.append(leg)

    def _how(self, record: HandedOff) -> How:
        if record.kind == "route":
            return "delegation" if parent_of(self._story.job) else "route"
        is_automatic = record.call_id is None and record.context.reason.startswith("completed")
        return "automatic" if record.kind == "handoff" and is_automatic else record.kind

    def _pause(self, record: LegSuspended, entry: Entry) -> None:
        if record.cause in ("children", "approval", "limit"):  # somebody else ends it, and nobody knows when
            self._wait = self._add(self._moment("suspended", record.cause, entry, detail=record.detail))
            self._wait.end_ms = None
            self._close("suspended", entry.at_ms)
            return
        self._woken_ms = entry.at_ms + round(record.delay_s * 1000)
        until = f"{record.delay_s:g} s" + (f": {record.detail}" if record.detail else "")
        self._add(self._moment("suspended", record.cause, entry, detail=until)).end_ms = self._woken_ms
        self._close("suspended", entry.at_ms)

    def _close(self, end: AttemptEnd, at_ms: int) -> None:
        if (attempt := self._attempt) is not None:
            attempt.end, attempt.end_ms = end, at_ms

    @property
    def _leg(self) -> Leg:
        if not self._story.legs:  # a journal whose beginning is gone
            self._story.legs.append(Leg(0, "router", 0, self._story.start_ms))
        return self._story.legs[-1]

    @property
    def _attempt(self) -> Attempt | None:
        return self._leg.attempts[-1] if self._leg.attempts else None

    def _add(self, step: Step) -> Step:
        if self._attempt is not None:  # else noted by somebody else before a worker had the leg
            self._attempt.steps.append(step)
        return step

    def _moment(
        self,
        kind: StepKind,
        name: str,
        entry: Entry,
        *,
        detail: str = "",
        is_error: bool = False,
        call: ToolCall | None = None,
    ) -> Step:
        at_ms = entry.at_ms
        return Step(kind, entry.seq, name, at_ms, at_ms, detail, is_error, record=entry.record, call=call)
