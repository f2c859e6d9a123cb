"""Rules that a folder brings: what they deny and ask about counts at once, what they allow by its user's word."""

import os
from pathlib import Path

import pytest

from ekiden.shared.policy.policies import operators_policy, policy_in
from ekiden.shared.policy.tool_use import ToolUse
from ekiden.shared.project_trust import project_trust_of
from ekiden.shared.settings.files import change_setting, global_file, project_file
from ekiden.shared.settings.model import load_settings
from ekiden.shared.trust.store import remember

TOML = '[[rule]]\ntoolName = "{tool}"\ndecision = "{decision}"\npriority = 1\n'


@pytest.fixture(autouse=True)
def usual_levels(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Medium is asked about."""
    monkeypatch.delenv("EKIDEN_AUTO_APPROVE")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def verdict(tool: str = "x", **args: str) -> str:
    return policy_in(load_settings(), Path.cwd()).decide(ToolUse(tool, args, cwd=Path.cwd())).verdict


def trust(project: Path) -> None:
    remember(project, granted=project_trust_of(project).wanted)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (".gemini/policies/a.toml", TOML),
        (".claude/settings.json", '{{"permissions": {{"{decision}": ["{tool}"]}}}}'),
        (".claude/settings.local.json", '// mine\n{{"permissions": {{"{decision}": ["{tool}"]}}}}'),
        (".gemini/settings.json", '{{"permissions": {{"{decision}": ["{tool}"]}}}}'),
        (".gemini/settings.json", '{{"policy": {{"rules": [{{"tool": "{tool}", "decision": "{decision}"}}]}}}}'),
    ],
)
def test_a_folders_denials_count_at_once_and_its_permissions_once_granted(
    name: str, text: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(project / name, text.format(tool="x", decision="deny"))
    assert verdict() == "deny"
    assert "ignored" not in capsys.readouterr().err
    write(project / name, text.format(tool="x", decision="allow"))
    assert verdict() == "ask"
    assert "is not trusted: ignored what " in capsys.readouterr().err
    trust(project)
    assert verdict() == "allow"
    write(project / name, text.format(tool="*", decision="allow"))
    assert verdict() == "ask", "other permissions are another right"


def test_a_trusted_folder_beats_no_denial_and_no_question_of_the_user(project: Path) -> None:
    write(Path.home() / ".gemini/policies/mine.toml", TOML.format(tool="x", decision="deny"))
    write(project / ".gemini/policies/a.toml", TOML.format(tool="*", decision="allow"))
    trust(project)
    assert verdict("y") == "allow"
    assert verdict("x") == "deny"
    change_setting(global_file(), "policy.rules", [{"tool": "y", "decision": "ask"}])
    change_setting(project_file(), "policy.rules", [{"tool": "y", "decision": "allow"}])
    trust(project)
    assert verdict("y") == "ask"


def test_the_users_own_files_and_settings_need_no_trust(project: Path) -> None:
    write(Path.home() / ".gemini/policies/mine.toml", TOML.format(tool="x", decision="allow"))
    change_setting(global_file(), "permissions", {"allow": ["Bash(ls:*)"]})
    assert verdict("x") == "allow"
    assert verdict("bash", command="ls -l") == "allow"
    assert project_trust_of(project).wanted == ()


def test_named_files_stand_in_the_place_of_the_usual_folder(project: Path, tmp_path: Path) -> None:
    write(Path.home() / ".gemini/policies/mine.toml", TOML.format(tool="x", decision="allow"))
    write(tmp_path / "rules/other.toml", TOML.format(tool="y", decision="allow"))
    change_setting(global_file(), "policy.files", [str(tmp_path / "rules")])
    assert (verdict("x"), verdict("y")) == ("ask", "allow")


def test_a_folder_names_no_further_files(project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(Path.home() / ".gemini/policies/mine.toml", TOML.format(tool="x", decision="deny"))
    change_setting(project_file(), "policy.files", [str(tmp_path / "none")])
    trust(project)
    assert verdict("x") == "deny"
    assert "a project's rules stand in .gemini/policies" in capsys.readouterr().err


def test_a_folder_narrows_the_levels_that_run_unasked_and_widens_them_once_granted(project: Path) -> None:
    change_setting(project_file(), "autoApprove", ["safe", "medium"])
    assert policy_in(load_settings(), project).auto_approve == {"safe"}
    trust(project)
    assert policy_in(load_settings(), project).auto_approve == {"safe", "medium"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (".gemini/policies/a.toml", "[[rule]\n"),
        (".claude/settings.json", "{"),
        (".claude/settings.json", '{"permissions": ["Bash"]}'),
        (".claude/settings.json", "[]"),
        (".gemini/settings.json", '{"policy": {"rules": "none"}}'),
        (".gemini/policies/a.toml", "# " + "x" * 1_000_001),
    ],
)
def test_what_cannot_be_read_of_a_folder_is_asked_about_whoever_trusts_it(
    name: str, text: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project / name, text)
    monkeypatch.setenv("EKIDEN_TRUST", "1")
    policy = policy_in(load_settings(), project)
    assert policy.decide(ToolUse("read_file", tool_risk="safe")).verdict == "ask"
    assert len(policy.problems) == 1


def test_a_device_a_folder_and_a_dead_link_are_told_and_asked_about(project: Path) -> None:
    policies = project / ".gemini/policies"
    (policies / "b.toml").mkdir(parents=True)
    os.mkfifo(policies / "a.toml")
    (policies / "c.toml").symlink_to("/nowhere")
    policy = policy_in(load_settings(), project)
    assert [problem.rpartition("/")[2][:8] for problem in policy.problems] == ["a.toml:1", "b.toml:1", "c.toml:1"]
    assert policy.decide(ToolUse("ls", tool_risk="safe")).verdict == "ask"


def test_settings_of_the_operator_that_cannot_be_read_widen_nothing(project: Path) -> None:
    change_setting(global_file(), "policy.rules", [{"tool": "x", "decision": "deyn"}])
    assert verdict("read_file") == "ask"
    said = f"{global_file()}:4: rule 1 of policy.rules: 'decision'"
    assert operators_policy(load_settings()).problems[0].startswith(said)


def test_a_rule_that_cannot_be_read_is_told_with_its_file_and_line_wherever_it_stands(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = (
        '{\n  // ours\n  "policy": {"rules": [\n    {"tool": "x", "decision": "deny"},\n    {"tool": "x"}\n  ]}\n}\n'
    )
    write(project / ".gemini/settings.json", rules)
    lists = (
        '{\n  "permissions": {\n    "deny": [\n      "Bash(ls)",\n      "Web Fetch"\n    ],\n    "never": []\n  }\n}\n'
    )
    write(project / ".claude/settings.json", lists)
    write(project / ".gemini/policies/a.toml", '[[rule]]\ndecision = "deny"\n\n[[rule]]\ndecision = "no"\n')
    monkeypatch.setenv("EKIDEN_POLICY_RULES", '[{"tool": "x", "decision": "no"}]')

    problems = policy_in(load_settings(), project).problems

    told = [problem.replace(f"{project}/", "") for problem in problems]
    assert [one[: one.index("'")] for one in told] == [
        "environment EKIDEN_POLICY_RULES: rule 1 of policy.rules: ",
        ".gemini/policies/a.toml:4: rule 2: ",
        ".claude/settings.json:7: permissions: ",
        ".claude/settings.json:5: permissions.deny ",
        ".gemini/settings.json:5: rule 2 of policy.rules: ",
    ]


def test_an_agent_that_runs_more_unasked_needs_its_users_word(project: Path) -> None:
    agents = project / ".gemini/agents"
    write(agents / "a.md", "---\nname: a\ndescription: d\nautoApprove: [safe, low, medium]\n---\np\n")
    write(agents / "b.md", "---\nname: b\ndescription: d\nauto_approve: safe\n---\np\n")
    assert [(one.subject, one.shown) for one in project_trust_of(project).wanted] == [
        ("agent a", "runs without asking: medium")
    ]
