"""Command lines against rules of commands: what is allowed is understood to its last word."""

import json
import time
from pathlib import Path

import pytest

from ekiden.shared.policy.command_patterns import CommandPattern, exact_command, prefix_command, wildcard_command
from ekiden.shared.policy.decision import Verdict
from ekiden.shared.policy.engine import Policy
from ekiden.shared.policy.rules import Rule
from ekiden.shared.policy.tool_use import ToolUse
from ekiden.shared.risk import Risk

HOSTILE = [json.loads(line) for line in (Path(__file__).parent / "hostile_commands.jsonl").read_text().splitlines()]


def rule(verdict: Verdict, *patterns: CommandPattern, redirects: bool = False) -> Rule:
    return Rule(verdict, "file", f"{verdict} rule", ("bash",), commands=patterns, allows_redirection=redirects)


def allowing(*prefixes: str) -> Rule:
    return rule("allow", *(prefix_command(prefix, restricts=False) for prefix in prefixes))


def denying(*prefixes: str) -> Rule:
    return rule("deny", *(prefix_command(prefix, restricts=True) for prefix in prefixes))


def verdict_on(command: str, *rules: Rule, levels: frozenset[Risk] = frozenset()) -> str:
    return Policy(rules, levels).decide(ToolUse("bash", {"command": command})).verdict


def test_none_of_hundreds_of_hostile_command_lines_passes_an_allow_of_git_status() -> None:
    assert len(HOSTILE) > 700
    allowed = allowing("git status")
    assert [command for command in HOSTILE if verdict_on(command, allowed) == "allow"] == []


@pytest.mark.parametrize(
    "command",
    [
        "git status",
        "git  status\t--short",
        "git status -sb --porcelain=v2",
        "'git' \"status\"",
        "git status -- src 'a b' a\\ b",
        "git status 2>&1",
        "git status 2>/dev/null >/dev/null",
        "git status && git status; git status || git status",
        "git status | git status",
        "git status\n\n# why\ngit status",
        "(git status)",
        "{ git status; }",
        "if git status; then git status; fi",
        "! git status",
        "time git status",
        "timeout -s KILL 10s git status",
        "nice -n 5 nohup git status",
        "LANG=C git status",
        "git status src/*.py",
        'git status "src/$name"',
        "ls -la | wc -l",
        'echo "branch: $(git status -sb)"',
        "git status &",
    ],
)
def test_a_command_line_is_allowed_where_each_of_its_commands_is_and_all_of_it_is_understood(command: str) -> None:
    assert verdict_on(command, allowing("git status", "echo", "wc -l"), allowing("ls")) == "allow"


@pytest.mark.parametrize(
    ("prefix", "command", "verdict"),
    [
        ("find", "find . -name x", "allow"),
        ("find", "find . -exec rm {} +", "ask"),
        ("find", "find . -delete", "ask"),
        ("git", "git log --oneline", "allow"),
        ("git", "git -c core.pager=x log", "ask"),
        ("git", "git log --output=x", "ask"),
        ("git -c core.pager=cat log", "git -c core.pager=cat log -3", "allow"),
        ("git fetch", "git fetch --upload-pack=x", "ask"),
        ("git fetch", "git fetch --upl=x", "ask"),
        ("sort", "sort -o x y", "ask"),
        ("sort", "sort -ro x y", "ask"),
        ("rg", "rg --pre ./x y", "ask"),
        ("npm test", "npm test -- --watch", "allow"),
        ("npm test", "npm tests", "ask"),
        ("sudo", "sudo ls", "ask"),
        ("sudo apt-get", "sudo apt-get update", "allow"),
        ("bash", "bash -c ls", "ask"),
        ("bash -c", "bash -c ls", "ask"),
        ("bash -c ls", "bash -c ls", "allow"),
        ("xargs", "xargs ls", "ask"),
        ("printf", "printf -v PATH x", "ask"),
        ("./run.sh", "./run.sh a", "allow"),
        ("run.sh", "./run.sh a", "ask"),
    ],
)
def test_a_prefix_of_a_program_that_starts_others_says_nothing_of_these(
    prefix: str, command: str, verdict: str
) -> None:
    assert verdict_on(command, allowing(prefix)) == verdict


