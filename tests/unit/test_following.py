"""Agent files that change while a dispatcher runs: what is saved comes into force, what is broken does not."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from ekiden.dispatcher.agent_files import read_agent_files, report, state_of
from ekiden.dispatcher.following import Following
from ekiden.dispatcher.publishing import publish, publish_own
from ekiden.shared.definitions.problems import Problem
from ekiden.shared.project_trust import project_trust_of
from ekiden.shared.settings.model import load_settings
from ekiden.shared.stores.opening import Stores
from ekiden.shared.trust.store import forget, remember
from tests.scenarios.relay import on_server
from tests.unit.test_dispatch import catalog_of

AGENT = "---\nname: {name}\ndescription: {says}\n{more}---\nYou are {name}.\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of agent files of the project that the current folder is."""
    agents = tmp_path / "project" / ".gemini" / "agents"
    agents.mkdir(parents=True)
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("EKIDEN_TRUST", raising=False)
    monkeypatch.chdir(tmp_path / "project")
    write(agents, "billing", "First.")
    return agents


def write(folder: Path, name: str, says: str, more: str = "") -> None:
    (folder / f"{name}.md").write_text(AGENT.format(name=name, says=says, more=more))


Step = Callable[[], Awaitable[list[dict[str, Any]]]]


def followed(scenario: Callable[[Stores, Step], Awaitable[None]]) -> None:
    """Let the files be in force; a step looks as often as it takes to take in a change, and returns what it told."""

    async def whole(stores: Stores) -> None:
        files = read_agent_files(load_settings())
        await publish_own(stores.catalogs, files.catalog, is_wanted=True)
        following = Following(load_settings(), files)

        async def step() -> list[dict[str, Any]]:
            with capture_logs() as logs:
                for _ in range(3):
                    following._due = 0.0
                    await following(stores.catalogs)
            return [dict(line) for line in logs]

        await scenario(stores, step)

    on_server(whole)


async def described(stores: Stores, name: str = "billing") -> str | None:
    current = await stores.catalogs.current()
    assert current is not None
    manifest, definitions = await stores.catalogs.definitions(current)
    return definitions[manifest[name]] if name in manifest else None


def test_a_saved_file_comes_into_force_and_is_told(folder: Path) -> None:
    async def scenario(stores: Stores, step: Step) -> None:
        assert await step() == []
        write(folder, "billing", "Second.")
        [told] = await step()
        assert (told["event"], told["changes"]) == ("agents_published", "changed billing")
        assert "Second." in str(await described(stores))
        write(folder, "more", "New.")
        (folder / "billing.md").unlink()
        [told] = await step()
        assert told["changes"] == "added more; removed billing"
        assert await described(stores) is None
        assert await step() == []

    followed(scenario)


def test_a_broken_save_keeps_the_agent_and_says_so_until_it_is_mended(folder: Path) -> None:
    async def scenario(stores: Stores, step: Step) -> None:
        (folder / "billing.md").write_text("---\nname: [\n---\n")
        told = await step()
        assert [line["event"] for line in told] == ["agent_file", "agent_kept"]
        assert told[0]["at"].startswith(str(folder / "billing.md:"))
        assert "First." in str(await described(stores))
        write(folder, "other", "Beside it.")
        assert "added other" in [line.get("changes") for line in await step()]
        assert "First." in str(await described(stores))
        write(folder, "billing", "Mended.")
        assert [line["event"] for line in await step()] == ["agent_mended", "agents_published"]
        assert "Mended." in str(await described(stores))

    followed(scenario)


def test_a_broken_file_does_not_bring_back_the_agent_that_it_stands_for(folder: Path) -> None:
    write(folder, "debugger", "Mine.")

    async def scenario(stores: Stores, step: Step) -> None:
        (folder / "debugger.md").write_text("---\nname: [\n---\n")
        await step()
        assert "Mine." in str(await described(stores, "debugger"))

    remember(folder.parents[1], granted=project_trust_of(folder.parents[1]).wanted)
    followed(scenario)


def test_what_changes_between_two_looks_is_not_read_yet(folder: Path) -> None:
    async def scenario(stores: Stores, step: Step) -> None:
        following = Following(load_settings(), read_agent_files(load_settings()))
        for text in ("a", "b"):
            write(folder, "billing", text)
            following._due = 0.0
            await following(stores.catalogs)
        assert "First." in str(await described(stores))

    followed(scenario)


