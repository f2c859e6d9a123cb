"""A job of pools elsewhere of which only the answer is wanted."""

from ekiden.dispatcher.cli.running.plain import print_data, submit_plainly
from ekiden.dispatcher.cli.running.submission import CliRequest
from ekiden.dispatcher.cli.running.watch import DisplayOptions, watch_to_end
from ekiden.dispatcher.client import Client
from ekiden.dispatcher.journal.follower import Follower
from ekiden.shared.records import Ended, Entry
from ekiden.shared.stores.views import LivePiece
from ekiden.shared.terminal_text import note

__all__ = ["submit_and_wait"]

_END_FIELDS = {"status", "reason", "answer", "error"}


async def submit_and_wait(client: Client, asked: CliRequest, display: DisplayOptions) -> int:
    """Submit, and print the answer once there is one; warnings and failures go to standard error."""
    job = await submit_plainly(client, asked, as_json=display.as_json)
    view = _Quiet()
    follower = Follower(client, job, view, is_live=False, outage_s=display.outage_s)
    code = await watch_to_end(follower, display)
    if view.end is not None:
        _print_end(job, view.end, as_json=display.as_json)
    return code


def _print_end(job: str, end: Ended, *, as_json: bool) -> None:
    if as_json:
        print_data({"job": job, **end.model_dump(mode="json", exclude_none=True, include=_END_FIELDS)})
    elif end.answer is not None:
        print_data(end.answer)
        if end.status == "unfinished":
            note(f"ekiden: job {job} unfinished: this says why")
    else:
        note(f"ekiden: job {job} {end.status} ({end.reason}): {end.error or ''}")


class _Quiet:
    """A view that shows notes only, on standard error, and keeps the end."""

    def __init__(self) -> None:
        self.end: Ended | None = None

    def show(self, entry: Entry) -> None:
        """See ``View``."""
        if isinstance(entry.record, Ended):
            self.end = entry.record

    def learn(self, entry: Entry) -> None:
        """See ``View``."""

    def below(self, job: str) -> "_Quiet":
        """See ``View``."""
        return _Quiet()

    def live(self, piece: LivePiece) -> None:
        """See ``View``."""

    def note(self, text: str) -> None:
        """See ``View``."""
        note(text)

    def tick(self) -> None:
        """See ``View``."""
