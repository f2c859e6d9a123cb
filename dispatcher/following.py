"""Follows the agent files of a dispatcher that publishes them: what is saved comes into force within a few seconds.

A file that is broken keeps the agent as it was. A catalog that somebody else has put in force stays: then this says so.
"""

import asyncio
import time
from dataclasses import dataclass, field, replace

from ekiden.dispatcher.agent_files import AgentFiles, State, read_agent_files, report, state_of
from ekiden.dispatcher.publishing import difference, publish
from ekiden.shared.errors import CatalogReplaced, ConfigurationError
from ekiden.shared.late_logger import LateLogger
from ekiden.shared.settings.model import Settings
from ekiden.shared.stores.catalogs import RedisCatalogStore

__all__ = ["Following"]

_SHARE = 20
"""A look that takes a second is followed by as many of rest: a folder may hold ten thousand files."""

log = LateLogger(__name__)


@dataclass
class Following:
    """Looks at the files when it is called, and puts in force what has changed."""

    settings: Settings
    files: AgentFiles
    """What is in force, as far as it is ours."""
    _seen: State | None = None
    _read: State = field(default_factory=frozenset)
    _due: float = 0.0

    def __post_init__(self) -> None:
        self._read = state_of(self.files.folders)

    async def __call__(self, catalogs: RedisCatalogStore) -> None:
        """Look; what is other, and has not changed since the look before, is read: no file is read half written."""
        began = time.monotonic()
        if began < self._due:
            return
        seen = await asyncio.to_thread(state_of, self.files.folders)
        if seen != self._read and seen == self._seen:
            await self._take_in(seen, catalogs)
        self._seen = seen
        self._due = time.monotonic() + (time.monotonic() - began) * _SHARE

    async def _take_in(self, state: State, catalogs: RedisCatalogStore) -> None:
        self._read = state
        try:
            new = await asyncio.to_thread(read_agent_files, self.settings, self.files)
        except ConfigurationError as error:
            log.error("agents_not_read", error=str(error))
            return
        old, self.files = self.files, new
        report(problem for problem in new.problems if problem not in old.problems)
        self._tell(old, new)
        if old.catalog.digest == new.catalog.digest:
            return
        try:
            await publish(catalogs, new.catalog, old.catalog.digest, "dispatcher")
        except CatalogReplaced as error:
            self.files = replace(new, catalog=old.catalog)  # that is what a later one would replace
            log.error("catalog_not_published", error=str(error))
            return
        log.warning("agents_published", changes=str(difference(old.catalog.digests, new.catalog.digests)))

    def _tell(self, old: AgentFiles, new: AgentFiles) -> None:
        for name in sorted(new.kept - old.kept):
            log.warning("agent_kept", agent=name, file=new.sources[name])
        for name in sorted(old.kept - new.kept):
            log.warning("agent_mended", agent=name)
        for name in sorted(new.held - old.held):
            log.warning("agent_held", agent=name)
