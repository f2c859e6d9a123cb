"""The chaos benchmark in small: nothing is lost or done twice; and it would notice, were a safety missing."""

import signal
from collections.abc import Callable

import pytest

from tests.benchmarks.chaos import run
from tests.benchmarks.chaos_figures import Figures, Plan
from tests.integration.rewinds import Rewind

TRIES = 4


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


def seen_in(plan: Plan, fault: Callable[[Figures], object]) -> bool:
    """Run the plan until ``fault`` shows: whether a strike comes in the short moment that matters is chance."""
    for _ in range(TRIES):
        figures = run(plan)
        print(*figures.lines(), sep="\n")
        if fault(figures):
            return True
    return False


@pytest.mark.parametrize(("safety", "stop_every"), [("fence", 1), ("journal", 1_000)])
def test_it_would_notice_a_missing(safety: str, stop_every: int) -> None:
    plan = Plan(40, rate=10, kill_every_s=0.4, stop_every=stop_every, mutate=safety, lease_s=1.0, workers=2, within_s=6)
    assert seen_in(plan, lambda figures: not figures.is_clean)


@pytest.mark.parametrize("rewind", ["crash", "failover"])
def test_a_server_that_goes_back_in_time_loses_what_it_forgot_and_no_more(rewind: Rewind) -> None:
    plan = Plan(40, rate=8, rewind=rewind, rewinds=2, lost_s=1.0, turn_s=1.0, lease_s=2.0, workers=3, within_s=60)
    figures = run(plan)
    print(*figures.lines(), sep="\n")
    assert figures.is_clean, figures.lines()
    assert len(figures.windows) == 2


def test_it_would_notice_two_owners_that_look_alike_on_a_server_that_went_back() -> None:
    plan = Plan(
        24, rate=8, rewind="failover", rewinds=1, lost_s=1.0, turn_s=1.0, mutate="rewind", lease_s=2.0, within_s=12
    )
    assert seen_in(plan, lambda figures: figures.broken)


def test_what_a_replica_has_confirmed_survives_its_promotion() -> None:
    plan = Plan(30, rate=8, rewind="failover", rewinds=1, lost_s=1.5, lease_s=2.0, wait_replicas=1, within_s=60)
    figures = run(plan)
    print(*figures.lines(), sep="\n")
    assert figures.is_clean, figures.lines()
    assert figures.forgotten == 0
    assert figures.unconfirmed >= 1
