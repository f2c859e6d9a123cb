"""Journals as the events of turns, as gemini-cli's ``Turn`` gives them: texts, thoughts, calls, their results, its end.

Source: the stream events of gemini-cli's ``Turn.run``, with their names.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ekiden.dispatcher.journal.tree import in_order
from ekiden.shared.definitions.tool_names import BUILTIN_TOOLS
from ekiden.shared.messages import TextPart, ToolCall
from ekiden.shared.records import Entry, LegStarted, LoopDetected, ModelReplied, ToolFinished, ToolStarted
from ekiden.shared.redaction import redact_all

__all__ = ["turn_events"]


class _Event(NamedTuple):
    """An event without its place: what is always told of it, and what was said."""

    type: str
    known: dict[str, Any]
    said: dict[str, Any]


def turn_events(journals: Mapping[str, Sequence[Entry]], *, content: bool) -> list[dict[str, Any]]:
    """Return the events of all jobs as they came; ``content``: also what was said, asked and returned.

    Without it tools have names as far as workers have such tools: a model's own invention is its words.
    """
    records = (entry.record for entries in journals.values() for entry in entries)
    tools = {record.name for record in records if isinstance(record, ToolStarted) and record.is_known} | BUILTIN_TOOLS
    return list(_placed(journals, tools, content=content))


def _placed(
    journals: Mapping[str, Sequence[Entry]], tools: Collection[str], *, content: bool
) -> Iterator[dict[str, Any]]:
    agents: dict[tuple[str, int], str] = {}
    turns: dict[tuple[str, int], int] = {}
    for job, entry in in_order(journals):
        leg = (job, entry.record.leg)
        match entry.record:
            case LegStarted(agent=agent):
                agents[leg] = agent
            case ModelReplied(turn=turn):
                turns[leg] = turn
            case _:
                pass
        place = {"job": job, "agent": agents.get(leg, ""), "turn": turns.get(leg, 0), "timestamp": entry.at_ms}
        for one in _of(entry):
            name = {"name": one.said["name"]} if one.said.get("name") in tools else {}
            said = redact_all(one.said) if content else name
            yield {"type": one.type, **place, "value": {**one.known, **said}}


def _of(entry: Entry) -> Iterator[_Event]:
    match entry.record:
        case ModelReplied(message=message, finish=finish):
            for part in message.parts:
                if isinstance(part, TextPart):
                    yield _Event("Thought" if part.thought else "Content", {}, {"text": part.text})
                elif isinstance(part, ToolCall):
                    yield _Event("ToolCallRequest", {"callId": part.id}, {"name": part.name, "args": part.args})
            yield _Event("Finished", {"reason": finish}, {})
        case ToolFinished(result=result, duration_ms=duration_ms):
            known = {"callId": result.call_id, "isError": result.is_error, "durationMs": duration_ms}
            yield _Event("ToolCallResponse", known, {"name": result.name, "response": result.content})
        case LoopDetected(kind=kind, text=text):
            yield _Event("LoopDetected", {"kind": kind}, {"text": text})
        case _:
            pass
