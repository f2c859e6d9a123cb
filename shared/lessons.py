"""What was learned from requests: whose they were, as it turned out, and what people think of that.

A lesson is an example of an agent with its provenance, kept apart from the agent's file. Here is how lessons stand to
each other: which one counts where two contradict, and how many are kept.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["MOST", "MOST_OF_AGENT", "MOST_OF_USER", "Evidence", "Lesson", "State", "kept", "normalised", "taken_in"]

Evidence = Literal["answered", "passed_on", "named", "chosen"]
"""What speaks for the agent, the weakest first: the router was not sure and its agent answered; agents passed the
request on until this one worked on it; the user repeated the request and named the agent, which had gone to another, or
to nobody (``chosen``)."""
State = Literal["new", "accepted", "refused"]
"""What people think of it: nobody has looked at it, it counts, it never does."""

MOST_OF_USER = 20
"""Lessons of one user for one agent that are kept: nobody teaches alone. As many refused ones are kept beside them."""
MOST_OF_AGENT = 60
MOST = 5_000

_POINTS = "".join((" .,;:!?", "…\"'", "。,;:!?、"))
_RANKS = {evidence: rank for rank, evidence in enumerate(get_args(Evidence))}


class Lesson(BaseModel):
    """A request and the agent that it belonged to."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    text: str = Field(max_length=2_000)
    agent: str = Field(max_length=500)
    evidence: Evidence
    user: str = Field(default="", max_length=500)
    """Whose request it was; empty: nobody said."""
    job: str = ""
    """Which job shows it."""
    at_ms: int = 0
    """When that was asked for, by the server's clock."""
    state: State = "new"
    by: str = ""
    """Who accepted or refused it."""

    @property
    def id(self) -> str:
        """12 hexadecimal digits: of this user's request, whoever it belongs to."""
        return hashlib.sha256(f"{self.user}\0{normalised(self.text)}".encode()).hexdigest()[:12]

    @property
    def weight(self) -> tuple[bool, int, int]:
        """What it is compared by: a person's word before any evidence, the newer before the older."""
        return (self.state == "accepted", _RANKS[self.evidence], self.at_ms)


def normalised(text: str) -> str:
    """Return what two requests have in common that ask for the same in the same words."""
    return " ".join(text.casefold().split()).strip(_POINTS)


def taken_in(known: Mapping[str, Lesson], lessons: Iterable[Lesson]) -> dict[str, Lesson]:
    """Return ``known`` with ``lessons``, by id. The same again changes nothing.

    What people have decided stands, unless the user says himself that the request is another agent's.
    """
    found = dict(known)
    for lesson in lessons:
        before = found.get(lesson.id)
        if before is None or _replaces(lesson, before):
            found[lesson.id] = lesson
    return kept(found.values())


def kept(lessons: Iterable[Lesson]) -> dict[str, Lesson]:
    """Return those that are kept, by id: of each agent, of each user, and of all, no more than their number."""
    counts: Counter[tuple[object, ...]] = Counter()
    found: dict[str, Lesson] = {}
    for lesson in sorted(lessons, key=lambda one: one.weight, reverse=True):
        refused = lesson.state == "refused"
        of_user, of_agent = (refused, lesson.agent, lesson.user), (refused, lesson.agent)
        if len(found) < MOST and counts[of_user] < MOST_OF_USER and counts[of_agent] < MOST_OF_AGENT:
            counts.update([of_user, of_agent])
            found[lesson.id] = lesson
    return found


def _replaces(lesson: Lesson, before: Lesson) -> bool:
    if lesson.agent == before.agent:
        return before.state == "new" and lesson.weight > before.weight
    is_users_word = lesson.evidence in ("named", "chosen")
    return lesson.at_ms > before.at_ms and (is_users_word or (before.state == "new" and _outranks(lesson, before)))


def _outranks(lesson: Lesson, before: Lesson) -> bool:
    return _RANKS[lesson.evidence] >= _RANKS[before.evidence]
