"""``--trace``: another view, a line for whatever has taken time as soon as it is over, and the waterfall at the end."""

from collections.abc import Iterable

from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.cli.views.story_view import draw_story, read_story
from ekiden.dispatcher.journal.view import View
from ekiden.shared.prices import Prices
from ekiden.shared.records import Ended, Entry
from ekiden.shared.redaction import redact_all
from ekiden.shared.relay.message import queue_of_leg
from ekiden.shared.stores.views import LivePiece
from ekiden.shared.tracing.content import Content
from ekiden.shared.tracing.lines import trace_lines
from ekiden.shared.tracing.mapping import JobSpans
from ekiden.shared.tracing.spans import Span

__all__ = ["TracedView"]


class TracedView:
    """Keeps what it shows, to draw it at the end."""

    def __init__(
        self, job: str, view: View, out: Output | None = None, above: dict[str, list[Entry]] | None = None
    ) -> None:
        """Show ``job`` by ``view``; ``above`` are the journals of what it is drawn with, if it is not drawn alone."""
        self._out = out or Output()
        self._spans = JobSpans(job, queue_of_leg, Prices(), Content(redact_all))
        self._job = job
        self._view = view
        self._is_drawn_here = above is None
        self._journals = {} if above is None else above
        self._journals[job] = []

    def show(self, entry: Entry) -> None:
        """See ``View``."""
        self._view.show(entry)
        if self._keep(entry):
            self._tell(self._spans.note(entry))
        if isinstance(entry.record, Ended) and self._is_drawn_here:
            draw_story(read_story(self._job, self._journals))

    def learn(self, entry: Entry) -> None:
        """See ``View``."""
        self._view.learn(entry)
        if self._keep(entry):
            self._spans.note(entry)

    def below(self, job: str) -> View:
        """See ``View``."""
        return TracedView(job, self._view.below(job), self._out, self._journals)

    def live(self, piece: LivePiece) -> None:
        """See ``View``."""
        self._view.live(piece)

    def note(self, text: str) -> None:
        """See ``View``."""
        self._view.note(text)

    def tick(self) -> None:
        """See ``View``."""
        self._view.tick()

    def _tell(self, spans: Iterable[Span]) -> None:
        for span in (span for span in spans if span.event is not None):
            seconds = (span.ended_ns - span.began_ns) / 1e9
            for line in trace_lines(span.name, span.attributes, seconds, arrow=self._out.symbols["arrow"]):
                self._out.line(line, "dim")

    def _keep(self, entry: Entry) -> bool:
        """Keep an entry; those that were in its place are void, the server has lost them. Tell whether none was."""
        journal = self._journals[self._job]
        known = len(journal)
        while journal and journal[-1].seq >= entry.seq:
            journal.pop()
        journal.append(entry)
        return len(journal) > known
