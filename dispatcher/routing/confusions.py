"""Agents that routing mixes up, told without any request: the sentences of their own files, each judged without itself.

Examples are judged as ``Choice.inside`` does. What an agent's description says that it does is held against all agents
as a request would be, its own nearness being that to the rest of its file.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ekiden.dispatcher.routing.agent_texts import about
from ekiden.dispatcher.routing.kept_model import kept_model
from ekiden.dispatcher.routing.made_requests import FORMS, MOST_PHRASES, phrases_of
from ekiden.dispatcher.routing.prior import Prior, mean_of_best
from ekiden.dispatcher.routing.semantic_model import KINDS, SemanticModel, learn
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.embedding.encoder import Encoder, SentenceEncoder, Vectors
from ekiden.shared.embedding.single_thread import single_threaded

__all__ = ["MOST_AGENTS", "Confusion", "confusions"]

_NEAR = 0.08
"""How far behind its own agent another one still is as near to a sentence."""
_SHARE = 2
"""One sentence in so many must be near to the same other agent: some are near to others in any good team."""
MOST_AGENTS = 100
"""Of more, not all phrases are known to the router, and it would take minutes."""


@dataclass(frozen=True)
class Confusion:
    """Sentences of ``agent`` that are as near to ``other``."""

    agent: str
    other: str
    text: str
    """One of these sentences."""
    like: str
    """What the other's file says that is nearest to it."""
    count: int
    sentences: int
    """Of the agent, in all."""


@single_threaded()
def confusions(agents: Sequence[AgentDefinition], judged: Collection[str], encoder: Encoder) -> list[Confusion]:
    """Return with whom the agents of the names ``judged`` are confused; takes seconds where it learns ``agents``.

    These are all that requests go to, ``MOST_AGENTS`` at most: they set the order, too.
    """
    if len(agents) < 2:
        return []
    model = _model_of(agents, encoder)
    said = {
        number: phrases_of(agent.description)[:MOST_PHRASES]
        for number, agent in enumerate(agents)
        if agent.name in judged
    }
    sentences = Counter({number: len(texts) for number, texts in said.items()})
    found: dict[tuple[int, int], list[str]] = {}
    for owner, other, text in (*_of_examples(model, sentences), *_of_phrases(model.choice.prior, said, encoder)):
        found.setdefault((owner, other), []).append(text)
    return [
        Confusion(
            agents[owner].name,
            agents[other].name,
            texts[0],
            _nearest(texts[0], agents[other], encoder),
            len(texts),
            sentences[owner],
        )
        for (owner, other), texts in sorted(found.items())
        if len(texts) * _SHARE >= sentences[owner]
    ]


def _model_of(agents: Sequence[AgentDefinition], encoder: Encoder) -> SemanticModel:
    """Return what routing by meaning learns of the agents; it finds it learned, or the other way round."""
    if isinstance(encoder, SentenceEncoder):
        return kept_model("learned", agents, encoder.name, KINDS, lambda: learn(agents, encoder))
    return learn(agents, encoder)


def _of_examples(model: SemanticModel, sentences: Counter[int]) -> Iterator[tuple[int, int, str]]:
    """Yield the examples of those in ``sentences`` that another agent gets, with both agents, and count all."""
    choice = model.choice
    rows = np.flatnonzero(choice.is_example)
    if not sentences.keys() & set(choice.owners[rows].tolist()):
        return
    for row, scores in zip(rows, choice.inside()[0], strict=False):  # of very many texts none is judged
        owner, best = int(choice.owners[row]), int(scores.argmax())
        if owner not in sentences:
            continue
        sentences[owner] += 1
        if best != owner:
            yield owner, best, choice.texts[row]


def _of_phrases(prior: Prior, said: Mapping[int, Sequence[str]], encoder: Encoder) -> Iterator[tuple[int, int, str]]:
    """Yield the phrases to which another agent is as near, each with its agent and that one."""
    for owner, phrases in said.items():
        if not phrases:
            continue
        vectors = encoder.encode(phrases)
        scores = prior.scores(vectors)
        own = [_without_itself(prior, owner, vectors, number) for number in range(len(phrases))]
        scores[:, owner] = -np.inf
        for phrase, nearness, row in zip(phrases, own, scores, strict=True):
            if row.max() > nearness - _NEAR:
                yield owner, int(row.argmax()), phrase


def _without_itself(prior: Prior, owner: int, vectors: Vectors, number: int) -> float:
    """Return how near the agent ``owner`` is to one of its phrases, by the rest of its file."""
    vector, made = vectors[number], prior.made[owner]
    places = np.arange(len(made)) % (FORMS * len(vectors))  # as often as it takes, see ``prior_of``
    left = places // FORMS != number
    near = float(vector @ prior.about[owner])
    rest = float(mean_of_best((made[left] @ vector)[None])[0]) if left.any() else near
    return 0.5 * near + 0.5 * rest - float(prior.common[owner])


def _nearest(text: str, agent: AgentDefinition, encoder: Encoder) -> str:
    """Return which sentence of the agent's file is nearest to ``text``."""
    texts = [*agent.triggers.examples, *phrases_of(agent.description), about(agent)]
    vectors = encoder.encode([text, *texts])
    return texts[int((vectors[1:] @ vectors[0]).argmax())]
