"""The chaos benchmark in small: nothing is lost or done twice; and it would notice, were a safety missing."""

import signal

import pytest

from tests.benchmarks.chaos import Plan, run


def test_nothing_is_lost_or_done_twice_while_pools_and_the_server_are_killed() -> None:
    figures = run(Plan(60, rate=6, kill_every_s=1.5, server_kills=1, stop_every=3, lease_s=2.0, workers=3, within_s=60))
    print(*figures.lines(), sep="\n")
    assert figures.is_clean, figures.lines()
    assert figures.worker_kills + figures.worker_stops >= 4
    assert figures.server_kills == 1


def test_rolling_restarts_under_load_cost_nothing() -> None:
    never = 1_000
    figures = run(Plan(60, rate=3, kill_every_s=1.5, stop_every=never, strike=signal.SIGTERM, workers=3, within_s=70))
    print(*figures.lines(), sep="\n")
    assert figures.is_clean, figures.lines()
    assert figures.worker_kills >= 10
    assert (figures.broken_off, figures.unknown_told) == (0, 0), figures.lines()


@pytest.mark.parametrize(("safety", "stop_every"), [("fence", 1), ("journal", 1_000)])
def test_it_would_notice_a_missing(safety: str, stop_every: int) -> None:
    plan = Plan(40, rate=10, kill_every_s=0.4, stop_every=stop_every, mutate=safety, lease_s=1.0, workers=2, within_s=6)
    figures = run(plan)
    assert not figures.is_clean, figures.lines()
