"""A request as the command line has it, and how it becomes a job."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote
from typing import Any

from ekiden.dispatcher.cli.running.preapproval import NOTHING_APPROVED, Preapproval
from ekiden.dispatcher.cli.running.request import require_reachable
from ekiden.dispatcher.client import Client
from ekiden.dispatcher.routing.overrides import AUTO, parse_override, strategy_of
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.settings.model import load_settings
from ekiden.shared.settings.routing import SessionPolicy
from ekiden.shared.settings.values import JOB_DEADLINE_S
from ekiden.shared.stores.base import OnBusy

__all__ = ["CliRequest", "SessionChoice"]


@dataclass(frozen=True)
class SessionChoice:
    """Which session a request belongs to. ``session``: an id or a beginning of one; neither: a new session."""

    user: str
    session: str | None = None
    is_continued: bool = False
    policy: SessionPolicy | None = None
    """Who gets the later messages of a new session; None: as the settings have it."""

    def __post_init__(self) -> None:
        """Raise ``InvalidRequest`` for options that exclude each other."""
        if self.session is not None and self.is_continued:
            raise InvalidRequest("--session and --continue exclude each other: leave one out")
        if self.session is not None and self.policy is not None:
            raise InvalidRequest(
                "--session-policy is for a new session: "
                f"`ekiden sessions policy {quote(self.session)} {self.policy}` changes that of one that there is"
            )

    @property
    def is_new(self) -> bool:
        """Whether it is a new session for certain."""
        return self.session is None and not self.is_continued

    async def find(self, client: Client, agent: str | None, note: Callable[[str], None]) -> str | None:
        """Return the session's id, None for a new one; say so if there was none to continue.

        The newest session of this user whose first request named ``agent`` (or nobody) is continued: what one agent was
        asked alone does not mix with the rest.
        """
        if self.session is not None:
            return await client.resolve_session(self.session)
        if not self.is_continued:
            return None
        newest = await client.sessions(1, user=self.user, entry=agent or "")
        if not newest:
            whom = f"with agent {agent!r}" if agent else "to continue"
            note(f"there is no session of {self.user!r} {whom} yet: a new one begins")
            return None
        found = newest[0]
        if self.policy not in (None, found.policy):
            note(f"session {found.id} keeps its policy {found.policy}: `ekiden sessions policy` changes it")
        return found.id

    @property
    def policy_or_default(self) -> SessionPolicy:
        """The policy of a new session."""
        return load_settings(routing_session_policy=self.policy).routing_session_policy


@dataclass(frozen=True)
class CliRequest:
    """One request, checked as far as that goes without a server."""

    prompt: str
    session_choice: SessionChoice
    agent: str | None = None
    cwd: Path | None = None
    on_busy: OnBusy = "queue"
    deadline_s: float = JOB_DEADLINE_S
    request_id: str | None = None
    strategy: str | None = None
    is_override: bool = False
    """Whether the prompt itself named the agent: for this message, not for the session to continue."""
    state: Mapping[str, Any] = field(default_factory=dict)
    """Session variables to set."""
    preapproval: Preapproval = NOTHING_APPROVED
    inputs: Mapping[str, Any] | None = None
    """What the agent that is named is called with."""
    asks: bool = False
    """Whether the user can be asked who takes it."""
    after: int = 0
    """How many steps of its journal are another job's, and are not shown: see ``ForkRequest``."""

    def overridden(self, strategy: str | None) -> "CliRequest":
        """Return it without what the prompt says of its own routing (``@debugger``, ``@auto``), which is heeded.

        An agent that the command line names takes the prompt as it is. Raises ``InvalidRequest``.
        """
        if self.agent is not None and strategy is not None:
            raise InvalidRequest("--agent and --strategy exclude each other: name the agent, or let it be routed")
        chosen = strategy_of(strategy) if strategy is not None else None
        if self.agent is not None:
            return self
        override = parse_override(self.prompt)
        strategy = chosen or override.strategy or (AUTO if override.is_auto else None)
        is_override = override.agent is not None
        return replace(self, prompt=override.prompt, agent=override.agent, strategy=strategy, is_override=is_override)

    def by_default(self, agent: str | None) -> "CliRequest":
        """Return it for ``agent``, unless it says itself who takes it or how it is routed."""
        return replace(self, agent=agent) if self.agent is None and self.strategy is None else self

    def instead(self, agent: str, session: str) -> "CliRequest":
        """Return it for ``agent``, as a new request in ``session``, where nobody was found for it."""
        session_choice = SessionChoice(self.session_choice.user, session)
        return replace(self, agent=agent, strategy=None, session_choice=session_choice, request_id=None)

    async def submit(self, client: Client, note: Callable[[str], None], *, is_served: bool = False) -> str:
        """Create the job and return its id.

        ``is_served``: by pools of our own, which may not have announced themselves yet, where others' that have just
        been killed still are.
        """
        if self.cwd is not None and not is_served:
            await require_reachable(client, self.cwd)
        if self.strategy not in (None, AUTO) and (known := await client.strategies()):
            strategy_of(str(self.strategy), known)
        return await client.submit(
            self.prompt,
            agent=self.agent,
            strategy=self.strategy,
            cwd=self.cwd,
            session=await self.session_choice.find(client, None if self.is_override else self.agent, note),
            user=self.session_choice.user,
            policy=self.session_choice.policy_or_default,
            on_busy=self.on_busy,
            deadline_s=self.deadline_s,
            request_id=self.request_id,
            state=self.state,
            inputs=self.inputs,
            approve=self.preapproval.risks,
            when_asked=self.preapproval.when_asked,
            asks=self.asks,
        )
