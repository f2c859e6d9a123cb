"""The turns of a job as steps that can be compared: who called what, and what that gave."""

import json
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b

from ekiden.shared.conversation import Turn
from ekiden.shared.loop_kinds import LoopKind
from ekiden.shared.messages import ToolCall, ToolResult

__all__ = ["SAME_CALLS", "SAME_CYCLES", "SAME_ERRORS", "Repetition", "Steps"]

SAME_CALLS = 5
"""How often the same calls may have the same results, one turn after the other."""
SAME_CYCLES = 3
"""How often the same turns may come in the same order, with the same results."""
SAME_ERRORS = 5
"""How often a tool may fail in the same way before something new has succeeded."""
LONGEST_CYCLE = 5
"""Turns."""
_LONGEST_ARGUMENTS = 200


@dataclass(frozen=True)
class Repetition:
    """What was found, in words for the model and for people."""

    kind: LoopKind
    what: str


@dataclass(frozen=True)
class _Step:
    does: bytes
    """Of the agent, its calls and their results: equal where nothing at all is new."""
    calls: tuple[ToolCall, ...]

    def __str__(self) -> str:
        return "; ".join(map(_shown, self.calls))


class Steps:
    """What the turns of a job did, each taken in once; how long the job is does not matter to what a turn costs."""

    def __init__(self) -> None:
        self._last: deque[_Step] = deque(maxlen=max(SAME_CALLS, LONGEST_CYCLE * SAME_CYCLES))
        self._succeeded: set[bytes] = set()
        self._errors: Counter[tuple[str, bytes]] = Counter()
        self._failed: set[tuple[str, bytes]] = set()
        """The tools that failed in the last turn, and how."""

    def add(self, agent: str, turn: Turn) -> None:
        """Take in a turn whose calls have all been answered; of a transfer that was made nothing is compared."""
        compared = [call for call in turn.reply.message.calls if call.id in turn.answers and call.id != turn.transfer]
        done = [(call, turn.answers[call.id]) for call in compared]
        if not done:
            return
        digests = [_digest(agent, call.name, _canonical(call), result.content) for call, result in done]
        self._last.append(_Step(b"".join(sorted(digests)), tuple(call for call, _ in done)))
        succeeded = {one for one, (_, result) in zip(digests, done, strict=True) if not result.is_error}
        if not succeeded <= self._succeeded:
            self._errors.clear()
            self._succeeded |= succeeded
        self._failed = set(_failures(done))
        self._errors.update(self._failed)

    def forget(self) -> None:
        """Count from here on: the agent was told."""
        self._last.clear()
        self._errors.clear()
        self._failed = set()

    def repetition(self, kinds: Iterable[LoopKind]) -> Repetition | None:
        """Return what the last turn repeats, of these kinds."""
        checks = {"calls": self._same_calls, "cycles": self._same_cycle, "errors": self._same_error}
        found = (checks[kind]() for kind in kinds if kind in checks)
        return next(filter(None, found), None)

    def _same_calls(self) -> Repetition | None:
        if not self._repeats(1, SAME_CALLS):
            return None
        what = f"the same call, with the same result, {SAME_CALLS} times in a row: {self._last[-1]}"
        return Repetition("calls", what)

    def _same_cycle(self) -> Repetition | None:
        for length in range(2, LONGEST_CYCLE + 1):
            if self._repeats(length, SAME_CYCLES) and not self._repeats(1, length):
                calls = " -> ".join(map(str, list(self._last)[-length:]))
                what = f"the same {length} steps, with the same results, {SAME_CYCLES} times in a row: {calls}"
                return Repetition("cycles", what)
        return None

    def _same_error(self) -> Repetition | None:
        for tool, error in sorted(self._failed):
            if self._errors[tool, error] >= SAME_ERRORS:
                what = f"{tool} has failed {SAME_ERRORS} times with the same error, and nothing new has succeeded"
                return Repetition("errors", what)
        return None

    def _repeats(self, length: int, times: int) -> bool:
        """Tell whether the last ``length`` turns are the same as those before them, ``times`` times in all."""
        steps = self._last
        if len(steps) < length * times:
            return False
        return all(steps[-n].does == steps[-n - length].does for n in range(1, length * (times - 1) + 1))


def _failures(done: Iterable[tuple[ToolCall, ToolResult]]) -> Iterable[tuple[str, bytes]]:
    return ((call.name, _digest(result.content)) for call, result in done if result.is_error)


def _canonical(call: ToolCall) -> str:
    return call.problem or json.dumps(call.args, sort_keys=True, ensure_ascii=False)


def _shown(call: ToolCall) -> str:
    args = json.dumps(call.args, ensure_ascii=False)
    return f"{call.name} {args if len(args) <= _LONGEST_ARGUMENTS else args[:_LONGEST_ARGUMENTS] + '…'}"


def _digest(*texts: str) -> bytes:
    digest = blake2b(digest_size=16)
    for text in texts:
        encoded = text.encode(errors="surrogatepass")
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return digest.digest()
