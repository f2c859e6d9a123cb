"""What an agent remembers, in one leg: notes of earlier jobs, and the session's variables that its file names."""

import json
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime

from ekiden.shared.definitions.memory import LongTerm
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.definitions.rules import matches
from ekiden.shared.errors import UnknownJob
from ekiden.shared.ids import session_of
from ekiden.shared.memory.base import Namespace, Note, Origin
from ekiden.shared.memory.memories import BY_WORDS, Memories, Wanted
from ekiden.shared.records.turns import Recalled
from ekiden.shared.relay.leg import Leg
from ekiden.shared.stores.sessions import RedisSessionStore
from ekiden.workers.prompt import memory, notes
from ekiden.workers.tools.base import Tool
from ekiden.workers.tools.builtin.state import set_state, set_state_of
from ekiden.workers.tools.running import Notes
from ekiden.workers.untrusted import Untrusted, why_untrusted

__all__ = ["AgentNotes", "Remember", "Remembering", "memory_part", "nothing", "with_own_state"]

_MOST_SHOWN = 8_000
"""Characters of the notes that are put before an agent at once."""
_LONGEST_QUERY = 2_000
"""Characters of a request that notes are looked for by: what it is about stands at its beginning."""
_THRESHOLDS = {"vector": 0.25, "key_value": BY_WORDS}
"""Where the agent's file has none."""


Remember = Callable[[AgentDefinition, Leg, Untrusted], Awaitable[Notes | None]]
"""Gives an agent its notes for a leg; None: it has none."""


async def nothing(*_: object) -> None:
    """Remember nothing."""


class Remembering:
    """The notes of all agents of a worker."""

    def __init__(self, memories_of: Callable[[str, int | None], Memories], sessions: RedisSessionStore) -> None:
        """``memories_of``: what remembers by a model's vectors, of so many numbers."""
        self._memories_of = memories_of
        self._sessions = sessions

    async def of(self, agent: AgentDefinition, leg: Leg, untrusted: Untrusted) -> "AgentNotes | None":
        """Return the agent's notes, with those that fit its request before it; None: it has none."""
        if (rules := agent.memory.long_term) is None:
            return None
        user = await self._user(leg)
        origin = Origin(agent=agent.name, job=leg.job, user=user)
        memories = self._memories_of(rules.embedding_model, rules.dimension)
        own = AgentNotes(memories, rules, agent, leg, origin, untrusted)
        if rules.recall == "auto" and not leg.conversation.turns and leg.conversation.recalled is None:
            await own.put_before()
        return own

    async def _user(self, leg: Leg) -> str:
        try:
            return (await self._sessions.session(session_of(leg.job))).user or leg.request.by
        except UnknownJob:  # it has run out meanwhile
            return leg.request.by


