"""``/agents …`` in a chat."""

from pathlib import Path

import pytest

from ekiden.dispatcher.cli.running.agents_commands import run_agents_command


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ('agents route "这个 TypeError 怎么解决？"', "Agent: debugger"),
        ("agents config routing", "agents.routing.strategy"),
        ("agents config routing.strategy rule", "agents.routing.strategy = rule"),
        ("agents list", "debugger"),
        ("agents config nosuch", "there is no setting 'agents.nosuch'"),
        ("agents nosuch", "No such command 'nosuch'"),
        ("agents run debugger", "`@NAME text` asks an agent"),
        ('agents route "it', "that cannot be read: No closing quotation"),
    ],
)
def test_agents_commands_work_and_end_no_chat(line: str, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    notes: list[str] = []
    run_agents_command(line, "redis://127.0.0.1:1/0", notes.append)
    said = capsys.readouterr()
    assert shown in "\n".join([said.out, said.err, *notes])
