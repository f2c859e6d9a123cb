"""Files of other programs, written for these tests, against what each of them forbids; and forms one by one."""

from pathlib import Path
from typing import Any

import pytest

from ekiden.shared.definitions.loader import load_file
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.definitions.parsing import read_definition
from ekiden.shared.definitions.problems import AgentFileError
from ekiden.shared.definitions.tool_names import BUILTIN_TOOLS, MEMORY_TOOLS, SAFE_TOOLS, forbidden_names
from ekiden.shared.policy.engine import Policy
from ekiden.shared.policy.policies import agents_policy
from ekiden.shared.policy.tool_use import ToolUse

FOREIGN = sorted((Path(__file__).parent / "foreign").glob("*.md"))
ALL, SAFE = sorted(BUILTIN_TOOLS - MEMORY_TOOLS), sorted(SAFE_TOOLS)
CHANGES = {"delete_file", "edit_file", "write_file"}
READS = {"read_file", "read_many_files"}
RISKY = set(ALL) - set(SAFE)
ELSE = sorted(set(ALL) - {"bash", *CHANGES})
"""What is left without commands and without changes of files."""


def said(agent: AgentDefinition, word: str) -> list[str]:
    """The tools that a line ``word: …`` at the end of the body names."""
    lines = agent.instructions.splitlines()
    return [tool for line in lines if line.startswith(f"{word}: ") for tool in line.removeprefix(f"{word}: ").split()]


def permitted(**fields: Any) -> list[str]:
    """The tools of an agent that would have all of them but for the other fields."""
    agent = read_definition({"name": "x", "description": "d", "tools": "*", **fields}, "You work.").definition
    return [tool for tool in ALL if agent.permits(tool)]


def test_there_are_files_of_every_program() -> None:
    assert len(FOREIGN) > 15


@pytest.mark.parametrize("file", FOREIGN, ids=lambda path: path.stem)
def test_no_file_is_widened_and_each_keeps_what_it_allows(file: Path) -> None:
    agent, problems = load_file(file, "project")
    assert agent is not None, problems
    assert said(agent, "Must not")
    assert [tool for tool in said(agent, "Must not") if agent.permits(tool)] == []
    assert [tool for tool in said(agent, "Asks") if tool not in agent.rules.ask] == []
    assert [tool for tool in said(agent, "May") if not agent.permits(tool)] == []
    narrowed = agent.tools.narrowed if agent.tools else ()
    told = [problem.message for problem in problems if problem.aspect == "tools" and problem.line]
    assert [text for text in narrowed if text not in told] == [], "what cannot be kept is told, with its line"


@pytest.mark.parametrize(
    ("permission", "tools"),
    [
        ("allow", ALL),
        ("ask", ALL),
        ("Deny", []),
        ({"edit": "deny"}, [tool for tool in ALL if tool not in CHANGES]),
        ({"write": "deny"}, [tool for tool in ALL if tool not in CHANGES]),
        ({"list": "deny"}, [tool for tool in ALL if tool != "ls"]),
        ({"BASH": "deny"}, [tool for tool in ALL if tool != "bash"]),
        ({"b*": "deny"}, [tool for tool in ALL if tool != "bash"]),
        ({"bash": {"*": "deny", "git *": "allow"}}, [tool for tool in ALL if tool != "bash"]),
        ({"bash": {"*": "allow", "rm *": "ask"}}, ALL),
        ({"read": {"*": "allow", "*.env": "deny"}}, [tool for tool in ALL if tool not in READS]),
        ({"read": "ask", "grep": {"*": "ask"}}, ALL),
        ({"*": "deny", "read": "allow"}, ["read_file"]),
        ({"read": "allow", "*": "deny"}, []),
        ({"*": "ask", "edit": "allow"}, ALL),
        ({"edit": "deny", "*": "allow"}, [tool for tool in ALL if tool not in CHANGES]),
        ({"external_directory": "deny"}, [tool for tool in ALL if tool != "bash"]),
        ({"edit": "sometimes"}, SAFE),
        ({"edit": "sometimes", "read": "deny"}, [tool for tool in SAFE if tool not in READS]),
        ({"edit": "sometimes", "*": "deny"}, []),
        ({"bash,edit": "deny"}, ELSE),
        ({"bash|edit": "ask"}, ALL),
        ({"all": "deny"}, []),
        ({"edit": False}, SAFE),
        ({"edit": {}}, SAFE),
        ({}, ALL),
        ([{"action": "edit", "resource": "*", "effect": "deny"}], [tool for tool in ALL if tool not in CHANGES]),
        ([{"action": "shell", "resource": "rm *", "effect": "ask"}], ALL),
        ([{"action": "*", "effect": "deny"}, {"action": "read", "effect": "allow"}], ["read_file"]),
        ([{"action": "edit"}], SAFE),
        ([{"tool": ["bash", "edit"], "effect": "deny"}], ELSE),
        ([{"action": ["bash", {"a": 1}], "effect": "deny"}], SAFE),
        ([3], SAFE),
        (["read", "bash"], ["bash", "read_file"]),
        (["*", "!bash"], SAFE),
        (["*", "except", "bash"], SAFE),
        (["all but bash"], []),
        (7, SAFE),
    ],
)
@pytest.mark.parametrize("key", ["permission", "permissions"])
def test_permissions_take_away_in_every_form(key: str, permission: Any, tools: list[str]) -> None:
    assert permitted(**{key: permission}) == tools


