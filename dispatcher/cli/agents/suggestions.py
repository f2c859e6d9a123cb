"""What would help requests to find an agent: keywords and examples, made of the words of its file."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ekiden.dispatcher.routing.inflections import folded
from ekiden.dispatcher.routing.made_requests import phrases_of
from ekiden.dispatcher.routing.out_of_scope import OUT_OF_SCOPE
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.embedding.stems import stems_of
from ekiden.shared.embedding.word_index import is_unspaced, words_of

__all__ = ["Suggestion", "from_words", "has_own_words", "usable"]

MOST_KEYWORDS = 8
MOST_EXAMPLES = 12
_LONGEST = {"keywords": 40, "examples": 200}
"""Characters."""
_OF_WORDS = 6
_SHORTEST = 4
"""Characters of a word in a script with spaces, but of the agent's name."""
_BODY = 4_000
"""Characters of an agent's instructions that are looked at."""
_OF_ALL = (
    "agent answer assist general good helper kind need question request handle helps something someone support task "
    "thing user various work worker"
)
"""Words that files of agents are full of."""
_OF_ALL_CHINESE = re.compile(
    "处理|各种|各类|问题|任务|帮助|协助|回答|解答|助手|需要|用户|事情|一切|所有|工作|通用|智能|提供|支持"
)
_LISTS = re.compile(r"[,;、，]|^(?:and|or)\b", re.IGNORECASE)
_ABOUT = 3
"""What a word of the name, the title or the description counts, against one of the instructions."""


@dataclass(frozen=True)
class Suggestion:
    """What could be put into an agent's triggers."""

    keywords: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()

    @property
    def lists(self) -> dict[str, tuple[str, ...]]:
        """The lists by their names in the file."""
        return {"keywords": self.keywords, "examples": self.examples}

    def __bool__(self) -> bool:
        return bool(self.keywords or self.examples)


def from_words(agent: AgentDefinition, others: Iterable[AgentDefinition]) -> Suggestion:
    """Return words that the file of ``agent`` has alone, and what its description says that it does, as requests."""
    examples = [phrase for phrase in phrases_of(agent.description) if _asks_for_one_thing(phrase)]
    return usable(_keywords(agent, others), examples, agent, others, most_keywords=_OF_WORDS)


def usable(
    keywords: Iterable[str],
    examples: Iterable[str],
    agent: AgentDefinition,
    others: Iterable[AgentDefinition],
    *,
    most_keywords: int = MOST_KEYWORDS,
) -> Suggestion:
    """Return what of it is new for ``agent``, no keyword of another agent, and fit for a file."""
    taken = {folded(word) for other in others for word in other.triggers.keywords}
    known = {folded(word) for word in agent.triggers.keywords} | taken
    said = {folded(text) for text in agent.triggers.examples}
    return Suggestion(
        tuple(_new(keywords, known, _LONGEST["keywords"]))[:most_keywords],
        tuple(_new(examples, said, _LONGEST["examples"]))[:MOST_EXAMPLES],
    )


def _new(texts: Iterable[str], known: set[str], longest: int) -> Iterator[str]:
    seen = set(known)
    for text in (" ".join(text.split()) for text in texts):
        if 1 < len(text) <= longest and text.isprintable() and folded(text) not in seen:
            seen.add(folded(text))
            yield text


def _keywords(agent: AgentDefinition, others: Iterable[AgentDefinition]) -> list[str]:
    """Return words of its name, or that come again, which no other agent's file is about; the most telling first."""
    common = {stem for other in others if other.name != agent.name for stem in _stems(_about(other))}
    common |= {stem for text in (*OUT_OF_SCOPE, *agent.triggers.keywords, _OF_ALL) for stem in _stems(text)}
    about, body = Counter(_stems(_about(agent))), Counter(_stems(agent.instructions[:_BODY]))
    forms = _forms(f"{_about(agent)} {agent.instructions[:_BODY]}")
    name = set(_stems(_spaced(agent.name)))
    weights = {
        stem: _ABOUT * count + min(body[stem], _ABOUT)
        for stem, count in about.items()
        if stem in name or (count + body[stem] > 1 and _is_word(stem))
    }
    best = sorted(weights.keys() - common, key=lambda stem: (-weights[stem], list(about).index(stem)))
    return [forms.get(stem, stem) for stem in best]


def has_own_words(agent: AgentDefinition) -> bool:
    """Tell whether anything in the agent's file but its instructions says what its work is."""
    triggers = agent.triggers
    texts = (_spaced(agent.name), agent.title, agent.description, *triggers.keywords, *triggers.examples)
    words = set(_stems(_OF_ALL_CHINESE.sub(" ", " ".join(texts))))
    return bool(triggers.patterns or words - set(_stems(_OF_ALL)))


def _about(agent: AgentDefinition) -> str:
    return " ".join((_spaced(agent.name), agent.title, agent.description, *agent.triggers.keywords))


def _spaced(name: str) -> str:
    return name.replace("-", " ").replace("_", " ")


def _asks_for_one_thing(phrase: str) -> bool:
    """Tell whether a piece of a description could be a request: no list of things, no bare name of one."""
    if is_unspaced(phrase):
        return True
    return len(set(_stems(phrase)) - set(_stems(_OF_ALL))) > 1 and not _LISTS.search(phrase)


def _stems(text: str) -> list[str]:
    return [stem for stem in stems_of(text) if len(stem) > (1 if is_unspaced(stem) else 2)]


def _is_word(stem: str) -> bool:
    return is_unspaced(stem) or (stem.isalpha() and len(stem) >= _SHORTEST)


def _forms(text: str) -> dict[str, str]:
    """Return each stem's shortest form in ``text``: a keyword is met in its inflections, too."""
    forms: dict[str, str] = {}
    for word in words_of(text):
        for stem in stems_of(word):
            forms[stem] = min(forms.get(stem, word), word, key=len)
    return forms
