"""Text of authors whom nobody vouches for: where it came into a job, and which tools an agent is kept from behind it.

What a tool returned never changes what an agent may do for the better: this is where it changes it for the worse.
"""

import os
from collections.abc import Callable
from pathlib import Path

from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.definitions.tool_rules import SAFE_TOOLS
from ekiden.shared.messages import ToolCall
from ekiden.shared.project_folders import project_of
from ekiden.shared.records import untrusted_in
from ekiden.shared.relay.leg import Leg
from ekiden.shared.stores.views import JobView
from ekiden.shared.trust.grants import vouches_for
from ekiden.workers.tools.base import Tool

__all__ = ["Untrusted", "why_untrusted"]


def why_untrusted(agent: AgentDefinition) -> str:
    """Say why an agent's own words are those of an unknown author; empty: they are not."""
    return f"agent {agent.name} of a folder that nobody trusts" if agent.untrusted else ""


class Untrusted:
    """Knows what untrusted text the job has read so far, in whichever leg, and its session before it."""

    def __init__(self, leg: Leg, cwd: Path, *, denies: bool, vouches: Callable[[Path], bool] = vouches_for) -> None:
        """``denies``: whether the agent gets only harmless tools once there is such text."""
        self._leg = leg
        self._cwd = cwd
        self._denies = denies
        self._vouches = vouches
        self._vouched: dict[Path, bool] = {}
        before = "what was said in this session before" if leg.is_session_untrusted else ""
        self._before = leg.request.untrusted or before
        self._source = ""
        self._looked = 0

    def brought_by(self, call: ToolCall, tool: Tool | None) -> str:
        """Return what untrusted text a call of ``tool`` has brought, for people; empty: none."""
        if tool is None:
            return ""
        if tool.untrusted:
            return f"what {tool.name} returns"
        if tool.needs_workspace and (strange := self._strange_folder(call)) is not None:
            return f"files of {str(strange)!r}, which nobody trusts"
        return ""

    def said_by(self, agent: str, child: JobView) -> str:
        """Return the same for the result of a child job of ``agent``, as its caller knows it."""
        return f"agent {agent}, which read such text" if child.untrusted else ""

    @property
    def source(self) -> str:
        """Where the first untrusted text of this job came from; empty: there is none."""
        if not self._source:
            new = self._leg.entries[self._looked :]
            self._looked += len(new)
            self._source = untrusted_in(entry.record for entry in new) or self._before
        return self._source

    def refusal(self, call: ToolCall, tool: Tool | None) -> str:
        """Say why the call is not run; empty: it may be."""
        if not self._denies or tool is None or tool.read_only or tool.name in SAFE_TOOLS or not (source := self.source):
            return ""
        return (
            f"not executed: this job has read text that nobody vouches for ({source}), and behind it {call.name!r} is "
            "denied here (tools.after_untrusted: deny). Go on with tools that only read, or say what should be done"
        )

    def _strange_folder(self, call: ToolCall) -> Path | None:
        """Return the project that the call looks into, unless the user vouches for it. Folders in one go with it."""
        path = call.args.get("path")
        try:
            where = Path(os.path.realpath(self._cwd / path)) if isinstance(path, str) else self._cwd
        except ValueError:  # no path at all: nothing was read
            where = self._cwd
        if where.is_relative_to(here := project_of(self._cwd)):
            project = here
        else:
            project = project_of(where if where.is_dir() else where.parent)
        if project not in self._vouched:
            self._vouched[project] = self._vouches(project)
        return None if self._vouched[project] else project
