"""The forms in which rules are written: gemini-cli's, Claude Code's, our own; and what becomes of those with faults."""

from pathlib import Path
from typing import Any

import pytest

from ekiden.shared.policy.claude_rules import read_permissions
from ekiden.shared.policy.engine import Policy
from ekiden.shared.policy.rule_files import Loaded
from ekiden.shared.policy.setting_rules import read_setting_rules
from ekiden.shared.policy.toml_rules import read_toml_rules
from ekiden.shared.policy.tool_use import ToolUse


def use(tool: str, cwd: Path = Path("/work"), **args: Any) -> ToolUse:
    return ToolUse(tool, args, "coder", cwd=cwd)


def verdict(loaded: Loaded, of: ToolUse) -> str:
    return Policy(loaded.safe.rules).decide(of).verdict


def toml(text: str) -> Loaded:
    return read_toml_rules(text, "x.toml")


SHELL = 'toolName = "run_shell_command"\n'
ALLOWS = (
    '[[rule]]\ntoolName = "run_shell_command"\ncommandPrefix = ["git status", "ls"]\ndecision = "allow"\npriority = 5\n'
)


@pytest.mark.parametrize(
    ("rule", "of", "expected"),
    [
        ('commandPrefix = "git"\ndecision = "deny"', use("bash", command="ls; git push"), "deny"),
        (f'{SHELL}commandPrefix = "git"\ndecision = "ask_user"', use("bash", command="git x"), "ask"),
        (f'{SHELL}commandPrefix = ["a", "b"]\ndecision = "allow"', use("bash", command="b c; a"), "allow"),
        ('commandRegex = "git (commit|push)"\ndecision = "deny"', use("bash", command="true && git push x"), "deny"),
        ('commandRegex = "git (log|show)"\ndecision = "allow"', use("bash", command="git log -3"), "allow"),
        ('commandRegex = "git (log|show)"\ndecision = "allow"', use("bash", command="git logx"), "ask"),
        ('commandRegex = "git log"\ndecision = "allow"', use("bash", command="git log; rm x"), "ask"),
        ('toolName = ["write_file", "replace"]\ndecision = "deny"', use("edit_file", path="a"), "deny"),
        ('toolName = "*"\ndecision = "deny"', use("mcp.a.b"), "deny"),
        ('mcpName = "my-server"\ndecision = "deny"', use("mcp.my-server.x"), "deny"),
        ('mcpName = "my-server"\ntoolName = "y"\ndecision = "deny"', use("mcp.my-server.x"), "ask"),
        ('mcpName = "*"\ntoolName = "x"\ndecision = "allow"', use("mcp.my-server.x"), "allow"),
        ('toolName = "mcp_srv_*"\ndecision = "allow"', use("mcp.srv.x"), "allow"),
        ('toolName = "mcp_my_srv_x"\ndecision = "deny"', use("mcp.my_srv.x"), "deny"),
        ('subagent = "coder"\ndecision = "deny"', use("x"), "deny"),
        ('subagent = "other"\ndecision = "deny"', use("x"), "ask"),
        ('argsPattern = \'"path":"/etc\'\ndecision = "deny"', use("x", path="/etc/y"), "deny"),
        ('toolName = "x"\nargsPattern = \'"path":"src/\'\ndecision = "allow"', use("x", path="src/y"), "ask"),
        ('toolAnnotations = { readOnlyHint = true }\ndecision = "allow"', use("x"), "ask"),
        ('toolAnnotations = { destructiveHint = true }\ndecision = "deny"', use("x"), "deny"),
        ('decision = "deny"\nmodes = ["plan"]', use("x"), "ask"),
        ('toolName = "x"\ndecision = "allow"\nmodes = ["yolo"]', use("x"), "ask"),
        ('decision = "deny"\nmodes = ["plan", "default"]', use("x"), "deny"),
        ('decision = "deny"\ninteractive = false', use("x"), "ask"),
        ('decision = "deny"\ninteractive = true', use("x"), "deny"),
    ],
)  # fmt: skip
def test_gemini_clis_rules_mean_here_what_they_mean_there(rule: str, of: ToolUse, expected: str) -> None:
    loaded = toml(f"[[rule]]\n{rule}\npriority = 100\n")
    assert loaded.problems == ()
    assert verdict(loaded, of) == expected


