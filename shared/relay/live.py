"""Carries what a model writes and what tools show, meanwhile, to whoever follows the job. Never to the journal."""

import asyncio

from ekiden.shared.errors import EkidenError
from ekiden.shared.late_logger import LateLogger
from ekiden.shared.llm.base import Delta
from ekiden.shared.stores.base import Lease
from ekiden.shared.stores.live import RedisLiveStore
from ekiden.shared.stores.views import LivePiece

__all__ = ["FLUSH_S", "Live"]

FLUSH_S = 0.05
"""Pieces of an answer are sent together, at most this often and first so long after the first of them: a word at a time
would cost a round trip each, and an answer that is whole by then needs none, its record says it all."""
SLOWER_FROM = 500
"""Pieces of a turn from which on they are sent half as often, from twice as many a third as often, and so on: so that a
stream of a bounded number of pieces holds a long answer from its beginning, for those who come late."""

log = LateLogger(__name__)


class Live:
    """Takes pieces from a model's callback and sends them from a task of its own; losing some costs no job anything.

    So nothing that goes wrong here gets out; it is logged once a leg.
    """

    def __init__(self, store: RedisLiveStore, lease: Lease) -> None:
        self._store = store
        self._lease = lease
        self._turn = 0
        self._pending: list[LivePiece] = []
        self._timer: asyncio.TimerHandle | None = None
        self._sending: asyncio.Task[None] | None = None
        self._is_shown = False
        """Whether any of this turn has been sent."""
        self._sent = 0
        """Pieces of this turn that were sent."""
        self._has_told = False

    def begin(self, turn: int) -> None:
        """Say which turn the next pieces belong to."""
        self._turn, self._is_shown, self._sent = turn, False, 0

    def write(self, delta: Delta) -> None:
        """Take a piece; returns at once."""
        try:
            self._take(delta)
        except Exception as error:
            self._tell(error)

    def show(self, call: str, text: str, progress: float | None = None) -> None:
        """Take what a tool shows while it runs: some output or, with ``progress``, how far it is. Returns at once."""
        here = self._lease
        try:
            self._put(
                LivePiece(leg=here.leg, fence=here.fence, turn=self._turn, text=text, call=call, progress=progress)
            )
        except Exception as error:
            self._tell(error)

    async def finish(self) -> None:
        """Wait until what is shown already is whole: the record of the whole answer comes next."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            if self._is_shown:
                self._begin_sending()
            else:
                self._pending.clear()
        if self._sending is not None:
            await asyncio.wait({self._sending})  # awaited itself, it would pass on how it ends

    def _take(self, delta: Delta) -> None:
        piece = LivePiece(
            leg=self._lease.leg,
            fence=self._lease.fence,
            turn=self._turn,
            text=delta.text,
            thought=delta.thought,
            restart=delta.restart,
        )
        self._put(piece)

    def _put(self, fresh: LivePiece) -> None:
        last = self._pending[-1] if self._pending else None
        if last is not None and not fresh.restart and last.continues(fresh):
            self._pending[-1] = last.with_more(fresh.text)
        else:
            self._pending.append(fresh)
        if self._timer is None and (self._sending is None or self._sending.done()):
            self._timer = asyncio.get_running_loop().call_later(self._flush_s, self._begin_sending)

    @property
    def _flush_s(self) -> float:
        return FLUSH_S * (1 + self._sent // SLOWER_FROM)

    def _begin_sending(self) -> None:
        self._timer, self._is_shown = None, True
        self._sending = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        while self._pending:
            pieces, self._pending = self._pending, []
            self._sent += len(pieces)
            try:
                await self._store.append(self._lease.job, pieces)
            except Exception as error:
                self._tell(error)
            if self._pending:
                await asyncio.sleep(self._flush_s)

    def _tell(self, error: Exception) -> None:
        if not self._has_told:
            self._has_told = True
            tell = log.debug if isinstance(error, EkidenError) else log.warning  # of an outage others tell
            tell("live_pieces_lost", error=f"{type(error).__name__}: {error}")
