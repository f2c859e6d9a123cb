"""What of a queue's contents reaches Celery: what was checked, and nothing else."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kombu.utils.json import loads

from ekiden.shared.relay.message_validation import Unreadable, validated
from tests.unit.relay.foreign import BAD, ODD_BUT_GOOD, QUEUE, good

KEYS = st.sampled_from(
    ["body", "properties", "headers", "content-type", "delivery_tag", "id", "task", "eta", "timelimit", "x", "__type__"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
)


def test_a_message_of_ours_is_passed_on_with_its_body_as_it_was() -> None:
    message = good()
    passed = validated(json.dumps(message).encode(), QUEUE, loads)
    assert passed["body"] == message["body"]
    assert (passed["headers"]["id"], passed["properties"]["delivery_tag"]) == (message["headers"]["id"],) * 2
    assert passed["properties"]["delivery_info"] == {"exchange": "", "routing_key": QUEUE}


@pytest.mark.parametrize("item", ODD_BUT_GOOD.values(), ids=ODD_BUT_GOOD)
def test_what_a_later_version_added_is_no_fault_and_is_not_passed_on(item: str) -> None:
    passed = validated(item.encode(), QUEUE, loads)
    assert "get" not in passed["headers"]
    assert passed["properties"]["delivery_info"]["routing_key"] == QUEUE


@pytest.mark.parametrize("item", BAD.values(), ids=BAD)
def test_everything_else_is_refused_with_a_reason_that_repeats_none_of_it(item: str | bytes) -> None:
    with pytest.raises(Unreadable) as caught:
        validated(item.encode() if isinstance(item, str) else item, QUEUE, loads)
    assert "hunter2" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


def refuses(item: bytes) -> bool:
    try:
        return not validated(item, QUEUE, loads)
    except Unreadable:
        return True


@given(st.binary())
def test_no_bytes_are_a_message_by_chance(item: bytes) -> None:
    assert refuses(item)


@given(JSON)
def test_no_json_is_a_message_by_chance(value: Any) -> None:
    assert refuses(json.dumps(value).encode())


@given(st.data(), JSON)
def test_a_message_with_anything_anywhere_is_read_or_refused(data: st.DataObject, value: Any) -> None:
    message = good()
    outer = message
    while isinstance(outer, dict) and outer:
        name = data.draw(st.sampled_from(sorted(outer)))
        if data.draw(st.booleans()) or not isinstance(outer[name], dict):
            outer[name] = value
            break
        outer = outer[name]
    refuses(json.dumps(message).encode())  # raises nothing else
