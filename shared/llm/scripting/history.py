"""What a script can know of a leg so far, read from the request's messages alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shared.messages import Message

__all__ = ["CallRecord", "Leg", "call_id"]


@dataclass(frozen=True)
class CallRecord:
    """A tool call of the scripted model and, when it has been answered, its result."""

    rule: str
    label: str
    tool: str
    args: dict[str, Any]
    turn: int
    """The turn of the leg in which it was made, from 1."""
    result: str | None = None
    is_error: bool = False


@dataclass(frozen=True)
class Leg:
    """The part of a conversation since the latest request or brief."""

    user: str
    """The user messages that it begins with, joined."""
    calls: tuple[CallRecord, ...]
    turn: int
    """The number of the turn that comes now, from 1."""
    next_call: int
    """The number of the next call in the whole conversation, from 1: it keeps call ids unique."""

    @classmethod
    def read(cls, messages: Sequence[Message]) -> "Leg":
        """Read the leg that ``messages`` end with."""
        last = max((at for at, message in enumerate(messages) if message.role == "user"), default=-1)
        first = last
        while first > 0 and messages[first - 1].role == "user":
            first -= 1
        turns = [message for message in messages[last + 1 :] if message.role == "model"]
        return cls(
            user="\n\n".join(message.text for message in messages[max(first, 0) : last + 1]),
            calls=_calls(messages[last + 1 :]),
            turn=len(turns) + 1,
            next_call=1 + sum(len(message.calls) for message in messages),
        )

    def since(self, rules: frozenset[str]) -> tuple[CallRecord, ...]:
        """Return the calls from the latest turn on in which one of ``rules`` answered; all, if none has."""
        start = max((call.turn for call in self.calls if call.rule in rules), default=0)
        return tuple(call for call in self.calls if call.turn >= start)


def call_id(rule: str, label: str, number: int) -> str:
    """Make the id of a call, from which the next request reads rule and label back."""
    return f"{rule}.{label}.{number}"


def _calls(messages: Sequence[Message]) -> tuple[CallRecord, ...]:
    results = {result.call_id: result for message in messages for result in message.results}
    records = []
    turn = 0
    for message in messages:
        turn += message.role == "model"
        for call in message.calls:
            rule, _, rest = call.id.partition(".")
            result = results.get(call.id)
            content, failed = (result.content, result.is_error) if result else (None, False)
            records.append(CallRecord(rule, rest.rpartition(".")[0], call.name, call.args, turn, content, failed))
    return tuple(records)
