"""A folder of agent files that the user names beside a project that they trust, as by `catalog diff --catalog`."""

from pathlib import Path

import pytest

from ekiden.dispatcher.cli.agents.catalog_files import catalog_in
from ekiden.shared.trust.notices import take_over
from tests.unit.trust.test_agents import trust_what_it_asks_for, write


def named(project: Path, *agents: str) -> Path:
    """A folder with other files of these agents."""
    folder = project / "edited"
    folder.mkdir(exist_ok=True)
    for name in agents:
        text = (project / ".gemini/agents" / f"{name}.md").read_text("utf-8")
        (folder / f"{name}.md").write_text(text.replace("Work.", "Work well."), "utf-8")
    return folder


@pytest.fixture
def trusted(project: Path) -> Path:
    """A project with two agents, of which one leads to the other, that was granted all that it asks for."""
    write(project, "lead", tools=["bash"], handoffs=["payer"])
    write(project, "payer", tools=["bash"])
    trust_what_it_asks_for(project)
    return project


def test_files_in_the_place_of_its_own_make_it_no_folder_that_is_not_trusted(
    trusted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    catalog = catalog_in(named(trusted, "lead", "payer"), "nothing was compared")
    assert catalog.agents["lead"].instructions == catalog.agents["payer"].instructions == "Work well."
    assert catalog.agents["lead"].permits("bash")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("is_asked", [False, True], ids=["by itself", "where the command has asked about the folder"])
def test_an_agent_of_it_that_leads_to_these_is_told_to_have_less(
    is_asked: bool, trusted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if is_asked:
        take_over(trusted)
    catalog = catalog_in(named(trusted, "payer"), "nothing was compared")
    assert not catalog.agents["lead"].permits("bash")
    assert capsys.readouterr().err == (
        f"ekiden: lead of {str(trusted)!r} would hand over to agents of the folder that you name, and get only tools "
        "that read beside it, or are not used\n"
    )


def test_what_it_was_never_granted_is_told_as_ever(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(project, "lead", tools=["bash"], handoffs=["payer"])
    write(project, "payer", tools=["bash"])
    catalog_in(named(project, "payer"), "nothing was compared")
    assert f"the folder {str(project)!r} is not trusted: agents lead, payer get only tools" in capsys.readouterr().err
