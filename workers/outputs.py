"""What the calls of one job keep beside its journal, and whether there is anything of it to read."""

from dataclasses import dataclass, field

from ekiden.shared.records import ToolFinished
from ekiden.shared.relay.leg import Leg
from ekiden.shared.stores.artifacts import RedisArtifactStore

__all__ = ["JobOutputs"]


@dataclass
class JobOutputs:
    """See ``Outputs``; ``store`` None: nothing is kept."""

    leg: Leg
    store: RedisArtifactStore | None
    _looked: int = field(default=0, init=False)
    _has_any: bool = field(default=False, init=False)

    async def keep(self, content: str | bytes) -> str | None:
        """See ``Outputs``."""
        return await self.store.keep(self.leg.job, content) if self.store else None

    async def read(self, ref: str) -> str | bytes | None:
        """See ``Outputs``."""
        return await self.store.read(self.leg.job, ref) if self.store else None

    @property
    def has_any(self) -> bool:
        """Whether a result of this job, in whichever leg, refers to something kept."""
        new = self.leg.entries[self._looked :]
        self._looked += len(new)
        results = (entry.record.result for entry in new if isinstance(entry.record, ToolFinished))
        self._has_any = self._has_any or any(result.whole or result.artifacts for result in results)
        return self._has_any
