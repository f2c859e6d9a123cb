"""What is said once, and what is said again."""

import pytest

from ekiden.shared import once
from ekiden.shared.once import Once, StateChange


def test_each_key_is_new_once() -> None:
    told = Once()
    assert [key for key in ("a", "b", "a", "b", "c") if told.first(key)] == ["a", "b", "c"]


def test_any_number_of_keys_takes_no_more_memory_than_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(once, "MOST_KEYS", 3)
    told = Once()
    for key in range(100):
        assert told.first(key)
        assert not told.first(key)
        assert len(told._seen) <= 3


def test_only_a_change_is_new_and_it_begins_well() -> None:
    state = StateChange()
    assert [state.note(is_well=is_well) for is_well in (True, False, False, True, True, False)] == [
        False,
        True,
        False,
        True,
        False,
        True,
    ]
    assert not state.is_well