def test_a_permission_by_the_text_of_all_arguments_is_told_and_allows_nothing() -> None:
    loaded = toml('[[rule]]\ntoolName = "x"\nargsPattern = "safe"\ndecision = "allow"\npriority = 1\n')
    assert loaded.rules == ()
    assert loaded.notes[0].startswith("x.toml:1: rule 1: it allows by 'argsPattern'")


def test_the_reason_of_a_rule_is_what_people_and_models_read() -> None:
    loaded = toml('[[rule]]\ntoolName = "x"\ndecision = "deny"\npriority = 1\ndenyMessage = "Deletion is permanent"\n')
    assert Policy(loaded.rules).decide(use("x")).reason == "rule 1 of x.toml: Deletion is permanent"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[[rule]\n", "x.toml:1: no valid TOML"),
        ("rules = []\n", "x.toml:1: 'rules' is not understood"),
        (
            '[[rule]]\ndecision = "deny"\npriority = 1\n\n[[rule]]\ndecision = "denied"\n',
            "x.toml:5: rule 3: 'decision'",
        ),
        ('[[rule]]\ndecision = "deny"\nwhenever = 1\n', "x.toml:1: rule 2: 'whenever' is no field of a rule"),
        ('[[rule]]\ndecision = "deny"\npriority = 1000\n', "x.toml:1: rule 2: 'priority'"),
        ('[[rule]]\ndecision = "deny"\nargsPattern = "(?=x)"\n', "x.toml:1: rule 2: pattern '(?=x)' is not"),
        ('[[rule]]\ndecision = "deny"\ncommandRegex = "("\n', "x.toml:1: rule 2: pattern '(' is not"),
        (
            '[[rule]]\ntoolName = "x"\ndecision = "deny"\ncommandPrefix = "a"\n',
            "x.toml:1: rule 2: commands are those of one",
        ),
        ('[[safety_checker]]\ntoolName = "*"\n', "x.toml:1: safety checker 1: safety checkers"),
        ('[[rule]]\ntoolName = "x"\ndecision = "allow"\nargsPatern = "y"\n', "x.toml:1: rule 2: 'argsPatern'"),
        ('[[rule]]\ndecision = "allow"\ncommandPrefix = "git $x"\n', "x.toml:1: rule 2: 'git $x' is not the beginning"),
        (
            '[[rule]]\ndecision = "deny"\ntoolAnnotations = { niceHint = true }\n',
            "x.toml:1: rule 2: the annotation 'niceHint'",
        ),
    ],
)
def test_a_fault_is_told_with_its_line_and_allows_nothing(text: str, place: str) -> None:
    loaded = toml(ALLOWS.replace("[[rule]]", "[[rule]]", 1) + text) if "]]" in text else toml(text)
    lines = ALLOWS.count("\n")
    file, line, rest = place.split(":", 2)
    expected = f"{file}:{int(line) + lines}:{rest}" if "]]" in text else place
    assert loaded.problems[0].startswith(expected)
    assert "Until it is mended" in loaded.problems[0]
    assert verdict(loaded, use("bash", command="git status")) in ("ask", "deny")


@pytest.mark.parametrize(
    ("text", "asked", "free"),
    [
        ("[[rule]\n", ["read_file", "edit_file"], []),
        ('[[rule]]\ntoolName = "replace"\ndecision = "dney"\n', ["edit_file"], ["read_file"]),
        ('[[rule]]\ndecision = "dney"\n', ["read_file"], []),
        ('[[rule]]\ntoolName = 3\ndecision = "deny"\n', ["read_file"], []),
        ('[[rule]]\ntoolName = "x"\ndecision = "allow"\nx = 1\n', [], ["read_file", "edit_file"]),
    ],
)
def test_what_a_rule_with_a_fault_might_have_restricted_is_asked_about(
    text: str, asked: list[str], free: list[str]
) -> None:
    policy = Policy(toml(text).safe.rules)
    assert [tool for tool in asked if policy.decide(ToolUse(tool, tool_risk="low")).verdict != "ask"] == []
    assert [tool for tool in free if policy.decide(ToolUse(tool, tool_risk="low")).verdict != "allow"] == []


def permissions(base: Path = Path("/work"), **lists: Any) -> Loaded:
    return read_permissions(lists, "settings.json", base, lambda inside: f"settings.json, {list(inside)}")


