"""Links of a project lead nowhere else, unless its user trusts it."""

from pathlib import Path

import pytest

from ekiden.dispatcher.cli.agents.create import Draft, create
from ekiden.dispatcher.cli.agents.discovery import Agents
from ekiden.shared.definitions import loader
from ekiden.shared.definitions.loader import AGENTS_FOLDER, load_all
from ekiden.shared.errors import ConfigurationError, InvalidRequest
from ekiden.shared.settings.files import change_setting, global_file, project_file, read_settings

AGENT = "---\nname: friend\ndescription: Helps.\n---\nWork.\n"


@pytest.mark.parametrize("linked", [".gemini/agents", ".gemini/agents/friend.md", ".gemini/agents/pack"])
def test_agent_files_behind_a_link_out_of_the_project_are_a_problem_until_it_is_trusted(
    linked: str, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "friend.md").write_text(AGENT)
    (project / linked).parent.mkdir(parents=True)
    (project / linked).symlink_to(tmp_path / "outside" / ("friend.md" if linked.endswith("md") else ""))
    held = load_all(project, shipped=False)
    assert held.definitions == ()
    assert [problem.file for problem in held.problems] == [str(project / linked)]
    assert "leads out of the project" in held.problems[0].message
    monkeypatch.setenv("EKIDEN_TRUST", "1")
    assert [agent.name for agent in load_all(project, shipped=False).definitions] == ["friend"]


def test_links_within_the_project_are_fine(project: Path) -> None:
    (project / "team").mkdir()
    (project / "team" / "friend.md").write_text(AGENT)
    (project / ".gemini").mkdir()
    (project / AGENTS_FOLDER).symlink_to("../team")
    assert [agent.name for agent in load_all(project, shipped=False).definitions] == ["friend"]


def test_a_folder_of_more_files_than_anybody_has_agents_is_told(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "_MAX_ENTRIES", 3)
    (project / AGENTS_FOLDER).mkdir(parents=True)
    for number in range(4):
        (project / AGENTS_FOLDER / f"{number}.md").write_text(AGENT)
    [problem] = load_all(project, shipped=False).problems
    assert "the rest is not read" in problem.message


def test_no_agent_is_created_through_a_link_out_of_the_project(project: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (project / ".gemini").mkdir()
    (project / AGENTS_FOLDER).symlink_to(tmp_path / "outside")
    with pytest.raises(InvalidRequest, match="leads out of the project"):
        create(Draft("friend", description="Helps."), Agents([]))
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_projects_setting_never_changes_the_users_file_behind_a_link(project: Path) -> None:
    change_setting(global_file(), "ekiden.model", "mine")
    (project / ".gemini").mkdir()
    project_file().symlink_to(global_file())
    with pytest.raises(ConfigurationError, match="leads out of its project"):
        change_setting(project_file(), "ekiden.model", "theirs")
    assert read_settings(global_file()) == {"ekiden": {"model": "mine"}}
