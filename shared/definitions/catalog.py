"""The catalog: the agent definitions in force, checked against each other and named by content hash."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from types import MappingProxyType

from shared.definitions.model import AgentDefinition, HandoffRule, sha256_of
from shared.definitions.names import ToolNames
from shared.definitions.problems import Problem
from shared.errors import UnknownAgent

__all__ = ["Catalog", "build_catalog"]


@dataclass(frozen=True, eq=False)
class Catalog:
    """Agent definitions by name. Make one with ``build_catalog``, which checks the references between them."""

    agents: Mapping[str, AgentDefinition]

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
        """Agent name to the SHA-256 of its definition."""
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
    definitions: Iterable[AgentDefinition], sources: Mapping[str, str] | None = None
) -> tuple[Catalog, list[Problem]]:
    """Check the definitions against each other and make the catalog of what stands.

    Two agents whose transfer tools would have the same name: the second by name is left out. A handoff to an agent that
    does not exist, or to the agent itself: the edge is left out, the agent stays. Each is an error problem.

    Args:
        definitions: With unique names, as the loader gives them.
        sources: The file of each agent, for the problems.
    """
    check = _Check({definition.name: definition for definition in definitions}, sources or {})
    check.leave_out_collisions()
    check.leave_out_dangling_edges()
    return Catalog(check.agents), check.problems


class _Check:
    def __init__(self, agents: dict[str, AgentDefinition], sources: Mapping[str, str]) -> None:
        self.agents = agents
        self.problems: list[Problem] = []
        self._sources = sources

    def leave_out_collisions(self) -> None:
        for tool, (first, *others) in ToolNames(self.agents).collisions.items():
            for other in others:
                self._note(
                    other,
                    f"agents {first!r} and {other!r} would share the tool {tool!r}; {other!r} is left out. Rename one",
                )
                del self.agents[other]

    def leave_out_dangling_edges(self) -> None:
        for name, agent in sorted(self.agents.items()):
            kept = tuple(rule for rule in agent.handoffs if self._stands(name, rule))
            if len(kept) != len(agent.handoffs):
                self.agents[name] = agent.model_copy(update={"handoffs": kept})

    def _stands(self, name: str, rule: HandoffRule) -> bool:
        if rule.to == name:
            self._note(name, f"agent {name!r} hands over to itself; this handoff is left out. Remove it")
            return False
        if rule.to in self.agents:
            return True
        near = _near(rule.to, self.agents)
        advice = f"Did you mean {_alternatives(near)}?" if near else "Add that agent, or remove the handoff"
        self._note(name, f"agent {name!r} hands over to {rule.to!r}, which does not exist; left out. {advice}")
        return False

    def _note(self, name: str, message: str) -> None:
        self.problems.append(Problem(self._sources.get(name, name), None, "error", message, "references"))


def _near(name: str, names: Iterable[str]) -> list[str]:
    by_folded = {known.casefold(): known for known in names}
    return [by_folded[folded] for folded in get_close_matches(name.casefold(), by_folded, n=3)]


def _alternatives(names: list[str]) -> str:
    return " or ".join(map(repr, names))
