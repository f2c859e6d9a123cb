"""Records of what is noticed between the turns of a leg."""

import operator
from hashlib import blake2b
from typing import Literal

from pydantic import Field

from ekiden.shared.fallback_causes import FallbackCause
from ekiden.shared.loop_kinds import LoopKind
from ekiden.shared.messages import SessionPart
from ekiden.shared.outcomes import TerminationReason
from ekiden.shared.records.base import UNSAID, BaseRecord, ModelCall
from ekiden.shared.stored_model import StoredModel

__all__ = [
    "FellBack",
    "Fingerprint",
    "LastTurn",
    "LimitNear",
    "LoopDetected",
    "LoopJudged",
    "Prompt",
    "Recalled",
    "Summarised",
    "digest_of",
]


class Fingerprint(StoredModel):
    """Digests of what a model was asked: equal where a reply that is known would be an answer, too."""

    definition: str
    """The agent's, as the catalog has it."""
    model: str
    """Of its name, temperature and instructions."""
    messages: str
    """Of all that was said, without what is drawn anew in each run: the ids of handoffs."""
    tools: str
    instructions: str = ""
    """Of the system prompt alone, byte by byte; empty: an older version has recorded it."""


def digest_of(text: str) -> str:
    """Return the digest of a text, as fingerprints have it."""
    return blake2b(text.encode(errors="surrogatepass"), digest_size=16).hexdigest()


class Prompt(StoredModel):
    """A system prompt as the model read it; what the agent's file says is not said again."""

    text: str
    """All of it, or what stands behind the file's text."""
    is_rest: bool = False
    """Whether it begins with the text of the agent's file, as it stands there."""

    @classmethod
    def of(cls, instructions: str, own: str) -> "Prompt":
        """Return the prompt ``instructions`` of an agent whose file says ``own``."""
        own = own.strip()
        is_rest = bool(own) and instructions.startswith(own)
        return cls(text=instructions.removeprefix(own) if is_rest else instructions, is_rest=is_rest)

    def whole(self, own: str) -> str:
        """Return what the model read; the reverse of ``of``."""
        return f"{own.strip()}{self.text}" if self.is_rest else self.text


class FellBack(ModelCall):
    """A model gave no answer that counts, and the next one that its agent may use is asked."""

    type: Literal["fallback"] = "fallback"
    why: FallbackCause
    text: str
    """What it failed with, or why it refused."""
    to: str
    """Who is asked in its place."""


class Recalled(BaseRecord):
    """Notes of earlier jobs that were put before an agent, as all attempts at the leg read them."""

    type: Literal["recalled"] = "recalled"
    agent: str
    notes: tuple[str, ...]
    whose: str
    """Of which namespace, in words."""
    untrusted: str = UNSAID
    """What text of an unknown author the writer of one of them had read, in words; empty: none."""

    @property
    def text(self) -> str:
        """Say it for people."""
        doubt = f", among them {self.untrusted}, which nobody vouches for" if self.untrusted else ""
        count = f"{len(self.notes)} note{'s' * (len(self.notes) != 1)}"
        return f"{self.agent} remembers {count} of earlier jobs ({self.whose}){doubt}"


class LoopDetected(BaseRecord):
    """The agent goes round in circles, and what its model is told of that. The next time ends the leg."""

    type: Literal["loop"] = "loop"
    kind: LoopKind
    text: str


class LoopJudged(ModelCall):
    """A model has looked whether a long leg gets anywhere."""

    type: Literal["loop_judged"] = "loop_judged"
    turn: int
    """The leg's last turn by then."""
    confidence: float
    """How sure it is, from 0 to 1, that the leg gets nowhere."""
    text: str
    """Why."""


class LimitNear(BaseRecord):
    """A limit is nearly reached, and what the model is told of that, once in a leg."""

    type: Literal["limit_near"] = "limit_near"
    limit: str
    """Its name in files: ``max_turns``."""
    of_job: bool = False
    """Whether all agents of the job share it."""
    text: str


class LastTurn(BaseRecord):
    """A leg that has reached a limit may end with what it has, in one turn more."""

    type: Literal["last_turn"] = "last_turn"
    reason: TerminationReason
    """Why the leg ends."""
    error: str
    """What the user is told if the turn gives no result."""
    text: str
    """What the model is told."""
    used_ms: int = 0
    """Time that the leg had taken by then: the turn has a time of its own."""


class Summarised(ModelCall):
    """What stands for messages in a conversation from here on; the messages themselves stay in the journal.

    With ``before``, for all that its agent read of before that place; with ``session``, for jobs of the session; with
    none of them, for what other agents said before the leg.
    """

    type: Literal["summary"] = "summary"
    text: str
    """Empty, with a place: there is no summary, and results before it are told shortened."""
    session: SessionPart | None = None
    """Of jobs before this one."""
    before: int | None = None
    """The place in the journal where the first turn begins that is told word for word."""
    longest_result: int = Field(default=0, exclude_if=operator.not_)
    """Characters of a result that is told shortened."""
    why: str = UNSAID
    """Why there is no summary."""
    tokens_before: int = Field(default=0, exclude_if=operator.not_)
    """Of the request that was too long."""
    tokens_after: int = Field(default=0, exclude_if=operator.not_)
    """Of the same request with this in its place, by estimate."""

    @property
    def purpose(self) -> str:
        """What a model was asked for."""
        return "summary" if self.place is None else "compression"

    @property
    def part(self) -> SessionPart | None:
        """What it says of the session's earlier jobs, with the snapshot; None: nothing."""
        return self.session.model_copy(update={"text": self.text}) if self.session and self.text else None

    @property
    def place(self) -> tuple[int, int] | None:
        """Where what is told word for word begins; None: the leg."""
        if self.before is not None:
            return 1, self.before
        return None if self.session is None else (0, self.session.before)
