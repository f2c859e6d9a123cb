"""Tool name and agent name, both ways. Never by cutting a prefix off: ``code-fixer`` is ``transfer_to_code_fixer``."""

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable

from shared.errors import UnknownAgent

__all__ = ["MAX_TOOL_NAME", "PREFIX", "ToolNames", "transfer_tool_name"]

PREFIX = "transfer_to_"
MAX_TOOL_NAME = 64
"""What Gemini and OpenAI accept."""


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


def _digits(agent: str) -> str:
    return hashlib.sha256(agent.encode()).hexdigest()[:6]
