"""Which agents requests find by luck only, and which two are confused: for ``ekiden agents validate --all``."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from shlex import quote

from ekiden.dispatcher.cli.agents.checks import Finding
from ekiden.dispatcher.cli.agents.show import passes_on_to
from ekiden.dispatcher.cli.agents.suggestions import has_own_words
from ekiden.dispatcher.routing.base import routable
from ekiden.dispatcher.routing.confusions import MOST_AGENTS, Confusion, confusions
from ekiden.shared.definitions.catalog import Catalog
from ekiden.shared.definitions.loader import SHIPPED
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.embedding.encoder import Encoder, SentenceEncoder
from ekiden.shared.terminal_text import one_line

__all__ = ["findability"]

_SHOWN = 100


def findability(
    agents: Mapping[str, AgentDefinition], encoder: Encoder | None = None
) -> dict[str, tuple[Finding, ...]]:
    """Return the warnings of each agent of the user's that requests go to, by name.

    Of one that gets its work by handoff only, there are none. Takes seconds: routing learns the agents first.
    """
    asked = routable(Catalog(agents))
    passed_on = _passed_on_to(agents.values())
    first = {agent.name: agent for agent in asked if _has_triggers(agent) or agent.name not in passed_on}
    vague = {name for name, agent in first.items() if not has_own_words(agent)}
    own = [agent for agent in first.values() if agent.scope != SHIPPED]
    found = {agent.name: [_by_luck(agent)] if agent.name in vague else [] for agent in own}
    confused: defaultdict[str, list[Confusion]] = defaultdict(list)
    judged = found.keys() - vague
    for one in confusions(asked, judged, encoder or SentenceEncoder()) if judged and len(asked) <= MOST_AGENTS else ():
        if one.other in first and one.other not in vague:
            confused[one.agent].append(one)
    for name, others in confused.items():
        found[name].append(_confused(others))
    return {name: tuple(findings) for name, findings in found.items()}


def _has_triggers(agent: AgentDefinition) -> bool:
    return bool(agent.triggers.keywords or agent.triggers.patterns or agent.triggers.examples)


def _passed_on_to(agents: Collection[AgentDefinition]) -> set[str]:
    """Return the agents that others hand over to, or call."""
    return {name for agent in agents for names in passes_on_to(agent).values() for name in names}


def _by_luck(agent: AgentDefinition) -> Finding:
    description = one_line(agent.description, _SHOWN)
    text = f"no word of its description ({description!r}) tells its work, and it has no keywords or examples that do"
    remedy = f"Say what it is for, or see `ekiden agents suggest {quote(agent.name)}`"
    return Finding("warning", f"requests find it by luck only: {text}. {remedy}")


def _confused(others: Iterable[Confusion]) -> Finding:
    with_whom = "; with ".join(
        f"{one.other!r}, in {one.count} of its {one.sentences} sentences: {one_line(one.text, _SHOWN)!r} is as near to "
        f"{one_line(one.like, _SHOWN)!r} there"
        for one in others
    )
    remedy = "Say in the descriptions what is whose, or give examples of each"
    return Finding("warning", f"routing may confuse it with {with_whom}. {remedy}")
