"""What all models that are stored have in common."""

import copy
import gc
import pickle

from ekiden.shared.messages import Message, TextPart, user_message
from ekiden.shared.records import JobRequested, decode_record, encode_record

RECORD = JobRequested(prompt="看看", agent="a", inputs={"objective": "x"})


def test_no_record_keeps_a_set_of_its_fields_names() -> None:
    for record in (RECORD, decode_record(encode_record(RECORD))):
        assert not [held for held in gc.get_referents(record) if isinstance(held, set)]
        assert record.model_fields_set == set(JobRequested.model_fields)


def test_copies_are_what_they_would_be_with_it() -> None:
    for copied in (copy.copy(RECORD), copy.deepcopy(RECORD), pickle.loads(pickle.dumps(RECORD))):
        assert copied == RECORD
    assert RECORD.model_copy(update={"agent": "b"}) == JobRequested(prompt="看看", agent="b", inputs={"objective": "x"})


def test_what_was_not_given_is_still_left_out_where_it_is_the_default() -> None:
    said = user_message("hi")
    assert said == Message(role="user", parts=(TextPart(text="hi"),))
    assert said.model_dump(exclude_defaults=True) == {"role": "user", "parts": ({"text": "hi"},)}
