"""Holds a case's job against what is expected of it."""

from collections.abc import Iterator, Mapping, Sequence
from heapq import merge
from operator import itemgetter
from typing import Any

from ekiden.dispatcher.evals.suite import Expectations
from ekiden.shared.patterns import compile_pattern
from ekiden.shared.records import Delegated, Ended, Entry, HandedOff, ModelReplied, Record, ToolStarted
from ekiden.shared.redaction import preview
from ekiden.shared.schemas import problems
from ekiden.shared.storable import read_json

__all__ = ["answer_of", "chain_of", "unmet"]

_SHOWN = 200
"""Characters of a text."""


def unmet(expected: Expectations, journals: Mapping[str, Sequence[Entry]]) -> list[str]:
    """Return what is not as it is expected, a line each; whether ``judge`` is met is for a model to say."""
    records = [entry.record for entry in next(iter(journals.values()))]
    wrong = (
        _wrong_way(expected, records),
        _wrong_calls(expected, _called(journals)),
        _wrong_end(expected, records),
        _wrong_answer(expected, records),
    )
    return [fault for faults in wrong for fault in faults]


def chain_of(records: Sequence[Record]) -> list[str]:
    """Return who had control of a job, in order."""
    return [record.context.to_agent for record in records if isinstance(record, HandedOff)]


def answer_of(records: Sequence[Record]) -> str:
    """Return a job's answer, or what it failed with."""
    end = _end(records)
    return "" if end is None else end.answer if end.answer is not None else end.error or ""


def _wrong_way(expected: Expectations, records: Sequence[Record]) -> Iterator[str]:
    chain = chain_of(records)
    if expected.route is not None and chain[:1] != [expected.route]:
        yield f"route: expected {expected.route}, was {chain[0] if chain else 'nobody'}"
    if expected.agent is not None and chain[-1:] != [expected.agent]:
        yield f"agent: expected {expected.agent}, was {chain[-1] if chain else 'nobody'}"
    if expected.chain is not None and chain != expected.chain:
        yield f"chain: expected {_arrows(expected.chain)}, was {_arrows(chain)}"


def _wrong_calls(expected: Expectations, called: Sequence[str]) -> Iterator[str]:
    if expected.tools is not None and (missing := _missing(expected.tools, called)) is not None:
        was = ", ".join(called) or "none"
        yield f"tools: expected {', '.join(expected.tools)}, {missing} is missing; called: {was}"
    for name in expected.no_tools:
        if name in called:
            yield f"no_tools: {name} was called"


def _wrong_end(expected: Expectations, records: Sequence[Record]) -> Iterator[str]:
    end = _end(records)
    status = end.status if end is not None else "running"
    if status != expected.status:
        why = f" ({end.reason}: {preview(answer_of(records), _SHOWN)})" if end is not None else ""
        yield f"status: expected {expected.status}, was {status}{why}"


def _wrong_answer(expected: Expectations, records: Sequence[Record]) -> Iterator[str]:
    answer = answer_of(records)
    if expected.answer is not None and answer.strip() != expected.answer.strip():
        yield f"answer: expected {preview(expected.answer, _SHOWN)!r}, was {preview(answer, _SHOWN)!r}"
    if expected.pattern is not None and not compile_pattern(expected.pattern).search(answer.encode()):
        yield f"pattern: {expected.pattern!r} is not in {preview(answer, _SHOWN)!r}"
    if expected.schema_ is not None:
        yield from (f"schema: {problem}" for problem in _faults(records, answer, expected.schema_))


def _faults(records: Sequence[Record], answer: str, schema: Mapping[str, Any]) -> list[str]:
    end = _end(records)
    value = end.output if end is not None else None
    if value is None:
        try:
            value = read_json(answer)
        except ValueError:
            return [f"the answer is no JSON: {preview(answer, _SHOWN)!r}"]
    return problems(value, schema)


def _called(journals: Mapping[str, Sequence[Entry]]) -> list[str]:
    """Return the names of all that was called and not refused, in the order of time: tools, delegations, transfers.

    Those of the jobs below count, too: nodes of graphs that are tools, or run side by side, items, delegated agents.
    """
    calls = (_calls_of(entries) for entries in journals.values())
    return [name for _, name in merge(*calls, key=itemgetter(0))]


def _calls_of(entries: Sequence[Entry]) -> Iterator[tuple[int, str]]:
    """Yield when each call of one journal was asked for, and its name."""
    records = [entry.record for entry in entries]
    started = {(one.leg, one.call_id) for one in records if isinstance(one, (ToolStarted, Delegated, HandedOff))}
    for entry in entries:
        if isinstance(record := entry.record, ModelReplied):
            yield from ((entry.at_ms, call.name) for call in record.message.calls if (record.leg, call.id) in started)


def _missing(expected: Sequence[str], called: Sequence[str]) -> str | None:
    """Return the first of ``expected`` that does not come behind those before it; None: all do."""
    left = iter(called)
    return next((name for name in expected if name not in left), None)


def _end(records: Sequence[Record]) -> Ended | None:
    return next((record for record in reversed(records) if isinstance(record, Ended)), None)


def _arrows(names: Sequence[str]) -> str:
    return " → ".join(names) or "nobody"