@pytest.mark.parametrize(
    ("fields", "asked"),
    [
        ({"permission": "ask"}, ALL),
        ({"permission": {"bash": "ask"}}, ["bash"]),
        ({"permission": {"bash": {"*": "allow", "rm *": "ask"}}}, ["bash"]),
        ({"permission": {"bash|edit": "ask"}}, ["bash", *sorted(CHANGES)]),
        ({"permission": {"read": "ask", "grep": {"*": "ask"}}}, ["grep", *sorted(READS)]),
        ({"permission": {"*": "ask", "edit": "allow"}}, [tool for tool in ALL if tool != "edit_file"]),
        ({"permission": {"*": "deny", "bash": "ask"}}, ["bash"]),
        ({"permission": {"external_directory": "ask"}}, ["bash"]),
        ({"permission": [{"action": "shell", "resource": "rm *", "effect": "ask"}]}, ["bash"]),
        ({"permissionMode": "ask"}, [tool for tool in ALL if tool not in SAFE]),
        ({"bash": "ask"}, ["bash"]),
        ({"canWrite": "ask"}, [tool for tool in ALL if tool not in SAFE]),
        ({"permission": {"bash": "deny", "edit": "ask"}}, sorted(CHANGES)),
    ],
)
def test_what_its_author_wants_to_be_asked_about_is_asked_about_and_nothing_more_is_allowed(
    fields: dict[str, Any], asked: list[str]
) -> None:
    agent = read_definition({"name": "a", "description": "d", "tools": "*", **fields}, "p").definition
    policy = agents_policy(Policy(auto_approve=frozenset({"safe", "low", "medium"})), agent)
    allowed = [tool for tool in ALL if agent.permits(tool)]
    assert [tool for tool in allowed if policy.decide(ToolUse(tool, agent="a")).verdict == "ask"] == asked


@pytest.mark.parametrize(
    ("settings", "untrusted", "said", "levels"),
    [
        (["safe"], False, ["safe", "low"], {"safe"}),
        ([], False, ["low", "medium"], {"medium"}),
        (["safe", "low"], False, ["safe", "low", "high"], {"safe", "low", "high"}),
        (["safe", "low"], True, ["low", "high"], {"low"}),
        (["safe", "low", "medium"], False, ["safe"], {"safe"}),
    ],
)
def test_a_file_gives_no_level_back_that_nobody_was_asked_to_grant(
    settings: list[Any], untrusted: bool, said: list[str], levels: set[str]
) -> None:
    fields = {"name": "a", "description": "d", "autoApprove": said}
    agent = read_definition(fields, "p").definition.model_copy(update={"untrusted": untrusted})
    assert agents_policy(Policy(auto_approve=frozenset(settings)), agent).auto_approve == levels


def test_permissions_give_nothing() -> None:
    assert permitted(tools=["ls"], permission={"bash": "allow", "*": "allow"}) == ["ls"]
    assert permitted(tools=None, permission={"bash": "allow"}) == SAFE


