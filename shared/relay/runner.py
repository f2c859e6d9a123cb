"""Claim a leg, let its handler run it, commit the outcome: the life of every queue message."""

import asyncio
import contextlib
import os
import random
import socket
import uuid
from typing import Any, Protocol

import structlog
from pydantic import ValidationError

from ekiden.shared.errors import EkidenError, Forged, JobCancelled, LostLease, StopFlag, StoreUnavailable, Transient
from ekiden.shared.foreign_code import is_interruption_of_task, said_by
from ekiden.shared.hooks.base import NO_HOOKS, Hook, LegHook, attending
from ekiden.shared.ids import drawn_id, is_first_of_session, parent_of, session_of
from ekiden.shared.logs import LOG_FIELDS
from ekiden.shared.outcomes import Failed, Outcome, Suspended
from ekiden.shared.processes.grace_periods import GIVE_BACK_S
from ekiden.shared.relay.committer import Committer
from ekiden.shared.relay.journals import Journals
from ekiden.shared.relay.leases import HeldLease, Leases
from ekiden.shared.relay.leg import PAGE, Handler, Leg, MadeProgress, entries_behind
from ekiden.shared.relay.live import Live
from ekiden.shared.relay.message import LegMessage
from ekiden.shared.relay.outcome_records import last_turn_of, stopped_by, without_secrets
from ekiden.shared.relay.verification import MessageVerifier
from ekiden.shared.relay.write_retries import WriteRetries
from ekiden.shared.storable import storable
from ekiden.shared.stores.base import Claim, Claimed, ClaimVerdict, JobStore, Lease
from ekiden.shared.stores.live import RedisLiveStore
from ekiden.shared.stores.sessions import RedisSessionStore, SessionMessage
from ekiden.shared.tracing.trace_ids import read_traceparent

__all__ = ["PROCESS", "Runner"]

PROCESS = f"{socket.gethostname()}.{os.getpid()}.{uuid.uuid4().hex[:6]}"
"""This process, for journals, logs and announcements."""

DEFER_S = (1.0, 3.0)
"""How long a leg waits for room in quarantine before it is looked at again: at random, so that not all come at once."""


class IsolatedRunner(Protocol):
    """Runs messages in processes of their own."""

    @property
    def is_full(self) -> bool:
        """Whether another leg would have to wait."""
        ...

    async def run(self, message: dict[str, Any], queue: str) -> str:
        """Serve ``message``; return what became of it."""
        ...


log = structlog.get_logger(__name__)


