"""Stored forms: what is in a journal or a queue today must be read by every later version.

Each file of ``stored/`` is one example, as it was written. A new record type gets a new file; an old file is never
changed, however the code changes.
"""

import json
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from ekiden.shared.handoff import Frame, HandoffContext, first_context
from ekiden.shared.messages import Message, TextPart, ToolCall, ToolResult
from ekiden.shared.records import (
    HandedOff,
    ModelReplied,
    Noticed,
    Record,
    ToolFinished,
    ToolStarted,
    decode_record,
    encode_record,
)
from ekiden.shared.relay.message import LegMessage

STORED = Path(__file__).parent / "stored"
RECORDS = sorted(STORED.glob("record_*.json"))
TYPES = {kind.model_fields["type"].default: kind for kind in get_args(get_args(Record)[0])}

ROUTE = first_context("abcdefghijklmnop.1").advance("lead", "routed", is_route=True)
CALL = Frame(agent="lead", leg=1, call_id="c", from_agent="user", chain_length=2)
CALLED = ROUTE.advance("helper", "help", call=CALL)


def stored(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def as_then(now: Any, then: Any) -> Any:
    """What is written now, without the fields that came after the example was written."""
    if isinstance(then, dict) and isinstance(now, dict):
        return {key: as_then(item, then[key]) for key, item in now.items() if key in then}
    if isinstance(then, list) and isinstance(now, list):
        return [as_then(*pair) for pair in zip(now, then, strict=True)]
    return now


def as_kept(then: Any) -> Any:
    """The example without what is written no more: which fields a queue message left out of a copy of a context."""
    if isinstance(then, dict):
        return {key: as_kept(item) for key, item in then.items() if key != "elided"}
    return [as_kept(item) for item in then] if isinstance(then, list) else then


def with_more(value: Any) -> Any:
    """The value with an unknown field in every object of a known shape; what models and users name is their own."""
    if isinstance(value, dict):
        return {
            key: item if key in ("args", "payload", "changes", "edited", "value", "output") else with_more(item)
            for key, item in value.items()
        } | {"from_the_future": {"x": [1]}}
    return [with_more(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_stored_record_is_read_and_written_as_it_was(path: Path) -> None:
    example = stored(path)
    record = decode_record(json.dumps(example))
    assert type(record) is TYPES[example["type"]]
    assert as_then(json.loads(encode_record(record)), example) == as_kept(example)


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_fields_of_a_later_version_are_ignored(path: Path) -> None:
    example = stored(path)
    assert decode_record(json.dumps(with_more(example))) == decode_record(json.dumps(example))


@pytest.mark.parametrize(
    ("leg", "context", "kind"),
    [(0, ROUTE, "route"), (1, CALLED, "handoff"), (2, CALLED.come_back("done", is_error=False, upto=3), "return")],
)
def test_how_control_moved_is_written_with_the_record_and_told_of_older_ones(
    leg: int, context: HandoffContext, kind: str
) -> None:
    written = json.loads(encode_record(HandedOff(leg=leg, context=context)))
    older = json.dumps({name: value for name, value in written.items() if name != "kind"})
    assert written["kind"] == kind
    assert decode_record(older) == HandedOff(leg=leg, context=context)


def test_how_control_moved_is_decided_once_and_then_read() -> None:
    written = json.loads(encode_record(HandedOff(leg=1, context=CALLED)))
    record = decode_record(json.dumps(written | {"kind": "route"}))
    assert isinstance(record, HandedOff)
    assert record.kind == "route"


def test_every_record_type_has_a_stored_example() -> None:
    assert {path.stem.removeprefix("record_").partition("__")[0] for path in RECORDS} == set(TYPES)


def test_a_record_of_an_unknown_type_is_refused() -> None:
    with pytest.raises(ValidationError):
        decode_record('{"type": "telepathy", "leg": 1}')


def test_what_a_model_gave_as_arguments_survives_unchanged() -> None:
    args: dict[str, Any] = {
        "none": None,
        "empty": [],
        "object": {},
        "deep": [{"none": None}],
        "big": 2**60,
        "text": "a\x00b\u2028🐛",
    }
    message = Message(role="model", parts=(TextPart(text=""), ToolCall(id="c", name="t", args=args, signature="c2ln")))
    record = ModelReplied(leg=1, turn=1, message=message)
    assert decode_record(encode_record(record)) == record


def test_records_are_compact() -> None:
    assert encode_record(Noticed(leg=1, text="修")) == '{"leg":1,"type":"notice","text":"修"}'


def test_a_stored_handoff_context_of_version_1_is_read_and_written_as_it_was() -> None:
    example = stored(STORED / "handoff_context_v1.json")
    context = HandoffContext.decode(json.dumps(example))
    assert as_then(json.loads(context.encode()), example) == as_kept(example)
    assert HandoffContext.decode(json.dumps(with_more(example))) == context


def test_a_stored_handoff_context_with_only_what_is_needed_is_read() -> None:
    context = HandoffContext.decode((STORED / "handoff_context_v1_short.json").read_text(encoding="utf-8"))
    assert (context.v, context.history.mode, context.payload) == (1, "all", None)


def test_a_stored_queue_message_of_the_first_form_is_read() -> None:
    example = stored(STORED / "leg_message_v1.json")
    message = LegMessage.model_validate(example)
    handoff = HandoffContext.model_validate(example["handoff"])
    named = (message.job, message.leg, message.id, message.agent)
    assert named == (example["job"], example["leg"], handoff.metadata.handoff_id, handoff.to_agent)
    assert LegMessage.model_validate(message.model_dump()) == message


def test_a_stored_queue_message_is_read_and_written_as_it_was() -> None:
    example = stored(STORED / "leg_message_v2.json")
    message = LegMessage.model_validate(example)
    assert as_then(message.model_dump(mode="json", exclude_none=True), example) == example
    assert LegMessage.model_validate(with_more(example)) == message


def test_what_a_tool_gave_as_data_survives_unchanged_and_takes_no_room_where_there_is_none() -> None:
    data: Any = {"none": None, "deep": [{"none": None}], "n": 1.5}
    given = ToolFinished(leg=1, result=ToolResult(call_id="c", name="t", content="x", data=data))
    assert decode_record(encode_record(given)) == given
    without = ToolFinished(leg=1, result=ToolResult(call_id="c", name="t", content="x"))
    assert "data" not in encode_record(without)


def test_where_a_tool_came_from_is_kept_unless_it_is_ekidens() -> None:
    theirs = ToolStarted(leg=1, call_id="c", name="t", package="my-tools 1.2")
    assert decode_record(encode_record(theirs)) == theirs
    assert "package" not in encode_record(ToolStarted(leg=1, call_id="c", name="t"))
