"""Messages: what models say must be storable, whatever they say."""

from shared.messages import Message, TextPart, ToolCall, storable


def test_lone_surrogates_of_a_model_become_question_marks_everywhere() -> None:
    message = Message(
        role="model",
        parts=(TextPart(text="bad \ud800!"), ToolCall(id="c", name="t", args={"a\udfff": ["\ud83d", {"b": 1}]})),
    )
    cleaned = storable(message)
    assert cleaned.text == "bad ?!"
    assert cleaned.calls[0].args == {"a?": ["?", {"b": 1}]}
    assert Message.model_validate_json(cleaned.model_dump_json()) == cleaned


def test_an_ordinary_message_stays_the_same_object() -> None:
    message = Message(role="model", parts=(TextPart(text="好 🐛", signature="c2ln"),))
    assert storable(message) is message
