"""A fork as the command line asks for it: a request like others, which becomes a job behind another one's steps."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ekiden.dispatcher.cli.running.submission import CliRequest
from ekiden.dispatcher.client import Client
from ekiden.dispatcher.forking.client_part import ForkedJob
from ekiden.shared.terminal_text import note as tell

__all__ = ["ForkRequest", "told"]


@dataclass(frozen=True)
class ForkRequest(CliRequest):
    """Where to begin, and what is to be otherwise: ``how``, as ``client.fork`` takes it."""

    origin: str = ""
    how: Mapping[str, Any] = field(default_factory=dict)

    def instead(self, agent: str, session: str) -> "ForkRequest":
        """See ``CliRequest``: nobody was found for the request, and another fork of it names the agent."""
        return replace(self, agent=agent, how={**self.how, "agent": agent, "request_id": None})

    async def submit(self, client: Client, note: Callable[[str], None], *, is_served: bool = False) -> str:
        """Fork the job, say what there is now, and return the fork's id."""
        forked = await self.fork(client)
        note(told(forked))
        return forked.job

    async def fork(self, client: Client) -> ForkedJob:
        """Fork the job."""
        forked = await client.fork(self.origin, self.after, **self.how)
        if forked.has_same_agents:
            tell("--catalog changes nothing: the agent files that count here are those that the job has already")
        return forked


def told(forked: ForkedJob) -> str:
    """Say what there is now, and what is not rewound."""
    count = forked.point.replies
    reused = f"{count} answer{'s' * (count != 1)} of models reused"
    state = f"commit {forked.commit[:12]} is checked out there" if forked.commit else "no commit is known"
    where = f"the files in {forked.cwd} stay" if forked.cwd else "files stay"
    begun = "forked from" if forked.is_new else "was forked before, by the same request id, from"
    which = f"job {forked.job} {begun} {forked.origin} at {forked.point.seq}"
    return f"{which}: {reused}; {where} as they are now ({state})"
