"""Text of authors whom nobody vouches for: where it came into a job, and which tools an agent is kept from behind it.

What a tool returned never changes what an agent may do for the better: this is where it changes it for the worse.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ekiden.shared.definitions.toolrules import SAFE_TOOLS
from ekiden.shared.messages import ToolCall
from ekiden.shared.records import ToolFinished
from ekiden.shared.relay.leg import Leg
from ekiden.shared.stores.views import JobView
from ekiden.shared.trust.grants import is_trusted
from ekiden.workers.tools.base import Tool

__all__ = ["Untrusted"]


class Untrusted:
    """Knows what untrusted text the job has read so far, in whichever leg."""

    def __init__(self, leg: Leg, cwd: Path, *, denies: bool, trusts: Callable[[Path], bool] = is_trusted) -> None:
        """``denies``: whether the agent gets only harmless tools once there is such text."""
        self._leg = leg
        self._cwd = cwd
        self._denies = denies
        self._trusts = trusts
        self._is_trusted: bool | None = None
        self._source = leg.request.untrusted
        self._looked = 0

    def brought_by(self, tool: Tool | None) -> str:
        """Return what untrusted text a call of ``tool`` has brought, for people; empty: none."""
        if tool is None:
            return ""
        if tool.untrusted:
            return f"what {tool.name} returns"
        if tool.needs_workspace and self._is_strange():
            return f"files of {str(self._cwd)!r}, which nobody trusts"
        return ""

    def said_by(self, child: JobView) -> str:
        """Return the same for a child job's result."""
        return f"agent {child.agent}, which read such text" if child.untrusted else ""

    @property
    def source(self) -> str:
        """Where the first untrusted text of this job came from; empty: there is none."""
        if not self._source:
            new = self._leg.entries[self._looked :]
            self._looked += len(new)
            self._source = next(_sources(entry.record for entry in new), "")
        return self._source

    def refusal(self, call: ToolCall, tool: Tool | None) -> str:
        """Say why the call is not run; empty: it may be."""
        if not self._denies or tool is None or tool.read_only or tool.name in SAFE_TOOLS or not (source := self.source):
            return ""
        return (
            f"not executed: this job has read text that nobody vouches for ({source}), and behind it {call.name!r} is "
            "denied here (tools.after_untrusted: deny). Go on with tools that only read, or say what should be done"
        )

    def _is_strange(self) -> bool:
        if self._is_trusted is None:
            self._is_trusted = self._trusts(self._cwd)
        return not self._is_trusted


def _sources(records: Iterable[object]) -> Iterator[str]:
    return (record.untrusted for record in records if isinstance(record, ToolFinished) and record.untrusted)
