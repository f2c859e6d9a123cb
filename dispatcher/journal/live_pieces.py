"""Which pieces of answers in the making still count."""

from ekiden.shared.records import Ended, LegStarted, ModelReplied, Record, ToolFinished, ToolStarted
from ekiden.shared.stores.base import claims_in
from ekiden.shared.stores.views import LivePiece

__all__ = ["LivePieces"]


class LivePieces:
    """Knows from the journal which pieces are void: a turn's once its record is there, an attempt's after the next.

    Every claim writes one ``LegStarted`` and raises the fence by one, so the fence in force is their number.
    """

    def __init__(self) -> None:
        self._claims = 0
        self._done: tuple[int, int] = (0, 0)
        self._running: set[str] = set()
        """Calls of tools that run now."""
        self._is_over = False

    def close(self, record: Record) -> None:
        """Take note of the next record of the journal."""
        match record:
            case LegStarted():
                self._claims += 1
                self._done = (0, 0)  # earlier pieces are known by their fence; a retried job may use turn numbers again
                self._is_over = False
                self._running.clear()
            case ToolStarted(call_id=call_id):
                self._running.add(call_id)
            case ToolFinished(result=result):
                self._running.discard(result.call_id)
            case ModelReplied(leg=leg, turn=turn):
                self._done = (leg, turn)
            case Ended():
                self._is_over = True
            case _:
                pass

    def is_open(self, piece: LivePiece) -> bool:
        """Tell whether ``piece`` belongs to the turn that is being written, or to a tool that runs."""
        if self._is_over or claims_in(piece.fence) < self._claims:
            return False
        return piece.call in self._running if piece.call else (piece.leg, piece.turn) > self._done
