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
        self._read: dict[Path, tuple[float, Policy]] = {}

    async def of(self, folder: Path) -> Policy:
        """Return the policy that holds in ``folder``."""
        read_at, policy = self._read.get(folder, (-FRESH_S, self._policy))
        if time.monotonic() - read_at < FRESH_S:
            return policy
        if len(self._read) >= _MOST:
            self._read.clear()
        began = time.monotonic()
        policy = await asyncio.to_thread(folders_policy, self._policy, folder)
        self._read[folder] = (began, policy)
        return policy
