"""Commands that are printed for people to copy: a name from elsewhere in them stays one word of the shell."""

import shlex
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ekiden.dispatcher.cli.agents.discovery import Agents
from ekiden.dispatcher.cli.agents.findability import _by_luck
from ekiden.dispatcher.cli.agents.show import _graph, print_consequences
from ekiden.dispatcher.cli.agents.suggest import _print
from ekiden.dispatcher.cli.doctor.server_checks import agents_served, queues_served, servers_there
from ekiden.dispatcher.cli.running.request import _require_within
from ekiden.dispatcher.cli.running.submission import SessionChoice
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.unknown_calls import UnknownCall
from ekiden.shared.definitions.loader import Level, Loaded
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.definitions.parsing import read_definition
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.messages import ToolCall
from ekiden.shared.relay.message import queue_for
from ekiden.shared.stores.pools import QueueView
from ekiden.shared.stores.views import PoolView
from ekiden.workers.lacking import _with_root

ODD = "x;touch pwned 'it' $(id) `id`|sh"
JOB = "aaaaaaaaaaaaaaaa.1"


def agent(**fields: Any) -> AgentDefinition:
    return read_definition({"name": ODD, "description": "x", **fields}, "Work.", "project").definition


def refused(ask: Callable[[], object]) -> str:
    with pytest.raises(InvalidRequest) as raised:
        ask()
    return str(raised.value)


def consequences() -> None:
    """Print what is left behind where an agent was deleted that the one with the odd name hands over to."""
    loaded = Loaded((agent(handoffs=[{"to": "gone"}]),), (), {ODD: "odd.md"})
    print_consequences(Agents([Level("project", Path(), loaded)]), "gone", Output())


def suggested() -> None:
    made = SimpleNamespace(by="words", suggestion=SimpleNamespace(lists={"keywords": ["pay"]}))
    _print(ODD, made, None)  # type: ignore[arg-type]  # a part of it


COMMANDS: dict[str, Callable[[], str | None]] = {
    "job show, with a provider's id of a call": lambda: UnknownCall(JOB, ToolCall(id=ODD, name="pay", args={})).remedy,
    "doctor, of an agent without a worker": lambda: (
        agents_served([ODD], [PoolView("p", "worker", ("ekiden.dispatch",))])[-1].remedy
    ),
    "doctor, of a queue without a worker": lambda: queues_served([QueueView(queue_for(ODD), 1, ())])[0].remedy,
    "doctor, of a worker's MCP server": lambda: (
        servers_there([PoolView("p", "worker", (), servers={ODD: "is gone"})])[0].remedy
    ),
    "agents validate": lambda: _by_luck(agent()).message,
    "agents show": lambda: _graph(
        agent(graph={"entry": "a", "nodes": [{"name": "a", "agent": "b"}], "edges": [{"from": "a", "to": "END"}]})
    ),
    "agents delete": consequences,
    "agents suggest": suggested,
    "a job's folder that no worker may touch": lambda: _with_root(ODD),
    "a folder that is outside": lambda: refused(lambda: _require_within(Path("/", ODD), ["/srv"])),
    "a session of one's own": lambda: refused(lambda: SessionChoice("ann", session=ODD, policy="sticky")),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_name_from_elsewhere_is_one_word_of_the_command_that_holds_it(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = COMMANDS[command]() or " ".join(capsys.readouterr().out.split())
    assert any(shlex.quote(f"{before}{ODD}") in text for before in ("", "/", f"{JOB}:")), text


def test_a_name_without_a_special_character_stands_as_it_is() -> None:
    call = UnknownCall(JOB, ToolCall(id="call_1-a", name="pay", args={}))
    assert call.remedy == f"ekiden job retry {JOB} --call {JOB}:call_1-a=done[:TEXT]|undone"
