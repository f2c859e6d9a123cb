"""What other agent files would decide otherwise about the steps of a job: edges, rights, limits. Models are not asked.

Each step is looked at as if those before it had been the same, and the model's words too.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from ekiden.dispatcher.journal.used_limits import Leg, changed_limits, legs_of
from ekiden.shared.definitions.catalog import Catalog
from ekiden.shared.definitions.graph import Graph
from ekiden.shared.definitions.model import AgentDefinition, HandoffRule
from ekiden.shared.definitions.tool_names import SAFE_TOOLS
from ekiden.shared.definitions.transfer_names import agent_meant
from ekiden.shared.messages import ToolCall
from ekiden.shared.policy.cases import tool_use
from ekiden.shared.policy.engine import Policy
from ekiden.shared.policy.policies import agents_policy
from ekiden.shared.records import (
    ApprovalAsked,
    Delegated,
    Entry,
    Forked,
    HandedOff,
    JobRequested,
    ModelReplied,
    Record,
    Refused,
    ToolStarted,
    shared_in,
)

__all__ = ["Change", "JobChanges", "changes_in"]

Kind = Literal["route", "handoff", "tool", "limit"]
_NO_EDGE = "PERMISSION_DENIED"
_OPEN = "not decided"
_CONTROLS = ("complete_task", "exit")
_OF_FOLDERS = ("scope", "untrusted")
"""What definitions have of the folder that their file lies in: the same file says the same anywhere."""


@dataclass(frozen=True)
class Change:
    """A decision that would be another one.

    Attributes:
        job: Whose step it is: a delegated job's, perhaps.
        seq: The step.
        kind: What is decided.
        agent: About whom.
        was: What was decided.
        would_be: What would be; ``not decided``: it depends on more than files.
        why: For people.
        count: How often in a row of equal ones.
    """

    job: str
    seq: int
    kind: Kind
    agent: str
    was: str
    would_be: str
    why: str
    count: int = 1


@dataclass
class JobChanges:
    """What would be otherwise in a job and in what it has delegated.

    Attributes:
        job: The root job.
        changes: In the order of the steps.
        replies: How many answers of models there are: they are taken by position, whatever they were asked.
        other_prompts: Of how many the agent has another file, so that its model would be asked something else.
        is_known: Whether the files that it ran with are still stored; else what happened stands for them.
    """

    job: str
    changes: list[Change] = field(default_factory=list)
    replies: int = 0
    other_prompts: int = 0
    is_known: bool = True


def changes_in(job: str, entries: Sequence[Entry], old: Catalog | None, new: Catalog, policy: Policy) -> JobChanges:
    """Compare what was decided in one journal with what would be.

    Args:
        job: Whose it is.
        entries: The journal; the steps that a fork shares are the other job's.
        old: The agents that it ran with; None: they are not stored any more.
        new: Those to compare with.
        policy: The operator's, for both.
    """
    judge = _Judge(job, entries, old, new, policy)
    shared = shared_in(entries)
    own = [leg for leg in legs_of(entries) if leg.agent and leg.seq > shared]
    found = [change for entry in entries[shared:] for change in judge.changes(entry)]
    found += [change for leg in own for change in judge.limits(leg)]
    replies = [(leg, reply) for leg in own for reply in leg.replies[leg.shared :]]
    other = sum(_is_other(old, new, leg.agent, reply) for leg, reply in replies)
    return JobChanges(job, _merged(found), len(replies), other, old is not None)


def _is_other(old: Catalog | None, new: Catalog, agent: str, reply: ModelReplied) -> bool:
    """Tell whether an agent has another file now than when it got a reply, wherever the two lie."""
    if reply.fingerprint is None or agent not in new:
        return True
    asked = reply.fingerprint.definition
    if old is not None and old.digests.get(agent) == asked:
        return _other_field(old.agents[agent], new.agents[agent], _OF_FOLDERS) is not None
    return new.digests[agent] != asked


def _other_field(old: BaseModel, new: BaseModel, but: Collection[str] = ()) -> str | None:
    """Return the first field in which two of a kind differ."""
    fields = (name for name in type(old).model_fields if name not in but)
    return next((name for name in fields if getattr(old, name) != getattr(new, name)), None)


def _graph_difference(old: Graph | None, new: Graph | None) -> str:
    """Say what first differs: of the nodes, of the edges, else of what is about the whole graph."""
    if old is None or new is None:
        return "it has none" if new is None else "it had none"
    before, now = _parts(old), _parts(new)
    for name in dict.fromkeys((*before, *now)):
        if name not in now:
            return f"{name} is gone"
        if name not in before:
            return f"{name} is new"
        if field := _other_field(before[name], now[name]):
            return f"{name} has another {field}"
    field = _other_field(old, new, ("nodes", "edges"))
    return f"it has another {field}" if field else "its parts are in another order"


def _merged(changes: Sequence[Change]) -> list[Change]:
    """Return equal changes once, with how often there are."""
    found: dict[tuple[str, ...], Change] = {}
    for one in sorted(changes, key=lambda change: change.seq):
        key = (one.kind, one.agent, one.was, one.would_be, one.why)
        before = found.get(key)
        found[key] = one if before is None else Change(**{**vars(before), "count": before.count + 1})
    return list(found.values())


def _parts(graph: Graph) -> dict[str, BaseModel]:
    nodes = {f"node {node.name}": node for node in graph.nodes}
    return {**nodes, **{f"edge {edge.from_} → {edge.to}": edge for edge in graph.edges}}


class _Judge:
    """Decides about the steps of one journal by both catalogs."""

    def __init__(self, job: str, entries: Sequence[Entry], old: Catalog | None, new: Catalog, policy: Policy) -> None:
        records = [entry.record for entry in entries]
        request = next((one for one in records if isinstance(one, JobRequested)), None)
        self._job = job
        self._old, self._new, self._policy = old, new, policy
        self._bounds = request.bounds if request is not None else ()
        self._cwd = Path(request.cwd) if request is not None and request.cwd else Path.cwd()
        self._asked = {(one.leg, one.call_id) for one in records if isinstance(one, ApprovalAsked)}
        self._started = {(one.leg, one.call_id) for one in records if isinstance(one, ToolStarted)}
        self._agents = {one.leg + 1: one.context.to_agent for one in records if isinstance(one, HandedOff)}
        self._had = set(self._agents.values())
        self._users = {one.leg for one in records if isinstance(one, Forked) and one.agent}

    def changes(self, entry: Entry) -> Iterator[Change]:
        """Yield what would be otherwise about a step."""
        record = entry.record
        agent = self._agents.get(record.leg, "")
        match record:
            case HandedOff(kind="handoff", context=context) if record.leg + 1 not in self._users:
                yield from self._edge(entry, agent, context.to_agent, is_automatic=record.call_id is None)
                yield from self._depth(entry, agent, context.metadata.chain_depth)
            case HandedOff(kind="edge"):
                yield from self._graph(entry, record.context.graphs[-1].graph)
            case Delegated() if not self._is_graph(agent):
                yield from self._delegation(entry, agent, record.agent)
            case Refused(code=code, name=name) if code == _NO_EDGE and agent:
                yield from self._refused(entry, agent, name)
            case ModelReplied(message=message) if agent:
                for call in message.calls:
                    yield from self._call(entry, agent, call)

    def limits(self, leg: Leg) -> Iterator[Change]:
        """Yield what limits would end a leg that went on, or let one go on that they have ended."""
        old, new = self._of(self._old, leg.agent), self._of(self._new, leg.agent)
        if new is not None:
            for was, would_be, why in changed_limits(leg, old.limits if old else None, new.limits):
                yield Change(self._job, leg.seq, "limit", leg.agent, was, would_be, why)

    def _of(self, catalog: Catalog | None, agent: str) -> AgentDefinition | None:
        return catalog.agents.get(agent) if catalog is not None else None

    def _edge(self, entry: Entry, agent: str, to: str, *, is_automatic: bool) -> Iterator[Change]:
        def change(would_be: str, why: str) -> Change:
            return Change(self._job, entry.seq, "handoff", agent, f"handed over to {to}", would_be, why)

        definition = self._of(self._new, agent)
        if definition is None or to not in self._new:
            yield change("refused", f"there is no agent {to if definition else agent!r}")
            return
        before = self._of(self._old, agent)
        rule = _rule(definition, to, is_automatic)
        had = _rule(before, to, is_automatic) if before is not None else None
        if rule is None:
            may_return = definition.transfer_to_parent and not is_automatic and to in self._had
            if not may_return:
                yield change("refused", f"{agent} hands over to {to} no more")
        elif rule.condition and (had is None or had.condition != rule.condition) and self._old is not None:
            yield change(_OPEN, f"it depends on another condition now: {rule.condition}")

    def _is_graph(self, agent: str) -> bool:
        """Tell whether an agent is a graph, whose steps are no delegations of a model."""
        return any(one is not None and one.graph for one in (self._of(self._old, agent), self._of(self._new, agent)))

    def _graph(self, entry: Entry, agent: str) -> Iterator[Change]:
        """What a graph's edges lead to depends on what its nodes give: another graph is told of, not followed."""
        old, new = self._of(self._old, agent), self._of(self._new, agent)
        if new is None or (old is not None and old.graph != new.graph):
            why = f"there is no agent {agent!r}"
            if new is not None and old is not None:
                why = f"the graph of {agent} is another one: {_graph_difference(old.graph, new.graph)}"
            yield Change(self._job, entry.seq, "handoff", agent, "took a step of its graph", _OPEN, why)

    def _depth(self, entry: Entry, agent: str, depth: int) -> Iterator[Change]:
        new = self._of(self._new, agent)
        if new is not None and depth > new.limits.max_handoff_depth:
            why = f"max_handoff_depth is {new.limits.max_handoff_depth}"
            yield Change(self._job, entry.seq, "limit", agent, f"handed over, {depth} deep", "refused", why)

    def _delegation(self, entry: Entry, agent: str, to: str) -> Iterator[Change]:
        definition = self._of(self._new, agent)
        if definition is None or to not in self._new or to not in {one.agent for one in definition.subagents}:
            gone = next((name for name in (agent, to) if name not in self._new), None)
            why = f"there is no agent {gone!r}" if gone else f"{agent} delegates to {to} no more"
            yield Change(self._job, entry.seq, "handoff", agent, f"delegated to {to}", "refused", why)

    def _refused(self, entry: Entry, agent: str, name: str) -> Iterator[Change]:
        definition = self._of(self._new, agent)
        to = agent_meant(name, definition.targets) if definition is not None else None
        if to is not None and to in self._new:
            was = f"refused to hand over to {to}"
            yield Change(self._job, entry.seq, "handoff", agent, was, "handed over", f"{agent} may hand over to {to}")

    def _call(self, entry: Entry, agent: str, call: ToolCall) -> Iterator[Change]:
        use = tool_use(call.name, call.args, cwd=self._cwd, agent=agent)
        if use.is_control or call.name in _CONTROLS:
            return
        old, new = self._of(self._old, agent), self._of(self._new, agent)
        was = self._verdict(old, call) if old is not None else self._happened(entry.record, call)
        would_be = self._verdict(new, call) if new is not None else "deny"
        if was != would_be:
            why = f"by the file of {agent}" if new is not None else f"there is no agent {agent!r}"
            yield Change(self._job, entry.seq, "tool", agent, f"{use.tool}: {was}", would_be, why)

    def _happened(self, record: Record, call: ToolCall) -> str:
        key = record.leg, call.id
        return "ask" if key in self._asked else "allow" if key in self._started else "deny"

    def _verdict(self, agent: AgentDefinition, call: ToolCall) -> str:
        use = tool_use(call.name, call.args, cwd=self._cwd, agent=agent.name)
        reads = use.tool in SAFE_TOOLS
        permitted = agent.permits(use.tool, only_reads=reads)
        if not permitted or not all(rules.permits(use.tool, only_reads=reads) for rules in self._bounds):
            return "deny"
        return agents_policy(self._policy, agent, self._bounds).decide(use).verdict


def _rule(agent: AgentDefinition, to: str, is_automatic: bool) -> HandoffRule | None:
    when = "auto" if is_automatic else "manual"
    return next((rule for rule in agent.handoffs if rule.to == to and rule.when == when), None)
