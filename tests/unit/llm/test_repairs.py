"""The shipped scripts repair projects that they were not written for, and say so when they cannot."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from shared.demo import write_demo

if TYPE_CHECKING:
    from tests.unit.llm.conftest import Play

PROJECTS: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("projects.yaml").read_text())
REPAIRED = sorted(name for name, project in PROJECTS.items() if "fixed" in project)
NOT_REPAIRED = sorted(name for name, project in PROJECTS.items() if "cannot" in project)
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
    assert "all 4 pass" in story.answer
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
    changed = [path for path in after if after[path] != before.get(path)]
    assert changed == list(PROJECTS[name]["fixed"])
    for path, text in PROJECTS[name]["fixed"].items():
        assert (text or "") in after[path].decode()


@pytest.mark.parametrize("name", NOT_REPAIRED)
def test_says_that_it_cannot_and_leaves_every_byte_as_it_was(name: str, tmp_path: Path, play: "Play") -> None:
    before = _written(tmp_path, PROJECTS[name]["files"])
    story = play(tmp_path, REQUEST)
    assert "cannot repair this" in story.answer
    assert "scripted stand-in for a model" in story.answer
    assert _content(tmp_path) == before
