"""A journal played again, in its own time."""

from ekiden.dispatcher.journal.replay import duration_s, replay, totals
from ekiden.dispatcher.journal.story_reader import story_of
from ekiden.dispatcher.journal.tree import in_order
from ekiden.shared.records import Entry, Guarded
from ekiden.shared.stores.views import LivePiece
from tests.unit.cli.journals import JOB, stored_journal


class Watching:
    """A view that remembers when what was shown, by the time slept so far."""

    def __init__(self) -> None:
        self.slept = 0.0
        self.ticks = 0
        self.shown: list[tuple[float, int]] = []

    def sleep(self, seconds: float) -> None:
        self.slept += seconds

    def show(self, entry: Entry) -> None:
        self.shown.append((round(self.slept, 3), entry.seq))

    def learn(self, entry: Entry) -> None: ...

    def below(self, job: str) -> "Watching":
        return self

    def live(self, piece: LivePiece) -> None: ...

    def note(self, text: str) -> None: ...

    def tick(self) -> None:
        self.ticks += 1


def played(speed: float, longest_s: float) -> Watching:
    view = Watching()
    placed = in_order({JOB: stored_journal()})
    replay(JOB, placed, view, speed=speed, longest_s=longest_s, sleep=view.sleep)
    return view


def test_entries_come_in_order_at_the_pace_of_the_journal() -> None:
    view = played(1.0, 60.0)
    entries = stored_journal()
    assert view.shown == [((entry.at_ms - entries[0].at_ms) / 1000, entry.seq) for entry in entries]
    assert view.ticks > 0


def test_speed_divides_the_time() -> None:
    assert round(played(4.0, 60.0).slept, 3) == round(23.91 / 4, 3)


def test_long_pauses_are_cut() -> None:
    assert played(1.0, 0.0).slept == 0
    assert played(1.0, 0.5).slept < 12


def test_an_empty_journal_plays_nothing() -> None:
    view = Watching()
    replay(JOB, [], view, speed=1, longest_s=1, sleep=view.sleep)
    assert view.shown == []


def test_the_totals_count_what_happened_in_all_jobs_together() -> None:
    story = story_of(JOB, stored_journal())
    assert totals([story]) == "3 agents, 9 tools, 2 handoffs, 1 refused handoff"
    assert totals([story, story]) == "3 agents, 18 tools, 4 handoffs, 2 refused handoffs"
    assert (duration_s([story]), duration_s([story, story])) == ("23.9s", "47.8s")


def test_what_guardrails_said_is_counted_behind_the_handoffs() -> None:
    *entries, last = stored_journal()
    said = Guarded(leg=3, at="output", rail="valid-json", policy="warn", status="passed", turn=2)
    judged = [*entries, Entry(last.seq, last.at_ms, said), last._replace(seq=last.seq + 1)]
    assert totals([story_of(JOB, judged)]) == "3 agents, 9 tools, 2 handoffs, 1 guardrail, 1 refused handoff"
