"""The part of the client that is about sessions: what was said in them, and who goes on."""

from typing import Any

from ekiden.shared.settings.routing import SessionPolicy
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.sessions import Forgotten, SessionMessage, SessionView

__all__ = ["Conversations"]


class Conversations:
    """Reads and changes sessions."""

    _stores: Stores

    async def sessions(
        self, limit: int = 20, *, user: str | None = None, entry: str | None = None
    ) -> list[SessionView]:
        """Return the sessions last used, newest first; ``entry`` is the agent that the first request named (or "")."""
        return await self._stores.sessions.sessions(limit, user=user, entry=entry)

    async def session(self, session: str) -> SessionView:
        """Return a session. Raises ``UnknownJob``."""
        return await self._stores.sessions.session(session)

    async def messages(self, session: str) -> list[SessionMessage]:
        """Return all that was said in a session, oldest first."""
        return await self._stores.sessions.messages(session, limit=None)

    async def state(self, session: str) -> dict[str, Any]:
        """Return a session's variables, by name."""
        return await self._stores.sessions.state(session)

    async def set_policy(self, session: str, policy: SessionPolicy) -> None:
        """Let another rule say who gets a session's next message. Raises ``UnknownJob``."""
        await self._stores.sessions.set_policy(session, policy)

    async def clear(self, session: str) -> Forgotten:
        """Forget what was said in a session, and its variables."""
        return await self._stores.sessions.clear(session)

    async def resolve_session(self, prefix: str) -> str:
        """Return the one session whose id begins so. Raises ``UnknownJob``, ``AmbiguousId``."""
        return await self._stores.sessions.resolve(prefix)