@pytest.mark.parametrize("mode", ["plan", "dontAsk", "auto", "read-only", "never heard of", {"a": 1}, True])
def test_a_mode_that_restricts_or_that_nobody_knows_leaves_safe_tools(mode: Any) -> None:
    assert permitted(permissionMode=mode) == SAFE


@pytest.mark.parametrize(
    "mode", ["plan", "plan-only", "Plan Mode", "PLANNING", "ask", "readonly", "Read-Only!", "dontAsk"]
)
def test_a_mode_in_general_that_restricts_leaves_safe_tools(mode: str) -> None:
    assert permitted(mode=mode) == permitted(Mode=mode) == SAFE


@pytest.mark.parametrize("mode", ["default", "acceptEdits", "bypassPermissions", None])
def test_a_mode_that_restricts_no_more_than_none_at_all_changes_nothing(mode: Any) -> None:
    assert permitted(permissionMode=mode, permission_mode=mode) == ALL


PROMPT = {"type": "prompt", "prompt": "Is it safe?"}
NO_BASH = [tool for tool in ALL if tool != "bash"]


@pytest.mark.parametrize(
    ("hooks", "tools"),
    [
        (
            {"PreToolUse": [{"matcher": "Write|Edit", "hooks": [PROMPT]}]},
            [t for t in ALL if t not in (*CHANGES, "write_todos")],
        ),  # TodoWrite
        ({"PreToolUse": [{"matcher": "Read", "hooks": [PROMPT]}]}, ALL),  # reading is safe
        ({"PreToolUse": [{"matcher": "mcp__.*", "hooks": [PROMPT]}]}, SAFE),
        ({"PreToolUse": [{"matcher": "", "hooks": [PROMPT]}]}, SAFE),
        ({"PreToolUse": {"matcher": "*", "hooks": PROMPT}}, SAFE),
        ({"PreToolUse": [{"matcher": "Bash", "hooks": [{"command": "x", "if": "Bash(git *)"}]}]}, NO_BASH),
        ({"PermissionRequest": [{"command": "x"}]}, SAFE),
        ({"BeforeTool": [{"matcher": "bash", "command": "./x"}]}, NO_BASH),
        ({"BeforeTool": [{"matcher": "bash", "command": 'sh "$CLAUDE_PROJECT_DIR"/x'}]}, NO_BASH),
        ({"BeforeTool": []}, ALL),
        ({"PostToolUse": [{"matcher": "Bash", "hooks": [PROMPT]}]}, ALL),
    ],
)
def test_what_a_hook_would_look_at_beforehand_that_does_not_run_here_is_left_out(hooks: Any, tools: list[str]) -> None:
    assert permitted(hooks=hooks) == tools
    assert permitted(Hooks=hooks) == SAFE, "nobody reads it by that name"


