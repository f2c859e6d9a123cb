"""Runs the cases of a suite: with models and tools, to record them, or from what was recorded."""

import asyncio
import shutil
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Any

from ekiden.dispatcher.client import Client
from ekiden.dispatcher.clients import client_of
from ekiden.dispatcher.evals.expectations import answer_of, chain_of, unmet, way_of
from ekiden.dispatcher.evals.judging import Judge
from ekiden.dispatcher.evals.recording_files import (
    CaseRecording,
    Verdict,
    as_played,
    cleaned,
    read_case_recording,
    recorded,
    write_case_recording,
)
from ekiden.dispatcher.evals.suite import Case, Suite, Turn
from ekiden.dispatcher.local.playing import IDLE_S, play_through
from ekiden.dispatcher.local.private_place import PrivatePlace, private_place
from ekiden.dispatcher.local.served import with_served
from ekiden.dispatcher.local.stack import Stack
from ekiden.shared.demo import write_files
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.ids import first_job_for, session_of
from ekiden.shared.recordings import number_of, write_recording
from ekiden.shared.records import GRAPH, Decided, Entry, ModelReplied, Record
from ekiden.shared.risk import Risk

__all__ = ["CaseResult", "play_suite", "record_suite", "strictly"]

_Journals = dict[str, list[Entry]]
_READ_BY_MODELS = ("model", "messages", "tools")
"""The digests of what a model reads: another one, and the reply says nothing of what it would answer."""
_AT_ONCE = 4
_DEADLINE_S = 3_600.0
_MODELS_IDLE_S = 600.0
"""How long a case that is recorded may wait for a model or a tool."""


@dataclass(frozen=True)
class CaseResult:
    """What became of a case.

    Attributes:
        case: The case.
        faults: What is not as it is expected; none: it passes.
        chain: Who had control, in all turns.
        way: The same for people: of a graph its nodes, with what they run.
        answer: The last turn's, or what its job failed with.
        prompts: How often a model was asked in an agent's turn.
        stale: How many of these prompts are others than those that the replies were recorded for.
        seconds: How long it took.
    """

    case: Case
    faults: tuple[str, ...]
    chain: tuple[str, ...]
    answer: str
    prompts: int
    stale: int
    seconds: float
    way: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        counts = {"prompts": self.prompts, "stale": self.stale, "seconds": round(self.seconds, 3)}
        said = {"faults": list(self.faults), "chain": list(self.chain), "answer": self.answer}
        return {"name": self.case.name, "passed": not self.faults, **said, **counts}


def strictly(result: CaseResult) -> CaseResult:
    """Return a result in which other prompts than the recorded ones are a fault."""
    if not result.stale:
        return result
    which = f"{result.stale} of {result.prompts} prompts are others than the recorded ones"
    return replace(result, faults=(*result.faults, f"{which}: `--record` asks models again"))


@dataclass(frozen=True)
class _Run:
    turns: tuple[_Journals, ...]
    """The journals of each turn's job, and of those below it."""
    seconds: float

    @property
    def journals(self) -> _Journals:
        return {job: entries for turn in self.turns for job, entries in turn.items()}

    @property
    def answers(self) -> list[str]:
        return [answer_of(_root(turn)) for turn in self.turns]


def _root(journals: _Journals) -> list[Record]:
    return [entry.record for entry in next(iter(journals.values()))]


async def play_suite(suite: Suite) -> list[CaseResult]:
    """Play all cases from their recordings. Raises ``InvalidRequest`` where one is missing, or cannot be read."""
    if missing := [case.name for case in suite.cases if not suite.recording(case).is_file()]:
        names = ", ".join(map(repr, missing))
        raise InvalidRequest(
            f"{suite.path}: not recorded: {names}: `ekiden eval run {quote(str(suite.path))} --record` does it"
        )
    recordings = {case.name: read_case_recording(suite.recording(case)) for case in suite.cases}
    for case in suite.cases:
        if (had := sum("." not in number for number in recordings[case.name].jobs)) < len(case.turns):
            raise InvalidRequest(
                f"{suite.path}: case {case.name!r} has {len(case.turns)} turns, of which {had} are recorded: "
                f"`ekiden eval run {quote(str(suite.path))} --record` does it"
            )
    runs = await _played(suite, recordings)
    return [_result(case, runs[case.name], recordings[case.name]) for case in suite.cases]


async def record_suite(suite: Suite, approve: tuple[Risk, ...] = ()) -> list[CaseResult]:
    """Run all cases with models and tools, and keep what these gave; return how they are played from that.

    ``approve``: risks of which calls are approved in advance; all others that ask are denied.

    Raises ``InvalidRequest`` where something is to be judged and there is no model, or recordings cannot be written.
    """
    judge = Judge() if any(turn.expect.judge for case in suite.cases for turn in case.turns) else None
    with private_place() as place:
        folders = {case.name: _workspace(suite, case, place) for case in suite.cases}
        with _pools(suite, place, plays=False) as stack:
            asked = {case.name: CaseRecording(approve=approve) for case in suite.cases}
            runs = await _each(suite, place, stack, folders, asked, _MODELS_IDLE_S)
    first = {name: cleaned(recorded(run.journals), folders[name]) for name, run in runs.items()}
    again = await _played(suite, first)
    for case in suite.cases:
        run = again[case.name]
        verdicts = [
            await judge.verdict(turn.expect.judge, turn.request, answer)
            for turn, answer in zip(case.turns, run.answers, strict=True)
            if judge is not None and turn.expect.judge is not None
        ]
        whole = as_played(first[case.name], run.journals, verdicts)
        write_case_recording(suite.recording(case), whole, f"Case {case.name!r} of {suite.path.name}")
    return [_result(case, again[case.name], read_case_recording(suite.recording(case))) for case in suite.cases]


