"""``ekiden init``: a team that works at once, and nothing that was there is changed."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ekiden.dispatcher.cli.agents.project import team, teams
from ekiden.dispatcher.cli.commands.init import Template
from ekiden.dispatcher.cli.main import app
from ekiden.dispatcher.cli.views.route_analysis import measured
from ekiden.dispatcher.evals.expectations import unmet
from ekiden.dispatcher.evals.recording_files import read_case_recording
from ekiden.dispatcher.evals.suite import read_suite
from ekiden.dispatcher.routing.evaluation import read_cases
from ekiden.dispatcher.routing_bootstrap import load_catalog
from ekiden.shared.errors import ConfigurationError, InvalidRequest
from ekiden.shared.ids import session_of
from ekiden.shared.llm.scripted import ScriptedModel
from ekiden.shared.packs import shipped_agents_dir
from ekiden.shared.policy.engine import Policy
from ekiden.shared.project_tools import allowed_tool_files
from ekiden.shared.project_trust import project_trust_of
from ekiden.shared.recordings import write_recording
from ekiden.shared.records import Delegated, ToolFinished
from ekiden.shared.relay.leg import journal_of
from ekiden.shared.settings.files import read_settings
from ekiden.shared.settings.model import load_settings
from ekiden.shared.stores.opening import Stores
from ekiden.shared.trust import notices
from ekiden.workers.playback.recorded import Recordings
from ekiden.workers.tools.project_tools import project_tools
from ekiden.workers.tools.registry import BUILTIN
from tests.scenarios.relay import Relay, Story, on_server

CHAINS = {
    "editorial": ["article", "writer", "article", "editor", "writer", "article", "editor", "printer"],
    "empty": ["first", "second"],
    "software": ["planner", "estimator"],
    "support": ["frontdesk", "orders"],
    "travel": ["concierge", "connections", "guide"],
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, the current one, of a user whom nobody has asked anything yet."""
    for name in ("home", "project"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("EKIDEN_TRUST", raising=False)
    monkeypatch.setattr(notices, "_taken_over", set())
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


def init(*words: str | Path) -> Result:
    return CliRunner().invoke(app, ["init", *map(str, words)])


def made(*words: str | Path) -> dict[str, Any]:
    done = init(*words, "--json")
    assert done.exit_code == 0, (done.output, done.exception)
    return dict(json.loads(done.stdout))


def refused(*words: str | Path) -> str:
    done = init(*words)
    assert isinstance(done.exception, InvalidRequest | ConfigurationError), done.output
    return str(done.exception)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_templates_are_those_that_there_are() -> None:
    assert [template.value for template in Template] == teams() == sorted(CHAINS)


@pytest.mark.parametrize("name", sorted(CHAINS))
def test_what_it_writes_is_valid_trusted_and_said(name: str, folder: Path) -> None:
    said = made(name)
    assert sorted(said["made"]) == sorted(contents(folder)) == sorted(team(name).files)
    assert (said["kept"], said["folder"]) == ([], str(folder))
    assert said["next"][0] == f'ekiden run "{team(name).requests[0]}"'
    assert project_trust_of(folder).wanted
    assert project_trust_of(folder).lacking == []
    assert load_settings().scripts_dir == folder / ".ekiden" / "scripts"
    assert load_settings().packs == (["software"] if name == "software" else [])
    checked = CliRunner().invoke(app, ["agents", "validate", "--all", "--strict"])
    assert checked.exit_code == 0, checked.output


@pytest.mark.parametrize(
    ("name", "request_"), [*((name, "") for name in sorted(CHAINS)), ("travel", "帮我安排五月从柏林到京都的旅行")]
)
def test_its_first_request_is_handed_over_and_calls_the_tool_of_the_project(
    name: str, request_: str, folder: Path
) -> None:
    made(name)
    (folder / "a.py").write_text("x = 1  # TODO: two\n")
    plugins, problems = project_tools(allowed_tool_files(folder))
    assert problems == ()
    model = ScriptedModel.from_folders(folder / ".ekiden" / "scripts", shipped_agents_dir() / "_scripts")
    tools = [*BUILTIN, *(plugin.made for plugin in plugins)]

    async def scenario(stores: Stores) -> list[Story]:
        relay = Relay(stores, load_catalog(load_settings()), model, tools=tools, root=folder)
        story = await relay.told(request_ or team(name).requests[0], agent=CHAINS[name][0], cwd=folder)
        return [story, *[await relay.story(record.child) for record in story.of(Delegated)]]

    stories = on_server(scenario)
    assert stories[0].chain == CHAINS[name]
    assert {story.end.status for story in stories} == {"done"}
    results = [record.result for story in stories for record in story.of(ToolFinished)]
    assert {result.name for result in results} & {plugin.name for plugin in plugins}
    assert not any(result.is_error for result in results)


@pytest.mark.parametrize("name", sorted({*CHAINS} - {"empty"}))
def test_its_suite_holds_without_a_model_and_any_tool(name: str, folder: Path) -> None:
    suite = read_suite(folder / ".ekiden" / "evals" / f"{name}.yaml") if made(name) else None
    assert suite is not None
    plugins, _ = project_tools(allowed_tool_files(folder))
    tools = [*BUILTIN, *(plugin.made for plugin in plugins)]

    async def scenario(stores: Stores) -> list[str]:
        faults = []
        for case in suite.cases:
            recording, session = read_case_recording(suite.recording(case)), None
            relay = Relay(
                stores,
                load_catalog(load_settings()),
                ScriptedModel({}),
                tools=tools,
                root=folder,
                policy=Policy(),
                recordings=Recordings(folder),
            )
            for turn in case.turns:
                how: Any = {"cwd": folder, "approve": recording.approve, "when_asked": "deny"}
                agent = turn.agent or next(iter(turn.expect.chain or ()), None)  # a session's agent is the client's
                job = await relay.submit(turn.request, agent=agent, session=session, state=turn.state, **how)
                session = session_of(job)
                write_recording(folder, job, recording.jobs)
                await relay.drain()
                faults += unmet(turn.expect, {job: await journal_of(stores.jobs, job)})
        return faults

    assert on_server(scenario) == []


@pytest.mark.parametrize("name", sorted(CHAINS))
def test_its_labelled_requests_are_for_agents_that_there_are(name: str, folder: Path) -> None:
    made(name)
    lines = (folder / ".ekiden" / "requests.jsonl").read_text("utf-8").splitlines()
    cases = read_cases(lines, load_catalog(load_settings()).agents)
    assert {case.is_in_scope for case in cases} == {True, False}


def test_the_labelled_requests_of_support_find_their_agents(folder: Path) -> None:
    made("support")
    figures = asyncio.run(measured(folder / ".ekiden" / "requests.jsonl", None, None))
    assert figures["in_scope_accuracy"] >= 0.9
    assert figures["oos_refused"] == 1


def test_without_a_template_and_nobody_to_ask_it_makes_the_least_team() -> None:
    assert made()["template"] == "empty"


def test_makes_the_folder_that_it_is_given_and_says_how_to_get_there(folder: Path) -> None:
    said = made("travel", "a trip/here")
    assert said["folder"] == str(folder / "a trip" / "here")
    assert said["next"][0] == "cd 'a trip/here'"
    assert list(contents(folder / "a trip" / "here"))
    text = init("support", "shop").output
    assert ".gemini/agents/frontdesk.md" in text
    assert 'ekiden run "where is my parcel? the order is 1001"' in text


def test_again_it_changes_nothing_and_writes_what_is_missing(folder: Path) -> None:
    made("support")
    before = contents(folder)
    (folder / ".gemini" / "agents" / "orders.md").unlink()
    said = made("support")
    assert said["made"] == [".gemini/agents/orders.md"]
    assert contents(folder) == before


def test_a_file_that_is_another_is_never_overwritten_and_nothing_is_written_beside_it(folder: Path) -> None:
    (folder / ".ekiden" / "tools").mkdir(parents=True)
    (folder / ".ekiden" / "tools" / "orders.py").write_text("mine")
    before = contents(folder)
    said = refused("support")
    assert said == (
        "nothing was written: '.ekiden/tools/orders.py' exists already and is another: choose another folder, or move "
        "what is there away"
    )
    assert contents(folder) == before


def test_an_agent_of_the_name_in_another_file_is_in_the_way(folder: Path) -> None:
    (folder / ".gemini" / "agents").mkdir(parents=True)
    (folder / ".gemini" / "agents" / "mine.md").write_text(
        "---\nname: orders\ndescription: Mine.\n---\nYou are mine.\n"
    )
    assert "the agent 'orders' is in" in refused("support")


def test_a_link_that_leads_out_is_not_followed(folder: Path) -> None:
    (folder.parent / "elsewhere").mkdir()
    (folder / ".gemini").symlink_to(folder.parent / "elsewhere")
    assert "leads out of the folder by a link" in refused("empty")
    assert contents(folder.parent / "elsewhere") == {}


def test_settings_that_are_there_are_completed(folder: Path) -> None:
    (folder / ".gemini").mkdir()
    (folder / ".gemini" / "settings.json").write_text('{\n  // mine\n  "theme": "dark"\n}\n')
    assert made("empty")["kept"] == [".gemini/settings.json"]
    text = (folder / ".gemini" / "settings.json").read_text()
    assert "// mine" in text
    assert read_settings(folder / ".gemini" / "settings.json")["theme"] == "dark"
    assert load_settings().scripts_dir == folder / ".ekiden" / "scripts"
    assert load_settings().packs == []


def test_scripts_that_the_settings_name_already_stay_and_the_user_is_told(folder: Path) -> None:
    (folder / ".gemini").mkdir()
    (folder / ".gemini" / "settings.json").write_text('{"ekiden": {"scripts_dir": "elsewhere"}}')
    assert "names other scripts, 'elsewhere': copy those of '.ekiden/scripts' there" in made("empty")["note"]


def test_what_somebody_else_has_put_into_the_folder_is_not_granted_along(folder: Path) -> None:
    theirs = {
        ".gemini/agents/evil.md": "---\nname: evil\ndescription: E.\ntools: [bash]\n---\nYou are evil.\n",
        ".ekiden/tools/evil.py": "raise SystemExit",
        ".ekiden/scripts/evil.yaml": "agents: {}",
    }
    for name, text in theirs.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    made("empty")
    assert sorted(right.shown for right in project_trust_of(folder).lacking) == [
        "bash",
        "code of .ekiden/tools/evil.py",
        "script evil.yaml",
    ]


def test_the_home_folder_is_no_project(folder: Path) -> None:
    assert "your home folder holds what all your projects share" in refused("empty", folder.parent / "home")