def test_what_asks_for_more_than_was_granted_has_less_until_it_is_granted(folder: Path) -> None:
    project = folder.parents[1]

    async def scenario(stores: Stores, step: Step) -> None:
        write(folder, "billing", "Second.", "tools: [ls, bash]\n")
        told = await step()
        assert "agent_held" in [line["event"] for line in told]
        assert "bash" not in str(await described(stores))
        remember(project, granted=project_trust_of(project).wanted)
        assert [line.get("changes") for line in await step()] == ["changed billing"]
        assert "bash" in str(await described(stores))

    followed(scenario)


GRAPH = """kind: graph
tools: [{tools}]
graph: {{entry: look, nodes: [{{name: look, tool: ls}}{more}]}}
"""
ASKS_FOR_MORE = ", {name: run, tool: bash, args: {command: ls}}], edges: [{from: look, to: run}"


def test_a_graph_that_cannot_do_with_less_stays_as_it_was_while_that_is_granted(folder: Path) -> None:
    project = folder.parents[1]
    write(folder, "flow", "First.", GRAPH.format(tools="ls", more=""))

    async def scenario(stores: Stores, step: Step) -> None:
        write(folder, "flow", "Second.", GRAPH.format(tools="ls, bash", more=ASKS_FOR_MORE))
        told = await step()
        assert [line["event"] for line in told] == ["agent_file", "agent_kept"]
        assert "`ekiden trust" in told[0]["problem"]
        assert "bash" not in str(await described(stores, "flow"))
        remember(project, granted=project_trust_of(project).wanted)
        assert [line["event"] for line in await step()] == ["agent_mended", "agents_published"]
        assert "bash" in str(await described(stores, "flow"))
        forget(project)
        await step()
        assert await described(stores, "flow") is None, "what was taken back is no version to keep"

    followed(scenario)


def test_a_graph_that_names_what_is_not_there_stays_as_it_was(folder: Path) -> None:
    write(folder, "flow", "First.", "kind: graph\ngraph: {entry: billing, nodes: [billing]}\n")

    async def scenario(stores: Stores, step: Step) -> None:
        write(folder, "flow", "Second.", "kind: graph\ngraph: {entry: biling, nodes: [biling]}\n")
        assert [line["event"] for line in await step()] == ["agent_file", "agent_kept"]
        (folder / "billing.md").write_text("---\nname: [\n---\n")
        write(folder, "flow", "Third.", "kind: graph\ngraph: {entry: billing, nodes: [billing]}\n")
        told = await step()
        assert [line["event"] for line in told] == ["agent_file", "agent_kept", "agent_mended", "agents_published"]
        assert told[1]["agent"] == "billing", "what names it is whole by that"
        assert "Third." in str(await described(stores, "flow"))
        assert "biling" not in str(await described(stores, "flow"))

    followed(scenario)


def test_what_somebody_else_has_put_in_force_stays(folder: Path) -> None:
    async def scenario(stores: Stores, step: Step) -> None:
        theirs = catalog_of("theirs")
        await publish(stores.catalogs, theirs, await stores.catalogs.current(), "test")
        write(folder, "billing", "Second.")
        assert [line["event"] for line in await step()] == ["catalog_not_published"]
        assert await stores.catalogs.current() == theirs.digest
        assert await step() == [], "it is told once for each change"

    followed(scenario)


def test_a_settings_file_that_breaks_meanwhile_changes_nothing(folder: Path) -> None:
    async def scenario(stores: Stores, step: Step) -> None:
        (folder.parent / "settings.json").write_text("{")
        write(folder, "billing", "Second.")
        [told] = await step()
        assert told["event"] == "agents_not_read"
        assert "settings.json:1" in told["error"]

    followed(scenario)


def test_a_look_costs_little_of_the_time_and_survives_links_in_a_round(folder: Path) -> None:
    (folder / "round").symlink_to(folder)
    (folder / "nowhere.md").symlink_to(folder / "gone")
    assert [Path(entry[0]).name for entry in state_of([folder])] == ["billing.md"]
    following = Following(load_settings(), read_agent_files(load_settings()))

    async def scenario(stores: Stores) -> None:
        await following(stores.catalogs)
        assert following._due > 0
        due = following._due
        following._due += 100
        await following(stores.catalogs)
        assert following._due == due + 100, "it does not look before it is due"

    on_server(scenario)


def test_what_is_wrong_with_files_is_no_output_of_a_command(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(structlog, "is_configured", lambda: False)
    report([Problem("a.md", 3, "warning", "no such tool")])
    assert caplog.messages == ["ekiden: agent file: a.md:3: no such tool"]
    assert capfd.readouterr().out == ""