async def _played(suite: Suite, recordings: Mapping[str, CaseRecording]) -> dict[str, _Run]:
    with private_place() as place:
        for case in suite.cases:
            write_recording(place.folder, first_job_for(_request_id(suite, case)), recordings[case.name].jobs)
        folders = {case.name: _folder(place, case) for case in suite.cases}
        with _pools(suite, place, plays=True) as stack:
            return await _each(suite, place, stack, folders, recordings, IDLE_S)


def _pools(suite: Suite, place: PrivatePlace, *, plays: bool) -> Stack:
    return place.pools(
        place.work,
        plays=plays,
        publishes=True,
        project=Path.cwd(),
        packs=suite.packs,
    )


async def _each(
    suite: Suite,
    place: PrivatePlace,
    stack: Stack,
    folders: Mapping[str, Path],
    recordings: Mapping[str, CaseRecording],
    idle_s: float,
) -> dict[str, _Run]:
    """Run all cases, a few at once: with what was approved when they were recorded."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def run(client: Client, case: Case) -> _Run:
        async with gate:
            began, turns, session = time.monotonic(), list[_Journals](), None
            for number, turn in enumerate(case.turns, 1):
                job = await client.submit(
                    turn.request,
                    agent=turn.agent,
                    session=session,
                    cwd=folders[case.name],
                    deadline_s=_DEADLINE_S,
                    request_id=_request_id(suite, case, number),
                    state=turn.state,
                    inputs=turn.inputs,
                    approve=recordings[case.name].approve,
                    when_asked="deny",
                )
                await play_through(client, stack, job, NOBODY, idle_s)
                turns.append(await with_served(client, await client.journals(job)))
                session = session_of(job)
            return _Run(tuple(turns), time.monotonic() - began)

    async with client_of(place.url, wait_replicas=0) as client:
        await stack.ready(client)
        runs = await asyncio.gather(*(run(client, case) for case in suite.cases))
    return {case.name: one for case, one in zip(suite.cases, runs, strict=True)}


NOBODY: Mapping[str, Decided] = {}
"""No person answers anything: what is not approved in advance is denied."""


def _request_id(suite: Suite, case: Case, turn: int = 1) -> str:
    """Return the id by which a turn's job is the same in each run."""
    name = f"eval:{suite.title}:{case.name}"[:480]
    return name if turn == 1 else f"{name}:{turn}"


def _folder(place: PrivatePlace, case: Case) -> Path:
    folder = place.work / case.name
    folder.mkdir()
    return folder


def _workspace(suite: Suite, case: Case, place: PrivatePlace) -> Path:
    """Return the folder that a case works in: a copy of the suite's."""
    folder = _folder(place, case)
    if suite.workspace is None:
        return folder
    source = suite.beside(suite.workspace)
    if source.is_dir():
        shutil.copytree(source, folder, symlinks=True, dirs_exist_ok=True)
    else:
        write_files(source, folder)
    return folder


def _result(case: Case, run: _Run, recording: CaseRecording) -> CaseResult:
    known = {
        (number, one.leg, one.turn): one for number, records in recording.jobs.items() for one in _replies(records)
    }
    replies = [
        (known.get((number_of(job), one.leg, one.turn)), one)
        for job, entries in run.journals.items()
        for one in _replies(entry.record for entry in entries)
    ]
    stale = sum(before is not None and not _is_same(before, now) for before, now in replies)
    faults, chain, way = list[str](), list[str](), list[str]()
    for number, (turn, journals, answer) in enumerate(zip(case.turns, run.turns, run.answers, strict=True), 1):
        found = [*unmet(turn.expect, journals), *_judged(turn, answer, recording.judged)]
        faults += [f"turn {number}: {fault}" if case.is_conversation else fault for fault in found]
        chain += chain_of(_root(journals))
        way += way_of(_root(journals))
    counts = len(replies), stale, run.seconds
    return CaseResult(case, tuple(faults), tuple(chain), run.answers[-1], *counts, tuple(way))


def _replies(records: Iterable[object]) -> Iterable[ModelReplied]:
    return (one for one in records if isinstance(one, ModelReplied) and one.model != GRAPH)


def _is_same(before: ModelReplied, now: ModelReplied) -> bool:
    if before.fingerprint is None or now.fingerprint is None:
        return True
    return all(getattr(before.fingerprint, name) == getattr(now.fingerprint, name) for name in _READ_BY_MODELS)


def _judged(turn: Turn, answer: str, verdicts: Iterable[Verdict]) -> list[str]:
    """Return why a model found the answer wanting, by what is recorded of that."""
    if turn.expect.judge is None:
        return []
    said = next((one for one in verdicts if (one.question, one.answer) == (turn.expect.judge, answer)), None)
    if said is None:
        return ["judge: no model has judged this answer: `--record` asks one"]
    return [] if said.passed else [f"judge: {turn.expect.judge} {said.why}"]
