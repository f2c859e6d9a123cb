"""How much of the past an agent reads: the newest of it, in whole turns, as its model's window has room for."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from ekiden.shared.llm.context_windows import most_tokens_in, tokens_in, tokens_of
from ekiden.shared.messages import Message
from ekiden.workers.prompt import LATER, left_out

__all__ = [
    "MAX_TOKENS",
    "NOWHERE",
    "THIS_JOB",
    "Block",
    "Item",
    "Place",
    "Quote",
    "budget_for",
    "characters_in",
    "fit_to_budget",
    "items_without",
    "left_out_of",
]

MAX_TOKENS = 60_000
"""What of the past an agent reads at most, however large its model's window is: reading costs, and distracts."""
_SHARE = 2
"""A half of the window is left for the agent's own work."""
_MARKS = 50
"""Tokens of the marks round a quotation; the line that says what was left out takes no more."""

Place = tuple[int, int]
"""Where something begins that is told: ``(0, n)`` the session's job n, ``(1, n)`` the journal's n-th entry."""
NOWHERE: Place = (0, 0)
"""Before all places."""
THIS_JOB: Place = (1, 0)
"""Behind all that was said in the session before."""


@dataclass(frozen=True)
class Quote:
    """What another agent said in one turn. Neighbours of one agent are put between the same marks."""

    agent: str
    texts: tuple[str, ...]


Item = Message | str | Quote
"""A message as it was, a text for the next user message, or a quotation for it."""


@dataclass(frozen=True)
class Block:
    """What is told, or left out, as a whole: a turn with its results, a question with its answer."""

    items: tuple[Item, ...]
    is_pinned: bool = False
    """It is told whatever the budget."""
    at: Place = NOWHERE

    @property
    def tokens(self) -> int:
        """How much it is, by estimate."""
        return sum(map(_tokens, self.items))


def budget_for(window: int) -> int:
    """Return how many tokens of the past an agent reads whose model reads ``window`` tokens at once."""
    return min(window // _SHARE, MAX_TOKENS)


def fit_to_budget(blocks: Sequence[Block], budget_tokens: int) -> list[Item]:
    """Return the items of the newest blocks that the budget has room for; one line says how much is missing.

    What is pinned is there in any case, and counts first.
    """
    return items_without(blocks, left_out_of(blocks, budget_tokens))


def items_without(blocks: Sequence[Block], dropped: Sequence[Block]) -> list[Item]:
    """Return the items of the blocks that are not ``dropped``, and a line in front that says how much is."""
    gone = {id(block) for block in dropped}
    return [*_gap(dropped), *(item for block in blocks if id(block) not in gone for item in block.items)]


def characters_in(items: Iterable[Item]) -> int:
    """Return no fewer characters than ``items`` have tokens, by estimate: they are counted in no time."""
    return sum(map(_characters, items))


def left_out_of(blocks: Sequence[Block], budget_tokens: int) -> list[Block]:
    """Return the blocks that ``fit_to_budget`` leaves out."""
    room = budget_tokens - _MARKS - sum(block.tokens for block in blocks if block.is_pinned)
    optional = [block for block in blocks if not block.is_pinned]
    total = accumulate(block.tokens for block in reversed(optional))
    fit = sum(tokens <= room for tokens in total)
    return optional[: len(optional) - fit]


def _gap(dropped: Sequence[Block]) -> Iterable[str]:
    return [left_out(len(dropped), sum(block.tokens for block in dropped))] if dropped else []


def _tokens(item: Item) -> int:
    match item:
        case Quote(agent, texts):
            return tokens_of(agent) + sum(tokens_of(text) + 1 for text in texts) + _MARKS
        case str():
            return tokens_of(item) + 1  # the line ends between it and the next one
        case Message():
            return tokens_in(item) + (tokens_of(LATER) if item.role == "model" else 0)  # which may have to precede it


def _characters(item: Item) -> int:
    match item:
        case Quote(agent, texts):
            return len(agent) + sum(len(text) + 1 for text in texts) + _MARKS
        case str():
            return len(item) + 1
        case Message():
            return most_tokens_in(item) + len(LATER)