@pytest.mark.parametrize(
    ("entry", "of", "is_meant"),
    [
        ("Bash", use("bash", command="ls"), True),
        ("Bash(*)", use("bash", command="ls"), True),
        ("Bash(npm run build)", use("bash", command="npm run build"), True),
        ("Bash(npm run build)", use("bash", command="npm run build -v"), False),
        ("Bash(npm run test:*)", use("bash", command="npm run test unit"), True),
        ("Bash(npm run test:*)", use("bash", command="npm run testing"), False),
        ("Bash(git * main)", use("bash", command="git push origin main"), True),
        ("Read", use("grep", pattern="x"), True),
        ("Read(./.env)", use("read_file", path=".env"), True),
        ("Read(./.env)", use("read_file", path="a/../.env"), True),
        ("Read(./.env)", use("read_file", path="a/.env"), False),
        ("Read(.env)", use("read_file", path="a/.env"), True),
        ("Read(./secrets/**)", use("read_file", path="/work/secrets/a/b"), True),
        ("Read(secrets)", use("read_file", path="x/secrets/a"), True),
        ("Read(//etc/passwd)", use("read_file", path="/etc/passwd"), True),
        ("Read(~/.ssh/**)", use("read_file", path=str(Path.home() / ".ssh/id")), True),
        ("Edit(src/**)", use("edit_file", path="src/a.py"), True),
        ("Edit(src/**)", use("edit_file", path="src/../b.py"), False),
        ("Edit(/src/**)", use("write_file", file_path="src/a.py"), True),
        ("Write(src/**)", use("edit_file", path="test/a.py"), False),
        ("WebFetch(domain:example.com)", use("web_fetch", url="https://example.com/x"), True),
        ("WebFetch(domain:example.com)", use("web_fetch", url="https://other.org/"), False),
        ("WebFetch", use("web_fetch", url="https://other.org/"), True),
        ("mcp__github__push", use("mcp.github.push"), True),
        ("mcp__github__push", use("mcp.github.pull"), False),
        ("mcp__github", use("mcp.github.pull"), True),
        ("mcp__github__*", use("mcp.github.pull"), True),
    ],
)
def test_claude_codes_patterns_allow_and_deny_what_they_mean(entry: str, of: ToolUse, is_meant: bool) -> None:
    assert verdict(permissions(deny=[entry], allow=[]), of) == ("deny" if is_meant else "ask")
    assert verdict(permissions(allow=[entry]), of) == ("allow" if is_meant else "ask")


def test_hosts_are_not_mistaken() -> None:
    allows = permissions(allow=["WebFetch(domain:example.com)"])
    for url in ("https://example.com.evil.org/", "https://evil.org/?example.com", "https://example.com@evil.org/", "x"):
        assert verdict(allows, use("web_fetch", url=url)) == "ask"
    denies = permissions(deny=["WebFetch(domain:example.com)"])
    for url in ("https://www.example.com/", "HTTPS://EXAMPLE.COM", "https://a@example.com:8443/"):
        assert verdict(denies, use("web_fetch", prompt=f"see {url}")) == "deny"


def test_links_lead_to_what_is_denied_and_out_of_what_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / ".env").write_text("x")
    (tmp_path / "src" / "link").symlink_to(tmp_path / ".env")
    denies, allows = permissions(tmp_path, deny=["Read(./.env)"]), permissions(tmp_path, allow=["Edit(src/**)"])
    assert verdict(denies, use("read_file", tmp_path, path="src/link")) == "deny"
    assert verdict(allows, use("edit_file", tmp_path, path="src/link")) == "ask"
    assert verdict(denies, use("grep", tmp_path, pattern="x", path=".")) == "deny"
    assert verdict(denies, use("grep", tmp_path, pattern="x", path="src/none")) == "ask"


