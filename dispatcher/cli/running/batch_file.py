"""The files of a batch: requests, a JSON object on each line, and results, which may be there from a run before."""

import fcntl
import json
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ekiden.dispatcher.cli.given_text import MOST_OF_LINES, given_lines
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.faults import fault_in
from ekiden.shared.storable import read_json
from ekiden.shared.suggestions import nearest

__all__ = ["BatchRequest", "Results", "opened_results", "read_batch"]


def _as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


class BatchRequest(BaseModel):
    """One request of a batch. What it does not say is as the command line has it."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    id: Annotated[str, BeforeValidator(_as_text), Field(min_length=1, max_length=200)]
    """Names the request in the results; one of a kind in its file."""
    prompt: Annotated[str, Field(min_length=1, pattern=r"\S")]
    agent: str | None = None
    strategy: str | None = None
    cwd: Path | None = None
    user: str | None = None
    deadline: str | None = None
    state: dict[str, Any] = Field(default_factory=dict)
    inputs: dict[str, Any] | None = None


def read_batch(path: Path) -> list[BatchRequest]:
    """Return the requests of a file (``-``: of standard input), in order; empty lines are passed over.

    Raises ``InvalidRequest`` with file, line and remedy: nothing is submitted of a file that is not whole.
    """
    name = "standard input" if str(path) == "-" else str(path)
    found: dict[str, int] = {}
    requests = []
    for number, line in enumerate(given_lines(path, MOST_OF_LINES, name), 1):
        if not line.strip():
            continue
        request = _request(line, f"{name}, line {number}")
        if (first := found.setdefault(request.id, number)) != number:
            raise InvalidRequest(
                f"{name}, line {number}: line {first} has the id {request.id!r}, too: give another one"
            )
        requests.append(request)
    if not requests:
        raise InvalidRequest(f"{name} holds no request: write one JSON object a line, such as {_EXAMPLE}")
    return requests


_EXAMPLE = '{"id": "1", "prompt": "what is to be done"}'


def _request(line: str, where: str) -> BatchRequest:
    try:
        value = read_json(line)
    except ValueError as error:
        raise InvalidRequest(f"{where}: no JSON ({error}): write one object a line, such as {_EXAMPLE}") from None
    try:
        return BatchRequest.model_validate(value)
    except ValidationError as error:
        raise InvalidRequest(f"{where}: {_why(error)}") from None


def _why(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    field = ".".join(map(str, first["loc"])) or "the line"
    if first["type"] == "extra_forbidden":
        near = nearest(field, BatchRequest.model_fields, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(BatchRequest.model_fields)}"
        return f"there is no field {field!r}: {hint}"
    return f"{field!r}: {fault_in(first)}; a request looks like {_EXAMPLE}"


class Results:
    """Takes results as they come. ``known``: the ids of requests that have one from a run before."""

    def __init__(self, stream: IO[str], known: frozenset[str]) -> None:
        self._stream = stream
        self.known = known

    def write(self, result: dict[str, Any]) -> None:
        """Write a line, whole and at once."""
        self._stream.write(json.dumps(result, ensure_ascii=False) + "\n")
        self._stream.flush()


@contextmanager
def opened_results(path: Path | None) -> Iterator[Results]:
    """Open the results' file, behind what it holds already; None: standard output.

    A line that a process had no time to finish is taken away: its request is waited for again. Raises
    ``InvalidRequest`` where the file is no such file, or another process writes it.
    """
    if path is None:
        yield Results(sys.stdout, frozenset())
        return
    try:
        stream = path.open("a+", encoding="utf-8")
    except OSError as error:
        raise InvalidRequest(f"--out {str(path)!r} cannot be written: {error.strerror}") from None
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InvalidRequest(f"--out {str(path)!r}: another process writes it now: wait for it") from None
        yield Results(stream, frozenset(_known(stream, path)))


def _known(stream: IO[str], path: Path) -> Iterator[str]:
    if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):  # a pipe or a device holds nothing of before
        return
    stream.seek(0)
    text = stream.read()
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        os.truncate(stream.fileno(), len(whole.encode()))
    for number, line in enumerate(whole.split("\n")[:-1], 1):
        try:
            yield str(read_json(line)["id"])
        except (ValueError, KeyError, TypeError):
            raise InvalidRequest(
                f"--out {str(path)!r}, line {number}: no result of a batch: name another file"
            ) from None
