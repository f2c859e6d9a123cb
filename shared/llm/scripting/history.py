"""What a script can know of a leg so far, read from the request's messages alone, each message once."""

import weakref
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ConfigDict, TypeAdapter

from ekiden.shared.messages import Message, Part, ToolCall

__all__ = ["CallRecord", "Leg", "Legs", "call_id", "size_of"]

_PARTS: TypeAdapter[tuple[Part, ...]] = TypeAdapter(tuple[Part, ...], config=ConfigDict(defer_build=True))


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


class Leg:
    """The part of a conversation since the latest request or brief; grows with the conversation.

    Attributes:
        calls: The leg's calls, in order.
        turn: The number of the turn that comes now, from 1.
        next_call: The number of the next call in the whole conversation, from 1: it keeps call ids unique.
        size: Characters of the whole conversation, as JSON.
    """

    def __init__(self) -> None:
        self.next_call = 1
        self.size = 0
        self._count = 0
        self._behind: list[Message] = []
        """What was read but for the first message, whose life is the conversation's."""
        self._before = ""
        """The role of the message that was read last."""
        self._begin()

    @property
    def user(self) -> str:
        """The user messages that the leg begins with, joined."""
        return "\n\n".join(self._said)

    def goes_on_in(self, messages: Sequence[Message]) -> bool:
        """Tell whether what was read is the beginning of ``messages``, whose first one is the same."""
        return self._behind == list(messages[1 : self._count])  # the same objects mostly, which are not looked into

    def read(self, messages: Sequence[Message]) -> None:
        """Read what ``messages`` have more than what was read."""
        for message in messages[self._count :]:
            self._add(message)
        self._count = len(messages)
        self._behind += messages[1 + len(self._behind) :]

    def since(self, rules: frozenset[str]) -> int:
        """Return the latest turn in which one of ``rules`` answered; 0, if none has."""
        return max((self._turns[rule][-1] for rule in rules if rule in self._turns), default=0)

    def calls_since(self, turn: int) -> list[CallRecord]:
        """Return the calls from ``turn`` on."""
        return self.calls[bisect_left(self.calls, turn, key=lambda call: call.turn) :] if turn else self.calls

    def results_since(self, turn: int) -> dict[str, str]:
        """Return the newest result of each label, of the calls from ``turn`` on."""
        newest = {label: self.calls[at] for label, at in self._answered.items()}
        return {label: call.result for label, call in newest.items() if call.turn >= turn and call.result is not None}

    def answers(self, rule: str, turn: int) -> int:
        """Return in how many turns from ``turn`` on ``rule`` has answered."""
        turns = self._turns.get(rule, [])
        return len(turns) - bisect_left(turns, turn)

    def _begin(self) -> None:
        self.calls: list[CallRecord] = []
        self.turn = 1
        self._said: list[str] = []
        self._places: dict[str, int] = {}
        """Call id -> where it is in ``calls``."""
        self._answered: dict[str, int] = {}
        """Label -> where its newest answered call is."""
        self._turns: defaultdict[str, list[int]] = defaultdict(list)
        """Rule -> the turns in which it has answered."""

    def _add(self, message: Message) -> None:
        if message.role == "user" and not message.aside:
            if self._before != "user":
                self._begin()
            self._said.append(message.text)
        for call in message.calls:
            self._note(call)
        for result in message.results:
            if (at := self._places.get(result.call_id)) is not None:
                self.calls[at] = replace(self.calls[at], result=result.said, is_error=result.is_error)
                label = self.calls[at].label
                if label:
                    self._answered[label] = max(at, self._answered.get(label, at))
        self.turn += message.role == "model"
        self.size += size_of(message)
        self._before = message.role

    def _note(self, call: ToolCall) -> None:
        rule, _, rest = call.id.partition(".")
        self._places[call.id] = len(self.calls)
        self.calls.append(CallRecord(rule, rest.rpartition(".")[0], call.name, call.args, self.turn))
        if self.turn not in self._turns[rule][-1:]:
            self._turns[rule].append(self.turn)
        self.next_call += 1


class Legs:
    """The legs that are being read, each as long as its conversation lives: a reply reads only what is new.

    What is known of a conversation never matters for what it means: one that is not known is read from the beginning.
    """

    def __init__(self) -> None:
        self._legs: dict[int, tuple[Leg, weakref.ref[Message]]] = {}
        """By the identity of the first message, and as long as that is there."""

    def of(self, messages: Sequence[Message]) -> Leg:
        """Return the leg that ``messages`` end with."""
        if not messages:
            return Leg()
        key = id(messages[0])
        leg, _ = self._legs.get(key, (None, None))
        if leg is None or not leg.goes_on_in(messages):
            leg = Leg()
            self._legs[key] = leg, weakref.ref(messages[0], lambda _: self._legs.pop(key, None))
        leg.read(messages)
        return leg


def call_id(rule: str, label: str, number: int) -> str:
    """Make the id of a call, from which the next request reads rule and label back."""
    return f"{rule}.{label}.{number}"


def size_of(message: Message) -> int:
    """Return the characters of a message, as JSON."""
    return len('{"parts":}') + len(_PARTS.dump_json(message.parts).decode())  # choosing fields takes as long again
