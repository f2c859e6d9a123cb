"""Hooks that are told afterwards: nothing waits for them, and what they say changes nothing."""

import asyncio
import json
import queue
import threading
from collections.abc import Sequence

from ekiden.shared.approvals import ApprovalView, approval_json
from ekiden.shared.errors import HookFailed
from ekiden.shared.hooks.asking import HookAsking
from ekiden.shared.hooks.base import Hook
from ekiden.shared.hooks.events import Event, Place
from ekiden.shared.hooks.occasions import Notification, SessionEnd
from ekiden.shared.ids import parent_of, session_of
from ekiden.shared.late_logger import LateLogger
from ekiden.shared.records import Ended, Entry

__all__ = ["Observers"]

MOST_WAITING = 1_000
"""Events that wait for those before them; more are dropped, and logged."""

log = LateLogger(__name__)


class Observers(Hook):
    """Asks hooks at ``Notification`` and ``SessionEnd``, one event after the other, in a thread of its own."""

    def __init__(self, asking: HookAsking) -> None:
        self._asking = asking
        self._waiting: queue.Queue[Event | None] = queue.Queue(MOST_WAITING)
        self._thread: threading.Thread | None = None

    def hears(self, event: str) -> bool:
        """See ``Hook``."""
        at = {"approval_asked": Notification.name, "job_ended": SessionEnd.name}.get(event)
        return at is not None and self._asking.at(at)

    def approval_asked(self, view: ApprovalView) -> None:
        """See ``Hook``."""
        if self._asking.at(Notification.name):
            kind = "Question" if view.kind == "question" else "ToolPermission"
            place = Place(session_of(view.job), view.job, view.leg, view.agent)
            said = view.text or f"{view.agent} waits for a person: {view.tool}"
            self._put(Notification(place, kind, said, json.loads(approval_json(view))))

    def job_ended(self, job: str, entries: Sequence[Entry], records: Sequence[Entry], *, in_leg: bool) -> None:
        """See ``Hook``. The end of a delegated job is none of a session's."""
        if not self._asking.at(SessionEnd.name) or parent_of(job) is not None:
            return
        end = next((entry.record for entry in reversed(records) if isinstance(entry.record, Ended)), None)
        if end is not None:
            place = Place(session_of(job), job, end.leg)
            self._put(SessionEnd(place, end.status, end.answer or end.error or ""))

    def close(self) -> None:
        """See ``Hook``: what waits is still told, as far as there is time."""
        if self._thread is not None:
            try:
                self._waiting.put_nowait(None)
            except queue.Full:
                return
            self._thread.join()

    def _put(self, event: Event) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="hook-observers", daemon=True)
            self._thread.start()
        try:
            self._waiting.put_nowait(event)
        except queue.Full:
            log.warning("hook_event_dropped", event_name=event.name, job=event.place.job, waiting=MOST_WAITING)

    def _run(self) -> None:
        with asyncio.Runner() as runner:
            while (event := self._waiting.get()) is not None:
                try:
                    said = runner.run(self._asking.ask(event))
                except HookFailed as error:
                    log.error("hook_failed", problem=str(error))
                    continue
                for note in said.notes:
                    log.info("hook_note", job=event.place.job, note=note)
