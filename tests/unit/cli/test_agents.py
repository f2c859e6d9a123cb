"""The commands in this process, on a project and a home folder of their own."""

import json
import os
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ekiden.dispatcher.cli.agents.checks import Checker
from ekiden.dispatcher.cli.agents.create import templates
from ekiden.dispatcher.cli.agents.discovery import AgentFile
from ekiden.dispatcher.cli.agents.group import app
from ekiden.shared.definitions.loader import load_file
from ekiden.shared.definitions.parsing import definition_from
from ekiden.shared.errors import ConfigurationError, InvalidRequest, UnknownAgent
from ekiden.shared.packs import shipped_agents_dir
from ekiden.shared.project_tools import tool_files
from ekiden.shared.project_trust import project_trust_of
from ekiden.shared.trust.store import remember

GOOD = "---\nname: {name}\ndescription: Does things.\nmodel: inherit\n{more}---\n\nYou do things.\n"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project, which is the current folder, beside an empty home folder."""
    (tmp_path / "home").mkdir()
    (tmp_path / "project").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "project")
    for name in ("VISUAL", "EDITOR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "project"


def ekiden(*words: str | Path, typed: str | None = None) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], input=typed)


def fine(*words: str | Path) -> str:
    result = ekiden(*words)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


def objects(text: str) -> list[dict[str, Any]]:
    return list(map(json.loads, text.splitlines()))


def refused(*words: str | Path) -> Exception:
    result = ekiden(*words)
    assert isinstance(result.exception, InvalidRequest | UnknownAgent | ConfigurationError), result.output
    assert result.exception.exit_code == 2
    return result.exception


def write(folder: Path, name: str = "mine", more: str = "", text: str = "") -> Path:
    path = folder / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text or GOOD.format(name=name, more=more), encoding="utf-8")
    return path


def ours(project: Path) -> Path:
    return project / ".gemini" / "agents"


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def use_editor(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """An editor that runs ``code`` with the text in ``t`` and saves what ``t`` is then."""
    script = f"import sys, pathlib; p = pathlib.Path(sys.argv[1]); t = p.read_text(); {code}; p.write_text(t)"
    monkeypatch.setenv("EDITOR", shlex.join([sys.executable, "-c", script]))


# create


def test_creates_an_agent_that_passes_a_strict_check(project: Path) -> None:
    said = fine(
        "create", "code-fixer-2", "--title", "Fixer: two", "--description", "Repairs: everything", "--tools", "ls,grep"
    )

    definition, problems = load_file(ours(project) / "code-fixer-2.md", "project")
    assert problems == []
    assert definition is not None
    assert (definition.title, definition.description) == ("Fixer: two", "Repairs: everything")
    assert [name for name in ("ls", "grep", "bash") if definition.permits(name)] == ["ls", "grep"]
    assert "ekiden agents edit code-fixer-2" in said
    file = ours(project) / "code-fixer-2.md"
    file.write_text(re.sub(r"(?m)^(Describe|Say).*", "You repair.", file.read_text()))
    fine("validate", "code-fixer-2", "--strict")


def test_an_agent_is_made_with_all_that_makes_it_part_of_a_team(project: Path) -> None:
    fine(
        *("create", "front", "--description", "Takes requests.", "--keywords", "order, 订单", "--priority", "70"),
        *("--example", "where is it?", "--example", "我的订单呢？", "--pattern", r"order \d+"),
        *("--handoff", "reviewer=When it is to be read.", "--handoff", "debugger", "--subagent", "documenter=Texts."),
    )
    made, problems = load_file(ours(project) / "front.md", "project")
    assert problems == []
    assert made is not None
    assert (made.triggers.keywords, made.triggers.examples) == (("order", "订单"), ("where is it?", "我的订单呢？"))
    assert (made.triggers.patterns, made.triggers.priority) == (("order \\d+",), 70)
    assert [(rule.to, rule.description) for rule in made.handoffs] == [
        ("reviewer", "When it is to be read."),
        ("debugger", ""),
    ]
    assert [(one.agent, one.description) for one in made.subagents] == [("documenter", "Texts.")]


def test_what_is_said_of_its_team_stands_beside_what_the_template_says(project: Path) -> None:
    fine("create", "t", "--template", "testing", "--keywords", "cover")
    made, _ = load_file(ours(project) / "t.md", "project")
    assert made is not None
    assert made.triggers.keywords == ("cover",)
    assert made.triggers.examples, "the template's"


def test_an_edge_that_names_nobody_is_refused_and_so_is_one_to_nobody(project: Path) -> None:
    assert "--handoff '=When' names no agent" in str(refused("create", "a", "--handoff", "=When"))
    said = str(refused("create", "a", "--description", "A.", "--handoff", "revewer"))
    assert "agent 'a' hands over to 'revewer'" in said
    assert "Make that agent first" in said
    assert not (ours(project) / "a.md").exists()


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("You are one.\n\nTODO: write more", 7),
        ("Describe the task here: what it does", 5),
        ("- [your instructions]", 5),
        ("<Insert the rules>", 5),
        ("Lorem ipsum dolor", 5),
    ],
)
def test_a_body_that_nobody_has_written_yet_is_a_warning_with_its_line(body: str, line: int, project: Path) -> None:
    write(ours(project), text=f"---\nname: mine\ndescription: Does things.\n---\n{body}\n")
    said = fine("validate", "mine")
    assert f"warning: line {line}: the instructions hold a placeholder, " in said


def test_a_body_that_speaks_of_placeholders_is_none(project: Path) -> None:
    write(ours(project), text="---\nname: mine\ndescription: D.\n---\nFind each TODO, and <your> notes.\n")
    fine("validate", "mine", "--strict")


def test_an_agent_that_nobody_has_described_is_a_warning(project: Path) -> None:
    write(ours(project), text="---\nname: mine\ntitle: Mine\ndescription: ''\n---\nYou work.\n")
    assert "warning: line 4: it has no description: routers" in fine("validate", "mine")


@pytest.mark.parametrize("template", templates())
def test_every_template_makes_an_agent_without_a_warning(template: str, project: Path) -> None:
    fine("create", f"my-{template}", "--template", template)

    fine("validate", f"my-{template}", "--strict")
    definition, _ = load_file(ours(project) / f"my-{template}.md", "project")
    assert definition is not None
    assert definition.name == f"my-{template}"
    assert definition.triggers.keywords
    assert definition.triggers.examples
    assert definition.permits("edit_file") == (template in ("documentation", "testing"))


def test_offers_the_templates_that_there_are_and_those_of_the_user(project: Path) -> None:
    helped = " ".join(fine("create", "--help").split())
    assert all(name in helped for name in templates())
    own = Path.home() / ".gemini" / "agents" / "templates"
    own.mkdir(parents=True)
    (own / "house-style.md").write_text("---\ndescription: as we do it\n---\n\nFollow the house style.\n")
    fine("create", "painter", "--template", "house-style", "--global")
    assert "Follow the house style." in fine("show", "painter", "--prompt")
    assert objects(fine("list", "--scope", "global", "--json"))[0]["name"] == "painter", "a template is no agent"
    assert "must be one of code-review, debugging, documentation, house-style" in str(
        refused("create", "other", "--template", "nosuch")
    )


def test_what_is_said_wins_over_the_template(project: Path) -> None:
    fine("create", "t", "--template", "testing", "--model", "gemini-2.5-pro", "--tools", "", "--mcp", "github, linear")

    definition, _ = load_file(ours(project) / "t.md", "project")
    assert definition is not None
    assert definition.model == "gemini-2.5-pro"
    assert not definition.permits("ls")
    assert definition.extra["mcp"] == {"servers": ["github", "linear"]}


def test_a_global_agent_is_made_in_the_home_folder(tmp_path: Path) -> None:
    fine("create", "everywhere", "--scope", "global")

    assert (tmp_path / "home" / ".gemini" / "agents" / "everywhere.md").is_file()


def test_refuses_to_overwrite_and_leaves_nothing_behind(project: Path) -> None:
    path = write(ours(project))
    before = path.read_bytes()

    assert "'mine' exists already" in str(refused("create", "mine"))
    path.with_name("other.md").write_text("no agent", encoding="utf-8")
    assert "exists already" in str(refused("create", "other"))
    assert path.read_bytes() == before
    assert names_in(ours(project)) == ["mine.md", "other.md"]


@pytest.mark.parametrize("name", ["Foo", "a b", "../x", "-x", "x--y", "", "a.b", "x" * 65, "user"])
def test_refuses_a_name_that_will_not_do(name: str, project: Path) -> None:
    result = ekiden("create", "--", name)

    assert "name" in str(result.exception)
    assert not ours(project).exists()


def test_a_name_may_be_of_any_script(project: Path) -> None:
    fine("create", "代码-修复", "--description", "修复 代码")

    assert "修复 代码" in (ours(project) / "代码-修复.md").read_text(encoding="utf-8")


def test_refuses_a_name_whose_transfer_tool_is_taken(project: Path) -> None:
    write(ours(project), "Code Fixer 2")

    assert "would share the tool" in str(refused("create", "code-fixer-2"))


def test_says_that_it_counts_instead_of_a_shipped_agent() -> None:
    assert "counts instead of the agent 'debugger'" in fine("create", "debugger", "--template", "debugging")


def test_without_a_name_somebody_must_be_there_to_be_asked() -> None:
    assert "NAME is missing" in str(refused("create"))


# list, show


def test_lists_every_level_and_tells_what_is_shadowed(project: Path, tmp_path: Path) -> None:
    write(ours(project), "debugger")
    write(tmp_path / "home" / ".gemini" / "agents", "at-home")
    write(tmp_path / "extra", "elsewhere")

    found = objects(fine("--agents-dir", tmp_path / "extra", "list", "--format", "json"))

    levels = {(agent["name"], agent["level"]): agent["shadowed"] for agent in found}
    assert levels["debugger", "project"] is False
    assert levels["debugger", "shipped"] is True
    assert levels["at-home", "global"] is False
    assert levels["elsewhere", "extra"] is False
    assert fine("list", "--scope", "project").count("\n") < fine("list").count("\n")


def test_the_table_has_a_block_per_level(project: Path) -> None:
    write(ours(project), "mine", "title: My Agent\n")

    said = fine("list")

    assert said.index("Project agents") < said.index("My Agent") < said.index("Shipped agents")


def test_a_broken_file_hides_no_other_and_is_told(project: Path) -> None:
    write(ours(project), "good")
    write(ours(project), "bad", text="no front matter")

    result = ekiden("list", "--scope", "project")

    assert "good" in result.stdout
    assert "1 file(s) cannot be used: .gemini/agents/bad.md" in result.stderr


def test_folders_of_the_settings_are_read_unless_others_are_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "one", "first")
    write(tmp_path / "two", "second")
    monkeypatch.setenv("EKIDEN_AGENTS_DIR", json.dumps([str(tmp_path / "one")]))

    assert "first" in fine("list", "--scope", "extra")
    said = fine("list", "--scope", "extra", "--agents-dir", tmp_path / "two")
    assert "second" in said
    assert "first" not in said


def test_a_tool_of_the_projects_own_files_is_here_once_it_is_granted(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EKIDEN_TRUST", raising=False)
    write(ours(project), more="tools: [WebSearch, lookup]\n")
    (project / ".ekiden" / "tools").mkdir(parents=True)
    (project / ".ekiden" / "tools" / "lookup.py").write_text("@tool\ndef lookup(key: str) -> str: ...\n")
    wanted = project_trust_of(project).wanted
    [own_file] = tool_files(project)
    remember(project, granted=[right for right in wanted if right != own_file.right])
    assert re.search(r"not here: +WebSearch, lookup\n", fine("show", "mine"))
    remember(project, granted=wanted)
    assert re.search(r"tools: +lookup\n(.*\n)*?.*not here: +WebSearch\n", fine("show", "mine"))


def test_shows_an_agent_its_prompt_and_its_json(project: Path) -> None:
    write(ours(project), more="tools: Read, WebSearch\nhandoffs: [reviewer]\n")

    said = fine("show", "mine")
    assert "read_file" in said
    assert "not here:      WebSearch" in said
    assert "reviewer" in said
    prompt = fine("show", "mine", "--prompt")
    assert prompt.startswith("You do things.\n\n# Guidelines\n")
    assert "call its transfer tool" in prompt
    assert json.loads(fine("show", "mine", "--prompt", "--json"))["prompt"] == prompt.removesuffix("\n")
    assert json.loads(fine("show", "mine", "--json"))["tools"]["allow"] == ["read_file"]


def test_shows_how_an_agent_works_with_others(project: Path) -> None:
    write(
        ours(project),
        more="handoffs: [{to: reviewer, when: auto, condition: state.ok, return: true}, debugger]\n"
        "subagents: [documenter, test-writer]\ndelegation: {join: any, timeout: 60}\n"
        "inputs: {path: {required: true}, depth: {type: integer}}\noutput: {name: report}\ncomplete_task: true\n",
    )

    said = fine("show", "mine")

    assert "hands over to: reviewer (automatic; if state.ok; returns), debugger\n" in said
    assert "delegates to:  documenter, test-writer (waits for any, 60 s each)\n" in said
    assert "inputs:        path (string, required), depth (integer)\n" in said
    assert "output:        report (must end with it)\n" in said
    listed = objects(fine("list", "--json"))
    assert next(row for row in listed if row["name"] == "mine")["subagents"] == ["documenter", "test-writer"]


def test_an_unknown_agent_is_answered_with_near_names() -> None:
    assert "Did you mean 'debugger'?" in str(refused("show", "debuger"))


def test_a_broken_agent_is_shown_by_its_problem(project: Path) -> None:
    write(ours(project), "bad", text="---\nname: bad\n---\n")

    assert "needs a 'description'" in str(refused("show", "bad"))


# edit


def test_saves_what_is_an_agent_file(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(ours(project))
    path.chmod(0o600)
    use_editor(monkeypatch, "t = t.replace('Does', 'Did')")

    assert "Saved" in fine("edit", "mine")

    assert "Did things" in path.read_text(encoding="utf-8")
    assert path.stat().st_mode & 0o777 == 0o600
    assert names_in(ours(project)) == ["mine.md"]


def test_a_refused_text_is_kept_beside_and_the_old_one_stays(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(ours(project))
    before = path.read_bytes()
    use_editor(monkeypatch, "t = t.replace('description: ', 'limits: ')")

    result = ekiden("edit", "mine")

    assert result.exit_code == 1
    assert "line 3: 'limits': must be an object" in result.stderr
    assert "mine.md.rejected" in result.stderr
    assert path.read_bytes() == before
    assert "limits: Does" in (ours(project) / "mine.md.rejected").read_text(encoding="utf-8")
    use_editor(monkeypatch, "pass")
    assert "refused is in .gemini/agents/mine.md.rejected" in fine("edit", "mine")
    assert objects(fine("list", "--scope", "project", "--json"))[0]["name"] == "mine"


def test_a_broken_file_can_be_mended(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(ours(project), "bad", text="---\nname: other\n---\nYou.")
    use_editor(monkeypatch, "t = t.replace('other', 'other\\ndescription: d')")

    fine("edit", "bad")

    fine("validate", "other", "--strict")


def test_no_editor_is_guessed_where_no_terminal_is(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(ours(project))
    (tmp_path / "vi").write_text(f"#!/bin/sh\ntouch {shlex.quote(str(tmp_path / 'was-run'))}\n")
    (tmp_path / "vi").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert "this is not a terminal" in str(refused("edit", "mine"))
    assert not (tmp_path / "was-run").exists()


def test_nothing_is_written_without_a_change(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(ours(project))
    modified = path.stat().st_mtime_ns
    use_editor(monkeypatch, "pass")

    assert "Nothing was changed" in fine("edit", "mine")
    assert path.stat().st_mtime_ns == modified


def test_a_shipped_agent_becomes_one_of_the_project(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = shipped_agents_dir() / "software" / "debugger.md"
    before = shipped.read_bytes()
    use_editor(monkeypatch, "t += 'Be quick.'")

    fine("edit", "debugger")

    assert shipped.read_bytes() == before
    assert "Be quick.\n" in fine("show", "debugger", "--prompt")
    assert objects(fine("list", "--json"))[0]["level"] == "project"


def test_a_change_of_somebody_else_is_not_overwritten(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(ours(project))
    use_editor(monkeypatch, f"t += 'mine'; pathlib.Path({str(path)!r}).write_text('theirs')")

    result = ekiden("edit", "mine")

    assert result.exit_code == 1
    assert "somebody else" in result.stderr
    assert path.read_text(encoding="utf-8") == "theirs"
    assert "mine" in (ours(project) / "mine.md.rejected").read_text(encoding="utf-8")


def test_a_new_name_must_not_be_taken(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(ours(project))
    write(ours(project), "other")
    use_editor(monkeypatch, "t = t.replace('name: mine', 'name: other')")

    result = ekiden("edit", "mine")

    assert result.exit_code == 1
    assert "'other' is taken" in result.stderr


@pytest.mark.parametrize(
    ("editor", "said"),
    [("false", "ended with code 1"), ("/no/such/editor", "cannot be started"), ("a 'b", "no command"), (" ", "blank")],
)
def test_an_editor_that_fails_changes_nothing(
    editor: str, said: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(ours(project))
    monkeypatch.setenv("VISUAL", editor)
    monkeypatch.setenv("EDITOR", "true")

    assert said in str(refused("edit", "mine"))
    assert names_in(ours(project)) == ["mine.md"]


# delete


def test_deletes_when_told_to(project: Path) -> None:
    path = write(ours(project))
    write(ours(project), "other", "handoffs: [mine]\n")
    write(ours(project), "caller", "subagents: [mine]\n")

    said = fine("delete", "mine", "--yes")

    assert not path.exists()
    assert "'other' still hands over to 'mine'" in said
    assert "'caller' still delegates to 'mine'" in said


def test_does_not_delete_unasked(project: Path) -> None:
    path = write(ours(project))

    assert "give --yes" in str(refused("delete", "mine"))
    assert path.exists()


def test_a_shipped_agent_cannot_be_deleted_and_counts_again_without_the_nearer_one(project: Path) -> None:
    assert "belongs to the installation" in str(refused("delete", "debugger", "--yes"))

    write(ours(project), "debugger")
    assert "counts now" in fine("delete", "debugger", "--yes")
    assert json.loads(fine("show", "debugger", "--json"))["level"] == "shipped"


def test_deletes_on_the_level_that_was_named(project: Path, tmp_path: Path) -> None:
    near = write(ours(project))
    far = write(tmp_path / "home" / ".gemini" / "agents")

    fine("delete", "mine", "--yes", "--scope", "global")

    assert near.exists()
    assert not far.exists()
    assert "on the level 'global'" in str(refused("delete", "mine", "--yes", "--scope", "global"))


# validate


def report(*words: str | Path) -> tuple[int, dict[str, Any]]:
    result = ekiden("validate", "--json", *words)
    found: dict[str, Any] = json.loads(result.stdout)
    return result.exit_code, found


def findings(found: dict[str, Any]) -> list[tuple[str, int | None, str]]:
    return [
        (finding["severity"], finding["line"], finding["message"])
        for agent in found["agents"]
        for check in agent["checks"]
        for finding in check["findings"]
    ]


def test_what_comes_with_ekiden_passes_the_strict_check() -> None:
    code, found = report("--all", "--strict")

    assert (code, found["ok"], findings(found)) == (0, True, [])
    assert len(found["agents"]) >= 8


def test_a_place_that_no_declared_input_fills_is_found(project: Path) -> None:
    text = GOOD.format(name="mine", more="inputs: {version: {}}\n")
    write(ours(project), text=f"{text}\nNotes for ${{verson}}, ${{state.x}}, ${{version}}.\n")
    _, found = report("mine")
    [(severity, _, said)] = findings(found)
    assert severity == "warning"
    assert said.startswith("the text has a place for 'verson', which is none of the inputs. Did you mean 'version'?")


@pytest.mark.parametrize(
    ("more", "severity", "said"),
    [
        ("limits: {max_turns: 0}\n", "error", "must be between 1 and 10000"),
        ("handoffs: [nobody]\n", "error", "hands over to 'nobody', which does not exist"),
        ("handoffs: [mine]\n", "error", "hands over to itself"),
        ("tools: [read_fil]\n", "warning", "no worker ships with the tool 'read_fil'"),
        ("tools: [Read, WebSearch]\n", "warning", "no tool of Ekiden's: 'WebSearch'"),
        ("tools: {deny: [bsh]}\n", "warning", "'bsh' is forbidden, and no worker ships"),
        ("mcp: {servers: [github]}\n", "error", "MCP server not configured: github"),
        ("tools: [mcp.linear.list]\n", "error", "MCP server not configured: linear"),
        ("mcp_servers: [github]\n", "error", "MCP server not configured: github"),
        ("handoff: [reviewer]\n", "warning", "Did you mean 'handoffs'?"),
        ("subagents: [reviwer]\n", "error", "delegates to 'reviwer', which does not exist; left out. Did you mean"),
        ("subagents: mine\n", "error", "delegates to itself"),
        ("subagents: [{timeout: 5}]\n", "error", "each entry names its agent"),
        ("handoffs: [{to: reviewer, when: state.n === 1}]\n", "error", "CEL compares with '=='"),
        ("handoffs: [{to: reviewer, payload: {schema: {type: objct}}}]\n", "error", "must describe an object"),
        ("handoffs: [{to: reviewer, when: auto}, {to: mine, when: auto}]\n", "error", "hands over to itself"),
        ("delegation: {join: most}\n", "error", "must be all, any or quorum:<n>"),
        ("inputs: {depth: {type: int}}\n", "error", "'inputs.depth.type' is 'int'"),
        ("output: {schema: {type: strin}}\n", "error", "'output': 'schema': no JSON Schema: at type"),
        ("transfer: both\n", "error", "'transfer' is 'both'"),
        ("output: {process: markdwn}\n", "warning", "output processor 'markdwn', and no plug-in that is allowed here"),
        (
            "guardrails: [{name: a, validator: json, on: tool_input, tools: [Bash, bsh, 'read_*', mcp.x.*]}]\n",
            "warning",
            "the guardrail 'a' is for 'bsh', and no worker ships with such a tool. Did you mean 'bash'?",
        ),
        ("guardrails: {custom_validator: no_secrts}\n", "warning", "the validator 'no_secrts', and no plug-in that is"),
        ("guardrails: {max_length: 5}\n", "error", "it has no name that can be shown"),
        ("subagent: [reviewer]\n", "warning", "Did you mean 'subagents'?"),
        ("kind: robot\n", "warning", "kind 'robot'"),
    ],
)
def test_each_fault_is_found_with_its_line(more: str, severity: str, said: str, project: Path) -> None:
    write(ours(project), more=more)

    code, found = report("mine")

    [(found_severity, line, message)] = findings(found)
    assert (found_severity, line) == (severity, 5)
    assert said in message
    assert code == (1 if severity == "error" else 0)
    assert report("mine", "--strict")[0] == 1


@pytest.mark.parametrize(
    ("text", "severity", "said", "line"),
    [
        ("no front matter", "error", "there is no front matter", 1),
        ("---\nname: mine\n---\nYou.", "error", "needs a 'description'", 2),
        ("---\nname: My Agent\ndescription: d\n---\nYou.", "warning", "not kebab-case", 2),
        ("---\nname: mine\ndescription: d\n---\n", "warning", "the body is empty", 5),
        ("---\nname: mine\ndescription: d\nmodel: sonnet\n---\nYou.", "warning", "model 'sonnet'", 4),
        (f"---\nname: mine\ndescription: {'d' * 1025}\n---\nYou.", "warning", "1,025 characters", 3),
        ("---\nname: mine\ndescription: d: e\n---\nYou.", "warning", "read as text", 3),
        ("---\ndescription: d\n---\nYou.", "warning", "'name' is missing", None),
    ],
)
def test_each_faulty_file_is_told_with_its_line(
    text: str, severity: str, said: str, line: int | None, tmp_path: Path
) -> None:
    path = write(tmp_path / "files", text=text)

    code, found = report(path)

    [(found_severity, found_line, message)] = findings(found)
    assert (found_severity, found_line) == (severity, line)
    assert said in message
    assert code == (severity == "error")


def test_an_endless_round_is_found_in_the_file_that_it_is_broken_in(project: Path) -> None:
    write(ours(project), "one", "handoffs: [{to: two, when: auto}]\n")
    write(ours(project), "two", "handoffs: [{to: one, when: auto}]\n")

    code, found = report("one")

    [(severity, line, message)] = findings(found)
    assert (code, severity, line) == (1, "error", 5)
    assert "'one' → 'two' → 'one'" in message


def test_servers_of_the_settings_and_of_the_file_are_configured(project: Path) -> None:
    write(ours(project), more="mcp: {servers: [github]}\nmcpServers: {own: {command: x}}\ntools: [mcp.own.*]\n")
    (project / ".gemini" / "settings.json").write_text('{"mcpServers": {"github": {"command": "x"}}}', encoding="utf-8")

    assert report("mine", "--strict")[0] == 0


def test_a_name_that_the_settings_give_to_a_model_is_known() -> None:
    agent = definition_from({"name": "x", "description": "d", "model": "gpt-5"}, "You.")
    file = AgentFile("x", Path("x.md"), "", agent)

    assert Checker({}).report(file).count("warning") == 1
    assert Checker({}, models=["gpt-*"]).report(file).count("warning") == 0


def test_prints_the_list_of_checks_and_how_many_passed(project: Path) -> None:
    write(ours(project), more="mcp: {servers: [github]}\n")

    said = ekiden("validate", "mine").stdout

    assert "✓ Front matter valid" in said
    assert "✗ MCP servers [github] configured" in said
    assert "Validation: 7/8 passed" in said


@pytest.mark.parametrize(
    ("fields", "title"),
    [("description: x\nmax_turns: lots\n", "Values of fields understood"), ("", "Required fields present")],
)
def test_a_fault_of_a_value_does_not_stand_under_fields_that_are_missing(
    fields: str, title: str, project: Path
) -> None:
    folder = ours(project)
    folder.mkdir(parents=True)
    (folder / "one.md").write_text(f"---\nname: one\n{fields}---\nDo it.\n")
    said = ekiden("validate", "one").output
    assert [line.strip() for line in said.splitlines() if "✗" in line] == [f"✗ {title}"]


def test_of_many_only_those_with_findings_are_printed(project: Path) -> None:
    write(ours(project), "bad", text="no front matter")

    result = ekiden("validate")

    assert result.exit_code == 1
    assert "✗ Front matter valid" in result.stdout
    assert "line 1: there is no front matter" in result.stdout
    assert "debugger" not in result.stdout
    assert "1 error(s), 0 warning(s)" in result.stdout


def test_the_files_of_a_folder_are_checked_against_each_other(tmp_path: Path) -> None:
    write(tmp_path / "pack", "one", "handoffs: [two, reviewer]\n")
    write(tmp_path / "pack", "two")

    assert report(tmp_path / "pack", "--strict")[0] == 0
    (tmp_path / "pack" / "two.md").unlink()
    assert report(tmp_path / "pack", "--strict")[0] == 1


def test_usage_faults_are_told_apart() -> None:
    assert "no agent is named 'nobody'" in str(refused("validate", "nobody"))
    assert "there is no file 'x.md'" in str(refused("validate", "./x.md"))
    assert "both were given" in str(refused("validate", "debugger", "--all"))
    assert ekiden("validate", "--no-such-option").exit_code == 2


def test_settings_that_cannot_be_read_are_told(project: Path) -> None:
    (project / ".gemini").mkdir()
    (project / ".gemini" / "settings.json").write_text("{", encoding="utf-8")

    assert "no valid JSON" in str(refused("validate"))


def test_a_graph_is_checked_with_the_lines_of_its_nodes_and_edges(project: Path) -> None:
    graph = "graph:\n  entry: a\n  nodes:\n    - name: a\n      agent: {agent}\n"
    text = f"---\nname: flow\ndescription: d\nkind: graph\n{graph}"
    write(ours(project), "a", text=GOOD.format(name="a", more=""))
    path = write(ours(project), "flow", text=text.format(agent="b") + "---\n")
    _, found = report("flow")
    [(severity, line, said)] = findings(found)
    assert (severity, line) == ("error", 9)
    assert "runs 'b', which does not exist" in said

    path.write_text(text.format(agent="a") + "subagents: [a]\n---\nYou do it.\n", "utf-8")
    _, found = report("flow")
    assert [(severity, line) for severity, line, _ in findings(found)] == [("warning", 5), ("warning", 10)]
    assert all("has no effect in an agent with a graph" in said for _, _, said in findings(found))
    path.write_text(text.format(agent="a") + "---\n", "utf-8")
    assert "✓ Graph of 1 nodes sound" in fine("validate", "flow", "--strict")


def test_a_broken_script_of_the_stand_in_is_found_by_a_check_of_all(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EKIDEN_SCRIPTS_DIR", str(project / "scripts"))
    (project / "scripts").mkdir()
    (project / "scripts" / "s.yaml").write_text("agents:\n  a:\n    - name: n\n      say: no\n")
    result = ekiden("validate", "--all")
    assert result.exit_code == 1
    assert "error: line 4: agent 'a', rule 'n': say: must be a string: put it in quotes" in result.stdout
    assert "1 error(s)" in result.stdout
    report = json.loads(ekiden("validate", "--json").stdout)
    assert (report["ok"], [one["name"] for one in report["scripts"]]) == (False, ["s.yaml"])
