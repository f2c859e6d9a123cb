"""The ids of a job's spans: chosen or derived, never asked of an SDK, so that every process knows them.

A job's trace id and the id of its root span are drawn at submit and travel as W3C ``traceparent`` in the handoff's
metadata and in the job's first record. All others are derived from them and from places in the journal: whoever takes a
leg can link to the send that caused it, and tell of the attempt that died, without having been told; and an export has
the ids that a collector got.
"""

import hashlib
import os
import random
import re
from dataclasses import dataclass
from functools import cached_property, lru_cache

from ekiden.shared.ids import parent_of

__all__ = ["Root", "child_traceparent", "draw_id", "new_traceparent", "read_traceparent", "root_for"]

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_SAMPLED = 1
_ids = random.Random()  # noqa: S311  # no secrets; our own, for a program that seeds Python's draws the same ids again
os.register_at_fork(after_in_child=_ids.seed)


@dataclass(frozen=True)
class Root:
    """A job's trace and the root span in it."""

    trace_id: int
    span_id: int
    sampled: bool

    @cached_property
    def trace(self) -> str:
        """The trace id in hexadecimal, as collectors show it."""
        return f"{self.trace_id:032x}"

    @cached_property
    def _seed(self) -> "hashlib.blake2b":
        return hashlib.blake2b(f"{self.trace}:{self.span_id}:".encode(), digest_size=8)

    def derive(self, *parts: object) -> int:
        """Return the id of the one span of this job that ``parts`` name; a child job shares the trace, not the root."""
        derived = self._seed.copy()
        derived.update(":".join(map(str, parts)).encode())
        return int.from_bytes(derived.digest()) or 1

    def send(self, leg: int) -> int:
        """Return the id of the span that sent the message of a leg: whoever takes it links to that."""
        return self.derive("send", leg)

    def step(self, seq: int, part: str = "") -> int:
        """Return the id of a span that a record begins, by the record's place in the journal.

        ``part``: which, where a record begins several.
        """
        return self.derive("seq", seq, part)

    def child(self, job: str) -> int:
        """Return the id of the root span of a job that this one delegated."""
        return self.derive("child", job)

    def is_below(self, rate: float) -> bool:
        """Tell whether this trace is among the share ``rate`` of all: the same answer in every process."""
        return (self.trace_id & 0xFFFF_FFFF_FFFF_FFFF) < rate * 2.0**64


def draw_id(bits: int = 64) -> int:
    """Draw the id of a span, or of a trace; the system's own source costs more than all the rest of a span."""
    return _ids.getrandbits(bits) or 1


def new_traceparent(rate: float) -> str:
    """Draw the ids of a job; a share ``rate`` of all jobs is marked to be traced, each as a whole."""
    trace_id, span_id = draw_id(128), draw_id()
    sampled = Root(trace_id, span_id, sampled=True).is_below(rate)
    return f"00-{trace_id:032x}-{span_id:016x}-{int(sampled):02x}"


def root_for(job: str) -> Root:
    """Return the ids of a job whose journal has none: the same whenever they are asked for."""
    if (parent := parent_of(job)) is not None:
        above = root_for(parent)
        return Root(above.trace_id, above.child(job), sampled=True)
    drawn = hashlib.blake2b(job.encode(), digest_size=24).digest()
    return Root(int.from_bytes(drawn[:16]) or 1, int.from_bytes(drawn[16:]) or 1, sampled=True)


def child_traceparent(traceparent: str, child: str) -> str:
    """Return the ids of a delegated job: in the trace of the job with ``traceparent``, with a root span of its own."""
    root = read_traceparent(traceparent)
    return f"00-{root.trace}-{root.child(child):016x}-{int(root.sampled):02x}" if root else ""


@lru_cache(maxsize=1_024)  # a job's legs ask again and again
def read_traceparent(text: str | None) -> Root | None:
    """Return what a ``traceparent`` says; None when it says nothing that can be used."""
    found = _TRACEPARENT.fullmatch(text or "")
    if found is None:
        return None
    trace_id, span_id, flags = (int(part, 16) for part in found.groups())
    return Root(trace_id, span_id, bool(flags & _SAMPLED)) if trace_id and span_id else None
