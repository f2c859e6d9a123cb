import os
from pathlib import Path

import pytest

from ekiden.shared.definitions.catalog import build_catalog
from ekiden.shared.definitions.loader import AGENTS_FOLDER, load_all, load_file, load_folder, load_levels
from ekiden.shared.packs import shipped_agents_dir

CORPUS = Path(__file__).parents[4] / "shared" / "corpus" / "agents"


def write(folder: Path, file: str, name: str = "", description: str = "d", body: str = "You work.") -> Path:
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\nname: {name or path.stem}\ndescription: {description}\n---\n{body}\n", encoding="utf-8")
    return path


def test_loads_packs_and_skips_what_begins_with_an_underscore(tmp_path: Path) -> None:
    write(tmp_path, "b.md")
    write(tmp_path, "pack/a.md")
    write(tmp_path, "pack/deeper/c.md")
    write(tmp_path, "_draft.md")
    write(tmp_path, "_templates/t.md")
    write(tmp_path, ".git/g.md")
    write(tmp_path, "notes.txt")

    loaded = load_folder(tmp_path, "project")

    assert [agent.name for agent in loaded.definitions] == ["b", "a", "c"]
    assert loaded.problems == ()
    assert loaded.sources["a"] == str(tmp_path / "pack" / "a.md")


def test_one_bad_file_is_named_with_its_line_and_hides_no_other(tmp_path: Path) -> None:
    write(tmp_path, "good.md")
    bad = tmp_path / "bad.md"
    bad.write_text("---\nname: bad\ndescription: d\nlimits: {max_turns: 0}\n---\n", encoding="utf-8")

    loaded = load_folder(tmp_path, "project")

    assert [agent.name for agent in loaded.definitions] == ["good"]
    [problem] = loaded.problems
    assert (problem.file, problem.line, problem.severity) == (str(bad), 4, "error")
    assert "'limits.max_turns' is 0: must be between 1 and 10000" in problem.message
    assert str(problem).startswith(f"{bad}:4: error: ")


def test_a_warning_costs_nothing(tmp_path: Path) -> None:
    write(tmp_path, "x.md", description="Use for: this", body="")

    loaded = load_folder(tmp_path, "project")

    assert loaded.definitions[0].description == "Use for: this"
    assert [(problem.severity, problem.line) for problem in loaded.problems] == [("warning", 3), ("warning", 6)]


def test_two_files_with_one_name_at_a_level_are_an_error_that_names_both(tmp_path: Path) -> None:
    first = write(tmp_path, "a.md", name="same", description="first")
    second = write(tmp_path, "b.md", name="same", description="second")

    loaded = load_folder(tmp_path, "project")

    assert [agent.description for agent in loaded.definitions] == ["first"]
    [problem] = loaded.problems
    assert problem.severity == "error"
    assert problem.file == str(second)
    assert str(first) in problem.message


def test_the_nearer_level_wins_and_shadowing_is_no_problem(tmp_path: Path) -> None:
    project, home, extras = tmp_path / "project", tmp_path / "home", [tmp_path / "extra1", tmp_path / "extra2"]
    levels = {"project": project / AGENTS_FOLDER, "home": home / AGENTS_FOLDER, "1": extras[0], "2": extras[1]}
    for depth, (level, folder) in enumerate(levels.items()):
        folder.mkdir(parents=True)
        for name in ("a", "b", "c", "reviewer")[depth:]:
            write(folder, f"{name}.md", description=f"of {level}")

    loaded = load_all(project, extras, home, shipped=True)

    said = {agent.name: agent.description for agent in loaded.definitions}
    assert loaded.problems == ()
    assert [said[name] for name in ("a", "b", "c", "reviewer")] == ["of project"] * 4
    assert "debugger" in said

    nearer_gone = load_all(None, extras, home, shipped=False)
    said = {agent.name: agent.description for agent in nearer_gone.definitions}
    assert said == {"b": "of home", "c": "of home", "reviewer": "of home"}

    only_extras = load_all(None, extras, None)
    said = {agent.name: agent.description for agent in only_extras.definitions}
    assert (said["c"], said["reviewer"]) == ("of 1", "of 1")
    assert only_extras.sources["reviewer"] == str(extras[0] / "reviewer.md")


@pytest.mark.parametrize(
    ("packs", "names"), [(None, {"debugger", "router-agent"}), (["software"], {"debugger"}), ([], {"router-agent"})]
)
def test_packs_are_there_as_they_are_named_and_the_system_always(packs: list[str] | None, names: set[str]) -> None:
    [shipped] = [level for level in load_levels(None, packs=packs) if level.name == "shipped"]

    found = {agent.name for agent in shipped.loaded.definitions}
    assert shipped.loaded.problems == ()
    assert names <= found
    assert "router-agent" in found
    assert ("debugger" in found) is (packs != [])


