"""Watching one leg for loops: the first is told to the model, the next one ends the leg.

All that is known of loops stands in the journal: what an agent did before a crash, and in earlier legs of the job,
counts like what it did just now.
"""

from collections import defaultdict
from collections.abc import Collection
from functools import cached_property

from ekiden.shared.conversation import Conversation, Turn
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.loop_kinds import LOOP_KINDS, LoopKind
from ekiden.shared.outcomes import Failed
from ekiden.shared.records import HandedOff, LegStarted, LoopDetected, Record
from ekiden.shared.relay.leg import Leg
from ekiden.workers.completion import CONTROLS
from ekiden.workers.ending import Ending
from ekiden.workers.loops.judge import Judge
from ekiden.workers.loops.steps import Repetition, Steps
from ekiden.workers.loops.texts import TIMES, repeated_words

__all__ = ["Loops"]

_ADVICE: dict[LoopKind, str] = {
    "calls": "Doing it again changes nothing. Do something else; if you wait for something, wait longer between looks.",
    "cycles": "Going through them again changes nothing. Say to yourself what you lack, and go another way.",
    "errors": "Read the error, and find out its cause before you try again; or do without this tool.",
    "judge": "Say to yourself what has changed by your last steps; if nothing has, go another way.",
    "text": "Stop repeating it. Say what is new in one sentence, or go on with the next step.",
}
_OR_END = "If the task cannot be done, end with what you have found out and what is missing."


class Loops:
    """Watches the turns of one leg."""

    def __init__(
        self, leg: Leg, agent: AgentDefinition, ending: Ending, judge: Judge, off: Collection[LoopKind] = ()
    ) -> None:
        """``off``: kinds that the settings switch off; the agent's file may switch off others."""
        self._leg = leg
        self._agent = agent
        self._ending = ending
        self._judge = judge
        self._kinds = [kind for kind in LOOP_KINDS if kind not in off and agent.loops.get(kind, True)]
        self._known = 0
        """How many turns of the leg have been taken in."""
        self._is_begun = self._was_told = False

    @cached_property
    def _steps(self) -> Steps:
        """Made once a turn is over: a leg that waits for its first reply has none."""
        return Steps()

    async def check(self) -> Failed | None:
        """Look at the last turn, once all of its calls are answered; tell the model, or return how the leg ends."""
        turns = self._leg.conversation.turns
        if not self._kinds or len(turns) == self._known:
            return None
        self._read_on(turns)
        found = None if turns[-1].told or _is_completion(turns[-1]) else await self._found(turns)
        if found is None:
            return None
        if self._was_told:
            return self._end(found)
        text = f"You go round in circles: {found.what}\n{_ADVICE[found.kind]} {_OR_END}"
        await self._leg.record(LoopDetected(leg=self._leg.number, kind=found.kind, text=text))
        self._tell()
        return None

    async def _found(self, turns: list[Turn]) -> Repetition | None:
        if "text" in self._kinds and (words := repeated_words(turns[-1].reply.message.text)):
            return Repetition("text", f"you have said the same words {TIMES} times: {words!r}")
        found = self._steps.repetition(self._kinds)
        is_judged = found is None and "judge" in self._kinds and bool(turns[-1].reply.message.calls)
        return await self._judge.repetition(turns) if is_judged else found

    def _end(self, found: Repetition) -> Failed:
        name = self._agent.name
        return self._ending.ended(
            "LOOP",
            f"agent {name!r} goes round in circles, though it was told: {found.what}. Put the request in other words; "
            f"where this is no loop, write 'loops: {{{found.kind}: false}}' in the agent's file",
            f"You still go round in circles: {found.what}.",
        )

    def _read_on(self, turns: list[Turn]) -> None:
        if not self._is_begun:
            self._is_begun = True
            self._read_earlier_legs()
        for turn in turns[self._known :]:
            self._take_in(self._agent.name, turn)
        self._known = len(turns)

    def _read_earlier_legs(self) -> None:
        first = self._first_leg
        if self._leg.number <= first:
            return
        agents: dict[int, str] = {}
        records: dict[int, list[Record]] = defaultdict(list)
        for record in (entry.record for entry in self._leg.entries):
            records[record.leg].append(record)
            if isinstance(record, LegStarted):
                agents[record.leg] = record.agent
        for leg in range(first, self._leg.number):
            for turn in Conversation(records[leg]).turns:
                self._take_in(agents.get(leg, ""), turn)

    @property
    def _first_leg(self) -> int:
        """The first leg that counts: graphs bound their rounds themselves, and each of their nodes begins anew."""
        moves = (entry.record for entry in reversed(self._leg.entries) if isinstance(entry.record, HandedOff))
        return next((move.leg + 1 for move in moves if move.kind == "edge"), 1)

    def _take_in(self, agent: str, turn: Turn) -> None:
        if turn.is_forgiven:
            return
        self._steps.add(agent, turn)
        if turn.loop:
            self._steps.forget()
            self._was_told |= agent == self._agent.name

    def _tell(self) -> None:
        self._steps.forget()
        self._was_told = True


def _is_completion(turn: Turn) -> bool:
    """Tell whether a call of the turn has ended the task."""
    calls = [call for call in turn.reply.message.calls if call.name in CONTROLS and call.id in turn.answers]
    return any(not turn.answers[call.id].is_error for call in calls)
