"""The ``agents`` commands as a program of their own, with a terminal and without."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PROGRAM = [sys.executable, "-m", "ekiden.dispatcher", "agents"]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "home").mkdir()
    (tmp_path / "project").mkdir()
    return {"HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"], "LANG": os.environ["LANG"]}


def run(tmp_path: Path, environment: dict[str, str], *words: str, **more: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*PROGRAM, *words],
        env=environment | more,
        cwd=tmp_path / "project",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


def type_into(tmp_path: Path, environment: dict[str, str], typed: str, *words: str) -> tuple[int, str]:
    """Run on a terminal on which somebody has typed ``typed``; return exit code and screen."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*PROGRAM, *words], env=environment, cwd=tmp_path / "project", stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        os.write(ours, typed.encode())
        screen = b""
        try:
            while part := os.read(ours, 4096):
                screen += part
        except OSError:  # Linux' way to say that the other side is closed
            pass
        os.close(ours)
    return process.returncode, screen.decode()


def test_an_agents_life(tmp_path: Path, environment: dict[str, str]) -> None:
    def ekiden(*words: str, **more: str) -> "subprocess.CompletedProcess[str]":
        done = run(tmp_path, environment, *words, **more)
        assert done.returncode == 0, done.stderr
        return done

    ekiden("create", "fixer", "--template", "debugging")
    assert "fixer" in ekiden("list").stdout
    ekiden("edit", "fixer", EDITOR="sed -i s/debugger/detective/")
    assert "You are a detective." in ekiden("show", "fixer", "--prompt").stdout
    assert "may confuse it with 'debugger'" in ekiden("validate", "--json").stdout, "which the template is made of"
    ekiden("delete", "fixer", "--yes")
    assert "fixer" not in {agent["name"] for agent in map(json.loads, ekiden("list", "--json").stdout.splitlines())}


def test_asks_for_everything_on_a_terminal(tmp_path: Path, environment: dict[str, str]) -> None:
    typed = "Bad Name\nmy-agent\nnope\nnone\n\nFinds faults.\n\nglobal\nls, grep\n"
    typed += "fault, 故障\nwhat is wrong?; why?\nreviewer\nWhen it is found.\nnone\n"

    code, screen = type_into(tmp_path, environment, typed, "create")

    assert code == 0, screen
    assert "must be kebab-case" in screen
    text = (tmp_path / "home" / ".gemini" / "agents" / "my-agent.md").read_text(encoding="utf-8")
    assert "title: My Agent" in text
    assert "description: Finds faults." in text
    assert "tools: [ls, grep]" in text
    assert "keywords: [fault, 故障]" in text
    assert "examples: ['what is wrong?', 'why?']" in text
    assert "{to: reviewer, description: When it is found.}" in text


