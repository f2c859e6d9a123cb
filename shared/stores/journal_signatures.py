"""How the entries of a journal are signed, each together with the one before, and how they are checked."""

import hashlib
import re
from collections.abc import Sequence
from contextlib import suppress

from ekiden.shared.errors import Forged
from ekiden.shared.records import Entry, JobRequested, LegStarted, decode_record, encode_record
from ekiden.shared.signing import Signing
from ekiden.shared.stores.base import Claim, Claimed

__all__ = ["CONTEXT", "chained", "chained_as_copied", "head_of", "is_start", "signed_start", "verified"]

CONTEXT = "context of a leg"
"""Signed for its job, leg and catalog."""

_ENTRY = "journal entry"
_START = "start of a leg"
_ATTEMPT = re.compile(r'"attempt":\d+')


def chained(signing: Signing, job: str, seq: int, head: str, texts: Sequence[str]) -> tuple[list[str], str]:
    """Return what stands before each of ``texts`` in the journal behind position ``seq``, and the new head.

    ``head`` is the tag of the last chained entry; empty at the beginning.
    """
    marks = []
    for at, text in enumerate(texts, seq + 1):
        head = signing.tag(_ENTRY, (job, at, head), text)
        marks.append(signing.mark(head))
    return marks, head


def chained_as_copied(signing: Signing, job: str, texts: Sequence[str]) -> list[str]:
    """Return what stands before each of ``texts`` in a journal that begins with them, starts of legs among them."""
    marks, head = [], ""
    for at, text in enumerate(texts, 1):
        if is_start(text):
            marks.append(signing.mark(signing.tag(_START, (job,), _without_attempt(text))))
            continue
        head = signing.tag(_ENTRY, (job, at, head), text)
        marks.append(signing.mark(head))
    return marks


def signed_start(signing: Signing, claim: Claim) -> str:
    """Return the start of a leg as a claim sends it: the script fills in which attempt it is."""
    mark = hashlib.sha256(claim.owner.encode()).hexdigest()[:12]  # the owner itself is half of the fence
    start = LegStarted(leg=claim.leg, agent=claim.agent, attempt=0, worker=claim.worker, claim=mark)
    text = encode_record(start)
    return signing.sign(_START, (claim.job,), _without_attempt(text)).replace('"attempt":0', '"attempt":\x01')


def is_start(text: str) -> bool:
    """Tell whether a record is the start of a leg, as it stands in a journal."""
    with suppress(ValueError):
        return isinstance(decode_record(text), LegStarted)
    return False


def _without_attempt(text: str) -> str:
    """Return a start of a leg as it was signed."""
    return _ATTEMPT.sub('"attempt":0', text, count=1)


def verified(signing: Signing, claimed: Claimed, entries: Sequence[Entry], after: int = 0, head: str = "") -> str:
    """Return the tag of the last chained entry of a leg that was claimed.

    Raises ``Forged`` unless this deployment has written its context and its whole journal, for this job and leg.
    The first ``after`` of ``entries``, which end with ``head``, have been looked at before.
    """
    lease, signed = claimed.lease, claimed.signed
    signing.check(CONTEXT, (lease.job, lease.leg, lease.catalog), signed.seal, signed.text)
    if claimed.context.to_agent != signed.agent:
        raise Forged(f"the message is for agent {signed.agent!r}, and the leg is not")
    head = head_of(signing, lease.job, entries, after, head)
    first = entries[0].record if entries else None
    if not isinstance(first, JobRequested):
        raise Forged("the journal does not begin with a request")
    if claimed.cwd != (first.cwd or ""):
        raise Forged("the job's folder is not the one that was asked for")
    return head


def head_of(signing: Signing, job: str, entries: Sequence[Entry], after: int = 0, head: str = "") -> str:
    """Return the tag of the last chained entry. Raises ``Forged`` for a journal that is not what was written.

    ``head`` is that of the first ``after`` entries, which are taken as they are.
    """
    for at, entry in enumerate(entries[after:], after + 1):
        if entry.seq != at:
            raise Forged(f"the journal has no entry {at}")
        head = _checked(signing, job, entry, head)
    return head


def _checked(signing: Signing, job: str, entry: Entry, head: str) -> str:
    try:
        if isinstance(entry.record, LegStarted):
            signing.check(_START, (job,), entry.seal, _without_attempt(entry.text))
            return head
        signing.check(_ENTRY, (job, entry.seq, head), entry.seal, entry.text)
    except Forged as error:
        raise Forged(f"{error} (entry {entry.seq}, {entry.record.type})") from error
    return entry.seal.tag if entry.seal else ""