@pytest.mark.parametrize(
    ("lists", "of", "expected"),
    [
        ({"deny": ["Bash(rm:*"]}, use("bash", command="ls"), "ask"),
        ({"deny": ["Bash(ls)x"]}, use("bash", command="ls"), "ask"),
        ({"deny": ["mcp__a__b(x)"]}, use("mcp.a.b"), "ask"),
        ({"deny": "Bash"}, use("x"), "ask"),
        ({"deny": [3]}, use("x"), "ask"),
        ({"denied": ["Bash"]}, use("x"), "ask"),
        ({"allow": ["Bash(ls", "Edit"]}, use("edit_file", path="x"), "ask"),
        ({"defaultMode": "plan", "allow": ["Edit"]}, use("edit_file", path="x"), "ask"),
        ({"defaultMode": "bypassPermissions"}, use("bash", command="ls"), "ask"),
    ],
)
def test_what_nobody_can_read_of_permissions_is_asked_about(lists: Any, of: ToolUse, expected: str) -> None:
    assert verdict(permissions(**lists), of) == expected


def ours(*rules: Any) -> Loaded:
    return read_setting_rules(list(rules), "setting policy.rules", None, lambda inside: f"x.json, {list(inside)}")


@pytest.mark.parametrize(
    ("rule", "of", "expected"),
    [
        ({"tool": "bash", "decision": "deny"}, use("bash", command="ls"), "deny"),
        ({"command": "git status", "decision": "allow"}, use("bash", command="git status -s"), "allow"),
        ({"command": ["ls", "git *"], "decision": "allow"}, use("bash", command="git log; ls"), "allow"),
        ({"tool": "Edit", "args": {"path": "src/**"}, "decision": "allow"}, use("edit_file", path="src/a"), "allow"),
        ({"tool": "Edit", "args": {"path": "src/**"}, "decision": "allow"}, use("edit_file", path="b"), "ask"),
        ({"tool": "x", "args": {"branch": "main"}, "decision": "deny"}, use("x", branch="main", title="ok"), "deny"),
        ({"tool": "x", "args": {"branch": ["a*", "b"]}, "decision": "allow"}, use("x", branch="abc"), "allow"),
        ({"tool": "x", "args": {"n": 1}, "decision": "allow"}, use("x", n=True), "ask"),
        ({"tool": "x", "args": {"n": [1, 2]}, "decision": "allow"}, use("x", n=2), "allow"),
        ({"tool": "x", "args": {"branch": "dev"}, "decision": "allow"}, use("x", title="dev"), "ask"),
        ({"risk": "medium", "decision": "deny"}, use("x"), "deny"),
        ({"risk": ["high"], "decision": "deny"}, use("x"), "ask"),
        ({"agent": "cod*", "decision": "deny"}, use("x"), "deny"),
        ({"annotations": {"read_only": False}, "decision": "deny"}, use("x"), "deny"),
        ({"tool": "Bash", "decision": "ask_user"}, use("bash", command="ls"), "ask"),
    ],
)
def test_our_own_rules(rule: Any, of: ToolUse, expected: str) -> None:
    loaded = ours(rule)
    assert loaded.problems == ()
    assert verdict(loaded, of) == expected


def test_a_question_says_who_decides_and_how_long() -> None:
    loaded = ours({"decision": "ask", "approvers": ["ann"], "separate": True, "timeout": "10m", "reason": "why"})
    decision = Policy(loaded.rules).decide(use("x"))
    assert (decision.approvers, decision.separate, decision.timeout_s) == (("ann",), True, 600)
    assert decision.reason == "rule 1 of setting policy.rules: why"


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ({"decision": "deny", "tol": "x"}, "'tol' is no field of a rule"),
        ({"tool": "x"}, "'decision': is missing"),
        ({"decision": "allow", "timeout": 3}, "for questions"),
        ({"decision": "deny", "tool": ["bash", "x"], "command": "ls"}, "a command is one of the tool 'bash'"),
        ({"decision": "allow", "tool": "x", "command": "ls"}, "a command is one of the tool 'bash'"),
        ({"decision": "allow", "tool": "bash", "args": {"command": "git*"}}, "allowed by its words"),
        ({"decision": "allow", "command": "ls | rm"}, "not the beginning of one simple command"),
        ({"decision": "ask", "timeout": "soon"}, "'timeout'"),
        ("deny everything", "object"),
    ],
)
def test_a_fault_in_one_of_our_rules_names_it_and_allows_nothing(rule: Any, problem: str) -> None:
    loaded = ours({"tool": "y", "decision": "allow"}, rule)
    assert loaded.problems[0].startswith("x.json, [1]: rule 2 of policy.rules: ")
    assert problem in loaded.problems[0]
    assert verdict(loaded, use("y")) == "ask"
