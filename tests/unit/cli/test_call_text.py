"""A call on one line."""

import pytest

from ekiden.dispatcher.cli.views.call_text import call_text
from ekiden.shared.cells import width_of

EDIT = {"old_string": "a" * 50, "new_string": "b", "file_path": "src/cart.py"}


@pytest.mark.parametrize(
    ("name", "args", "shown"),
    [
        (
            "bash",
            {"description": "Look", "command": "ls -la", "timeout_s": 9},
            "bash ls -la description=Look timeout_s=9",
        ),
        ("edit_file", EDIT, "edit_file src/cart.py new_string=b"),
        ("grep", {"path": "src", "pattern": "to do"}, "grep to do path=src"),
        ("draw", {"size": [1, 2], "colour": ""}, 'draw [1, 2] colour=""'),
        ("now", {}, "now"),
    ],
)
def test_what_decides_comes_first_and_what_is_long_is_left_out(name: str, args: dict[str, object], shown: str) -> None:
    assert call_text(name, args, 80) == shown


def test_it_is_cut_by_cells_and_secrets_are_masked_before_that() -> None:
    text = call_text("search", {"query": "修复购物车" * 20}, 40)
    assert 38 <= width_of(text) <= 40
    assert text.endswith("...")
    assert "AKIAIOSFODNN7EXAMPLE" not in call_text("bash", {"command": "echo AKIAIOSFODNN7EXAMPLE"}, 80)


def test_all_arguments_stand_there_by_name_where_that_is_asked_for() -> None:
    assert call_text("edit_file", EDIT, 40, is_whole=True) == (
        f"edit_file old_string={'a' * 50} new_string=b file_path=src/cart.py"
    )
