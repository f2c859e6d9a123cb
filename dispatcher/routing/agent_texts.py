"""The texts that tell an agent's work, and their vectors: what its file says, and requests made from that."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ekiden.dispatcher.routing.made_requests import MOST_PHRASES, made_requests
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.embedding.encoder import Encoder, Vectors

__all__ = ["LONGEST", "AgentVectors", "about", "encoded", "texts_of"]

LONGEST = 2_000
"""Characters of a text that are looked at."""
_MOST_PHRASES = 1_200
"""Of a catalog: the larger it is, the fewer are made for each agent, for each costs milliseconds and kilobytes."""


@dataclass(frozen=True, eq=False)
class AgentVectors:
    """One agent's texts as vectors, a row each."""

    texts: Vectors
    """Of ``texts_of`` it."""
    made: Vectors
    """Of the requests made from its file; perhaps none."""


def about(agent: AgentDefinition) -> str:
    """Return the agent's name with its description."""
    name = " ".join(agent.name.replace("_", " ").replace("-", " ").split())
    return f"{name}. {agent.description}"[:LONGEST]


def texts_of(agent: AgentDefinition) -> list[str]:
    """Return what tells an agent's work: its name with its description, then its examples."""
    return [about(agent), *(text[:LONGEST] for text in dict.fromkeys(agent.triggers.examples))]


def encoded(
    agents: Sequence[AgentDefinition], encoder: Encoder, known: Mapping[tuple[str, int], AgentVectors]
) -> dict[tuple[str, int], AgentVectors]:
    """Return the vectors of all ``agents`` in their order, by digest and phrases of each; those ``known`` are kept."""
    phrases = min(MOST_PHRASES, _MOST_PHRASES // max(len(agents), 1))
    keys = [(agent.digest, phrases) for agent in agents]
    new = [agent for agent, key in zip(agents, keys, strict=True) if key not in known]
    pairs = [(texts_of(agent), made_requests(agent, phrases)) for agent in new]
    vectors = encoder.encode([text for texts, made in pairs for text in (*texts, *made)])
    ends = np.cumsum([len(part) for pair in pairs for part in pair])
    parts = iter(np.split(vectors, ends[:-1])) if new else iter(())
    fresh = {(agent.digest, phrases): AgentVectors(next(parts), next(parts)) for agent in new}
    return {key: fresh.get(key) or known[key] for key in keys}
