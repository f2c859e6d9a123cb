"""Which of the last jobs other agent files would route, hand over, permit or limit otherwise: nobody is asked."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ekiden.dispatcher.client import Client
from ekiden.dispatcher.journal.job_changes import Change, JobChanges, changes_in
from ekiden.dispatcher.routing.base import RequestContext
from ekiden.dispatcher.routing.overrides import AUTO
from ekiden.dispatcher.routing.strategies import RoutingValues, routers
from ekiden.dispatcher.unrouted import with_default
from ekiden.shared.definitions.catalog import Catalog
from ekiden.shared.errors import EkidenError, UnreadableJournal
from ekiden.shared.ids import is_first_of_session, session_of
from ekiden.shared.policy.engine import Policy
from ekiden.shared.records import Entry, Forked, JobRequested, Routed
from ekiden.shared.settings.model import Settings

__all__ = ["CatalogReplay", "Comparison", "compared"]

_ROUTED_BY_FILES = ("rule", "semantic", "llm", "fallback")
"""Stages that go by agents' files; others go by what the user, the session or a hook says."""
_MESSAGES = 3


@dataclass
class CatalogReplay:
    """What came out.

    Attributes:
        jobs: How many were read.
        found: Those in which something would be otherwise, the newest first.
        replies: How many answers of models they have, all together, and of how many the agent has another file.
        unread: Jobs whose journals cannot be read.
        unknown: Jobs whose own agent files are not stored any more: what happened stands for them.
        is_cut: Whether there are more jobs than were to be read.
    """

    jobs: int = 0
    found: list[JobChanges] = field(default_factory=list)
    replies: int = 0
    other_prompts: int = 0
    unread: int = 0
    unknown: int = 0
    is_cut: bool = False

    def add(self, job: JobChanges) -> None:
        """Count what has come out of one job more."""
        self.jobs += 1
        self.replies += job.replies
        self.other_prompts += job.other_prompts
        self.unknown += not job.is_known
        if job.changes:
            self.found.append(job)

    @property
    def by_kind(self) -> Counter[str]:
        """In how many jobs there is a change of each kind."""
        return Counter(kind for job in self.found for kind in {change.kind for change in job.changes})

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        counts = {
            name: getattr(self, name) for name in ("jobs", "replies", "other_prompts", "unread", "unknown", "is_cut")
        }
        return {
            **counts,
            "changed": len(self.found),
            "by_kind": self.by_kind,
            "list": [asdict(one) for one in self.found],
        }


class Comparison:
    """Compares the agents that jobs ran with to others, on one server."""

    def __init__(self, client: Client, catalog: Catalog, settings: Settings, policy: Policy) -> None:
        self._client = client
        self._new = catalog
        self._settings = settings
        self._policy = policy
        self._old: dict[str, Catalog | None] = {}
        self._routers = routers(
            RoutingValues(
                settings.routing_rule_threshold, settings.routing_semantic_threshold, settings.routing_semantic_top_k
            )
        )

    async def changes(self, job: str) -> JobChanges:
        """Return what would be otherwise in a job, and in those that it has delegated. Raises ``UnknownJob``."""
        old = await self._catalog((await self._client.job(job)).catalog)
        journals = await self._client.journals(job)
        found = [changes_in(one, entries, old, self._new, self._policy) for one, entries in journals.items()]
        rerouted = await self._route(job, journals[job], old)
        return JobChanges(
            job,
            [*rerouted, *(change for one in found for change in one.changes)],
            sum(one.replies for one in found),
            sum(one.other_prompts for one in found),
            old is not None,
        )

    async def _catalog(self, digest: str) -> Catalog | None:
        if digest not in self._old:
            try:
                self._old[digest] = await self._client.catalog(digest) if digest else None
            except EkidenError:  # gone, or of a later version
                self._old[digest] = None
        return self._old[digest]

    async def _route(self, job: str, entries: Sequence[Entry], old: Catalog | None) -> list[Change]:
        is_fork = any(isinstance(entry.record, Forked) and entry.record.seq > 1 for entry in entries)
        routed = next((entry for entry in entries if isinstance(entry.record, Routed) and not is_fork), None)
        request = entries[0].record if entries else None
        if routed is None or not isinstance(request, JobRequested):
            return []
        record = routed.record
        assert isinstance(record, Routed)

        def change(would_be: str, why: str) -> Change:
            was = f"{record.agent} (by {record.stage})"
            return Change(job, routed.seq, "route", "router", was, would_be, why)

        is_by_files = record.stage in _ROUTED_BY_FILES
        agent, why = await self._routed(job, request, self._new) if is_by_files else (None, "")
        if record.agent not in self._new:
            return [change(agent or "nobody", f"there is no agent {record.agent!r}")]
        if not is_by_files or agent == record.agent:
            return []
        before = (await self._routed(job, request, old))[0] if old is not None else None
        if agent == before:  # files make no difference: a model has chosen, or what was learned
            return []
        return [
            change(agent or "not decided", why if agent else "neither rules nor meaning are sure: a model is asked")
        ]

    async def _routed(self, job: str, request: JobRequested, catalog: Catalog) -> tuple[str | None, str]:
        """Return whom rules and meaning give a request to, and why; None: they are not sure."""
        wanted = request.strategy or AUTO
        named = self._settings.routing_strategy if wanted == AUTO else wanted
        router = self._routers.get(named) or self._routers["hybrid"]
        result = await router.route(request.prompt, catalog, RequestContext(await self._said_before(job)))
        default = self._settings.routing_default_agent if self._settings.routing_fallback == "default_agent" else None
        route = with_default(result, catalog, default).route
        if route is None:
            return None, ""
        return route.agent, f"by {route.stage}, {route.confidence:.0f}% confidence"

    async def _said_before(self, job: str) -> tuple[str, ...]:
        if is_first_of_session(job):
            return ()
        number = int(job.rpartition(".")[2])
        said = await self._client.messages(session_of(job))
        before = [one for one in said if int(one.job.split(".")[1]) < number and one.message.role == "user"]
        return tuple(one.message.text for one in before[-_MESSAGES:])


async def compared(comparison: Comparison, client: Client, *, since_s: float, limit: int) -> CatalogReplay:
    """Compare the newest jobs: no older than ``since_s`` seconds, at most ``limit``; in memory is one at a time."""
    found, oldest_ms = CatalogReplay(), (time.time() - since_s) * 1_000
    jobs = [view for view in await client.jobs(limit + 1) if view.created_ms >= oldest_ms]
    found.is_cut = len(jobs) > limit
    for view in jobs[:limit]:
        try:
            found.add(await comparison.changes(view.id))
        except UnreadableJournal:
            found.unread += 1
    return found