def test_asks_for_the_extended_fields_in_order_and_again_for_what_cannot_be_meant(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    typed = "none\n\nFinds faults.\n\nproject\nls\nnone\nnone\n"  # template, title, …, examples, sub-agents
    typed += "bug,error,crash\nfix(\nfix.*test\n11\n8\n"
    typed += "code-revewer\nreviewer\ntask.status = 'x'\ntask.status == 'need-review'\n{\n"
    typed += '{"files": [], "changes": ""}\n\n'
    typed += 'maybe\nyes\n[]\n{"type": "object", "properties": {"analysis": {"type": "string"}}}\nreject\n'
    typed += "yes\nno name\ncurrent_task,analyzed_files\nno\n"
    typed += "yes\nno\n"  # a graph has no handoffs
    typed += "yes\nllm,tools\nllm,tool,handoff\nlangsmith\nconsole\n"

    code, screen = type_into(tmp_path, environment, typed, "create", "debug-flow", "--extended")

    assert code == 0, screen
    for said in (
        *("not a regular expression of RE2", "no number from 0 to 10", "did you mean 'reviewer'?"),
        *("CEL compares with '=='", "is no JSON", "'maybe' is none of", "must be a JSON object", "letters, digits"),
        "beside a graph, handoffs and output validation would not be heeded",
        *("'tools' is nothing that is traced", "agents.tracing.backend langsmith", "Extended agent created"),
    ):
        assert said in " ".join(screen.split()), said
    text = (tmp_path / "project" / ".gemini" / "agents" / "debug-flow.md").read_text(encoding="utf-8")
    fields = yaml.safe_load(text.split("---")[1])
    assert fields["triggers"] == {"keywords": ["bug", "error", "crash"], "patterns": ["fix.*test"], "priority": 80}
    (handoff,) = fields["handoffs"]
    assert (handoff["to"], handoff["when"]) == ("reviewer", "task.status == 'need-review'")
    assert handoff["payload"]["schema"]["properties"] == {"files": {"type": "array"}, "changes": {"type": "string"}}
    (rail,) = fields["guardrails"]
    assert (rail["policy"], rail["schema"]["properties"]) == ("reject", {"analysis": {"type": "string"}})
    assert fields["memory"] == {"session": ["current_task", "analyzed_files"]}
    assert fields["tracing"] == {"enabled": True, "events": ["llm", "tool", "handoff"], "backend": "console"}
    assert "graph" not in fields


def test_asks_for_the_nodes_and_edges_of_a_graph(tmp_path: Path, environment: dict[str, str]) -> None:
    typed = "none\n\nFinds faults.\n\nproject\nls\nnone\nnone\n" + "\n\n5\n\nno\nno\nno\n"  # up to long-term memory
    typed += "yes\nfirst\nfirst=debuger\nfirst=debugger\n\nfirst=last\nfirst=END\nfirst.ok ==\nfirst.ok == true\n\n"
    typed += "no\n"

    code, screen = type_into(tmp_path, environment, typed, "create", "debug-flow", "--extended")

    assert code == 0, screen
    for said in ("did you mean 'debugger'?", "'last' is no node of the graph", "Extended agent created"):
        assert said in " ".join(screen.split()), said
    text = (tmp_path / "project" / ".gemini" / "agents" / "debug-flow.md").read_text(encoding="utf-8")
    graph = yaml.safe_load(text.split("---")[1])["graph"]
    assert graph["nodes"] == [{"name": "first", "agent": "debugger"}]
    assert graph["edges"] == [{"from": "first", "to": "END", "condition": "first.ok == true"}]


@pytest.mark.parametrize(("answer", "is_gone"), [("y\n", True), ("n\n", False)])
def test_asks_before_it_deletes(tmp_path: Path, environment: dict[str, str], answer: str, is_gone: bool) -> None:
    run(tmp_path, environment, "create", "mine")

    code, _ = type_into(tmp_path, environment, answer, "delete", "mine")

    assert (tmp_path / "project" / ".gemini" / "agents" / "mine.md").exists() != is_gone
    assert (code == 0) == is_gone


def test_ascii_terminals_get_ascii(tmp_path: Path, environment: dict[str, str]) -> None:
    run(tmp_path, environment, "create", "mine")

    done = run(tmp_path, environment, "validate", "mine", LC_ALL="C", LANG="C")

    assert done.returncode == 0
    assert done.stdout.isascii()
    assert "+ Front matter valid" in done.stdout


def test_errors_are_for_ci(tmp_path: Path, environment: dict[str, str]) -> None:
    folder = tmp_path / "project" / ".gemini" / "agents"
    folder.mkdir(parents=True)
    (folder / "bad.md").write_text("---\nname: bad\n---\n", encoding="utf-8")

    assert run(tmp_path, environment, "validate").returncode == 1
    assert run(tmp_path, environment, "validate", "--nonsense").returncode == 2
    assert run(tmp_path, environment, "validate", "debugger").returncode == 0


def test_help_needs_nothing_slow() -> None:
    slow = ("pydantic", "yaml", "re2", "redis")
    code = f"import sys, ekiden.dispatcher.cli.agents.group; print([name for name in {slow} if name in sys.modules])"

    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
