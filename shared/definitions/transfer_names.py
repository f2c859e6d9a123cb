"""Tool name and agent name, both ways. Never by cutting a prefix off: ``code-fixer`` is ``transfer_to_code_fixer``."""

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache

from ekiden.shared.errors import UnknownAgent

__all__ = [
    "DELEGATION_PREFIX",
    "MAX_TOOL_NAME",
    "PREFIX",
    "ToolNames",
    "agent_meant",
    "delegation_tool_name",
    "transfer_tool_name",
]

PREFIX = "transfer_to_"
DELEGATION_PREFIX = "delegate_to_"
_PREFIXES = re.compile(r"(transfer|handoff|hand_off|hand|delegate)_(back_)?to_(?=.)")
MAX_TOOL_NAME = 64
"""What Gemini and OpenAI accept."""


@lru_cache(10_000)  # asked of all agents for each call of a model
def transfer_tool_name(agent: str) -> str:
    """Return the name of the tool that hands over to ``agent``: ``[a-z0-9_]``, at most 64 characters.

    A name that ASCII cannot show, or that is too long, gets six hexadecimal digits of its SHA-256, so that two
    different names of this kind have two different tools.
    """
    stem = re.sub(r"[^A-Za-z0-9_]", "_", agent).lower()
    if not agent.isascii():
        readable = re.sub(r"_+", "_", stem).strip("_")
        stem = f"{readable}_{_digits(agent)}".lstrip("_")
    room = MAX_TOOL_NAME - len(PREFIX)
    if len(stem) > room:
        digits = _digits(agent)
        stem = f"{stem[: room - len(digits) - 1]}_{digits}"
    return PREFIX + stem


def delegation_tool_name(agent: str) -> str:
    """Return the name of the tool that calls ``agent`` and gets its result."""
    return DELEGATION_PREFIX + transfer_tool_name(agent).removeprefix(PREFIX)


class ToolNames:
    """The transfer tools of a set of agents."""

    def __init__(self, agents: Iterable[str]) -> None:
        """Give every agent its tool; among agents with the same tool, the first by name has it."""
        by_tool: dict[str, list[str]] = defaultdict(list)
        for agent in sorted(set(agents)):
            by_tool[transfer_tool_name(agent)].append(agent)
        self._agent_by_tool = {tool: owners[0] for tool, owners in by_tool.items()}
        self._tool_by_agent = {agent: tool for tool, agent in self._agent_by_tool.items()}
        self.collisions: dict[str, tuple[str, ...]] = {
            tool: tuple(owners) for tool, owners in by_tool.items() if len(owners) > 1
        }
        """Tool name to the agents that would share it, by name; the first has it."""

    def tool_for(self, agent: str) -> str:
        """Return the tool that hands over to ``agent``.

        Raises:
            UnknownAgent: the agent is not of this set, or lost its tool to a collision.
        """
        try:
            return self._tool_by_agent[agent]
        except KeyError:
            raise UnknownAgent(f"No transfer tool belongs to agent {agent!r}: it is not in this catalog") from None

    def agent_for(self, tool: str) -> str | None:
        """Return the agent that the tool hands over to, or None if ``tool`` is no transfer tool of this set."""
        return self._agent_by_tool.get(tool)


def agent_meant(called: str, among: Iterable[str]) -> str | None:
    """Return the one agent of ``among`` that a tool or an agent of the name ``called`` can mean, or None.

    Models put namespaces before a name (``default_api:transfer_to_x``), mix ``-``, ``_``, spaces and case, write a
    prefix, a name or its last word twice. What could mean two agents means none.
    """
    agents = tuple(dict.fromkeys(among))
    meant = [agent for agent in agents if called in (agent, transfer_tool_name(agent))]
    if not meant:
        wanted = _cores(called)
        meant = [agent for agent in agents if not wanted.isdisjoint(_readings(agent))]
    return meant[0] if len(meant) == 1 else None


def _readings(agent: str) -> set[str]:
    """Return how a model may write an agent's name, in the form of ``_cores``: once, twice, or its last word twice."""
    names = {_plain(agent), _plain(transfer_tool_name(agent).removeprefix(PREFIX))}
    return {reading for name in names for reading in (name, f"{name}_{name}", _stuttered(name))} - {"", "_"}


def _stuttered(name: str) -> str:
    return f"{name}_{name.rpartition('_')[2]}"


def _cores(called: str) -> set[str]:
    """Return what may be left of a name as the namespace and the prefixes come off, which may belong to it, too."""
    cores = {_plain(called)}
    for name in (called, re.split(r"[:.]", called)[-1]):
        core = _plain(name)
        cores.add(core)
        while (match := _PREFIXES.match(core)) is not None:
            core = core[match.end() :]
            cores.add(core)
    return cores


def _plain(name: str) -> str:
    return re.sub(r"[-_\s]+", "_", name.casefold()).strip("_")


def _digits(agent: str) -> str:
    return hashlib.sha256(agent.encode()).hexdigest()[:6]
