"""Which pieces of answers in the making still count."""

from ekiden.shared.records import Ended, LegStarted, ModelReplied, Record
from ekiden.shared.stores.base import claims_in
from ekiden.shared.stores.views import LivePiece

__all__ = ["LivePieces"]


class LivePieces:
    """Knows from the journal which drafts are void: a turn's once its record is there, an attempt's after the next.

    Every claim writes one ``LegStarted`` and raises the fence by one, so the fence in force is their number.
    """

    def __init__(self) -> None:
        self._claims = 0
        self._done: tuple[int, int] = (0, 0)
        self._is_over = False

    def close(self, record: Record) -> None:
        """Take note of the next record of the journal."""
        match record:
            case LegStarted():
                self._claims += 1
                self._done = (0, 0)  # earlier drafts are told by their fence; a retried job may use turn numbers again
                self._is_over = False
            case ModelReplied(leg=leg, turn=turn):
                self._done = (leg, turn)
            case Ended():
                self._is_over = True
            case _:
                pass

    def is_open(self, piece: LivePiece) -> bool:
        """Tell whether ``piece`` belongs to the turn that is being written."""
        return not self._is_over and (piece.leg, piece.turn) > self._done and claims_in(piece.fence) >= self._claims
