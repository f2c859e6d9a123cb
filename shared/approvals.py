"""What waits for a person: calls that must be approved, and questions of agents."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from ekiden.shared.risk import Risk

__all__ = [
    "ANSWER",
    "ANSWER_ID",
    "Answer",
    "ApprovalKind",
    "ApprovalStatus",
    "ApprovalView",
    "WhenAsked",
    "approval_json",
    "digest_of",
]

ANSWER, ANSWER_ID = "answer", ":answer"
"""What an answer of an agent is called that people are asked about as if it were a call, and its call's id."""
ApprovalKind = Literal["call", "question"]
ApprovalStatus = Literal["waiting", "approved", "denied", "answered", "expired", "void"]
"""``void``: the job ended first."""
WhenAsked = Literal["park", "deny"]
"""What becomes of a call that is to be asked about: it waits for a person, or is denied at once."""


@dataclass(frozen=True)
class ApprovalView:
    """One approval as an inbox shows it. Times are milliseconds since 1970, of the server's clock."""

    id: str
    job: str
    leg: int
    agent: str
    definition: str
    """The digest of the agent's definition that asked."""
    call_id: str
    tool: str
    args: Mapping[str, Any]
    digest: str
    """SHA-256 of the tool's name and the canonical JSON of the arguments: what an answer is bound to."""
    kind: ApprovalKind = "call"
    risk: Risk = "medium"
    reason: str = ""
    """Why it is asked."""
    rule: str = ""
    text: str = ""
    """The question as people read it: of an agent, or by the file's template; empty: the usual one."""
    choices: tuple[str, ...] = ()
    """What a question may be answered with; empty: any text."""
    preview: str = ""
    """What the call would change, such as the diff of an edit; empty: nothing to show."""
    approvers: tuple[str, ...] = ()
    separate: bool = False
    timeout_s: float = 0.0
    """How long it waits for somebody."""
    asked_at_ms: int = 0
    expires_at_ms: int = 0
    ends_with_job: bool = False
    """Whether the job's deadline comes before the approval's own: it waits no longer than that."""
    status: ApprovalStatus = "waiting"
    by: str = ""
    """Who decided."""
    is_claimed: bool = False
    """Whether the name is the client's word: the server knows no users, or one for all."""
    origin: str = ""
    """From where: host and kind of client."""
    decided_at_ms: int = 0
    why: str = ""
    """What they said of it."""
    answer: str | None = None
    edited: Mapping[str, Any] | None = None
    """The arguments that the person put in the place of the model's."""


@dataclass(frozen=True)
class Answer:
    """What a person says to one approval."""

    status: Literal["approved", "denied", "answered"]
    digest: str
    """``ApprovalView.digest`` of what was looked at; another one is refused."""
    by: str = ""
    """Who says it, where the server does not know; empty: the user of the operating system."""
    origin: str = ""
    """Empty: this host."""
    why: str = ""
    answer: str | None = None
    edited: Mapping[str, Any] | None = None
    always_for_job: bool = False
    """Calls of this tool in the same job that are no riskier are not asked about again."""


def approval_json(approval: ApprovalView) -> str:
    """Return an approval as one line of JSON, with all its fields."""
    told = {field.name: getattr(approval, field.name) for field in fields(approval)}
    return json.dumps(told, ensure_ascii=False, default=dict)


def digest_of(tool: str, args: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a call: of the tool's name, and of the arguments as canonical JSON."""
    said = json.dumps([tool, args], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(said.encode(errors="surrogatepass")).hexdigest()