def test_what_a_command_looks_at_beforehand_stays() -> None:
    assert permitted(hooks={"BeforeTool": [{"matcher": "bash", "command": "x"}]}) == ALL
    assert permitted(hooks={"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "x"}]}]}) == ALL


@pytest.mark.parametrize(
    "key",
    [
        "readonly",
        "read_only",
        "readOnly",
        "sandbox",
        "sandbox-mode",
        "allowedPaths",
        "approval",
        "isolation",
        "restrictTo",
        "toolsSettings",
        "blocked_commands",
        "after_untrusted",
        "forbid",
        "require_review",
        "human_in_the_loop",
        "ask_before_run",
        "no_bash",
        "权限",
    ],
)
def test_a_field_that_seems_to_restrict_leaves_safe_tools_unless_it_is_empty(key: str) -> None:
    assert permitted(**{key: "yes"}) == SAFE
    assert permitted(**{key: False}) == permitted(**{key: None}) == ALL


@pytest.mark.parametrize(
    ("value", "tools"),
    [
        ({"readonly": True}, SAFE),
        ({"claude": {"disallowedTools": "Bash"}}, SAFE),
        ({"author": "me", "readonly": False}, ALL),
        ({"a": {"b": {"c": {"d": {"readonly": True}}}}}, SAFE),
    ],
)
def test_what_restricts_within_a_field_that_nobody_knows_is_not_lost(value: Any, tools: list[str]) -> None:
    assert permitted(custom=value) == tools


@pytest.mark.parametrize("said", [False, "no", "off", "Never", "deny"])
@pytest.mark.parametrize(
    ("key", "lost"),
    [
        ("bash", {"bash"}),
        ("Shell", {"bash"}),
        ("run-command", {"bash"}),
        ("write", CHANGES),
        ("read", READS),
        ("writable", RISKY),
        ("canWrite", RISKY),
        ("can_execute", RISKY),
        ("allowShell", RISKY),
        ("is-editable", RISKY),
    ],
)
def test_a_field_that_permits_and_says_no_takes_away(key: str, lost: set[str], said: Any) -> None:
    assert permitted(**{key: said}) == [tool for tool in ALL if tool not in lost]


@pytest.mark.parametrize("key", ["bash", "write", "writable", "canWrite"])
def test_a_field_that_permits_and_says_yes_gives_nothing(key: str) -> None:
    assert permitted(tools=["ls"], **{key: True}) == ["ls"]
    assert permitted(**{key: True}) == permitted(**{key: None}) == ALL


@pytest.mark.parametrize(
    ("fields", "network"),
    [
        ({}, None),
        ({"network": True}, True),
        ({"network": False}, False),
        ({"network": "no"}, False),
        ({"network": True, "Network": False}, False),
        ({"Network": "off", "network": True}, False),
    ],
)
def test_whether_commands_reach_a_network_is_a_yes_or_a_no_and_no_wins(fields: Any, network: bool | None) -> None:
    agent = read_definition({"name": "x", "description": "d", **fields}, "You work.").definition
    assert agent.rules.network is network
    assert AgentDefinition.from_json(agent.to_json()).rules.network is network
    assert "network" not in agent.extra


def test_a_network_gives_no_tools_and_other_words_of_it_are_errors() -> None:
    assert permitted(network=True, tools=["ls"]) == ["ls"]
    for word in ("restricted", ["example.org"], 1, {"allow": "*"}):
        with pytest.raises(AgentFileError, match="'network': must be true or false"):
            permitted(network=word)


@pytest.mark.parametrize("key", ["cancel", "credits", "verbose", "background", "user-invocable", "isolated"])
def test_a_field_about_something_else_may_say_no(key: str) -> None:
    assert permitted(**{key: False}) == ALL


@pytest.mark.parametrize("key", ["color", "skills", "effort", "author", "mode", "tags", "initialPrompt"])
def test_a_field_about_something_else_changes_nothing(key: str) -> None:
    assert permitted(**{key: "subagent"}) == ALL


@pytest.mark.parametrize("key", ["excludeTools", "exclude-tools", "deniedTools", "forbidden_tools", "disabledTools"])
def test_forbidden_tools_have_many_names(key: str) -> None:
    assert permitted(**{key: "Bash Write"}) == [tool for tool in ALL if tool not in {"bash", *CHANGES}]


def test_a_restriction_is_told_by_its_own_line(tmp_path: Path) -> None:
    (file := tmp_path / "a.md").write_text("---\nname: a\ndescription: d\ntools: Bash\npermissionMode: plan\n---\nB\n")
    _, [problem] = load_file(file, "project")
    assert (problem.line, problem.severity, problem.aspect) == (5, "warning", "tools")
    assert problem.message.startswith("'permissionMode' is 'plan': the agent has no tool beyond the safe ones")


def test_what_forbids_and_cannot_be_read_at_all_is_an_error() -> None:
    with pytest.raises(AgentFileError) as caught:
        permitted(permission={"x" * 501: "deny"})
    assert caught.value.field == "permission"


@pytest.mark.parametrize(
    ("name", "forbidden"),
    [
        ("bash", ["bash"]),
        ("Write", ["delete_file", "edit_file", "write_file"]),
        ("search", ["grep", "search"]),
        ("WebFetch", ["web_fetch"]),
        ("*", ["*"]),
        ("mcp__github__merge", ["mcp__github__merge", "mcp.github.merge"]),
        ("mcp_github_merge", ["mcp_github_merge", "mcp.github?merge"]),
        ("github_*", ["github_*", "mcp.github?*"]),
    ],
)
def test_a_name_forbids_all_that_it_can_mean(name: str, forbidden: list[str]) -> None:
    assert forbidden_names(name) == forbidden
