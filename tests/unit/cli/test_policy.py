"""``ekiden policy``: check, test and replay, through the real command line."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ekiden.dispatcher.cli.commands.policy import app
from ekiden.shared.errors import EkidenError, InvalidRequest, UnknownAgent
from ekiden.shared.messages import Message, ToolCall
from ekiden.shared.policy.builtin_risks import risk_of_tool
from ekiden.shared.records import LegStarted, ModelReplied, Record, ToolStarted
from ekiden.shared.stores.opening import open_stores
from ekiden.shared.stores.redis import as_any
from ekiden.workers.tools.registry import BUILTIN
from tests.contract.relay_world import claimed, submitted

RULES = """
[[rule]]
commandPrefix = "git push"
decision = "deny"
priority = 10
denyMessage = "Only people push"

[[rule]]
commandPrefix = "git"
decision = "allow"
priority = 5
"""


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home with rules, and a project, of the test's own; the levels are the usual ones."""
    (tmp_path / "home/.gemini/policies").mkdir(parents=True)
    (tmp_path / "home/.gemini/policies/git.toml").write_text(RULES)
    (tmp_path / "project/.gemini").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("EKIDEN_AUTO_APPROVE")
    monkeypatch.chdir(tmp_path / "project")


def policy(*args: str) -> Result:
    """Run ``ekiden policy``; errors of ours come out as they are."""
    result = CliRunner().invoke(app, args)
    if isinstance(result.exception, EkidenError):
        raise result.exception
    return result


def checked(*args: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(policy("check", *args, "--json").stdout)
    return found


def test_check_names_the_rule_that_wins_and_those_that_it_beats() -> None:
    shown = policy("check", "bash", "git status && git push").stdout
    assert " deny" in shown
    assert "rule: rule 1 of ~/.gemini/policies/git.toml" in shown
    assert "Only people push" in shown
    assert "not allow, by rule 2 of ~/.gemini/policies/git.toml: a denial always counts" in shown


@pytest.mark.parametrize(
    ("args", "verdict"),
    [
        (("bash", "git status"), "allow"),
        (("Bash", '{"command": "git status; ls"}'), "ask"),
        (("edit_file", "src/a"), "allow"),
        (("delete_file", "src/a"), "ask"),
        (("mcp.github.push",), "ask"),
        (("mcp.github.push", "{}", "--risk", "safe"), "allow"),
        (("delegate_to_x",), "allow"),
        (("bash", "rm -rf /"), "deny"),
    ],
)
def test_check_takes_arguments_as_json_a_command_or_a_path(args: tuple[str, ...], verdict: str) -> None:
    assert checked(*args)["verdict"] == verdict


def test_a_tool_that_is_nearly_a_built_in_one_is_told() -> None:
    assert "no tool 'bahs': is 'bash' meant?" in policy("check", "bahs", "ls").stderr
    assert not policy("check", "book_flight").stderr


def test_check_counts_the_agents_file(tmp_path: Path) -> None:
    agents = tmp_path / "home/.gemini/agents"
    agents.mkdir()
    (agents / "shy.md").write_text("---\nname: shy\ndescription: d\npermission: {edit: ask}\n---\np\n")
    assert checked("edit_file", "a")["verdict"] == "allow"
    assert checked("edit_file", "a", "--agent", "shy")["rule"] == "the file of agent shy"
    with pytest.raises(UnknownAgent, match="no agent is named 'nobody'"):
        checked("edit_file", "a", "--agent", "nobody")


def test_a_further_file_counts_beside_the_others_and_its_faults_are_told(tmp_path: Path) -> None:
    more = tmp_path / "more.toml"
    more.write_text('[[rule]]\ntoolName = "replace"\ndecision = "deny"\npriority = 1\n')
    assert checked("edit_file", "a", "--file", str(more))["verdict"] == "deny"
    more.write_text("[[rule]\n")
    result = policy("check", "edit_file", "a", "--file", str(more))
    assert " ask" in result.stdout
    assert f"{more}:1: no valid TOML" in result.stderr
    with pytest.raises(InvalidRequest, match="there is no such file"):
        policy("check", "edit_file", "a", "--file", str(tmp_path / "none"))


def test_test_holds_a_table_against_the_policy_and_fails_where_one_differs(tmp_path: Path) -> None:
    table = tmp_path / "cases.yaml"
    table.write_text(
        "- {command: git status, expect: allow, rule: git.toml}\n- {tool: bash, command: ls, expect: ask}\n"
    )
    assert policy("test", str(table)).exit_code == 0
    table.write_text(json.dumps({"cases": [{"tool": "Edit", "args": {"path": "a"}, "expect": "deny"}]}))
    result = policy("test", str(table))
    assert result.exit_code == 1
    assert 'case 1: Edit {"path": "a"}: expected deny, is allow' in result.stdout
    assert json.loads(policy("test", str(table), "--json").stdout)["ok"] is False


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "expected a list of cases"),
        ("just words", "expected a list of cases"),
        ("- {command: ls, expect: maybe}", "case 1: 'expect'"),
        ("- {command: ls, expects: ask}", "case 1: 'expect': is missing"),
        ("- {command: ls, expect: ask, tol: x}", "cases.yaml:1: case 1: 'tol' is no field"),
        ("cases:\n- {command: ls, expect: ask}\n- {command: ls, expect: no}", "cases.yaml:3: case 2: 'expect'"),
        ("- {tool: x, command: ls, expect: ask}", "case 1: 'command' is one of 'bash'"),
        ("- {", "cases.yaml:1: no YAML"),
    ],
)
def test_a_table_that_says_nothing_is_refused(text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "cases.yaml").write_text(text)
    with pytest.raises(InvalidRequest, match=problem):
        policy("test", str(tmp_path / "cases.yaml"))


