"""The catalog: the agent definitions in force, checked against each other and named by content hash."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Literal, TypeVar

from ekiden.shared.definitions.graph_references import broken_graphs
from ekiden.shared.definitions.model import AgentDefinition, HandoffRule, Subagent, sha256_of
from ekiden.shared.definitions.places import line_in
from ekiden.shared.definitions.problems import Aspect, Problem, Severity
from ekiden.shared.definitions.transfer_names import ToolNames, transfer_tool_name
from ekiden.shared.errors import UnknownAgent
from ekiden.shared.suggestions import nearest

__all__ = ["Catalog", "build_catalog"]

Edges = Literal["handoffs", "subagents"]
Rule = TypeVar("Rule", HandoffRule, Subagent)

_TOOLS_OF_ALL = ("transfer_to_agent", "transfer_to_parent")
"""What agents call others by beside a tool for each; ``delegate_to_agent`` ends as the first one does."""


@dataclass(frozen=True, eq=False)
class Catalog:
    """Agent definitions by name. Make one with ``build_catalog``, which checks the references between them."""

    agents: Mapping[str, AgentDefinition]
    stored_as: Mapping[str, str] | None = None
    """Agent name to the digest that the store has it by; None: not from the store."""

    def __post_init__(self) -> None:
        ordered = {name: self.agents[name] for name in sorted(self.agents)}
        object.__setattr__(self, "agents", MappingProxyType(ordered))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Catalog) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __len__(self) -> int:
        return len(self.agents)

    def __contains__(self, name: object) -> bool:
        return name in self.agents

    @cached_property
    def digests(self) -> Mapping[str, str]:
        """Agent name to the SHA-256 of its definition, as whoever published it has written it."""
        if self.stored_as is not None:  # another version's defaults would make it another one
            return MappingProxyType(dict(self.stored_as))
        return MappingProxyType({name: agent.digest for name, agent in self.agents.items()})

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the map name to digest: what a job pins."""
        return sha256_of(self.manifest())

    @cached_property
    def tool_names(self) -> ToolNames:
        """The transfer tools of these agents."""
        return ToolNames(self.agents)

    @property
    def names(self) -> tuple[str, ...]:
        """The agents' names, sorted."""
        return tuple(self.agents)

    def manifest(self) -> dict[str, str]:
        """Return the map name to digest as JSON has it."""
        return dict(self.digests)

    @classmethod
    def from_store(cls, manifest: Mapping[str, str], definitions: Mapping[str, str]) -> "Catalog":
        """Read a published catalog: name -> digest, and digest -> JSON. Raises ``UnreadableDefinition``."""
        return cls(
            {name: AgentDefinition.from_json(definitions[digest]) for name, digest in manifest.items()}, manifest
        )

    def to_store(self) -> tuple[str, dict[str, str], dict[str, str]]:
        """Return what is published: the digest, name -> digest, and digest -> JSON."""
        texts = {self.digests[name]: agent.to_json() for name, agent in self.agents.items()}
        return self.digest, self.manifest(), texts

    def definition(self, name: str) -> AgentDefinition:
        """Return the definition of the agent ``name``.

        Raises:
            UnknownAgent: there is none; the message has the near names.
        """
        try:
            return self.agents[name]
        except KeyError:
            raise UnknownAgent(f"No agent is named {name!r}. {self._advice(name)}") from None

    def suggest(self, name: str) -> list[str]:
        """Return up to three agents whose names are near to ``name``, nearest first."""
        return _near(name, self.agents)

    def _advice(self, name: str) -> str:
        if not self.agents:
            return "The catalog has no agents"
        if near := self.suggest(name):
            return f"Did you mean {_alternatives(near)}?"
        return f"The catalog has {', '.join(map(repr, self.agents))}"


def build_catalog(
    definitions: Iterable[AgentDefinition],
    sources: Mapping[str, str] | None = None,
    broken: Mapping[str, str] | None = None,
) -> tuple[Catalog, list[Problem]]:
    """Check the definitions against each other and make the catalog of what stands.

    Two agents whose transfer tools would have the same name: the second by name is left out; so is one whose tool would
    have the name of a tool that all agents have. A handoff or a delegation to an agent that does not exist, or to the
    agent itself: the edge is left out, the agent stays. Agents that hand over to each other without end, asking nobody:
    the handoff of the first by name is left out. Each is an error problem.
    A graph that names what is not there, or that runs itself through others: its agent is left out.
    Agents that may delegate to each other in a round are a warning.

    Args:
        definitions: With unique names, as the loader gives them.
        sources: The file of each agent, for the problems.
        broken: Agents that are not there because their files have errors, each with the place of the first one.
    """
    check = _Check({definition.name: definition for definition in definitions}, sources or {}, broken or {})
    check.leave_out_collisions()
    check.leave_out_broken_graphs()
    check.leave_out_dangling_edges()
    check.leave_out_endless_rounds()
    check.warn_of_rounds_of_delegation()
    return Catalog(check.agents), check.problems


