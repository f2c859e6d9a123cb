"""What a model was asked, as digests: whoever plays a job again finds the reply that belongs to a request by them."""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b

from ekiden.shared.definitions.model import AgentDefinition, canonical_json
from ekiden.shared.llm.base import ModelRequest, ToolSpec
from ekiden.shared.llm.same_tools import SameTools
from ekiden.shared.messages import Message, TextPart, ToolCall
from ekiden.shared.records import Entry, HandedOff
from ekiden.shared.records.turns import Fingerprint, digest_of

__all__ = ["Fingerprints"]


class Fingerprints:
    """Takes the digests of one leg's requests, whose messages only grow: each is read once."""

    def __init__(self, agent: AgentDefinition, entries: Iterable[Entry], drawn_then: Sequence[str] = ()) -> None:
        """``entries``: the job's, whose ids of handoffs are drawn anew when the job is run again.

        ``drawn_then``: those of the run that is played, in their order: what was said then may quote them.
        """
        self._agent = agent
        moves = (entry.record for entry in entries if isinstance(entry.record, HandedOff))
        drawn = [move.context.metadata.handoff_id for move in moves]
        self._drawn = {one: f"«{number}»" for ids in (drawn_then, drawn) for number, one in enumerate(ids)}
        self._messages = blake2b(digest_size=16)
        self._read = 0
        self._tools: tuple[ToolSpec, ...] = ()
        self._of_tools = _digest_of_tools(SameTools(()))

    def of(self, request: ModelRequest) -> Fingerprint:
        """Return the fingerprint of the leg's next request."""
        for message in request.messages[self._read :]:
            for text in _read_by_model(message):
                encoded = self._as_always(text).encode(errors="surrogatepass")
                self._messages.update(len(encoded).to_bytes(8, "big") + encoded)
        self._read = len(request.messages)
        if request.tools != self._tools:
            self._tools, self._of_tools = request.tools, _digest_of_tools(SameTools(request.tools))
        return Fingerprint(
            definition=self._agent.digest,
            model=_digest_of_model(request.model, request.temperature, self._as_always(request.instructions)),
            messages=self._messages.hexdigest(),
            tools=self._of_tools,
            instructions=_digest_of_instructions(request.instructions),
        )

    def _as_always(self, text: str) -> str:
        for drawn, number in self._drawn.items():
            text = text.replace(drawn, number)
        return text


def _read_by_model(message: Message) -> Iterator[str]:
    yield message.role
    for part in message.parts:
        match part:
            case TextPart(text=text):
                yield text
            case ToolCall(id=call_id, name=name, args=args):
                yield canonical_json([call_id, name, args])
            case _:
                yield canonical_json([part.call_id, part.name, part.content, part.is_error])


@lru_cache(maxsize=64)
def _digest_of_model(model: str, temperature: float | None, instructions: str) -> str:
    """Return the digest of who is asked, and as whom: mostly the same in all legs of an agent."""
    return digest_of(canonical_json([model, temperature, instructions]))


_digest_of_instructions = lru_cache(maxsize=64)(digest_of)


@lru_cache(maxsize=256)
def _digest_of_tools(tools: SameTools) -> str:
    """Return the digest of what nearly every leg of an agent is offered."""
    return digest_of(canonical_json([tool.model_dump(mode="json") for tool in tools]))