def test_what_is_said_of_built_in_tools_is_what_workers_say() -> None:
    assert {tool.name: risk_of_tool(tool.name) for tool in BUILTIN} == {tool.name: tool.risk for tool in BUILTIN}


def test_replay_says_what_would_have_been_decided_about_the_calls_in_the_journals(valkey_url: str) -> None:
    made = {"c1": "git status", "c2": "git push", "c3": "ls"}
    parts = tuple(ToolCall(id=one, name="bash", args={"command": command}) for one, command in made.items())

    async def scenario() -> str:
        stores = open_stores(valkey_url)
        await as_any(stores.client.flushall())
        job = await submitted(stores)
        leg = await claimed(stores, job)
        records: list[Record] = [
            LegStarted(leg=0, agent="coder", attempt=1, worker="w"),
            ModelReplied(leg=0, turn=1, message=Message(role="model", parts=parts)),
            *(ToolStarted(leg=0, call_id=one, name="bash") for one in ("c1", "c2")),
        ]
        await stores.jobs.append(leg.lease, "w1", records, used_ms=0, is_progress=True)
        await stores.close()
        return job

    job = asyncio.run(scenario())
    found = json.loads(policy("replay", "--redis", valkey_url, "--json").stdout)
    assert (found["jobs"], found["calls"], found["changed"]) == (1, 3, 2)
    assert {(one["was"], one["verdict"]): one["calls"] for one in found["counts"]} == {
        ("allow", "allow"): 1,
        ("allow", "deny"): 1,
        ("deny", "ask"): 1,
    }
    assert [(one["job"], one["agent"], one["call"], one["verdict"]) for one in found["list"]] == [
        (job, "coder", "git push", "deny"),
        (job, "coder", "ls", "ask"),
    ]
    shown = policy("replay", "--redis", valkey_url, "--show", "1").stdout
    assert "3 calls of 1 jobs: 2 would be decided otherwise" in shown
    assert "rule 1 of ~/.gemini/policies/git.toml" in shown
    with pytest.raises(InvalidRequest, match="such as 30d"):
        policy("replay", "--redis", valkey_url, "--since", "soon")
