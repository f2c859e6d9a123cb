"""Requests made from an agent's description, as users might put them: most files have no example.

``Sets, shows and cancels alarms.`` gives ``set alarms``, ``show alarms`` and ``cancel alarms``, each in the forms in
which people ask. A request is closer in meaning to such a text than to a description.
"""

import re
from collections.abc import Iterator

from ekiden.shared.definitions.model import AgentDefinition

__all__ = ["FORMS", "MOST_PHRASES", "made_requests", "phrases_of"]

MOST_PHRASES = 8
"""Of an agent."""
_LONGEST = 300
"""Characters of a phrase."""
_FORMS = ("{}", "i want to {}", "can you {}")
_CHINESE_FORMS = ("{}", "我想{}", "请帮我{}")
FORMS = len(_FORMS)
"""Requests that are made from a phrase, in either language."""
_CHINESE = re.compile(r"[\u3400-\u9fff]")
_CLAUSE = re.compile(r"(?<=[a-z0-9)])\.\s+|\.$|[;:。；：]|\s-\s|\n")
_COORDINATED = re.compile(r",\s*(?:and\s+|or\s+)?|\s+and\s+|\s+or\s+|，|、|和|与|及|或")
_LEAD = re.compile(
    r"^(use (this )?(agent )?(proactively )?(when|to|for|if|after|before|whenever)\s+(you|the user|users?|a user)?\s*"
    r"(needs?|wants?|asks?)?\s*(to|for)?|use (this agent|it)|must be used|specializes? in|expert (in|at)|"
    r"the customer('s)?( wants| has| forgot| needs)?( to)?|(answers|handles) (questions|requests)?\s*(on|about|of)?|"
    r"helps? (the )?(customer|user)?\s*with|tells the customer|explains?|gives|tells|finds out why|finds)\s+",
    re.IGNORECASE,
)
_THIRD_PERSON = re.compile(r"[A-Za-z]{2,}[^s\W]s")
_IRREGULAR = {"does": "do", "goes": "go", "has": "have", "is": "be"}


def made_requests(agent: AgentDefinition, phrases: int = MOST_PHRASES) -> list[str]:
    """Return for each of the first ``phrases`` things that the agent does the forms of a request for it."""
    found = phrases_of(agent.description)[:phrases]
    return [
        form.replace("{}", phrase)
        for phrase in found
        for form in (_CHINESE_FORMS if _CHINESE.search(phrase) else _FORMS)
    ]


def phrases_of(description: str) -> list[str]:
    """Return the things that ``description`` says an agent does, as in a request: bare verbs, each with its object."""
    found = [phrase.strip(" .")[:_LONGEST] for clause in _clauses(description) for phrase in _phrases(clause)]
    return [phrase for phrase in dict.fromkeys(found) if len(phrase) > 1]


def _clauses(description: str) -> Iterator[str]:
    for clause in _CLAUSE.split(description):
        if clause and len(clause.strip(' "\\')) > 2:
            yield clause.strip(' "\\')


def _phrases(clause: str) -> Iterator[str]:
    stripped = _LEAD.sub("", clause)
    yield stripped
    yield from _shared(clause)
    if stripped != clause:
        yield from _shared(stripped)


def _shared(clause: str) -> list[str]:
    """Return the coordinated parts; verbs share the object that follows them, objects the verb before them."""
    parts = [part.strip() for part in _COORDINATED.split(clause) if part.strip()]
    phrases: list[str] = []
    waiting: list[str] = []
    verb = ""
    for part in parts:
        first, *others = part.split()
        if not _THIRD_PERSON.fullmatch(first) or first.lower().endswith(("ions", "ings")):
            phrases += [part, *([f"{verb} {part}"] if verb and len(others) < 3 else [])]
        elif others:
            verb, what = _bare(first), " ".join(others)
            phrases += [f"{one} {what}" for one in (verb, *waiting)]
            waiting = []
        elif part is parts[-1] or verb:
            phrases.append(part)
        else:
            waiting.append(_bare(first))
    return phrases + waiting


def _bare(verb: str) -> str:
    """Return the infinitive of a verb's third person."""
    lower = verb.lower()
    if lower in _IRREGULAR:
        return _IRREGULAR[lower]
    if lower.endswith("ies") and len(lower) > 4:
        return lower[:-3] + "y"
    return lower[:-2] if re.search(r"(ss|sh|ch|x|z|o)es$", lower) else lower[:-1]