class _Check:
    def __init__(
        self, agents: dict[str, AgentDefinition], sources: Mapping[str, str], broken: Mapping[str, str]
    ) -> None:
        self._broken = broken
        self.agents = agents
        self.problems: list[Problem] = []
        self._sources = sources
        self._named = frozenset(agents)

    def leave_out_collisions(self) -> None:
        for name in [name for name in sorted(self.agents) if transfer_tool_name(name) in _TOOLS_OF_ALL]:
            tool = transfer_tool_name(name)
            self._note(name, "name", f"agent {name!r} would have {tool!r}, a tool of all agents; left out. Rename it")
            del self.agents[name]
        for tool, (first, *others) in ToolNames(self.agents).collisions.items():
            for other in others:
                self._note(
                    other,
                    "name",
                    f"agents {first!r} and {other!r} would share the tool {tool!r}; {other!r} is left out. Rename one",
                )
                del self.agents[other]

    def leave_out_broken_graphs(self) -> None:
        """Until all stand: an agent that is left out may be part of another's graph."""
        while broken := broken_graphs(self.agents, self._named, self._broken):
            for name, faults in broken.items():
                for place, message in faults:
                    said = message if message.endswith("?") else f"{message}."
                    self._note(name, "graph", f"{said} Agent {name!r} is left out", place=place)
                del self.agents[name]

    def leave_out_dangling_edges(self) -> None:
        tools = ToolNames(self.agents)
        for name, agent in sorted(self.agents.items()):
            handoffs = self._standing(name, "handoffs", agent.handoffs, tools)
            subagents = self._standing(name, "subagents", agent.subagents, tools)
            if (handoffs, subagents) != (agent.handoffs, agent.subagents):
                self.agents[name] = agent.model_copy(update={"handoffs": handoffs, "subagents": subagents})

    def _standing(self, name: str, field: Edges, rules: Iterable[Rule], tools: ToolNames) -> tuple[Rule, ...]:
        """Return the edges that lead to agents, also to one that took another's place under a like name."""
        kept: dict[str, Rule] = {}
        key = _EDGES[field][2]
        for rule in rules:
            written: str = getattr(rule, key)
            heir = None if written in self._named else tools.agent_for(transfer_tool_name(written))
            target = heir or written
            if target not in kept and self._stands(name, field, target):
                kept[target] = rule.model_copy(update={key: target})
        return tuple(kept.values())

    def leave_out_endless_rounds(self) -> None:
        for name in sorted(self.agents):
            while round_ := self._endless_round(name):
                text = " → ".join(map(repr, [*round_, name]))
                self._note(
                    name,
                    "handoffs",
                    f"{text}: these hand over automatically and without a condition, so that nobody ever answers; "
                    f"the handoff of {name!r} is left out. Give one of them a condition",
                )
                agent = self.agents[name]
                kept = tuple(rule for rule in agent.handoffs if rule.to != _always_next(agent))
                self.agents[name] = agent.model_copy(update={"handoffs": kept})

    def _endless_round(self, first: str) -> list[str]:
        """Return the agents that control goes through until it is back at ``first``; empty: it never is."""
        passed = {first: None}  # in order, and quick to look up: a chain may have a thousand agents
        last = first
        while (target := _always_next(self.agents[last])) not in passed:
            if target is None:
                return []
            passed[target] = None
            last = target
        return list(passed) if target == first else []

    def _stands(self, name: str, field: Edges, target: str) -> bool:
        does, edge, _ = _EDGES[field]
        if target == name:
            self._note(name, field, f"agent {name!r} {does} itself; this {edge} is left out. Remove it")
            return False
        if target in self.agents:
            return True
        if target in self._broken:
            said = (
                f"agent {name!r} {does} {target!r}, whose file has errors ({self._broken[target]}); left out. Mend it"
            )
            self._note(name, field, said)
            return False
        near = _near(target, self.agents)
        advice = f"Did you mean {_alternatives(near)}?" if near else f"Add that agent, or remove the {edge}"
        self._note(name, field, f"agent {name!r} {does} {target!r}, which does not exist; left out. {advice}")
        return False

    def warn_of_rounds_of_delegation(self) -> None:
        calls = {name: {rule.agent for rule in agent.subagents} for name, agent in self.agents.items()}
        below = {name: _below(name, calls) for name in calls}
        for name, reached in sorted(below.items()):
            round_ = sorted(other for other in reached if name in below[other])
            if round_[:1] == [name]:  # once for each round
                self._note(
                    name,
                    "subagents",
                    f"agents {', '.join(map(repr, round_))} may delegate to each other in a round; "
                    "only 'max_handoff_depth' ends it",
                    "warning",
                )

    def _note(
        self,
        name: str,
        aspect: Aspect,
        message: str,
        severity: Severity = "error",
        place: tuple[str | int, ...] = (),
    ) -> None:
        source, place = self._sources.get(name), place or (aspect,)
        line = line_in(source, place) if source else None
        self.problems.append(Problem(source or name, line, severity, message, aspect, place))


_EDGES = {"handoffs": ("hands over to", "handoff", "to"), "subagents": ("delegates to", "sub-agent", "agent")}


def _always_next(agent: AgentDefinition) -> str | None:
    """Return the agent that takes over from ``agent`` unless a condition says otherwise."""
    return next((rule.to for rule in agent.handoffs if rule.when == "auto" and not rule.condition), None)


def _below(name: str, calls: Mapping[str, set[str]]) -> set[str]:
    """Return the agents that a delegation by ``name`` may lead to, directly or through others."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        new = calls[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def _near(name: str, names: Iterable[str]) -> list[str]:
    by_folded = {known.casefold(): known for known in names}
    return [by_folded[folded] for folded in nearest(name.casefold(), by_folded)]


def _alternatives(names: list[str]) -> str:
    return " or ".join(map(repr, names))
