"""Which agents' own words occur in a request: BM25 over their files, with inflections cut off.

See Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009.
"""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from ekiden.dispatcher.routing.agent_texts import about
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.embedding.postings import Floats, postings_of
from ekiden.shared.embedding.stems import stems_of

__all__ = ["OwnWords"]

_SATURATION = 1.2  # k1
_BY_LENGTH = 0.4  # b
_BODY = 4_000
"""Characters of an agent's instructions that are looked at."""
_OF_BODY = 0.25
"""What a word of the instructions weighs: they also say what is not the agent's work."""


class OwnWords:
    """The words of the agents' names, titles, descriptions, keywords and instructions."""

    def __init__(self, agents: Sequence[AgentDefinition]) -> None:
        documents = [_words(agent) for agent in agents]
        self._size = len(documents)
        lengths = [sum(words.values()) for words in documents]
        mean = sum(lengths) / max(len(lengths), 1) or 1.0
        frequency = Counter(word for words in documents for word in words)
        self._number = {word: number for number, word in enumerate(frequency)}
        rarity = {word: math.log(1 + (self._size - count + 0.5) / (count + 0.5)) for word, count in frequency.items()}
        rows = []
        for words, length in zip(documents, lengths, strict=True):
            damping = _SATURATION * (1 - _BY_LENGTH + _BY_LENGTH * length / mean)
            weights = [rarity[word] * count * (_SATURATION + 1) / (count + damping) for word, count in words.items()]
            rows.append(([self._number[word] for word in words], weights))
        self._postings = postings_of(rows, len(frequency))

    def scores(self, text: str) -> Floats:
        """Return for each agent what share of the words of ``text`` it knows, rare ones counting more: about 0 to 1."""
        scores = np.zeros(self._size)
        whole = 0.0
        for word in set(stems_of(text)):
            number = self._number.get(word)
            agents, weights = _NOWHERE if number is None else self._postings.of(number)
            scores[agents] += weights
            whole += math.log(1 + self._size / (len(agents) + 0.5))
        return scores / whole if whole else scores


_NOWHERE = (np.zeros(0, dtype=np.int64), np.zeros(0))


def _words(agent: AgentDefinition) -> dict[str, float]:
    title = "" if agent.title.casefold() == agent.name.casefold() else agent.title
    words: dict[str, float] = dict(Counter(stems_of(" ".join((about(agent), title, *agent.triggers.keywords)))))
    for word in set(stems_of(agent.instructions[:_BODY])):
        words[word] = words.get(word, 0.0) + _OF_BODY
    return words
