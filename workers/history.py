"""What an agent reads before its own first turn of a leg: the past of the job and of its session."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ekiden.shared.conversation import Conversation, Turn
from ekiden.shared.handoff import HandoffContext
from ekiden.shared.instructions import shortened
from ekiden.shared.llm.context_windows import tokens_of
from ekiden.shared.messages import Message, user_message
from ekiden.shared.records import Entry, Forked, Guarded, HandedOff, ModelReplied, Summarised
from ekiden.shared.relay.leg import Leg
from ekiden.shared.todos import listed, todos_in
from ekiden.workers.context_budget import (
    MAX_TOKENS,
    Block,
    Item,
    Place,
    Quote,
    characters_in,
    fit_to_budget,
    items_without,
    left_out_of,
)
from ekiden.workers.prompt import (
    brief,
    parting,
    plan_so_far,
    quoted_result,
    snapshot_so_far,
    summary_of_others,
    summary_task,
    task,
)
from ekiden.workers.session_past import exchanges
from ekiden.workers.snapshots import compressed_by
from ekiden.workers.telling import alternating, texts_of

__all__ = ["Past", "opening", "summary_request"]


def opening(leg: Leg, budget_tokens: int = MAX_TOKENS) -> list[Message]:
    """Return what the agent reads before those turns of this leg that it reads as they were.

    What was said in the session before; the request; what happened in the job so far, own turns as they were, other
    agents' as fenced quotations; the brief of the handoff. Texts that the agent has not written itself are put together
    into user messages, so that the roles alternate. Where control came back to a caller, its conversation goes on: what
    it had read, word for word, its own turns, and the result as the answer to its call. Where the conversation was
    compressed, a snapshot stands for its beginning.

    Args:
        leg: What is to be run.
        budget_tokens: How much is told, by estimate: of the past the newest; the request, the brief and a caller's own
            turns in any case.
    """
    return Past(leg).opening(budget_tokens).messages


def summary_request(leg: Leg, budget_tokens: int = MAX_TOKENS) -> tuple[Message, ...] | None:
    """Return what a model is to be asked so that its answer can stand for what other agents said.

    None where the handoff asks for no summary, where nobody said anything, and once the journal has the answer.
    """
    if leg.context.history.mode != "summary":
        return None
    past = Past(leg)
    fence = leg.context.metadata.handoff_id
    if leg.number in past.summaries:
        return None
    quotes = [turn for turn in past.turns_before(leg.number) if _is_quoted(turn)]
    if not quotes:
        return None
    texts = texts_of(fit_to_budget(quotes, budget_tokens), fence)
    return (user_message(summary_task(leg.agent, leg.asked, map(str, texts), fence=fence)),)


class Opening(NamedTuple):
    """What an agent reads before its turns."""

    messages: list[Message]
    left_out: int
    """Tokens of the past that there was no room for, by estimate."""


class Past:
    """A job's journal, as the agent of one of its legs reads it."""

    def __init__(self, leg: Leg) -> None:
        self._leg = leg
        self.contexts: dict[int, HandoffContext] = {}
        self.summaries: dict[int, str] = {}
        self._entries: dict[int, list[Entry]] = defaultdict(list)
        self._seqs: dict[int, int] = {}
        """The places in the journal where turns begin, by the identity of their replies."""
        compressions: list[Summarised] = []
        for entry in leg.entries:
            record = entry.record
            self._entries[record.leg].append(entry)
            if isinstance(record, ModelReplied):
                self._seqs[id(record)] = entry.seq
            elif isinstance(record, HandedOff):
                self.contexts[record.leg + 1] = record.context
            elif isinstance(record, Summarised) and record.place is None:
                self.summaries[record.leg] = record.text
            elif isinstance(record, Summarised):
                compressions.append(record)
        self.session_parts = [part for one in compressions if (part := one.part) is not None]
        self.contexts[leg.number] = leg.context
        self.contexts |= _with_repaired_returns(leg.entries, self.contexts)
        self._returns = {context.returned.leg: number for number, context in self.contexts.items() if context.returned}
        """The leg that waited for control -> the one that goes on with it."""
        self._callers: list[int] = []
        """The legs that this one goes on with, the first of them first."""
        self._first = leg.number
        while (back := self.contexts[self._first].returned) is not None:
            self._callers.insert(0, back.leg)
            self._first = back.leg
        self.compressed = compressed_by(one for one in compressions if one.session is None and self._reads(one.leg))

    def _reads(self, leg: int) -> bool:
        """Whether the agent goes on with what a leg has compressed: its own reading, of no more than it is told now."""
        if leg in (self._leg.number, *self._callers):
            return True
        is_own = self.contexts[leg].to_agent == self._leg.agent and leg < self._first
        return is_own and self.contexts[self._first].history.mode == "all"

    @property
    def callers_turns(self) -> list[Block]:
        """The turns of the legs that this one goes on with, where they are told."""
        turns = (turn for caller in self._callers for turn in self.own_turns(caller, self._leg.number))
        return self.compressed.told(turns)

    @property
    def shortened_turns(self) -> list[Block]:
        """The first turns of this leg, where not all of their results are told whole."""
        return [turn for turn in self._this_legs_turns if turn.at < self.compressed.end]

    @property
    def turns(self) -> list[Block]:
        """All turns that the agent reads now, the oldest first: what it was told of others, and its own."""
        return [
            *self._session,
            *self._history(self._first),
            *self.callers_turns,
            *self._this_legs_turns,
        ]

    @property
    def _session(self) -> list[Block]:
        return self.compressed.told(exchanges(self._leg, self.session_parts, self.fence))

    @property
    def turns_told(self) -> int:
        """How many turns of this leg the opening holds, or leaves out."""
        return sum(self._place(turn) < self.compressed.end for turn in self._leg.conversation.turns)

    @property
    def _this_legs_turns(self) -> list[Block]:
        """The turns of this leg that are told: nobody puts the others together."""
        turns = self._leg.conversation.turns
        return self.compressed.told(self._blocks(turn for turn in turns if self._place(turn) >= self.compressed.before))

    def opening(self, budget_tokens: int) -> Opening:
        """Return what ``opening`` does, and how much of it is left out."""
        blocks, plan = self._beginning(), self._plan(self._first, self.fence)
        dropped: list[Block] = []
        items = self._items(blocks, dropped, plan)
        if 2 * characters_in(items) > budget_tokens:  # twice: what the brief need not repeat counts there as well
            brief_tokens = tokens_of(brief(self.contexts[self._first])) if self._is_briefed else 0
            if dropped := left_out_of(blocks, budget_tokens - tokens_of(plan) - brief_tokens):
                items = self._items(blocks, dropped, plan)
        return Opening(alternating(texts_of(items, self.fence)), sum(block.tokens for block in dropped))

    def _beginning(self) -> list[Block]:
        """Return what the agent reads first, in the leg that continues no other."""
        snapshot = snapshot_so_far(self.compressed.text, fence=self.fence)
        request = Block((self._request(self.fence), *([snapshot] if snapshot else [])), is_pinned=True)
        return [*self._session, request, *self._history(self._first)]

    def _items(self, blocks: list[Block], dropped: list[Block], plan: str) -> list[Item]:
        """Return all that the agent reads, but for the blocks that are dropped."""
        items = items_without(blocks, dropped)
        items += [plan] if plan else []
        if self._is_briefed:
            quoted = {text for item in items if isinstance(item, Quote) for text in item.texts}
            items.append(brief(self.contexts[self._first], quoted))
        items += [item for turn in (*self.callers_turns, *self.shortened_turns) for item in turn.items]
        return items

    @property
    def _is_briefed(self) -> bool:
        is_called = self._first == 1 and self._leg.request.inputs is not None
        return self.contexts[self._first].from_agent != "user" and not is_called

    @property
    def fence(self) -> str:
        """The id of the marks round what others said."""
        return self.contexts[self._first].metadata.handoff_id

    def _request(self, fence: str) -> str:
        """Return what the job is about: what the user said, or the agent that delegated it."""
        request = self._leg.request
        if request.inputs is None or self.contexts[1].from_agent == "user":
            return "\n\n".join((request.prompt, *_added(self._leg.entries, self._first)))
        inputs = request.inputs or {"objective": request.prompt}
        return task(inputs, agent=self.contexts[1].from_agent, fence=fence)

    def _history(self, number: int) -> list[Block]:
        """Return the turns before a leg as far as its handoff shares them; a summary stands for the quoted ones."""
        history = self.contexts[number].history
        if history.mode == "none":
            return []
        turns = self.turns_before(number)
        if history.mode == "last" and history.last is not None:
            turns = turns[max(0, len(turns) - history.last) :]
        if history.mode == "summary" and (summary := self.summaries.get(number, "").strip()):
            text = summary_of_others(summary, fence=self.contexts[number].metadata.handoff_id)
            summed_up = Block((text,), is_pinned=True, at=(1, history.upto))
            turns = [*(turn for turn in turns if not _is_quoted(turn)), summed_up]
        return self.compressed.told(turn for turn in turns if turn.items)

    def _plan(self, number: int, fence: str) -> str:
        """Return the plan that the agent goes on with; empty: it reads it in a turn, or its handoff shares none."""
        before = self.contexts[number].history.mode != "none"
        legs = [self._leg.number, *reversed(self._callers), *(range(number - 1, 0, -1) if before else ())]
        newest_first = (entry for leg in legs for entry in reversed(self._entries[leg]))
        todos = todos_in(e.record for e in newest_first if e.record.leg < number or self.compressed.covers(e.seq))
        return plan_so_far(listed(todos), fence=fence) if todos else ""

    def turns_before(self, number: int) -> list[Block]:
        """Return every turn of the legs before one, as its agent reads them; those of silent agents are empty.

        What happened between a call of the agent's own and its return is left out: the result says it.
        """
        turns: list[Block] = []
        leg = 1
        while leg < number:
            is_own = self.contexts[leg].to_agent == self._leg.agent
            turns += self.own_turns(leg, number) if is_own else self._quoted_turns(leg, number)
            after = self._returns.get(leg, number)
            leg = after if is_own and after < number else leg + 1
        return turns

    def own_turns(self, leg: int, number: int) -> list[Block]:
        """Return the turns of a leg as they were, with the result that it waited for, if control is back."""
        turns = self._turns(leg, number)
        result = self._result(leg, number, turns)
        end = (1, max((entry.seq for entry in self._entries[leg]), default=0))
        return [*self._blocks(turns), *([Block((result,), at=end)] if result else [])]

    def _blocks(self, turns: Iterable[Turn]) -> list[Block]:
        """Return turns as they were."""
        return [
            Block(tuple(one.text if one.role == "user" else one for one in turn.messages()), at=self._place(turn))
            for turn in turns
        ]

    def _place(self, turn: Turn) -> Place:
        return 1, self._seqs[id(turn.reply)]

    def _result(self, leg: int, number: int, turns: list[Turn]) -> str:
        """Answer the call that a leg waited for, where there is one; return what is to be told without a call."""
        after = self._returns.get(leg, number + 1)
        back = self.contexts[after].returned if after <= number else None
        if back is None:
            return ""
        fence = self.contexts[after].metadata.handoff_id
        text = quoted_result(self.contexts[after - 1].to_agent, back.text, fence=fence, is_error=back.is_error)
        is_answered = any(turn.answer(back.call_id, text, is_error=back.is_error) for turn in turns)
        return "" if is_answered else text

    def _quoted_turns(self, leg: int, number: int) -> list[Block]:
        """Return what an agent said for others to read in a leg: its texts, and the words of its handoff.

        Without thoughts, tools and replies that were no end. The last handoff's words are the brief's.
        """
        agent = self.contexts[leg].to_agent
        turns = self._turns(leg, number)
        said = [[text] if (text := shortened(turn.reply.message.text)) and not turn.nudge else [] for turn in turns]
        known = {text for texts in said for text in texts}
        if leg + 1 < number and (words := parting(self.contexts[leg + 1], known)):
            said = [*said[:-1], [*(said[-1] if said else []), words]]
        places = [self._place(turn) for turn in turns] or [(1, self._entries[leg][0].seq)]
        return [
            Block((Quote(agent, tuple(texts)),) if texts else (), at=place)
            for place, texts in zip(places, said, strict=False)  # nobody said anything: there is a place all the same
        ]

    def _turns(self, leg: int, number: int) -> list[Turn]:
        upto = self.contexts[number].history.upto
        return Conversation(entry.record for entry in self._entries[leg] if entry.seq <= upto).turns


def _with_repaired_returns(
    entries: Iterable[Entry], contexts: Mapping[int, HandoffContext]
) -> Mapping[int, HandoffContext]:
    """Return by leg how control came back to it, where guardrails had repaired what came with it."""
    said = [entry.record for entry in entries if isinstance(entry.record, Guarded) and entry.record.is_of_return]
    return {one.leg: contexts[one.leg].with_returned(one.value) for one in said}


def _added(entries: Iterable[Entry], leg: int) -> list[str]:
    """Return what the user has added to the request in forks, where a leg's agent reads it in none of its turns."""
    added: list[str] = []
    with_turns: set[int] = set()
    for record in (entry.record for entry in entries):
        if isinstance(record, ModelReplied):
            with_turns.add(record.leg)
        elif isinstance(record, Forked) and record.prompt and record.leg + (record.leg in with_turns) <= leg:
            added.append(record.prompt)
    return added


def _is_quoted(turn: Block) -> bool:
    return any(isinstance(item, Quote) for item in turn.items)
