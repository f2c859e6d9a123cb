"""What an agent reads before its own first turn of a leg: the past of the job and of its session."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import dropwhile, groupby

from ekiden.shared.conversation import Conversation, Turn
from ekiden.shared.handoff import HandoffContext
from ekiden.shared.llm.context_windows import tokens_of
from ekiden.shared.messages import Message, user_message
from ekiden.shared.records import Entry, HandedOff, Summarised
from ekiden.shared.relay.leg import Leg
from ekiden.shared.todos import listed, todos_in
from ekiden.workers.context_budget import MAX_TOKENS, Block, Item, Quote, fit_to_budget
from ekiden.workers.prompt import (
    LATER,
    brief,
    parting,
    plan_so_far,
    quoted_result,
    shortened,
    summary_of_others,
    summary_task,
    task,
    transcript,
)

__all__ = ["opening", "summary_request"]


def opening(leg: Leg, budget_tokens: int = MAX_TOKENS) -> list[Message]:
    """Return what the agent reads before its own first turn of this leg.

    What was said in the session before; the request; what happened in the job so far, own turns as they were, other
    agents' as fenced quotations; the brief of the handoff. Texts that the agent has not written itself are put together
    into user messages, so that the roles alternate. Where control came back to a caller, its conversation goes on: what
    it had read, word for word, its own turns, and the result as the answer to its call.

    Args:
        leg: What is to be run.
        budget_tokens: How much is told, by estimate: of the past the newest; the request, the brief and a caller's own
            turns in any case.
    """
    past = _Past(leg)
    callers: list[int] = []
    number = leg.number
    while (back := past.contexts[number].returned) is not None:
        callers.insert(0, number := back.leg)
    messages = past.beginning(number, budget_tokens)
    for caller in callers:
        items = [item for turn in past.own_turns(caller, leg.number) for item in turn.items]
        messages += _alternating(_texts(items, ""))
    return messages


def summary_request(leg: Leg, budget_tokens: int = MAX_TOKENS) -> tuple[Message, ...] | None:
    """Return what a model is to be asked so that its answer can stand for what other agents said.

    None where the handoff asks for no summary, where nobody said anything, and once the journal has the answer.
    """
    if leg.context.history.mode != "summary":
        return None
    past = _Past(leg)
    fence = leg.context.metadata.handoff_id
    if leg.number in past.summaries:
        return None
    quotes = [turn for turn in past.turns_before(leg.number) if _is_quoted(turn)]
    if not quotes:
        return None
    texts = _texts(fit_to_budget(quotes, budget_tokens), fence)
    request = leg.request.prompt
    return (user_message(summary_task(leg.agent, request, map(str, texts), fence=fence)),)


class _Past:
    """A job's journal, as the agents of its legs read it."""

    def __init__(self, leg: Leg) -> None:
        self._leg = leg
        self.contexts: dict[int, HandoffContext] = {}
        self.summaries: dict[int, str] = {}
        self._entries: dict[int, list[Entry]] = defaultdict(list)
        for entry in leg.entries:
            record = entry.record
            self._entries[record.leg].append(entry)
            if isinstance(record, HandedOff):
                self.contexts[record.leg + 1] = record.context
            elif isinstance(record, Summarised):
                self.summaries[record.leg] = record.text
        self.contexts[leg.number] = leg.context
        self._returns = {context.returned.leg: number for number, context in self.contexts.items() if context.returned}
        """The leg that waited for control -> the one that goes on with it."""

    def beginning(self, number: int, budget_tokens: int) -> list[Message]:
        """Return what the agent of a leg read first, where that leg continues no other."""
        context = self.contexts[number]
        fence = context.metadata.handoff_id
        is_told = context.from_agent != "user" and not (number == 1 and self._leg.request.inputs is not None)
        plan = self._plan(number, fence)
        most = tokens_of(brief(context)) + tokens_of(plan) if is_told else 0
        blocks = [*_session(self._leg), Block((self._request(fence),), is_pinned=True), *self._history(number)]
        items = fit_to_budget(blocks, budget_tokens - most)
        if is_told:
            items += [plan] if plan else []
            items.append(brief(context, {text for item in items if isinstance(item, Quote) for text in item.texts}))
        return _alternating(_texts(items, fence))

    def _request(self, fence: str) -> str:
        """Return what the job is about: what the user said, or the agent that delegated it."""
        request = self._leg.request
        if request.inputs is None or self.contexts[1].from_agent == "user":
            return request.prompt
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
            turns = [*(turn for turn in turns if not _is_quoted(turn)), Block((text,), is_pinned=True)]
        return [turn for turn in turns if turn.items]

    def _plan(self, number: int, fence: str) -> str:
        """Return the plan that the agent takes over; empty: there is none, or its handoff shares no history."""
        history = self.contexts[number].history
        if history.mode == "none":
            return ""
        records = (entry.record for leg in range(number - 1, 0, -1) for entry in reversed(self._entries[leg]))
        todos = todos_in(records)
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
        told: list[list[Item]] = [
            [one.text if one.role == "user" else one for one in turn.messages()] for turn in turns
        ]
        if result:
            told.append([result])
        return [Block(tuple(items)) for items in told]

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
        return [Block((Quote(agent, tuple(texts)),) if texts else ()) for texts in said]

    def _turns(self, leg: int, number: int) -> list[Turn]:
        upto = self.contexts[number].history.upto
        return Conversation(entry.record for entry in self._entries[leg] if entry.seq <= upto).turns


def _session(leg: Leg) -> list[Block]:
    """Return the session's earlier requests, each with its answers: the agent's own as they were, others' quoted.

    An agent has a conversation of its own: those jobs in which it had control. What was routed is the common talk of
    whoever the next message is routed to; what the user said to another agent by name is none of its business.
    """
    is_common = leg.request.agent is None
    its_own = {one.job for one in leg.earlier if leg.agent in (one.agent, *one.agents) or (is_common and not one.to)}
    exchanges: list[list[Item]] = []
    # Where the beginning of a long session is cut off, a user's message still comes first.
    for one in dropwhile(lambda said: said.agent, (one for one in leg.earlier if one.job in its_own)):
        if not one.agent:
            exchanges.append([one.message.text])
        elif one.agent == leg.agent:
            exchanges[-1].append(one.message)
        else:
            exchanges[-1].append(Quote(one.agent, (shortened(one.message.text),)))
    return [Block(tuple(items)) for items in exchanges]


def _is_quoted(turn: Block) -> bool:
    return any(isinstance(item, Quote) for item in turn.items)


def _texts(items: Iterable[Item], fence: str) -> Iterator[Message | str]:
    """Put quotations between marks, neighbours of one agent between the same."""
    for agent, run in groupby(items, key=lambda item: item.agent if isinstance(item, Quote) else None):
        if agent is None:
            yield from (item for item in run if not isinstance(item, Quote))
        else:
            texts = [text for item in run if isinstance(item, Quote) for text in item.texts]
            yield transcript(agent, texts, fence=fence)


def _alternating(said: Iterable[Message | str]) -> list[Message]:
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