class Runner:
    """Runs the legs of one pool process. Dispatcher and workers differ in their handler alone."""

    def __init__(
        self,
        store: JobStore,
        leases: Leases,
        handler: Handler,
        *,
        cycles: str,
        sessions: RedisSessionStore | None = None,
        live: RedisLiveStore | None = None,
        quarantine: IsolatedRunner | None = None,
        quarantine_from: int = 2,
        until_progress: bool = False,
        verifier: MessageVerifier | None = None,
        hooks: Hook = NO_HOOKS,
    ) -> None:
        """Make a runner.

        Args:
            store: Jobs and journals.
            leases: Renews what this process holds.
            handler: Runs the legs.
            cycles: ``deny``, ``parent`` or ``limit:<n>``.
            sessions: Where a session's earlier messages are; None: agents are told none.
            live: Where pieces of answers go; None: nowhere.
            quarantine: Runs messages in processes of their own; None: this process is one.
            quarantine_from: Attempts without progress from which on a leg runs alone.
            until_progress: Give a leg back once it has made progress: in quarantine others wait behind it.
            verifier: Checks who has written a leg; None: nobody does.
            hooks: Are told what happens.
        """
        self._store = store
        self._with_retries = WriteRetries(leases.lease_s)
        self._leases = leases
        self._handler = handler
        self._sessions = sessions
        self._live = live
        self._quarantine = quarantine
        self._quarantine_from = quarantine_from if quarantine else 1_000_000
        self._until_progress = until_progress
        self._verifier = verifier or MessageVerifier()
        self._journals = Journals(store, self._verifier)
        self._committer = Committer(store, self._with_retries, self._journals, cycles=cycles, hooks=hooks)
        self._hooks = hooks

    async def run(self, raw: dict[str, Any], queue: str) -> str:
        """Serve one message; return what became of it, for the log. A leg that is not ours to run is no error."""
        LOG_FIELDS.set({})  # in quarantine, one task runs leg after leg
        try:
            message = LegMessage.model_validate(raw)
        except ValidationError:  # of a later version: anything else never comes this far
            log.info("leg_not_claimed", job=raw.get("job"), leg=raw.get("leg"), verdict="too_new")
            return "too_new"
        try:
            return await self._claim_and_run(message, queue)
        except EkidenError as error:
            if not isinstance(error, Transient | LostLease):  # lost: while it was opened anew to be stopped
                raise
            # The lease runs out, and the leg goes on elsewhere, or here, later.
            log.warning("leg_interrupted", job=message.job, leg=message.leg, error=str(error))
            return "interrupted"

    async def _claim_and_run(self, message: LegMessage, queue: str) -> str:
        if await self._verifier.is_misplaced(message, queue):
            return "misplaced"
        claim = Claim(
            job=message.job,
            leg=message.leg,
            handoff_id=message.id,
            agent=message.agent,
            owner=drawn_id(),
            worker=PROCESS,
            known=self._journals.length(message.job),
        )
        claimed = await self._claim(claim)
        while claimed == "quarantined" and self._quarantine is not None:
            if not self._quarantine.is_full:
                return await self._quarantine.run(message.model_dump(mode="json"), queue)
            claimed = await self._claim(claim)  # others have taken the room meanwhile
        if isinstance(claimed, str):
            log.info("leg_not_claimed", job=message.job, leg=message.leg, verdict=claimed)
            return claimed
        LOG_FIELDS.set(_log_fields(claimed))
        with (
            self._leases.holding(claimed.lease, claimed.sent_at) as held,
            attending(self._hooks, claimed, queue) as hooks,
        ):
            try:
                return await self._run_leg(claimed, held, hooks)
            except Forged as error:
                await self._verifier.bury(message, queue, str(error))
                return await self._refuse(claimed.lease, error)

    async def _refuse(self, lease: Lease, error: Forged) -> str:
        """End a job that this deployment has not written: nothing of it is told in its session."""
        records = [self._verifier.end_of(lease.leg, error)]
        verdict, _ = await self._with_retries(self._store.finish, lease, f"{lease.fence}.forged", records, ())
        if verdict == "ok":
            self._hooks.job_ended(lease.job, [], entries_behind(lease.seq, records), in_leg=False)
        return verdict

    async def _claim(self, claim: Claim) -> Claimed | ClaimVerdict:
        defer_s = random.uniform(*DEFER_S) if self._quarantine and self._quarantine.is_full else 0.0  # noqa: S311  # no secret
        return await self._with_retries(
            self._store.claim, claim, self._leases.granted_s, quarantine_from=self._quarantine_from, defer_s=defer_s
        )

    async def _run_leg(self, claimed: Claimed, held: HeldLease, hooks: LegHook) -> str:
        leg: Leg | None = None
        flag: StopFlag | None = None
        try:
            leg = await self._open(claimed, held, hooks)
            if claimed.stop is not None:
                raise JobCancelled("stopped before it was claimed", claimed.stop)
            self._leases.begin(held)
            return await self._until_committed(leg)
        except LostLease as error:
            held.stop = "lost"
            log.warning("lease_lost", error=str(error))
        except MadeProgress:
            return await self._committer.commit(
                leg or Leg(claimed, [], self._store), Suspended("retry", 0.0, "ran alone")
            )
        except JobCancelled as stopped:
            held.stop, flag = "cancelled", stopped.flag  # so that nobody stops us while we commit it
        except asyncio.CancelledError:
            if held.stop is None:  # the pool shuts down
                await self._give_back(leg or Leg(claimed, [], self._store))
                raise
        if held.stop == "lost":
            await self._leave(claimed, held, leg)
            return "lost"
        leg = leg or await self._open(claimed, held, hooks)
        await self._committer.catch_up(leg)
        if flag is None:  # told so by a hint, which does not say by whom
            flag = (await self._with_retries(self._store.job, leg.job)).stop or "user"
        return await self._committer.commit(leg, stopped_by(flag))

    async def _leave(self, claimed: Claimed, held: HeldLease, leg: Leg | None) -> None:
        """Leave a leg whose lease is lost: give it back if nothing was done yet, else tell what was committed of it."""
        if not held.has_begun:
            await self._take_back(claimed.lease)
        elif leg is not None:
            with contextlib.suppress(EkidenError):
                await self._committer.catch_up(leg)

    async def _open(self, claimed: Claimed, held: HeldLease, hooks: LegHook) -> Leg:
        try:
            return await self._read(claimed, held, hooks)
        except StoreUnavailable:
            await self._take_back(claimed.lease)
            raise

    async def _read(self, claimed: Claimed, held: HeldLease, hooks: LegHook) -> Leg:
        """Read what the leg goes on from: once per claim, never per turn."""
        lease = claimed.lease
        entries = await self._journals.read(claimed)
        live = Live(self._live, lease) if self._live else None
        earlier = await self._earlier(lease.job)
        sessions = self._sessions if claimed.has_state else None
        state = await sessions.state(session_of(lease.job)) if sessions else {}
        until_progress = self._until_progress
        leg = Leg(
            claimed,
            entries[:PAGE],
            self._store,
            with_retries=self._with_retries,
            earlier=earlier,
            jobs=self._verifier.reader(self._store),
            state=state,
            live=live,
            until_progress=until_progress,
            hooks=hooks,
            lifetime=held,
            folds=self._journals.folds(lease),
        )
        await leg.read_on(entries[PAGE:])
        hooks.opened(leg.entries)
        return leg

    async def _earlier(self, job: str) -> list[SessionMessage]:
        """Return what was said in the session before this job; the first job of a session and a child need not look."""
        if self._sessions is None or is_first_of_session(job) or parent_of(job) is not None:
            return []
        return await self._sessions.messages(session_of(job), before_job=job)

    async def _give_back(self, leg: Leg) -> None:
        """Let another worker go on at once; where that fails, it waits for the end of our lease."""
        with contextlib.suppress(EkidenError, TimeoutError):
            async with asyncio.timeout(GIVE_BACK_S):
                await self._committer.catch_up(leg)
                verdict = await self._committer.commit(leg, Suspended("retry", 0.0, "worker stopping"))
                log.info("leg_given_back", verdict=verdict)

    async def _take_back(self, lease: Lease) -> None:
        """Give back a leg that was lost before it ran; it costs no attempt: too much work is no fault of it."""
        verdict = "unanswered"
        with contextlib.suppress(EkidenError):
            verdict = await self._with_retries(self._store.give_back, lease)
        log.warning("leg_lost_before_it_ran", verdict=verdict)

    async def _until_committed(self, leg: Leg) -> str:
        """Run the handler until an outcome is committed: for a last turn, and after a refusal, it has another go."""
        while True:
            outcome = without_secrets(await self._outcome_of(leg))
            await self._committer.catch_up(leg)  # a limit of time may have broken a write off
            if isinstance(outcome, Failed) and outcome.last_turn:
                await leg.record(*last_turn_of(leg, outcome))
                continue
            verdict = await self._committer.commit(leg, outcome)
            if verdict != "refused":
                say = log.warning if verdict == "moved" else log.info
                say("leg_ended", outcome=type(outcome).__name__, verdict=verdict)
                leg.let_go()
                return verdict

    async def _outcome_of(self, leg: Leg) -> Outcome:
        try:
            return await self._handler.run(leg)
        except (Forged, LostLease, JobCancelled, MadeProgress):
            raise
        except EkidenError as error:
            if isinstance(error, Transient):
                raise
            return Failed("ERROR", storable(str(error)))
        except BaseException as error:
            if is_interruption_of_task(error):
                raise
            log.exception("leg_failed")
            said = storable(f"{type(error).__name__}: {said_by(error)}")
            return Failed("ERROR", f"{said} (a fault of Ekiden's: see the worker's log)")


def _log_fields(claimed: Claimed) -> dict[str, Any]:
    """Return what every log line of a leg carries."""
    job, leg, context = claimed.lease.job, claimed.lease.leg, claimed.context
    root = read_traceparent(context.metadata.traceparent)
    about = {"session": session_of(job), "job": job, "leg": leg, "agent": context.to_agent}
    return {**about, "trace_id": root.trace} if root else about
