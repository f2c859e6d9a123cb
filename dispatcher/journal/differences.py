"""Where two runs of a job first differ."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from itertools import islice
from typing import Any

from ekiden.dispatcher.journal.decisions import Decision

__all__ = ["PROMPT", "Difference", "first_difference"]

PROMPT = "another prompt"
_FROM_OUTSIDE = ("cancelled", "dead", "deadline")
"""Ends that no agent decides."""
_NAMES = {
    "model_reply": "answer",
    "tool_started": "tool",
    "tool_result": "result",
    "handoff_refused": "refusal",
    "ended": "end",
    "guarded": "judgement of a guardrail",
}


@dataclass(frozen=True)
class Difference:
    """``was`` None: the first run has no such step; ``now`` None: the second has none."""

    job: str
    was: Decision | None
    now: Decision | None

    @property
    def step(self) -> Decision:
        """The step that differs, of the first run where it has one."""
        step = self.was or self.now
        assert step is not None, "one of two runs that differ has a step"
        return step

    @property
    def digests(self) -> dict[str, bool]:
        """Tell of each digest of a prompt whether it is the same; nothing where it is about something else."""
        if self.was is None or self.now is None or not (self.was.digests and self.now.digests):
            return {}
        return {name: digest == self.now.digests[name] for name, digest in self.was.digests.items()}

    @property
    def prompt_lines(self) -> list[str]:
        """Return the lines of the system prompt that differ, those of the first run behind ``-``, of the second ``+``.

        Without the text of the agent's file: that is the same where ``definition`` is.
        """
        if self.was is None or self.now is None:
            return []
        lines = unified_diff(self.was.prompt.splitlines(), self.now.prompt.splitlines(), n=0, lineterm="")
        return [line for line in islice(lines, 2, None) if not line.startswith("@@")]

    @property
    def what(self) -> str:
        """Say what differs, in a few words."""
        if self.was is None:
            return "it goes on where it had ended"
        if self.now is None:
            return "it comes no further"
        if self.was.kind != self.now.kind:
            return "another step"
        if not all(self.digests.values()):
            return PROMPT
        return f"another {_NAMES.get(self.was.kind, self.was.kind.replace('_', ' '))}"

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        step = self.step
        prompt = {"prompt": self.prompt_lines} if self.digests else {}
        place = {"job": self.job, "seq": step.seq, "leg": step.leg, "agent": step.agent, "what": self.what}
        return {**place, "digests": self.digests, **prompt, "was": _shown(self.was), "now": _shown(self.now)}


def first_difference(
    was: Mapping[str, Sequence[Decision]], now: Mapping[str, Sequence[Decision]], since: int = 0
) -> Difference | None:
    """Return where two runs of a job, and of those below it, first differ; None: nowhere.

    A job that was cancelled, given up or out of time is compared as far as it came.

    Args:
        was: The first run's decisions, the root job's first.
        now: The second's.
        since: A place in the root job's journal: what differs before it does not count.
    """
    root = next(iter(was))
    since_ms = next((one.at_ms for one in was[root] if one.seq >= since), 0)

    def counts(job: str, step: Decision) -> bool:
        return step.seq >= since if job == root else step.at_ms >= since_ms

    jobs = [*was, *(job for job in now if job not in was)]
    found = (_difference(job, was.get(job, ()), now.get(job, ()), counts) for job in jobs)
    return min(filter(None, found), key=lambda one: (one.was is None, one.step.at_ms), default=None)


def _difference(
    job: str, was: Sequence[Decision], now: Sequence[Decision], counts: Callable[[str, Decision], bool]
) -> Difference | None:
    is_cut = bool(was) and was[-1].kind == "ended" and was[-1].about in _FROM_OUTSIDE
    was = was[:-1] if is_cut else was
    for before, after in zip(was, now, strict=False):
        if counts(job, before) and not _are_the_same(before, after):
            return Difference(job, before, after)
    if len(was) > len(now):
        return Difference(job, was[len(now)], None)
    return None if is_cut or len(was) == len(now) else Difference(job, None, now[len(was)])


def _are_the_same(before: Decision, after: Decision) -> bool:
    """Compare two steps; what an older version has recorded has no digests."""
    digests = not (before.digests and after.digests) or before.digests == after.digests
    return digests and (before.kind, before.told) == (after.kind, after.told)


def _shown(step: Decision | None) -> dict[str, str] | None:
    return None if step is None else {"kind": step.kind, "about": step.about, "told": step.told}
