"""Calls of other agents: child jobs that run elsewhere, all at once, while no worker waits."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

from ekiden.shared.definitions.model import Delegation
from ekiden.shared.errors import ToolError
from ekiden.shared.messages import ToolCall, ToolResult
from ekiden.shared.outcomes import Outcome, Suspended
from ekiden.shared.records import ToolFinished
from ekiden.shared.step_limits import run_limited
from ekiden.shared.stores.views import JobView
from ekiden.workers.approvals import telling_changes
from ekiden.workers.calls.base import CallKind, Gate
from ekiden.workers.delegation import Delegations, enough, result_of
from ekiden.workers.leg_hooks import HookedResult
from ekiden.workers.limits import job_is_used_up, legs_left
from ekiden.workers.untrusted import Untrusted

__all__ = ["DelegationCalls"]


class DelegationCalls(CallKind):
    """Begins child jobs, waits for them without a worker, and takes their results in call order."""

    def __init__(
        self,
        gate: Gate,
        delegations: Delegations,
        rules: Delegation,
        untrusted: Untrusted,
    ) -> None:
        super().__init__(gate)
        self._delegations = delegations
        self._rules = rules
        self._untrusted = untrusted

    def takes(self, call: ToolCall) -> bool:
        """See ``CallKind``."""
        return self._delegations.is_delegation(call)

    async def answer(self, calls: Sequence[ToolCall]) -> Outcome | None:
        """See ``CallKind``; children that were begun are looked at. All are begun at once: after the last approval."""
        if self._turn.children:
            return await self._collect(calls)
        ready = await self._ready(calls)
        return await self._carry_out(ready) if ready and not self._approvals.are_wanted else None

    def _check(self, call: ToolCall) -> None:
        self._delegations.child(call, self._leg.job)
        place = [one.id for one in self._turn.reply.message.calls if self.takes(one)].index(call.id)
        if place >= (most := self._rules.max_children):
            raise ToolError(f"not executed: {most} delegations in a turn are allowed, ask again in the next one")
        if job_is_used_up(self._leg) or place >= legs_left(self._leg):
            raise ToolError("BUDGET_EXCEEDED: the job's limits leave nothing for another agent, do it yourself")

    async def _carry_out(self, calls: list[ToolCall]) -> Suspended:
        return await self._waiting(calls, self._delegations.next_jobs(len(calls)))

    async def _collect(self, calls: Sequence[ToolCall]) -> Suspended | None:
        jobs = [self._turn.children[call.id] for call in calls]
        views = await self._leg.children(jobs)
        if not enough(views, self._rules.needed(len(calls))):
            return await self._waiting(calls, jobs)
        hooked = [await self._hooked_result(call, view) for call, view in zip(calls, views, strict=True)]
        finished = [
            [*one.records, self._finished(call, view, one.result)]
            for call, view, one in zip(calls, views, hooked, strict=True)
        ]
        await self._leg.record(*chain.from_iterable(finished), is_progress=True)
        if (end := next((one.end for one in hooked if one.end), None)) is not None:
            raise end
        return None

    async def _waiting(self, calls: Sequence[ToolCall], jobs: Sequence[str]) -> Suspended:
        """Return the suspension that begins the children ``jobs``, or waits for them again."""
        make = self._delegations.child
        children = [await run_limited(partial(make, call, job)) for call, job in zip(calls, jobs, strict=True)]
        named = ", ".join(child.agent for child in children)
        return Suspended("children", 0.0, named, tuple(children), self._rules.needed(len(children)))

    async def _hooked_result(self, call: ToolCall, view: JobView) -> HookedResult:
        """Return a result as hooks want it and guardrails let it pass."""
        fence = self._leg.context.metadata.handoff_id
        result = result_of(call, view, fence)
        hooked = await self._hooks.after_tool(call, result)
        agent = self._delegations.agent_of(call)
        said = view.result or "" if hooked.result.content == result.content else None  # without the marks round it

        def quoted(text: str) -> str:
            return text if said is None else result_of(call, replace(view, result=text), fence).content

        guarded = await self._rails.result("delegation", call, hooked.result, said=said, agent=agent, quoted=quoted)
        return replace(hooked, result=guarded.result, records=(*hooked.records, *guarded.records))

    def _finished(self, call: ToolCall, view: JobView, result: ToolResult) -> ToolFinished:
        result = telling_changes(self._turn, call, result)
        agent = self._delegations.agent_of(call)
        return ToolFinished(leg=self._leg.number, result=result, untrusted=self._untrusted.said_by(agent, view))
