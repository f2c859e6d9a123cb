"""What each test costs in CPU seconds, its programs included: ``python -m pytest -n 0 -p tests.costs tests/...``.

Clock time says little on a machine that others use too. Programs count once they have ended and were waited for.
"""

import resource
from collections.abc import Iterator

import pytest

_HOW_MANY = 25
_costs: dict[str, float] = {}


def _cpu_s() -> float:
    spent = (resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in spent)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Note what ``item`` costs, with the fixtures that begin and end around it."""
    before = _cpu_s()
    try:
        return (yield)
    finally:
        _costs[item.nodeid] = _cpu_s() - before


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the dearest tests, then what each file costs."""
    files: dict[str, float] = {}
    for test, cost in _costs.items():
        file = test.partition("::")[0]
        files[file] = files.get(file, 0) + cost
    for what, table in (("tests", _costs), ("files", files)):
        terminalreporter.section(f"dearest {what}, CPU seconds; {sum(table.values()):.1f} in all")
        for name, cost in sorted(table.items(), key=lambda one: -one[1])[:_HOW_MANY]:
            terminalreporter.write_line(f"{cost:8.2f}  {name}")
