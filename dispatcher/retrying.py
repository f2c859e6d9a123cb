"""The part of the client that lets jobs go on which failed, and takes what people say of calls that nobody knows of."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from ekiden.dispatcher.identity import person_at
from ekiden.dispatcher.requests import require_list, require_mapping
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.handoff import first_context
from ekiden.shared.records import Entry, HandedOff, JobRequested, Record, Retried, SettledCall
from ekiden.shared.relay.message import outbox
from ekiden.shared.settings.values import JOB_DEADLINE_S
from ekiden.shared.storable import storable
from ekiden.shared.stores.opening import Stores
from ekiden.shared.stores.views import JobView

if TYPE_CHECKING:  # what folds journals: who submits does without
    from ekiden.dispatcher.unknown_calls import UnknownCall

__all__ = ["LONGEST_RESULT", "Retrying"]

LONGEST_RESULT = 100_000
"""Characters of what a person says that a call gave."""


class Retrying(ABC):
    """Lets jobs go on."""

    _stores: Stores

    @abstractmethod
    async def job(self, job: str) -> JobView:
        """Return a job as it is now. Raises ``UnknownJob``."""

    @abstractmethod
    async def entries(self, job: str) -> list[Entry]:
        """Return the whole journal as it is now. Raises ``UnknownJob``."""

    async def unknown_calls(self, job: str) -> "Sequence[UnknownCall]":
        """Return the calls of a job that failed or died of which nobody knows whether they were done.

        Of any other job there are none: its agents were told, and have gone on.
        """
        from ekiden.dispatcher.unknown_calls import unknown_calls

        async def journal(one: str) -> list[Record]:
            return [entry.record for entry in await self.entries(one)]

        return await unknown_calls(job, journal) if (await self.job(job)).status in ("failed", "dead") else []

    async def retry(
        self,
        job: str,
        deadline_s: float = JOB_DEADLINE_S,
        *,
        done: Mapping[str, str | None] = MappingProxyType({}),
        undone: Collection[str] = (),
    ) -> None:
        """Let a job that failed or died go on behind its last record.

        Args:
            job: The job.
            deadline_s: When it ends as failed, if it has not ended by then.
            done: Of ``unknown_calls``, by their ids or nodes, what those gave that were done, for the model; None, or
                an empty text, says that nobody knows that. They do not run again.
            undone: Those that were not done: they run again.

        Raises ``InvalidRequest`` for any other job, or call; ``UnknownJob``, ``NotConfirmed``.
        """
        _require_words(done, undone)
        view = await self.job(job)
        entries = await self.entries(job)
        moves = [entry.record.context for entry in entries if isinstance(entry.record, HandedOff)]
        context = moves[-1] if moves else first_context(job, _traceparent_of(entries))
        box = outbox(job, view.leg, view.queue, context.with_id(view.handoff_id))
        retried = Retried(leg=view.leg)
        if done or undone:
            settled = await self._settled(view, done, undone)
            person = await person_at(self._stores)
            by = {"by": storable(person.name), "is_claimed": person.is_claimed}
            retried = retried.model_copy(update={"settled": settled, **by})
        await self._stores.jobs.retry(job, box, retried, deadline_s)

    async def _settled(
        self, view: JobView, done: Mapping[str, str | None], undone: Collection[str]
    ) -> tuple[SettledCall, ...]:
        """Return what is said of calls as the record of the retry has it. Raises ``InvalidRequest``."""
        if view.status not in ("failed", "dead"):
            raise InvalidRequest(f"job {view.id!r} is {view.status}: only a job that failed or died can be retried")
        unknown = await self.unknown_calls(view.id)
        said: dict[str, SettledCall] = {}
        for name in (*done, *undone):
            if (one := _named(name, unknown)).id in said:
                raise InvalidRequest(f"call {name!r} is named twice: it was done, or it was not")
            if len(text := done.get(name) or "") > LONGEST_RESULT:
                raise InvalidRequest(f"what call {name!r} gave has more than {LONGEST_RESULT:,} characters")
            job = "" if one.job == view.id else one.job
            said[one.id] = SettledCall(call_id=one.call.id, job=job, is_done=name in done, text=storable(text))
        return tuple(said.values())


def _require_words(done: Mapping[str, str | None], undone: Collection[str]) -> None:
    """Raise ``InvalidRequest`` unless both are what ``retry`` takes."""
    require_mapping("done", done, "{ID: TEXT}, or {ID: None} where nobody knows what it gave")
    require_list("undone", undone, "[ID]")
    if wrong := [name for name, text in done.items() if not isinstance(text, str | None)]:
        raise InvalidRequest(f"done[{wrong[0]!r}] is no text: give what the call gave, or None where nobody knows it")


def _named(name: str, unknown: "Sequence[UnknownCall]") -> "UnknownCall":
    found = [one for one in unknown if name == one.id]
    found = found or [one for one in unknown if name in (one.call.id, one.node)]
    if len(found) == 1:
        return found[0]
    if found:
        raise InvalidRequest(f"{name!r} is more than one call: name {' or '.join(one.id for one in found)}")
    those = ", ".join(f"{one.id} ({one.name})" for one in unknown)
    known = f"those of this job are {those}" if unknown else "this job has none"
    raise InvalidRequest(f"{name!r} is no call of which nobody knows whether it was done: {known}")


def _traceparent_of(entries: list[Entry]) -> str:
    first = entries[0].record if entries else None
    return (first.traceparent or "") if isinstance(first, JobRequested) else ""
