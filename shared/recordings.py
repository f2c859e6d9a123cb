"""What jobs of a session recorded, as it is played again: kept in a folder, a file for each session."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pydantic import ConfigDict, TypeAdapter, ValidationError

from ekiden.shared.atomic_file import replace_atomically
from ekiden.shared.errors import ConfigurationError
from ekiden.shared.ids import session_of
from ekiden.shared.records import Entry, Record, Routed

__all__ = ["Recording", "number_of", "read_recording", "recorded_route", "recording_of", "write_recording"]

Recording = Mapping[str, Sequence[Record]]
"""The records of jobs, each in its order, by the job's number in its session: ``1``, and ``1.2`` below it."""

_FORM: TypeAdapter[dict[str, list[Record]]] = TypeAdapter(dict[str, list[Record]], config=ConfigDict(defer_build=True))


def number_of(job: str) -> str:
    """Return a job's id without its session: ``1``, ``1.2``."""
    return job.partition(".")[2]


def recording_of(journals: Mapping[str, Iterable[Entry]]) -> Recording:
    """Return what the journals of jobs of one session hold."""
    return {number_of(job): [entry.record for entry in entries] for job, entries in journals.items()}


def write_recording(folder: Path, job: str, recording: Recording) -> None:
    """Keep a recording for the session of ``job``, for its owner alone."""
    text = _FORM.dump_json({number: list(records) for number, records in recording.items()}, exclude_none=True)
    replace_atomically(_file(folder, job), text, 0o600)


def read_recording(folder: Path, job: str) -> Recording:
    """Return what is recorded for the session of ``job``. Raises ``ConfigurationError``."""
    path = _file(folder, job)
    try:
        return _FORM.validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise ConfigurationError(f"{path}: no recording that can be played: {type(error).__name__}") from error


def recorded_route(folder: Path, job: str) -> Routed | None:
    """Return who got ``job`` then; None: that is not recorded, it is to be decided anew. Raises as above."""
    records = read_recording(folder, job).get(number_of(job), ())
    return next((record for record in records if isinstance(record, Routed)), None)


def _file(folder: Path, job: str) -> Path:
    return folder / f"{session_of(job)}.json"
