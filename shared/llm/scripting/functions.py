"""The functions that scripts may call in expressions. All pure: texts and records in, values out.

test_commands(listing)         commands that may run a project's tests, best first
test_run(output)               a run of tests, read: passed, count, failures, first, failing, usable, last_line, command
best_run(calls, label)         the most telling of the runs that calls with this label made
missing_program(calls, label)  what these calls could not start, because it is not installed; empty: nothing
time_limit(run)                seconds to allow for running the same tests again
python_files(listing)          the project's own Python files
files_to_read(run, files)      the files that may matter for the first failure
repairs(run, calls, tables)    the changes to try for it, likeliest first
standing_edits(calls)          the edits that have not been taken back
diffs(calls)                   what they changed, as unified diffs
closest(name, candidates)      the names most like ``name``, best first
better(run, before)            whether fewer tests fail than before, and none that did not
made(calls, label)             the calls with this label
search_words(request)          the words of a request that code could have; few
search_pattern(words)          the regular expression that finds them
locations(found, words)        the files of a search's output, likeliest first: FilePath, Reasoning, KeySymbols
first(x, n)                    the first ones
length(x), last(x), backwards(x), text(x), find(regex, text)
"""

from collections.abc import Callable, Sequence
from typing import Any

from ekiden.shared.llm.scripting.names import closest
from ekiden.shared.llm.scripting.regexes import searched
from ekiden.shared.llm.scripting.repairs import files_to_read, repairs
from ekiden.shared.llm.scripting.searches import locations, search_pattern, search_words
from ekiden.shared.llm.scripting.sources import diffs, standing_edits
from ekiden.shared.llm.scripting.testruns import (
    Run,
    best_run,
    commands_for_tests,
    missing_program,
    python_files,
    read_run,
    time_limit,
)
from ekiden.shared.step_limits import A_MOMENT, spend

__all__ = ["FUNCTIONS"]


def _better(run: Run | None, before: Run | None) -> bool:
    """Tell whether a change is worth keeping although some tests still fail."""
    return run is not None and before is not None and run.count >= before.count and run.failing < before.failing


def _last(items: Sequence[Any] | None) -> Any:
    return items[-1] if items else None


def _find(pattern: str, text: str | None) -> str:
    """Return the first group of the first match, all of it where there is no group, or nothing."""
    found = searched(pattern, text or "", "m")
    return (found.group(1 if found.re.groups else 0) or "") if found else ""


def _dear(function: Callable[..., Any]) -> Callable[..., Any]:
    """Keep what parses whole files off the event loop."""

    def run(*arguments: Any) -> Any:
        spend(A_MOMENT)
        return function(*arguments)

    return run


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "answers": lambda calls, rule: len({call.turn for call in calls if call.rule == rule}),
    "backwards": lambda items: list(reversed(items or ())),
    "best_run": _dear(best_run),
    "better": _better,
    "closest": closest,
    "diffs": _dear(diffs),
    "first": lambda items, most: list(items or ())[:most],
    "files_to_read": _dear(files_to_read),
    "find": _find,
    "last": _last,
    "length": lambda items: len(items or ()),
    "locations": _dear(locations),
    "missing_program": missing_program,
    "python_files": python_files,
    "repairs": _dear(repairs),
    "search_pattern": search_pattern,
    "search_words": search_words,
    "standing_edits": _dear(standing_edits),
    "test_commands": commands_for_tests,
    "test_run": _dear(read_run),
    "text": lambda value: "" if value is None else str(value),
    "time_limit": time_limit,
}
