"""Session variables for tools and models."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ekiden.shared.errors import ToolError
from ekiden.shared.messages import ToolCall
from ekiden.workers.tools.base import StateView, ToolContext
from ekiden.workers.tools.builtin.state import set_state
from ekiden.workers.tools.tool_runner import ToolRunner
from tests.unit.workers.world import call


def test_what_is_written_is_read_again_and_none_takes_a_variable_away() -> None:
    state = StateView({"a": 1, "b": [2]})
    state.set("c", {"x": "文"})
    state.set("a", None)
    assert (state.get("a", "gone"), state.get("b"), state.get("c")) == ("gone", [2], {"x": "文"})
    assert state.changes == {"c": {"x": "文"}, "a": None}


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("", 1, "1-100 letters"),
        ("a b", 1, "1-100 letters"),
        ("x" * 101, 1, "1-100 letters"),
        ("big", "x" * 20_000, "16,384 are the most"),
        ("odd", {1, 2}, "must be JSON"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_a_reason(name: str, value: Any, says: str) -> None:
    state = StateView()
    with pytest.raises(ToolError, match=says):
        state.set(name, value)
    assert state.changes == {}


def test_there_is_an_end_to_the_number_of_variables() -> None:
    state = StateView({f"v{n}": n for n in range(200)})
    state.set("v1", "again")
    with pytest.raises(ToolError, match="200 variables"):
        state.set("one-more", 1)


def context(state: StateView) -> ToolContext:
    return ToolContext("j.1", 1, "solo", "c1", Path("/"), Path("/"), state)


@pytest.mark.parametrize(
    ("made", "is_error"),
    [(call("c1", "set_state", values={"ready": True}), False), (call("c1", "set_state", values={"": 1}), True)],
)
def test_a_model_notes_variables_with_a_tool(made: ToolCall, is_error: bool) -> None:
    state = StateView()
    result = asyncio.run(ToolRunner([set_state], 1).run(made, context(state)))
    assert result.is_error == is_error
    assert state.changes == ({} if is_error else {"ready": True})