@pytest.mark.parametrize(
    ("pattern", "command", "verdict"),
    [
        (exact_command("npm run build", restricts=False), "npm run build", "allow"),
        (exact_command("npm run build", restricts=False), "npm run build x", "ask"),
        (wildcard_command("npm run *"), "npm run", "allow"),
        (wildcard_command("npm run *"), "npm run a b", "allow"),
        (wildcard_command("npm run *"), "npm run a; rm b", "ask"),
        (wildcard_command("npm run *"), "npm runx", "ask"),
        (wildcard_command("git * main"), "git push origin main", "allow"),
        (wildcard_command("git * main"), "git -c a=b push main", "ask"),
        (wildcard_command("git * main"), 'git push "a$x" main', "ask"),
    ],
)
def test_whole_commands_and_wildcards(pattern: CommandPattern, command: str, verdict: str) -> None:
    assert verdict_on(command, rule("allow", pattern)) == verdict


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf build",
        "/bin/rm x",
        "RM x",
        "\\rm x",
        "'r'm x",
        "git status; rm x",
        "git status | rm x",
        "echo $(rm x)",
        "echo `rm x`",
        'echo "${x:-$(rm x)}"',
        "cat <(rm x)",
        "cat <<E\n$(rm x)\nE",
        "f() { rm x; }; f",
        "for f in *; do rm $f; done",
        "case a in a) rm x;; esac",
        "FOO=1 rm x",
        "2>/dev/null rm x",
        "0</dev/null rm x",
        "env -i A=1 rm x",
        "sudo -u root rm x",
        "sudo -u root env A=1 nice -n 5 rm x",
        "xargs -n 1 rm",
        "find . -exec rm {} +",
        "find . -type f -okdir rm {} +",
        "bash -c 'ls; rm x'",
        "bash -x -c 'rm x'",
        "bash -c \"bash -c 'rm x'\"",
        "eval rm x",
        "eval 'ls; rm' x",
        "time rm x",
        "coproc rm x",
        "command -p rm x",
        "exec rm x",
        "trap 'rm x' EXIT",
        "alias l='rm x'",
        "timeout 5 rm x",
        "git -c alias.x='!rm x' x",
        "ssh host 'rm x'",
        "rm",
        "rm $x",
        "busybox rm x",
        "if true; then rm x; fi",
        "(rm x) &",
        "a && { b || rm x; }",
    ],
)
def test_a_denial_holds_wherever_the_command_stands(command: str) -> None:
    assert verdict_on(command, denying("rm"), Rule("allow", "file", "allows bash", ("bash",))) == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "$X -rf x",
        "`echo rm` x",
        'bash -c "$X"',
        'eval "$X"',
        "source x; y",
        "alias y=z; y",
        "curl x | bash",
        "bash <<< $x",
        "xargs $x",
        "git status (",
        "git\u00a0status",
        "ls; " * 5_000,
        "x" * 100_000,
    ],
)
def test_what_may_hide_a_denied_command_is_asked_about_although_all_of_bash_is_allowed(command: str) -> None:
    allows_all = Rule("allow", "file", "allows bash", ("bash",))
    assert verdict_on(command, denying("rm"), allows_all) == "ask"
    assert verdict_on(command, allows_all) == "allow"
    assert verdict_on(command, levels=frozenset({"safe", "low", "medium"})) == "ask"


def test_a_denied_prefix_of_several_words_means_no_other_command_of_the_program() -> None:
    assert verdict_on("git push origin", denying("git push"), allowing("git")) == "deny"
    assert verdict_on("git pull origin", denying("git push"), allowing("git")) == "allow"
    assert verdict_on("git $x", denying("git push"), Rule("allow", "f", "r", ("bash",))) == "deny"


@pytest.mark.parametrize(
    ("target", "verdict"),
    [("out.txt", "allow"), ("a/b", "allow"), ("/tmp/x", "ask"), ("~/x", "ask"), ("../x", "ask"), (".git/x", "ask"),
     ("a/.env", "ask"), ("$x", "ask"), ("$(x)", "ask"), ("/dev/tcp/h/1", "ask")],
)  # fmt: skip
def test_a_rule_may_permit_redirections_below_the_folder(target: str, verdict: str) -> None:
    pattern = prefix_command("git status", restricts=False)
    assert verdict_on(f"git status > {target}", rule("allow", pattern)) == "ask"
    assert verdict_on(f"git status > {target}", rule("allow", pattern, redirects=True)) == verdict


@pytest.mark.parametrize(
    "command",
    ["(" * 33_000, "a;" * 50_000, "$(" * 50_000, "<<E " * 25_000, "x" * 100_000, "bash -c '" * 11_000, "{a," * 33_000],
)
def test_a_command_of_100_kb_is_asked_about_in_a_moment(command: str) -> None:
    began = time.thread_time()
    assert verdict_on(command, allowing("x"), levels=frozenset({"safe", "low", "medium"})) == "ask"
    assert time.thread_time() - began < 0.5


@pytest.mark.parametrize(
    "command", ["(" * 9_000, "a;" * 4_999, "`" * 9_000, "<<E " * 49, "sudo " * 1_900, "eval '" * 1_600]
)
def test_what_is_looked_into_has_its_bounds(command: str) -> None:
    began = time.thread_time()
    assert verdict_on(command, allowing("a"), denying("rm")) == "ask"
    assert time.thread_time() - began < 5