class AgentNotes:
    """One agent's notes in one leg; see ``tools.running.Notes``."""

    def __init__(
        self,
        memories: Memories,
        rules: LongTerm,
        agent: AgentDefinition,
        leg: Leg,
        origin: Origin,
        untrusted: Untrusted,
    ) -> None:
        self._memories = memories
        self._rules = rules
        self._agent = agent
        self._leg = leg
        self._origin = origin
        self._untrusted = untrusted
        name = {"agent": agent.name, "shared": rules.shared}.get(rules.namespace, "")
        user = origin.user if rules.namespace in ("agent", "user") else ""
        self._namespace = Namespace(rules.namespace, name, user, rules.backend)

    async def save(self, content: str, key: str, tags: Iterable[str], once: str) -> str:
        """Keep a note with what its writer has read; return what the model is told."""
        source = self._untrusted.source or why_untrusted(self._agent)
        note = await self._memories.save(
            self._namespace,
            content,
            key=key.strip(),
            tags=tags,
            origin=self._origin.model_copy(update={"untrusted": source}),
            once=once,
            ttl_s=self._rules.ttl,
            with_vector=self._rules.type == "vector",
        )
        marked = " It is marked: this job has read text that nobody vouches for." if note.origin.untrusted else ""
        return f"kept as note {note.id} ({self._namespace}).{marked}"

    async def recall(self, query: str, limit: int | None) -> tuple[str, str]:
        """Return the notes that fit, fenced, and what untrusted text is in them, in words."""
        found = await self._found(query, limit)
        if not found:
            return f"No note fits{self._how}.", ""
        return notes(list(map(_shown, found)), self._whose, fence=self._fence), _untrusted_in(found)

    async def forget(self, note: str) -> list[str]:
        """Take a note away, by its id or its key; return the ids of what is gone."""
        gone = await self._memories.forget(self._namespace, lambda one: note in (one.id, one.key))
        return [one.id for one in gone]

    async def put_before(self) -> None:
        """Record what fits the request, for this attempt and all later ones."""
        if not (found := await self._found(self._leg.asked[:_LONGEST_QUERY], None)):
            return
        room, texts = _MOST_SHOWN, []
        for note in found:
            text = _shown(note)
            if len(text) > room:
                break
            room -= len(text)
            texts.append(text)
        shown = found[: len(texts)]
        await self._leg.record(
            Recalled(
                leg=self._leg.number,
                agent=self._agent.name,
                notes=tuple(texts),
                whose=self._whose,
                untrusted=_untrusted_in(shown),
            )
        )

    async def _found(self, query: str, limit: int | None) -> list[Note]:
        threshold = self._rules.similarity_threshold
        wanted = Wanted(
            "meaning" if self._rules.type == "vector" else "words",
            limit or self._rules.top_k,
            _THRESHOLDS[self._rules.type] if threshold is None else threshold,
            self._rules.half_life,
        )
        return [found.note for found in await self._memories.recall(self._namespace, query, wanted)]

    @property
    def _whose(self) -> str:
        return f"{self._namespace}{self._how}"

    @property
    def _how(self) -> str:
        """How notes were found, where not as the file says."""
        is_meant = self._rules.type == "vector" and self._memories.trouble
        return " (by words: the embedding model does not answer)" if is_meant else ""

    @property
    def _fence(self) -> str:
        return self._leg.context.metadata.handoff_id


def memory_part(agent: AgentDefinition, leg: Leg) -> str:
    """Return the part of the system prompt with what the agent remembers; empty: nothing."""
    state = leg.state
    variables = {name: state.get(name) for name in agent.memory.session}
    recalled = leg.conversation.recalled
    return memory(
        [f"{name} = {'(not set)' if value is None else _json(value)}" for name, value in variables.items()],
        recalled.notes if recalled else (),
        recalled.whose if recalled else "",
        fence=leg.context.metadata.handoff_id,
    )


def with_own_state(agent: AgentDefinition, leg: Leg, own: Iterable[Tool]) -> dict[str, Tool]:
    """Return the agent's tools by name, with ``set_state`` for the variables of its memory where it has no other."""
    tools = {tool.name: tool for tool in own}
    rules = (agent.rules, *leg.request.bounds)
    if not agent.memory.session or set_state.name in tools or any(matches(set_state.name, one.deny) for one in rules):
        return tools
    if not all(one.permits(set_state.name) for one in leg.request.bounds):
        return tools
    return {**tools, set_state.name: set_state_of(agent.memory.session)}


def _shown(note: Note) -> str:
    """Return a note as models read it: with where and when it comes from."""
    day = datetime.fromtimestamp(note.changed_ms / 1000, UTC).date().isoformat()
    about = [f"note {note.id}", f"key {note.key!r}" if note.key else "", day, f"by {note.origin}"]
    doubt = f"written after reading {note.origin.untrusted}, which nobody vouches for" if note.origin.untrusted else ""
    return f"[{', '.join(filter(None, (*about, doubt)))}]\n{note.content}"


def _untrusted_in(found: Iterable[Note]) -> str:
    source = next((note.origin.untrusted for note in found if note.origin.untrusted), "")
    return f"a note written after {source}" if source and not source.startswith("a note written") else source


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
