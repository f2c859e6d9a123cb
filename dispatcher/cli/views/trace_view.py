"""``--trace``: another view, and the waterfall once the job has ended."""

from ekiden.dispatcher.cli.views.story_view import draw_story, read_story
from ekiden.dispatcher.journal.view import View
from ekiden.shared.records import Ended, Entry
from ekiden.shared.stores.views import LivePiece

__all__ = ["TracedView"]


class TracedView:
    """Keeps what it shows, to draw it at the end."""

    def __init__(self, job: str, view: View, above: dict[str, list[Entry]] | None = None) -> None:
        """Show ``job`` by ``view``; ``above`` are the journals of what it is drawn with, if it is not drawn alone."""
        self._job = job
        self._view = view
        self._is_drawn_here = above is None
        self._journals = {} if above is None else above
        self._journals[job] = []

    def show(self, entry: Entry) -> None:
        """See ``View``."""
        self._view.show(entry)
        self._keep(entry)
        if isinstance(entry.record, Ended) and self._is_drawn_here:
            draw_story(read_story(self._job, self._journals))

    def learn(self, entry: Entry) -> None:
        """See ``View``."""
        self._view.learn(entry)
        self._keep(entry)

    def below(self, job: str) -> View:
        """See ``View``."""
        return TracedView(job, self._view.below(job), self._journals)

    def live(self, piece: LivePiece) -> None:
        """See ``View``."""
        self._view.live(piece)

    def note(self, text: str) -> None:
        """See ``View``."""
        self._view.note(text)

    def tick(self) -> None:
        """See ``View``."""
        self._view.tick()

    def _keep(self, entry: Entry) -> None:
        """Keep an entry; those that were in its place are void, the server has lost them."""
        journal = self._journals[self._job]
        while journal and journal[-1].seq >= entry.seq:
            journal.pop()
        journal.append(entry)