def test_the_nearer_level_wins_also_where_only_the_tools_name_is_the_same(tmp_path: Path) -> None:
    write(tmp_path / AGENTS_FOLDER, "a.md", name="codebase_investigator", description="mine")

    loaded = load_all(None, (), tmp_path, shipped=True)
    catalog, problems = build_catalog(loaded.definitions)

    assert problems == []
    assert "codebase-investigator" not in catalog.names
    assert catalog.definition("codebase_investigator").description == "mine"
    below = {rule.agent for agent in catalog.agents.values() for rule in agent.subagents}
    targets = {target for agent in catalog.agents.values() for target in agent.targets}
    assert "codebase_investigator" in below | targets, "who called the shipped one calls this one"


def test_folders_behind_links_are_read_once_each(tmp_path: Path) -> None:
    agents, common = tmp_path / "agents", tmp_path / "common"
    write(common / "pack", "p.md", name="by-pack")
    write(common, "f.md", name="by-file")
    write(agents, "own.md", name="own")
    (agents / "file.md").symlink_to(common / "f.md")
    (agents / "again").symlink_to(common / "pack")
    (agents / "pack").symlink_to(common / "pack")
    (agents / "round").symlink_to(".")
    (agents / "pack" / "up").symlink_to(agents)

    loaded = load_folder(agents, "project")

    assert sorted(agent.name for agent in loaded.definitions) == ["by-file", "by-pack", "own"]
    assert loaded.problems == ()


def test_the_level_gives_the_scope_unless_the_file_does(tmp_path: Path) -> None:
    write(tmp_path / AGENTS_FOLDER, "a.md")
    (tmp_path / AGENTS_FOLDER / "b.md").write_text("---\nname: b\ntitle: B\nscope: system\n---\nx", encoding="utf-8")

    loaded = load_all(None, (), tmp_path, shipped=False)

    assert {agent.name: agent.scope for agent in loaded.definitions} == {"a": "global", "b": "system"}


def test_a_project_in_the_home_folder_reports_its_problems_once(tmp_path: Path) -> None:
    write(tmp_path / AGENTS_FOLDER, "bad.md").write_text("no front matter", encoding="utf-8")

    assert len(load_all(tmp_path, (), tmp_path, shipped=False).problems) == 1


def test_missing_levels_are_empty_but_a_missing_extra_folder_is_a_problem(tmp_path: Path) -> None:
    assert load_all(tmp_path, (), tmp_path, shipped=False).problems == ()

    [problem] = load_all(None, [tmp_path / "nowhere"], None, shipped=False).problems

    assert problem.file == str(tmp_path / "nowhere")
    assert "does not exist" in problem.message


def test_what_is_no_file_is_a_problem_and_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / "dangling.md").symlink_to(tmp_path / "nowhere")
    (tmp_path / "endless.md").symlink_to("/dev/zero")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "huge.md").write_bytes(b"x" * 1_000_001)

    problems = load_folder(tmp_path, "project").problems

    assert {Path(problem.file).name for problem in problems} == {"pipe.md", "dangling.md", "endless.md", "huge.md"}


def test_a_file_is_understood_once_until_it_changes(tmp_path: Path) -> None:
    path = write(tmp_path, "a.md", body="")
    first, problems = load_file(path, "project")
    assert len(problems) == 1
    problems.clear()

    again, problems = load_file(path, "project")
    assert again is first
    assert len(problems) == 1, "what a caller does to its list is not seen by the next"

    write(tmp_path, "a.md", body="You work.")
    changed, problems = load_file(path, "project")
    assert changed is not None
    assert (changed.instructions.strip(), problems) == ("You work.", [])


def test_every_real_file_gives_a_definition_or_a_reason() -> None:
    if not CORPUS.is_dir():
        pytest.skip("the corpus of real agent files is not beside this checkout")
    count = loaded = 0
    for path in sorted(CORPUS.rglob("*.md")):
        definition, problems = load_file(path, "project")
        errors = [problem for problem in problems if problem.severity == "error"]
        assert (definition is None) == bool(errors), path
        assert all(problem.file == str(path) and problem.message for problem in problems)
        count, loaded = count + 1, loaded + (definition is not None)

    assert count > 150
    assert loaded > 0.8 * count
    build_catalog(load_folder(CORPUS, "project").definitions)


def test_the_shipped_agents_load_without_any_problem() -> None:
    loaded = load_folder(shipped_agents_dir(), "global")
    catalog, problems = build_catalog(loaded.definitions, loaded.sources)

    assert (loaded.problems, problems) == ((), [])
    assert set(catalog.names) >= {
        "code-fixer",
        "codebase-investigator",
        "debugger",
        "documenter",
        "performance-optimizer",
        "reviewer",
        "security-auditor",
        "test-writer",
    }
    assert catalog.definition("debugger").targets == ("code-fixer", "documenter")
    assert "reviewer" in catalog.definition("code-fixer").targets


def test_shipped_agents_name_only_tools_that_exist_and_only_editors_may_edit() -> None:
    builtin = {"ls", "read_file", "grep", "glob", "edit_file", "bash", "write_todos"}
    software = load_folder(shipped_agents_dir() / "software", "global").definitions

    for agent in software:
        assert agent.tools is not None
        assert set(agent.tools.allow or ()) <= builtin, agent.name
        assert agent.model is None
    editors = {agent.name for agent in software if agent.permits("edit_file")}
    assert editors == {"code-fixer", "documenter", "performance-optimizer", "test-writer"}
