"""What a check may cost, and where it runs."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from ekiden.shared.errors import TooCostly
from ekiden.shared.step_limits import A_MOMENT, MOST_STEPS, StepLimit, limited, run_limited, spend
from tests.ticking import beside_a_ticking_loop


def counting(steps: int) -> Callable[[], int]:
    """A check of so many steps that tells in which thread it has ended."""

    def check() -> int:
        for _ in range(steps):
            spend()
        return threading.get_ident()

    return check


def test_what_takes_a_moment_stays_on_the_loop() -> None:
    assert asyncio.run(run_limited(counting(A_MOMENT // 2))) == threading.get_ident()


def test_what_takes_longer_is_begun_anew_in_a_thread_beside_a_loop_that_ticks() -> None:
    begun: list[int] = []

    def check() -> str:
        begun.append(threading.get_ident())
        for _ in range(MOST_STEPS // 2):
            spend()
            sum(range(100))  # a step does something
        return "done"

    assert asyncio.run(beside_a_ticking_loop(lambda: run_limited(check))) == "done"
    here, there = begun
    assert (here == threading.get_ident()) != (there == threading.get_ident())


def test_checks_that_take_long_wait_for_each_other_and_not_the_loop() -> None:
    async def several() -> list[int]:
        return await asyncio.gather(*(run_limited(counting(2 * A_MOMENT)) for _ in range(8)))

    threads = asyncio.run(beside_a_ticking_loop(several))
    assert len(set(threads)) == 1


def test_a_check_ends_at_its_bound() -> None:
    with pytest.raises(TooCostly):
        asyncio.run(run_limited(counting(MOST_STEPS + 1)))


def test_a_check_whose_steps_are_dearer_than_they_should_be_ends_by_the_clock() -> None:
    allowance = StepLimit(10**9, cpu_s=0.05)

    def check() -> None:
        while True:
            sum(range(1_000))
            allowance.spend()

    with pytest.raises(TooCostly):
        check()


def test_a_part_of_a_check_has_what_is_left_of_the_whole() -> None:
    with limited(steps=10) as whole:
        spend(6)
        with limited() as part:
            assert part is whole
        with pytest.raises(TooCostly):
            spend(6)


def test_what_nobody_bounds_is_bounded_by_itself() -> None:
    spend(MOST_STEPS + 1)  # no check runs
    with limited() as allowance:
        assert allowance.is_final


def test_an_error_of_the_check_is_the_callers() -> None:
    def check() -> None:
        spend(2 * A_MOMENT)
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        asyncio.run(run_limited(check))
