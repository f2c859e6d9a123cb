"""A catalog whose agents have what was learned as further examples."""

from collections.abc import Iterable

from ekiden.dispatcher.routing.base import routable
from ekiden.shared.definitions.catalog import Catalog
from ekiden.shared.lessons import Lesson, normalised

__all__ = ["taught"]


def taught(catalog: Catalog, lessons: Iterable[Lesson], *, accepted_only: bool = False) -> Catalog:
    """Return ``catalog`` with the lessons that count; where nothing is learned, as it is.

    What a file says stands. Where users do not agree whose a request is, the stronger evidence counts, then the newer.
    """
    agents = {agent.name: agent for agent in routable(catalog)}
    said = {normalised(text) for agent in agents.values() for text in agent.triggers.examples}
    learned: dict[str, list[str]] = {}
    counting = ("accepted",) if accepted_only else ("accepted", "new")
    for lesson in sorted(lessons, key=lambda one: (one.weight, one.id), reverse=True):
        if lesson.state in counting and lesson.agent in agents and (text := normalised(lesson.text)) not in said:
            said.add(text)
            learned.setdefault(lesson.agent, []).append(lesson.text)
    if not learned:
        return catalog
    changed = {name: agents[name].with_examples(texts) for name, texts in learned.items()}
    digests = {name: agent.digest for name, agent in changed.items()}
    return Catalog({**catalog.agents, **changed}, {**catalog.digests, **digests})  # of thousands, only those are new
