"""A journal becomes a story: what belongs together, what was lost, what goes on."""

from ekiden.dispatcher.journal.story import Step, Story
from ekiden.dispatcher.journal.story_reader import story_of
from ekiden.shared.messages import Usage
from ekiden.shared.prices import Prices
from ekiden.shared.records import Ended, Entry, LegStarted, Record, Retried
from tests.unit.cli.journals import JOB, stored_journal


def story(upto: int | None = None, now_ms: int | None = None) -> Story:
    return story_of(JOB, stored_journal()[:upto], now_ms)


def steps(kind: str, name: str | None = None) -> list[Step]:
    return [step for step in story().steps if step.kind == kind and name in (None, step.name)]


def with_more(*records: Record, gap_ms: int = 1_000) -> Story:
    entries = stored_journal()
    for record in records:
        last = entries[-1]
        entries.append(Entry(seq=last.seq + 1, at_ms=last.at_ms + gap_ms, record=record))
    return story_of(JOB, entries)


def test_legs_follow_the_chain_and_know_how_long_they_waited() -> None:
    told = story()
    assert told.chain == ["user", "debugger", "code-fixer", "reviewer"]
    assert [leg.wait_ms for leg in told.legs] == [110, 305, 40, 90]
    assert [leg.number for leg in told.legs] == [0, 1, 2, 3]
    assert told.now_ms - told.start_ms == 23_910


def test_a_model_call_began_before_its_record_and_heard_what_came_since_the_one_before() -> None:
    first, second, *_ = steps("model")
    assert (first.end_ms or 0) - first.start_ms == 1_480
    assert first.heard[0].text.startswith("the tests of the shop fail")
    assert [message.results[0].name for message in second.heard] == ["bash", "read_file", "grep"]


def test_parallel_tools_overlap() -> None:
    (grep,), read = steps("tool", "grep"), steps("tool", "read_file")[0]
    assert grep.start_ms == read.start_ms
    assert read.end_ms is not None
    assert read.end_ms < (grep.end_ms or 0)


def test_a_second_start_without_a_pause_is_a_takeover_and_what_ran_is_lost() -> None:
    attempts = story().legs[2].attempts
    assert [attempt.end for attempt in attempts] == ["lost", "suspended", "handoff"]
    assert [attempt.is_takeover for attempt in attempts] == [False, True, False]
    lost = attempts[0].steps[-1]
    assert (lost.name, lost.is_lost, lost.end_ms) == ("bash", True, attempts[0].end_ms)
    assert [attempt.worker for attempt in attempts] == ["pool-3", "pool-4", "pool-4"]


def test_a_suspension_lasts_as_long_as_its_timer_and_what_follows_is_queue_wait() -> None:
    (pause,) = steps("suspended")
    after = story().legs[2].attempts[2]
    assert (pause.end_ms or 0) - pause.start_ms == 2_000
    assert after.ready_ms == pause.end_ms
    assert after.start_ms - after.ready_ms == 150


def test_tokens_and_cost_add_up() -> None:
    told = story()
    assert told.usage == Usage(input_tokens=10_064, output_tokens=657)
    assert told.cost_usd is not None
    assert round(told.cost_usd, 6) == round((10_064 * 0.3 + 657 * 2.5) / 1e6, 6)
    dear = story_of(JOB, stored_journal(), prices=Prices({"gemini-2.5-flash": (1e6, 0.0)}))
    assert dear.cost_usd == 10_064


def test_the_end_of_a_job_closes_everything_whatever_the_clock_says() -> None:
    told = story(now_ms=story().now_ms + 99_999)
    assert told.now_ms == story().now_ms
    assert told.legs[-1].end_ms == told.now_ms
    assert [step for step in told.steps if step.end_ms is None] == []


def test_while_a_job_runs_what_has_begun_is_open_and_now_is_the_servers() -> None:
    begun = next(entry.seq for entry in stored_journal() if entry.record.type == "tool_started")
    told = story(begun, now_ms=story().start_ms + 60_000)
    assert told.end is None
    assert told.now_ms - told.start_ms == 60_000
    assert [step.name for step in told.steps if step.end_ms is None] == ["bash"]
    assert told.legs[-1].end_ms is None


def test_a_leg_that_nobody_took_waits() -> None:
    handed = next(entry.seq for entry in stored_journal() if entry.record.type == "handoff")
    told = story(handed, now_ms=story().start_ms + 5_000)
    assert told.legs[-1].agent == "debugger"
    assert told.legs[-1].wait_ms is None


def test_a_job_that_is_retried_has_one_end_and_no_takeover() -> None:
    told = with_more(
        Retried(leg=3),
        LegStarted(leg=3, agent="reviewer", attempt=1, worker="pool-9"),
        Ended(leg=3, status="failed", reason="ERROR", error="no"),
    )
    assert told.end is not None
    assert told.end.status == "failed"
    again = told.legs[3].attempts[1]
    assert (again.is_takeover, again.start_ms - again.ready_ms) == (False, 1_000)


def test_a_dead_job_ends_with_a_lost_attempt() -> None:
    entries = stored_journal()[:-2]
    dead = Ended(leg=3, status="dead", reason="ERROR", error="five times")
    entries.append(Entry(seq=len(entries) + 1, at_ms=entries[-1].at_ms + 5_000, record=dead))
    assert story_of(JOB, entries).legs[-1].attempts[-1].end == "lost"


def test_every_prefix_of_a_journal_can_be_told() -> None:
    for upto in range(len(stored_journal()) + 1):
        told = story(upto)
        assert all((step.end_ms or told.now_ms) >= step.start_ms for step in told.steps)
