"""Notices that another server answers, or the same one with less than it had: what it granted may be forgotten."""

import structlog

from ekiden.shared.relay.leases import Leases
from ekiden.shared.stores.durability import Identity
from ekiden.shared.stores.opening import Stores

__all__ = ["FailoverDetector"]

log = structlog.get_logger(__name__)


class FailoverDetector:
    """Remembers which server this process has its leases from."""

    def __init__(self, leases: Leases) -> None:
        self._leases = leases
        self._known: Identity | None = None
        self._are_verified = True

    async def look(self, stores: Stores) -> None:
        """Ask which server answers. If it is another one, renew all leases at once: legs that it does not know stop.

        Where the server does not tell who it is, the next renewal stops them.
        """
        now = await stores.identity()
        before, self._known = self._known, now or self._known
        if now is not None and before is not None and not now.goes_on_from(before):
            self._are_verified = False
            log.warning("server_changed", run_id=now.run_id, was=before.run_id, legs=len(self._leases))
        if not self._are_verified:
            await self._leases.renew(stores.jobs)
            self._are_verified = True
