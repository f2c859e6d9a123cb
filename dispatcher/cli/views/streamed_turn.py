"""One turn of a model as it is shown: its thoughts, folded or not, then what it says."""

from typing import Self

from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.cli.views.streamed_text import StreamedText
from ekiden.shared.messages import Message, TextPart
from ekiden.shared.stores.views import LivePiece

__all__ = ["StreamedTurn"]


class StreamedTurn:
    """Shows a turn once, whether its pieces came live or only its record."""

    def __init__(self, out: Output, agent: str, piece: LivePiece, *, thoughts: bool) -> None:
        self._out = out
        self._turn = (piece.leg, piece.turn)
        self._fence = piece.fence
        self._shows_thoughts = thoughts
        self._thought = ""
        self._thinking: StreamedText | None = StreamedText(out, f"{agent} thinks: ", "dim")
        self._speech = StreamedText(out, f"{agent}: ")

    @classmethod
    def of_turn(cls, out: Output, agent: str, leg: int, turn: int, *, thoughts: bool) -> Self:
        """Return the turn of which nothing came live."""
        return cls(out, agent, LivePiece(leg=leg, fence="", turn=turn, text=""), thoughts=thoughts)

    def is_turn(self, leg: int, turn: int) -> bool:
        """Whether it is that turn's."""
        return self._turn == (leg, turn)

    def is_of(self, piece: LivePiece) -> bool:
        """Whether ``piece`` belongs to it: the same turn of the same attempt."""
        return self.is_turn(piece.leg, piece.turn) and self._fence == piece.fence

    def add(self, piece: LivePiece) -> None:
        """Show the next piece."""
        if piece.thought:
            self._think(piece.text)
        elif piece.text:
            self._stop_thinking()
            self._speech.add(piece.text)

    def end(self, message: Message) -> None:
        """Show what is missing of the whole."""
        thoughts = "".join(part.text for part in message.parts if isinstance(part, TextPart) and part.thought)
        if thoughts.startswith(self._thought):
            self._think(thoughts[len(self._thought) :])
        self._stop_thinking()
        self._speech.end(message.text)

    def break_off(self, *, anew: bool = False) -> None:
        """End what was begun: it is void; ``anew``: another one follows in its place."""
        if self._shows_thoughts and self._thinking is not None:
            self._thinking.break_off(anew=anew)
        self._speech.break_off(anew=anew)

    def _think(self, text: str) -> None:
        self._thought += text
        if self._shows_thoughts and self._thinking is not None:
            self._thinking.add(text)

    def _stop_thinking(self) -> None:
        """Leave the thoughts behind, once: as one line, unless they were shown."""
        if self._thinking is None or not self._thought.strip():
            return
        if not self._shows_thoughts:
            words = len(self._thought.split())
            self._out.line(f"{self._out.symbols['dots']} thinking ({words} word{'s' if words > 1 else ''})", "dim")
        self._out.fresh_line()
        self._thinking = None
