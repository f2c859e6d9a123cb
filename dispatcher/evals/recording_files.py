"""Recordings of a suite: a file for each case, for people to read and to review."""

import operator
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ekiden.dispatcher.routing import llm
from ekiden.shared.atomic_file import replace_atomically
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.faults import why_unreadable
from ekiden.shared.recordings import number_of
from ekiden.shared.records import (
    ApprovalAsked,
    Decided,
    Ended,
    Entry,
    GuardJudged,
    Hooked,
    JobRequested,
    LoopJudged,
    ModelReplied,
    Recalled,
    Record,
    Repairing,
    Routed,
    Served,
    StateChanged,
    Summarised,
    ToolFinished,
    ToolPaused,
    ToolStarted,
)
from ekiden.shared.redaction import redact_all
from ekiden.shared.risk import Risk
from ekiden.shared.yaml_places import SafeYamlLoader, fault_in_yaml, read_at_most

__all__ = [
    "CaseRecording",
    "Verdict",
    "as_played",
    "cleaned",
    "read_case_recording",
    "recorded",
    "write_case_recording",
]

_ASKED_BESIDE = (LoopJudged, Summarised, Repairing, GuardJudged)
_KEPT = (ModelReplied, StateChanged, ToolPaused, ApprovalAsked, Decided, Recalled, Served, Hooked, *_ASKED_BESIDE)
_OF_THE_RUN = {"duration_ms", "cost_usd", "prompt"}
_LARGEST = 20_000_000
_MOST_VALUES = 500_000
_OWN_WORDS = frozenset({"jobs", "judged", "approve"})
_OF_NUMBERS = set("0123456789.")
"""Jobs stand under their numbers."""
_PLACE = "${workspace}"
"""What stands for the folder that a case was recorded in: no path of a machine is kept."""


class Verdict(BaseModel):
    """What a model found of an answer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    question: str
    answer: str
    passed: bool
    why: str = ""
    model: str = ""


class CaseRecording(BaseModel):
    """What models and tools gave in the jobs of one case, one a turn, and in those below them, by their numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    approve: tuple[Risk, ...] = Field(default=(), exclude_if=operator.not_)
    """Risks of which calls were approved in advance; all others that asked were denied."""
    judged: tuple[Verdict, ...] = Field(default=(), exclude_if=operator.not_)
    jobs: dict[str, list[Record]] = Field(default_factory=dict)


def recorded(journals: Mapping[str, Sequence[Entry]]) -> CaseRecording:
    """Return what the journals of a case's jobs, and of those below them, hold of what came from outside."""
    root = [entry.record for entry in next(iter(journals.values()))]
    approved = next((record.approve for record in root if isinstance(record, JobRequested)), ())
    jobs = {number_of(job): list(_kept([entry.record for entry in entries])) for job, entries in journals.items()}
    return CaseRecording(approve=approved, jobs=jobs)


def cleaned(recording: CaseRecording, workspace: Path) -> CaseRecording:
    """Return a recording without secrets, and without the path of the folder that it was made in."""
    names = {str(workspace.resolve()): _PLACE, str(workspace): _PLACE}
    return CaseRecording.model_validate(_replaced(redact_all(_plain(recording)), names))


def as_played(
    recording: CaseRecording, journals: Mapping[str, Sequence[Entry]], judged: Sequence[Verdict]
) -> CaseRecording:
    """Return a recording with the fingerprints of a run from it, which later ones are to have, and with verdicts."""
    seen = {(number_of(job), one.leg, one.turn): one.fingerprint for job, one in _replies(journals)}

    def with_prompt(number: str, record: Record) -> Record:
        if not isinstance(record, ModelReplied):
            return record
        place = number, record.leg, record.turn
        return record.model_copy(update={"fingerprint": seen.get(place, record.fingerprint)})

    jobs = {number: [with_prompt(number, one) for one in records] for number, records in recording.jobs.items()}
    return recording.model_copy(update={"jobs": jobs, "judged": tuple(judged)})


def _replies(journals: Mapping[str, Sequence[Entry]]) -> Iterator[tuple[str, ModelReplied]]:
    for job, entries in journals.items():
        yield from ((job, one.record) for one in entries if isinstance(one.record, ModelReplied))


def _kept(records: Sequence[Record]) -> Iterator[Record]:
    """Yield what came from outside: of results those of tools, of routes those of models, of ends the failures."""
    ran = {(one.leg, one.call_id) for one in records if isinstance(one, ToolStarted)}
    for record in records:
        match record:
            case ToolFinished():
                if (record.leg, record.result.call_id) in ran:
                    yield record
            case Ended(status="failed") | Routed(stage=llm.LLM):
                yield record
            case _ if isinstance(record, _KEPT):
                yield record


def _plain(recording: CaseRecording) -> dict[str, Any]:
    said = recording.model_dump(mode="json", exclude_none=True)
    for record in (one for records in said["jobs"].values() for one in records):
        for name in _OF_THE_RUN & record.keys():
            del record[name]
    return said


def write_case_recording(path: Path, recording: CaseRecording, about: str) -> None:
    """Write a recording; ``about`` stands above it. Raises ``InvalidRequest``."""
    text = yaml.dump(_plain(recording), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_atomically(path, f"# {about}\n{text}".encode(), 0o644)
    except OSError as error:
        raise InvalidRequest(f"{path}: cannot be written: {why_unreadable(error)}") from None


def read_case_recording(path: Path) -> CaseRecording:
    """Read a recording. Raises ``InvalidRequest``, without a word of what stands there: it may be any file."""
    remedy = "`--record` makes it anew"
    try:
        text = read_at_most(path, _LARGEST)
        if fault := fault_in_yaml(text, _MOST_VALUES):
            raise InvalidRequest(f"{path}: {fault}")
        return CaseRecording.model_validate(SafeYamlLoader(text).get_single_data())
    except InvalidRequest as error:
        raise InvalidRequest(f"{error}; {remedy}") from None
    except yaml.YAMLError as error:
        line = error.problem_mark.line + 1 if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark else 1
        raise InvalidRequest(f"{path}:{line}: no YAML: {remedy}") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise InvalidRequest(f"{path}: {_place(first['loc'])}is no recording; {remedy}") from None
    except (ValueError, RecursionError):  # a date that is none, a number too long, what is nested too deep
        raise InvalidRequest(f"{path}: cannot be read: a value in it is none; {remedy}") from None


def _place(loc: Sequence[str | int]) -> str:
    """Return where in a recording something is wrong, in words that every recording has."""
    if not loc or loc[0] not in _OWN_WORDS:
        return ""
    known = takewhile(lambda step: set(step) <= _OF_NUMBERS, map(str, loc[1:]))
    return f"{'.'.join([str(loc[0]), *known])}: "


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, and all of what stands there twice."""

    def ignore_aliases(self, data: Any) -> bool:
        """See PyYAML."""
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    is_block = "\n" in text and not any(line != line.rstrip() for line in text.split("\n"))
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if is_block else None)


_Dumper.add_representer(str, _text)


def _replaced(value: Any, names: Mapping[str, str]) -> Any:
    match value:
        case str():
            for name, other in names.items():
                value = value.replace(name, other)
            return value
        case dict():
            return {key: _replaced(inner, names) for key, inner in value.items()}
        case list():
            return [_replaced(inner, names) for inner in value]
        case _:
            return value
