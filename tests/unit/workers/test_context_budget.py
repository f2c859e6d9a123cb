import pytest

from ekiden.shared.messages import user_message
from ekiden.workers.context_budget import MAX_TOKENS, Block, Item, Quote, budget_for, characters_in, fit_to_budget


def block(text: str, *, is_pinned: bool = False) -> Block:
    return Block((text,), is_pinned=is_pinned)


def test_a_half_of_a_small_window_and_never_more_than_a_limit_is_for_the_past() -> None:
    assert budget_for(32_768) == 16_384
    assert budget_for(1_048_576) == MAX_TOKENS == 60_000


def test_what_has_room_is_told_in_its_order() -> None:
    assert fit_to_budget([block("a"), block("b", is_pinned=True), block("c")], 1_000) == ["a", "b", "c"]


def test_the_newest_are_told_and_none_behind_a_gap() -> None:
    blocks = [block("small"), block("large " * 300), block("new"), block("newest")]
    gap, *told = fit_to_budget(blocks, 200)
    assert told == ["new", "newest"]
    assert gap == "[Left out for want of room: the oldest 2 turns of this conversation, about 303 tokens.]"


def test_what_is_pinned_counts_first_and_stays_in_its_place() -> None:
    pinned = block("pinned " * 175, is_pinned=True)
    blocks = [block("old " * 100), pinned, block("new " * 20)]
    assert [one[:3] for one in map(str, fit_to_budget(blocks, 260))] == ["[Le", "pin", "new"]
    assert [one[:3] for one in map(str, fit_to_budget(blocks, 200))] == ["[Le", "pin"]


def test_a_block_is_told_or_left_out_as_a_whole() -> None:
    items: tuple[Item, ...] = (user_message("question"), Quote("lead", ("answer " * 100,)))
    assert len(fit_to_budget([Block(items)], 100)) == 1
    assert fit_to_budget([Block(items)], 1_000) == list(items)


@pytest.mark.parametrize("budget", [0, -500])
def test_without_a_budget_only_what_is_pinned_is_told(budget: int) -> None:
    assert fit_to_budget([block("a", is_pinned=True), block("b")], budget)[1:] == ["a"]


@pytest.mark.parametrize("text", ["a", "7", "\n", "你", "word, and word. "])
def test_nothing_has_more_tokens_than_characters(text: str) -> None:
    items: tuple[Item, ...] = (text * 9, user_message(text * 9), Quote("lead", (text, text * 9)))
    for item in items:
        assert characters_in([item]) >= Block((item,)).tokens
