"""Putting what an agent is told into messages, whose roles alternate, or into one text."""

import json
from collections.abc import Iterable, Iterator
from itertools import groupby

from ekiden.shared.messages import Message, ToolResult, user_message
from ekiden.workers.context_budget import Item, Quote
from ekiden.workers.prompt import LATER, transcript

__all__ = ["alternating", "as_text", "texts_of"]


def texts_of(items: Iterable[Item], fence: str) -> Iterator[Message | str]:
    """Put quotations between marks, neighbours of one agent between the same."""
    for agent, run in groupby(items, key=lambda item: item.agent if isinstance(item, Quote) else None):
        if agent is None:
            yield from (item for item in run if not isinstance(item, Quote))
        else:
            texts = [text for item in run if isinstance(item, Quote) for text in item.texts]
            yield transcript(agent, texts, fence=fence)


def alternating(said: Iterable[Message | str]) -> list[Message]:
    """Make the texts between messages one user message each; where there is none, and must be, say what happened."""
    messages: list[Message] = []
    for is_text, run in groupby(said, key=lambda one: isinstance(one, str)):
        if is_text:
            messages.append(user_message("\n\n".join(map(str, run))))
            continue
        for message in run:
            assert isinstance(message, Message)
            if message.role == "model" and messages and messages[-1].role == "model":
                messages.append(user_message(LATER))
            messages.append(message)
    return messages


def as_text(items: Iterable[Item], fence: str) -> str:
    """Return what was told, for somebody who only looks at it: words, calls and results; no thoughts."""
    lines = (one if isinstance(one, str) else _line(one) for one in texts_of(items, fence))
    return "\n\n".join(filter(None, lines))


def _line(message: Message) -> str:
    said = [f"AGENT: {message.text}"] if message.text else []
    called = [f"CALL {call.name} {json.dumps(call.args, ensure_ascii=False)}" for call in message.calls]
    return "\n".join([*said, *called, *map(_result, message.results)])


def _result(result: ToolResult) -> str:
    """Return a result in one line: what a page says must not look like what the user or an agent has said."""
    content = json.dumps(result.content, ensure_ascii=False)
    return f"{'ERROR' if result.is_error else 'RESULT'} {result.name}: {content}"
