"""Links of a project lead nowhere else, unless its user trusts it."""

import shlex
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ekiden.dispatcher.cli.agents import project as project_files
from ekiden.dispatcher.cli.agents.create import Draft, create
from ekiden.dispatcher.cli.agents.discovery import Agents
from ekiden.dispatcher.cli.main import app
from ekiden.shared.definitions import loader
from ekiden.shared.definitions.loader import AGENTS_FOLDER, load_all
from ekiden.shared.errors import ConfigurationError, InvalidRequest
from ekiden.shared.project_tools import FOLDER, tool_files
from ekiden.shared.project_trust import project_trust_of
from ekiden.shared.settings.files import change_setting, global_file, project_file, read_settings
from ekiden.shared.trust.rights import script_rights
from ekiden.shared.trust.store import remember, remembered

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


def agent(name: str, tool: str) -> str:
    return f"---\nname: {name}\ndescription: Deploys the shop.\ntools: [{tool}]\n---\nWork.\n"


def run(*words: str) -> None:
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, (result.output, result.exception)


@pytest.fixture
def stood_by(project: Path) -> Path:
    """A project with an agent that its user has granted what it asks for: its links are followed."""
    (project / AGENTS_FOLDER).mkdir(parents=True)
    (project / AGENTS_FOLDER / "reader.md").write_text(agent("reader", "write_file"))
    remember(project, granted=project_trust_of(project).wanted, vouched=True)
    return project


@pytest.fixture
def users(stood_by: Path) -> Path:
    """The file of the user's own agent, to which a link of the project leads: it may be there, or not yet."""
    path = Path.home() / AGENTS_FOLDER / "deployer.md"
    path.parent.mkdir(parents=True)
    (stood_by / AGENTS_FOLDER / "deployer.md").symlink_to(path)
    return path


def lacks_deployer(project: Path) -> bool:
    """Whether nothing was granted to the project's agent, also once it is a file of its own."""
    path = project / AGENTS_FOLDER / "deployer.md"
    path.unlink()
    path.write_text(agent("deployer", "bash"))
    return {right.subject for right in project_trust_of(project).lacking} == {"agent deployer"} and not [
        right for right in remembered(project).granted if right.subject == "agent deployer"
    ]


def test_a_global_agent_that_the_user_makes_grants_nothing_to_the_project_that_links_to_it(
    stood_by: Path, users: Path
) -> None:
    run("agents", "create", "deployer", "--global", "--description", "Deploys the shop.", "--tools", "bash")
    assert users.exists()
    assert lacks_deployer(stood_by)


def test_a_global_agent_grants_nothing_to_a_project_whose_folder_of_agents_is_the_users(project: Path) -> None:
    (Path.home() / AGENTS_FOLDER).mkdir(parents=True)
    (project / ".gemini").mkdir()
    (project / AGENTS_FOLDER).symlink_to(Path.home() / AGENTS_FOLDER)
    remember(project, vouched=True)
    run("agents", "create", "deployer", "--global", "--description", "Deploys the shop.", "--tools", "bash")
    assert not remembered(project).granted


@pytest.mark.parametrize("is_inside", [False, True])
def test_an_edit_through_a_link_grants_something_only_where_the_file_lies_in_the_project(
    is_inside: bool, stood_by: Path, users: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users.write_text(agent("deployer", "bash"))
    if is_inside:
        link = stood_by / AGENTS_FOLDER / "deployer.md"
        link.unlink()
        (stood_by / "team.md").write_text(agent("deployer", "bash"))
        link.symlink_to("../../team.md")
    code = "import sys, pathlib; p = pathlib.Path(sys.argv[1]); p.write_text(p.read_text() + 'More.')"
    monkeypatch.setenv("EDITOR", shlex.join([sys.executable, "-c", code]))
    run("agents", "edit", "deployer")
    assert lacks_deployer(stood_by) is not is_inside


def test_tool_files_and_scripts_behind_links_out_of_the_project_are_not_what_its_user_wrote(
    project: Path, tmp_path: Path
) -> None:
    (project / FOLDER).mkdir(parents=True)
    (project / "scripts").mkdir()
    change_setting(project_file(project), "ekiden.scripts_dir", "scripts")
    links = {project / FOLDER / "shop.py": "def shop(): ...", project / "scripts" / "shop.yaml": "[]"}
    for link, text in links.items():
        (tmp_path / link.name).write_text(text)
        link.symlink_to(tmp_path / link.name)
    project_files._grant([str(path.relative_to(project)) for path in links])
    rights = [tool_files(project)[0].right, *script_rights(project, "scripts").values()]
    assert not remembered(project).granted & set(rights)
