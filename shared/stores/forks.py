"""Forks on Redis: jobs that begin behind steps which another one has recorded."""

import json
from collections.abc import Sequence

from ekiden.shared.errors import InvalidRequest, NoCatalog, UnknownJob
from ekiden.shared.handoff import VERSION
from ekiden.shared.ids import session_of
from ekiden.shared.job_limits import BUDGETS, COUNTED
from ekiden.shared.records import Entry, JobRequested, untrusted_in
from ekiden.shared.signing import OFF, Signing
from ekiden.shared.stores import keys
from ekiden.shared.stores.arguments import counts_behind, pairs_of, session_keys, variables_of
from ekiden.shared.stores.job_reader import RedisJobReader
from ekiden.shared.stores.journal_signatures import CONTEXT, head_of
from ekiden.shared.stores.redis import Redis, as_any, translated
from ekiden.shared.stores.replication import ReplicaWait
from ekiden.shared.stores.scripts import Scripts
from ekiden.shared.stores.sessions import MAX_MESSAGES, RedisSessionStore, SessionMessage
from ekiden.shared.stores.submissions import Fork, summary_of

__all__ = ["RedisForkStore"]


class RedisForkStore(RedisJobReader):
    """Begins forks, in one step: the script ``fork``."""

    def __init__(self, client: Redis, confirming: ReplicaWait | None = None, signing: Signing = OFF) -> None:
        super().__init__(client, signing)
        self._sessions = RedisSessionStore(client)
        self._scripts = Scripts(client, confirming)

    def check(self, job: str, entries: Sequence[Entry]) -> None:
        """Raise ``Forged`` unless this deployment has written the whole journal: a fork signs it anew."""
        if self._signing:
            head_of(self._signing, job, entries)

    @translated
    async def limits_of(self, job: str) -> dict[str, int]:
        """Return what a root job may use up, as the store counts it, with the budgets that others share."""
        names = [*COUNTED, *BUDGETS]
        found = await as_any(self._redis.hmget(keys.job(job), [f"max_{name}" for name in names]))
        return {name: int(most) for name, most in zip(names, found, strict=True) if most is not None}

    @translated
    async def begin(self, fork: Fork) -> bool:
        """Begin it; False: it had begun already. Raises ``UnknownJob``, ``NoCatalog``, ``InvalidRequest``."""
        request = fork.records[0]
        assert isinstance(request, JobRequested), "the first record of a job is its request"
        context = fork.context
        verdict = await self._scripts.run(
            "fork",
            **session_keys(fork.job),
            number=keys.request(session_of(fork.job), fork.request_id),
            catalog=keys.catalog(fork.catalog),
            origin_blobs=keys.blobs(fork.origin),
            id=fork.job,
            **await self._session(fork),
            is_untrusted=int(bool(untrusted_in(fork.records))),
            leg=fork.leg,
            agent=context.to_agent,
            came_from=context.from_agent,
            handoff=context.metadata.handoff_id,
            context=self._signing.sign(CONTEXT, (fork.job, fork.leg, fork.catalog), context.encode()),
            queue=fork.outbox.queue,
            message=fork.outbox.message,
            digest=fork.catalog,
            depth=context.metadata.chain_depth,
            summary=summary_of(request.prompt),
            cwd=request.cwd or "",
            entry=request.agent or "",
            version=VERSION,
            request=fork.request_id,
            request_ttl=keys.REQUEST_TTL_S,
            asked=fork.asked,
            deadline_s=fork.deadline_s,
            counts=pairs_of(counts_behind(fork.records)),
            limits=pairs_of(fork.limits),
            variables=variables_of(fork.state),
            said=[_row(one) for one in await self._said_before(fork.origin)],
            records=await self._copied(fork.job, fork.records),
            changes=fork.job,
        )
        _raise_refused(verdict[0], fork)
        return verdict[0] == "ok"

    async def _session(self, fork: Fork) -> dict[str, str | int]:
        """Return what the new session is made with: it goes on as the other one would."""
        names = ("user", "policy", "title", "entry", "first_agent", "untrusted")
        found = await as_any(self._redis.hmget(keys.session(session_of(fork.origin)), names))
        user, policy, title, entry, first_agent, untrusted = found
        return {
            "session_id": session_of(fork.job),
            "count": int(fork.job.rpartition(".")[2]),
            "user": user or "",
            "policy": policy or "route",
            "title": title or "",
            "session_entry": entry or "",
            "first_agent": first_agent or "" if fork.leg else "",
            "session_untrusted": int(bool(untrusted)),
        }

    async def _said_before(self, job: str) -> list[SessionMessage]:
        """Return what agents are told of the session before ``job``."""
        number = int(job.rpartition(".")[2])
        said = await self._sessions.messages(session_of(job), limit=None)
        return [one for one in said if int(one.job.split(".")[1]) < number][-MAX_MESSAGES:]


def _row(said: SessionMessage) -> str:
    """Return a message as sessions keep it, behind its number; see ``tell`` in the scripts."""
    about = "\n".join((f"{said.at_ms} {said.job}", said.to, *said.agents))
    return f"{about}\n{json.dumps(said.message.model_dump(mode='json', exclude_none=True), ensure_ascii=False)}"


def _raise_refused(verdict: str, fork: Fork) -> None:
    if verdict in ("another", "taken"):
        raise InvalidRequest(
            f"request id {fork.request_id!r} is that of job {fork.job!r}, or of its session, which was asked for "
            "something else: a new request needs an id of its own, or none"
        )
    if verdict == "gone":
        raise NoCatalog(
            f"the agents of job {fork.origin!r} (catalog {fork.catalog[:12]!r}) are not on the server any more: name "
            "a folder with agent files by --catalog, or fork the job before it was routed"
        )
    if verdict not in ("ok", "exists"):
        raise UnknownJob(f"job {fork.job!r} could not begin: {verdict}")
