"""The run path of every entry of a journal: the agents that led to it, from the user, as the moves of control tell."""

from ekiden.shared.records import Delegated, Entry, HandedOff

__all__ = ["Path", "Paths"]

Path = tuple[str, ...]


class Paths:
    """Follows a job's journal. A return takes those off the path that have given control back."""

    def __init__(self, above: Path = ("user",)) -> None:
        """Begin at ``above``, the path of who asked for the job; its first move of control says the same."""
        self._of_leg: dict[int, Path] = {0: above}
        self._of_child: dict[str, Path] = {}

    def learn(self, entry: Entry) -> None:
        """Take note of the next entry."""
        match entry.record:
            case HandedOff(leg=leg, context=context, kind=kind):
                chain = context.metadata.handoff_chain
                self._of_leg[leg + 1] = chain
                if kind == "route":
                    self._of_leg[0] = chain[:-1]
            case Delegated(leg=leg, child=child):
                self._of_child[child] = self.of(leg)
            case _:
                pass

    def of(self, leg: int) -> Path:
        """Return the path of what happens in ``leg``: whoever has it is the last on it."""
        return self._of_leg.get(leg, self._of_leg[0])

    def above(self, child: str) -> Path | None:
        """Return the path at which ``child`` was delegated; None: nothing was heard of it."""
        return self._of_child.get(child)
