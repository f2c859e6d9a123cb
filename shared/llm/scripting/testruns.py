"""Reads the output of a test run: which tests failed, where, and with what error.

Knows the reports of ``unittest`` and of ``pytest --tb=native`` under Python 3.10 and later. Paths are told apart by the
folder that the command printed first (``pwd -P``).
"""

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from ekiden.shared.llm.scripting.history import CallRecord

__all__ = [
    "Failure",
    "Frame",
    "Run",
    "best_run",
    "commands_for_tests",
    "is_test",
    "missing_program",
    "python_files",
    "read_run",
    "time_limit",
]

_SECTION = re.compile(r"^(?:(?:ERROR|FAIL): |_{3,} )(?P<test>.+?)(?: _{3,})?$", re.MULTILINE)
_FRAME = re.compile(r'^\s+File "(?P<path>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>.+))?$')
_ERROR = re.compile(r"^(?P<error>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?$")
_COUNT = re.compile(r"^Ran (?P<count>\d{1,9}) tests? in (?P<seconds>\d+(?:\.\d+)?)s", re.MULTILINE)
_PYTEST = re.compile(r"^(?:=+ )?(?P<counts>\d{1,9} \w+(?:, \d{1,9} \w+)*) in (?P<seconds>\d+(?:\.\d+)?)s", re.MULTILINE)
_EXIT = re.compile(r"exit code: (-?\d+)\s*\Z")
_MISSING = re.compile(r"^\((?P<program>\S+) is not installed here: ", re.MULTILINE)
_NOT_OURS = ("site-packages", "dist-packages", "node_modules", "venv", "build", "dist")
_FOLDER_FIRST = "pwd -P; "
_IN_PLACE_LIMIT = 40


@dataclass(frozen=True)
class Frame:
    """One entry of a traceback inside the project; ``path`` is relative to its folder."""

    path: str
    line: int
    function: str


@dataclass(frozen=True)
class Failure:
    """A failing test: its frames inside the project (outermost first), the error's name and first line, the text."""

    test: str
    frames: tuple[Frame, ...]
    error: str
    message: str
    text: str

    @property
    def place(self) -> Frame | None:
        """The deepest frame that is not a test's."""
        return next((frame for frame in reversed(self.frames) if not is_test(frame.path)), None)

    @property
    def said(self) -> str:
        """Error and message in one line."""
        return f"{self.error}: {self.message}" if self.message else self.error


@dataclass(frozen=True)
class Run:
    """A run of a project's tests."""

    passed: bool
    count: int
    seconds: float
    failures: tuple[Failure, ...]
    last_line: str
    """What the run said last, before the exit code."""
    command: str = ""

    @property
    def shown(self) -> str:
        """The command for people."""
        return self.command.removeprefix(_FOLDER_FIRST)

    @property
    def first(self) -> Failure | None:
        """The failure to look at: the first one that leads into the project's own code, else the first."""
        inside = (failure for failure in self.failures if failure.place is not None)
        return next(inside, self.failures[0] if self.failures else None)

    @property
    def failing(self) -> frozenset[str]:
        """The names of the failing tests."""
        return frozenset(failure.test for failure in self.failures)

    @property
    def usable(self) -> bool:
        """Whether tests ran, and could import what they test."""
        missing = any(failure.error == "ModuleNotFoundError" for failure in self.failures)
        return self.count > 0 and not missing


def best_run(calls: Iterable[CallRecord], label: str) -> Run | None:
    """Return the most telling of the runs that calls with this label made; None before the first."""
    runs = [read_run(call.result, str(call.args.get("command", ""))) for call in calls if call.label == label]
    found = [run for run in runs if run is not None]
    ranked = [run for run in found if run.usable] + [run for run in found if run.count] + found
    return ranked[0] if ranked else None


def missing_program(calls: Iterable[CallRecord], label: str) -> str:
    """Return the first program that calls with this label could not start, as ``bash`` says it; empty: none."""
    found = (_MISSING.search(call.result or "") for call in calls if call.label == label)
    return next((one["program"] for one in found if one is not None), "")


