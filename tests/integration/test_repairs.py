"""The shipped scripts repair projects that they were not written for, and say so when they cannot."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from ekiden.shared.demo import write_demo
from ekiden.shared.llm.scripting.history import CallRecord
from ekiden.shared.llm.scripting.sources import Edit, standing_edits

if TYPE_CHECKING:
    from tests.integration.play import Play

PROJECTS: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("projects.yaml").read_text())
REPAIRED = sorted(name for name, project in PROJECTS.items() if "fixed" in project)
NOT_REPAIRED = sorted(name for name, project in PROJECTS.items() if "cannot" in project)
PASSING = "import unittest\nclass T(unittest.TestCase):\n    def test(self): pass\n"
REQUEST = "the tests of this project fail, repair it"


def _written(folder: Path, files: dict[str, str]) -> dict[str, bytes]:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode())
    return _content(folder)


def _content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_repairs_the_demo_through_all_three_agents(tmp_path: Path, play: "Play") -> None:
    write_demo(tmp_path)
    story = play(tmp_path, "the tests of this project fail: TypeError in cart.total")
    assert story.chain == ["debugger", "code-fixer", "reviewer"]
    assert "if item.price is None:\n                continue\n" in (tmp_path / "cart.py").read_text()
    assert "cart.py, line 23" in story.answer
    assert ", a missing check for None\n" in story.answer
    assert "all 4 pass" in story.answer
    assert "- All that was edited:\n--- cart.py\n+++ cart.py\n@@ -" in story.answer
    assert "\n+            if item.price is None:\n+                continue\n" in story.answer
    assert "scripted stand-in for a model" in story.answer
    reasons = [call.args["reason"] for call in story.calls if call.name.startswith("transfer_to_")]
    assert reasons[0].startswith("bug identified at cart.py:23: TypeError")


@pytest.mark.parametrize("name", REPAIRED)
def test_repairs(name: str, tmp_path: Path, play: "Play") -> None:
    before = _written(tmp_path, PROJECTS[name]["files"])
    story = play(tmp_path, REQUEST)
    after = _content(tmp_path)
    assert story.chain == ["debugger", "code-fixer", "reviewer"], story.answer
    assert "- Tests: all" in story.answer
    assert story.finish == "stop"
    changed = [path for path in after if after[path] != before.get(path)]
    assert changed == list(PROJECTS[name]["fixed"])
    for path, text in PROJECTS[name]["fixed"].items():
        assert (text or "") in after[path].decode()


@pytest.mark.parametrize("name", NOT_REPAIRED)
def test_says_that_it_cannot_and_leaves_every_byte_as_it_was(name: str, tmp_path: Path, play: "Play") -> None:
    before = _written(tmp_path, PROJECTS[name]["files"])
    story = play(tmp_path, REQUEST)
    assert "cannot repair this" in story.answer
    assert story.finish == "unfinished"
    assert "scripted stand-in for a model" in story.answer
    assert _content(tmp_path) == before


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"a.py": "x = 1\n", "test_a.py": PASSING}, "There is nothing to fix: all 1 tests pass"),
        ({"a.py": "x = 1\n"}, "no tests"),
        ({"a.txt": "x"}, "no Python file"),
        ({"test_a.py": "import os\nos._exit(3)\n"}, "I could not run the tests"),
    ],
)
def test_says_what_is_missing(files: dict[str, str], said: str, tmp_path: Path, play: "Play") -> None:
    before = _written(tmp_path, files)
    story = play(tmp_path, REQUEST)
    assert story.chain == ["debugger"]
    assert said in story.answer
    assert story.finish == ("stop" if "nothing to fix" in said else "unfinished")
    assert "scripted stand-in for a model" in story.answer
    assert _content(tmp_path) == before


def test_says_in_those_words_that_pytest_is_not_installed(tmp_path: Path, play: "Play") -> None:
    before = _written(tmp_path, PROJECTS["pytest-with-fixtures-and-parameters"]["files"])
    story = play(tmp_path, REQUEST, python=f"{sys.executable} -S")  # which has no packages
    assert "I could not run the tests of this project: pytest is not installed here" in story.answer
    assert story.finish == "unfinished"
    assert _content(tmp_path) == before


def test_code_fixer_repairs_without_a_debugger_before_it(tmp_path: Path, play: "Play") -> None:
    write_demo(tmp_path)
    assert play(tmp_path, REQUEST, agent="code-fixer").chain == ["code-fixer", "reviewer"]


def _edit(old: str, new: str, result: str = "done", *, is_error: bool = False) -> CallRecord:
    return CallRecord("try", "edit", "edit_file", {"path": "a.py", "old": old, "new": new}, 1, result, is_error)


def test_an_edit_stands_until_it_is_taken_back() -> None:
    assert standing_edits([_edit("a", "b"), _edit("b", "a"), _edit("a", "c")]) == [Edit("a.py", "a", "c")]
    assert standing_edits([_edit("a", "b", "no such text", is_error=True)]) == []


def test_an_edit_of_unknown_outcome_stands_until_taking_it_back_fails() -> None:
    lost = _edit("a", "b", "Outcome unknown: the worker was lost", is_error=True)
    assert standing_edits([lost]) == [Edit("a.py", "a", "b")]
    assert standing_edits([lost, _edit("b", "a", "no such text", is_error=True)]) == []
