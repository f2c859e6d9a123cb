"""How much the terms of the agent files prove, by the agents' own examples.

What a file declares is believed a little: a keyword alone is right in three of four requests, a pattern in seventeen
of twenty. Examples correct that: those of the agent in which the term occurs speak for it, those of others and the
background against it. The evidence of several terms adds up, as logarithms of odds do.

What a request says beside its keywords counts too. Where an agent has examples, words that none of them knows make it
less sure that the request is its own: "top up" alone does not tell a failed top-up from a question about top-ups.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np

from ekiden.dispatcher.routing.lexicon import Lexicon
from ekiden.dispatcher.routing.out_of_scope import OUT_OF_SCOPE
from ekiden.shared.definitions.loader import SHIPPED
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.embedding.word_index import Floats, is_unspaced, words_of

__all__ = ["Evidence", "evidence_of", "words_said"]

_BELIEF = {False: 0.75, True: 0.85}
"""In a keyword, in a pattern, before any example is seen."""
_BELIEF_WEIGHT = 2.0
"""Examples that a belief weighs as much as."""
_LEARNED = 10.0
"""Examples of an agent that weigh as much as its file's word."""
_STRANGENESS = 4.6
"""What a request of which the examples know no word takes from the evidence."""
_MOST_EXAMPLES = 5_000


@dataclass(frozen=True, eq=False)
class Evidence:
    """What speaks for each agent when terms occur, in logarithms of odds. Make one with ``evidence_of``."""

    weights: Floats
    """For each place of the lexicon's ``agents``."""
    maturity: Floats
    """For each agent how much its examples are worth: 0 without any, to 1."""
    known: Mapping[str, Mapping[str, None]]
    """By the agent's number, as text, the words of its examples."""
    rarity: Mapping[str, float]
    """Of each word of the examples."""
    unheard: float
    """The rarity of all others."""

    @property
    def has_examples(self) -> bool:
        """Whether any agent has examples."""
        return bool(self.known)

    def strangeness(self, agent: int, said: set[str]) -> float:
        """Return what is to be taken from the evidence for ``agent``, for the words ``said`` that it does not know."""
        if not self.maturity[agent]:
            return 0.0
        known = self.known.get(str(agent), {})
        weights = {word: self.rarity.get(word, self.unheard) for word in said}
        whole = sum(weights.values())
        unknown = sum(weight for word, weight in weights.items() if word not in known)
        return _STRANGENESS * float(self.maturity[agent]) * (unknown / whole if whole else 0.0)


def evidence_of(agents: Sequence[AgentDefinition], lexicon: Lexicon) -> Evidence:
    """Hold the terms of all ``agents``, which are the ``lexicon``'s, against their examples."""
    examples = _examples(agents)
    count = len(examples) + len(OUT_OF_SCOPE)
    counts = np.array([len(agent.triggers.examples) for agent in agents], dtype=np.float64)
    maturity = counts / (counts + _LEARNED)
    known: dict[str, dict[str, None]] = {}
    frequency = Counter(_words_of_background())
    for owner, text in examples:
        said = words_said(text)
        frequency.update(said)
        known.setdefault(str(owner), {}).update(dict.fromkeys(said))
    rarity = {word: math.log((1 + count) / (1 + having)) for word, having in frequency.items()}
    is_shipped = np.array([agent.scope == SHIPPED for agent in agents], dtype=bool)
    doubts = np.where(is_shipped, 0.0, maturity)  # theirs are written for terms and examples that do not overlap
    return Evidence(_weights(examples, lexicon, doubts), maturity, known, rarity, math.log(1 + count))


def _weights(examples: Sequence[tuple[int, str]], lexicon: Lexicon, doubts: Floats) -> Floats:
    rights = np.zeros(len(lexicon.agents))
    seen = np.zeros(len(lexicon.terms))
    for text in OUT_OF_SCOPE:
        if terms := lexicon.find(text):
            seen[terms] += 1
    for owner, text in examples:
        terms = lexicon.find(text)
        seen[terms] += 1
        places = lexicon.places(terms)
        rights[places[lexicon.agents[places] == owner]] += 1
    each = np.diff(lexicon.starts)
    beliefs = np.repeat([_BELIEF[term.is_pattern] for term in lexicon.terms], each)
    beliefs = 0.5 + (beliefs - 0.5) * (1 - doubts[lexicon.agents])
    odds = (rights + _BELIEF_WEIGHT * beliefs) / (np.repeat(seen, each) + _BELIEF_WEIGHT)
    return np.asarray(np.log(odds / (1 - odds)))


def _examples(agents: Sequence[AgentDefinition]) -> list[tuple[int, str]]:
    """Return the agents' examples, evenly thinned where there are very many."""
    own = [(number, text) for number, agent in enumerate(agents) for text in agent.triggers.examples]
    step = -(-len(own) // _MOST_EXAMPLES) or 1
    return own[::step]


@cache
def _words_of_background() -> Counter[str]:
    return Counter(word for text in OUT_OF_SCOPE for word in words_said(text))


def words_said(text: str) -> set[str]:
    """Return the words of ``text``; in scripts without spaces, the pairs of neighbours."""
    words = words_of(text)
    pairs = {first + second for first, second in pairwise(words) if is_unspaced(first + second)}
    return pairs | {word for word in words if not is_unspaced(word)}
