"""The policies of the folders that jobs work in: read beside the event loop, and not by each leg anew."""

import asyncio
import time
from pathlib import Path

from ekiden.shared.policy.engine import Policy
from ekiden.shared.policy.policies import folders_policy

__all__ = ["FolderPolicies"]

FRESH_S = 1.0
"""For how long what was read holds: whoever changes a rule waits no longer."""
_MOST = 1_000


class FolderPolicies:
    """Puts the rules of a folder behind the operator's."""

    def __init__(self, policy: Policy) -> None:
        """``policy``: the operator's."""
        self._policy = policy
        self._read: dict[Path, tuple[float, asyncio.Task[Policy]]] = {}
        """When a folder's rules began to be read, and the reading."""

    async def of(self, folder: Path) -> Policy:
        """Return the policy that holds in ``folder``. Legs that ask while it is read wait for the same reading."""
        now, (began, reading) = time.monotonic(), self._read.get(folder, (0.0, None))
        if reading is None or now - began >= FRESH_S:
            if len(self._read) >= _MOST:
                self._read.clear()
            reading = asyncio.create_task(asyncio.to_thread(folders_policy, self._policy, folder))
            self._read[folder] = (now, reading)
        if reading.done():
            return reading.result()
        return await asyncio.shield(reading)  # a leg that is stopped stops itself alone