def read_run(output: str | None, command: str = "") -> Run | None:
    """Read the output of one of ``commands_for_tests``; None for None."""
    if output is None:
        return None
    folder = output.lstrip().partition("\n")[0].strip()
    exit_code = _EXIT.search(output)
    count, seconds = _counted(output)
    body = _EXIT.sub("", output).rstrip()
    starts = list(_SECTION.finditer(body))
    ends = [*(start.start() for start in starts[1:]), len(body)]
    found = [_failure(start["test"], body[start.end() : end], folder) for start, end in zip(starts, ends, strict=False)]
    return Run(
        passed=bool(exit_code and exit_code[1] == "0" and count),
        count=count,
        seconds=seconds,
        failures=tuple(failure for failure in found if failure is not None),
        last_line=body.rpartition("\n")[2],
        command=command,
    )


def commands_for_tests(files: str | None) -> list[str]:
    """Return the commands that may run the tests of a project with these files, best first; none without test files."""
    paths = python_files(files)
    tests = [path for path in paths if is_test_file(path)]
    if not tests:
        return []
    source = "PYTHONPATH=src " if any(path.startswith("src/") for path in paths) else ""
    run = (
        f"{_FOLDER_FIRST}{source}python3 -B -m"  # -B: no __pycache__, which could hide an edit made in the same second
    )
    folders = sorted({path.partition("/")[0] for path in tests if "/" in path})
    by_unittest = [
        f"{run} unittest discover -v",
        *(f"{run} unittest discover -v -s {shlex.quote(folder)}" for folder in folders[:3]),
        f"{run} unittest -v {' '.join(map(shlex.quote, tests[:_IN_PLACE_LIMIT]))}",
    ]
    by_pytest = [f"{run} pytest -q --tb=native -p no:cacheprovider"]
    is_pytests = any(PurePosixPath(path).name == "conftest.py" for path in paths)  # of which unittest would run a part
    return by_pytest + by_unittest if is_pytests else by_unittest + by_pytest


def python_files(listing: str | None) -> list[str]:
    """Return the project's own Python files out of a tool's listing, one path a line."""
    lines = (line.strip().removeprefix("./") for line in (listing or "").splitlines())
    return [line for line in lines if line.endswith(".py") and not _is_foreign(line)]


def time_limit(run: Run | None) -> int:
    """Return the seconds that a run may take when the run before took as long as ``run`` did."""
    return 10 + round(3 * run.seconds) if run is not None else 120


def is_test(path: str) -> bool:
    """Tell whether a file belongs to the tests: by its own name or by its folder's."""
    return is_test_file(path) or any(part in ("tests", "test") for part in PurePosixPath(path).parts[:-1])


def is_test_file(path: str) -> bool:
    """Tell whether a file holds tests, by its name."""
    return re.fullmatch(r"test.*\.py|.*_tests?\.py", PurePosixPath(path).name) is not None


def _is_foreign(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return any(part in _NOT_OURS or part.startswith(".") for part in parts[:-1])


def _counted(output: str) -> tuple[int, float]:
    if found := list(_COUNT.finditer(output)):
        return int(found[-1]["count"]), float(found[-1]["seconds"])
    if found := list(_PYTEST.finditer(output)):
        counts = re.findall(r"(\d+) (passed|failed|error)", found[-1]["counts"])
        return sum(int(count) for count, _ in counts), float(found[-1]["seconds"])
    return 0, 0.0


def _failure(test: str, text: str, folder: str) -> Failure | None:
    """Read one section: its first traceback, which shows the first cause when errors are chained."""
    _, found, traceback = text.partition("Traceback (most recent call last):")
    if not found:
        return None
    lines = traceback.splitlines()[1:]
    end = next((at for at, line in enumerate(lines) if line and not line[0].isspace()), len(lines))
    said = _ERROR.match(lines[end]) if end < len(lines) else None
    return Failure(
        test=test.strip(),
        frames=tuple(_frames(lines[:end], folder)),
        error=said["error"].rpartition(".")[2] if said else "",
        message=(said["message"] or "") if said else "",
        text=text.strip(),
    )


def _frames(lines: Sequence[str], folder: str) -> Iterable[Frame]:
    for line in lines:
        if (found := _FRAME.match(line)) is None:
            continue
        path = found["path"].removeprefix(folder.rstrip("/") + "/").removeprefix("./")
        if not path.startswith(("/", "<")) and not _is_foreign(path):
            yield Frame(path, int(found["line"]), found["function"] or "<module>")
