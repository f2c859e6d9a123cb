"""What each test costs in CPU seconds, its programs included: ``python -m pytest -p tests.costs tests/...``.

Clock time says little on a machine that others use too. Programs count once they have ended and were waited for.
What a test waits is the clock time beyond its CPU time: it costs nobody anything while other tests run beside it.
Each process of pytest-xdist tells the one that started it. What it costs to collect the tests is not counted.
"""

import resource
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.warm import started_anew

_HOW_MANY = 25
_costs: dict[str, tuple[float, float]] = {}
"""CPU and clock seconds by test."""


def _spent_s() -> tuple[float, float]:
    spent = (resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in spent), time.monotonic()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Note what ``item`` costs, with the fixtures that begin and end around it."""
    cpu_s, clock_s = _spent_s()
    try:
        return (yield)
    finally:
        now_cpu_s, now_clock_s = _spent_s()
        _costs[item.nodeid] = now_cpu_s - cpu_s, now_clock_s - clock_s


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell the process that started this one, if one did."""
    if (told := getattr(session.config, "workeroutput", None)) is not None:
        told["costs"] = _costs, started_anew


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Note what another process tells; one that has died tells nothing."""
    costs, anew = getattr(node, "workeroutput", {}).get("costs", ({}, []))
    _costs.update(costs)
    started_anew.extend(map(tuple, anew))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the dearest tests, then what each file costs, then the programs that were not forked off the template."""
    if not _costs:
        return
    files: dict[str, tuple[float, float]] = {}
    for test, (cpu_s, clock_s) in _costs.items():
        file = test.partition("::")[0]
        before = files.get(file, (0.0, 0.0))
        files[file] = before[0] + cpu_s, before[1] + clock_s
    for what, table in (("tests", _costs), ("files", files)):
        cpu_s, clock_s = (sum(column) for column in zip(*table.values(), strict=True))
        terminalreporter.section(f"dearest {what}: {cpu_s:.1f} s of CPU, {clock_s:.1f} s of clock time in all")
        for name, (cpu_s, clock_s) in sorted(table.items(), key=lambda one: -one[1][0])[:_HOW_MANY]:
            terminalreporter.write_line(f"{cpu_s:8.2f} {clock_s:8.2f}  {name}")
    terminalreporter.section(f"Python was started anew {len(started_anew)} times")
    for (test, *argv), times in Counter(started_anew).most_common(_HOW_MANY):
        terminalreporter.write_line(f"{times:8}  {test}: {' '.join(argv)[:80]!r}")
