"""What agents may not change, and what they may not read, wherever the workspace is."""

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from ekiden.shared.embedded import attach
from ekiden.shared.errors import ConfigurationError, ToolError
from ekiden.shared.project_folders import state_folder
from ekiden.shared.settings.files import change_setting, global_file
from ekiden.shared.settings.model import load_settings
from ekiden.shared.trust.store import remember
from ekiden.workers.tools.base import Tool, ToolContext
from ekiden.workers.tools.builtin.editing import edit_file
from ekiden.workers.tools.builtin.files import ls, read_file
from ekiden.workers.tools.builtin.many_files import read_many_files
from ekiden.workers.tools.builtin.searching import glob, grep
from ekiden.workers.tools.builtin.writing import delete_file, write_file
from ekiden.workers.tools.protected_paths import BUILTIN_PLACES, Protected
from tests.unit.tools.conftest import Use


def args_of(tool: Tool, **args: Any) -> Any:
    return tool.parse(args)


PLACES = [
    ".git/hooks/pre-commit",
    ".git",
    "vendor/lib/.git/config",
    ".gemini/settings.json",
    ".gemini/agents/debugger.md",
    ".claude/settings.json",
    ".ekiden/socket",
    ".github/workflows/ci.yml",
    "sub/.github/workflows/new/ci.yml",
    ".gitlab-ci.yml",
    ".circleci/config.yml",
    "Jenkinsfile",
    "azure-pipelines.yml",
    ".travis.yml",
    ".bashrc",
    "home/.zshrc",
    ".profile",
    ".envrc",
    ".vscode/tasks.json",
    ".idea/workspace.xml",
    ".husky/pre-push",
    ".pre-commit-config.yaml",
    ".mcp.json",
    ".cursor/mcp.json",
    ".ssh/authorized_keys",
    ".GIT/hooks/pre-commit",
    "jenkinsfile",
    ".Git./config",
    ".git /config",
    ".g\u200cit/config",
    "\uff0egit/config",
    "git~1/config",
    ".git::$INDEX_ALLOCATION/config",
]
FREE = ["src/a.py", "git/a.py", ".github/ISSUE.md", "workflows/ci.yml", ".gitignore", "profile", "AGENTS.txt", ".env"]


@pytest.mark.parametrize("path", PLACES)
def test_refuses_to_write_where_programs_take_commands_from(path: str, cwd: Path, use: Use) -> None:
    with pytest.raises(ToolError, match=r"read-only for agents.* in the setting tools\.writable"):
        use(edit_file, path=path, old="", new="x")
    assert list(cwd.iterdir()) == []


@pytest.mark.parametrize("path", FREE)
def test_writes_elsewhere(path: str, cwd: Path, use: Use) -> None:
    use(edit_file, path=path, old="", new="x")
    assert (cwd / path).read_text() == "x"


def test_what_is_read_only_can_be_read_and_is_not_edited(cwd: Path, use: Use) -> None:
    (cwd / ".github" / "workflows").mkdir(parents=True)
    (cwd / ".github" / "workflows" / "ci.yml").write_text("on: push")
    assert use(read_file, path=".github/workflows/ci.yml") == "1\ton: push"
    with pytest.raises(ToolError, match="read-only for agents"):
        use(edit_file, path=".github/workflows/ci.yml", old="push", new="pull_request_target")
    assert (cwd / ".github" / "workflows" / "ci.yml").read_text() == "on: push"


def test_no_link_leads_around_it(cwd: Path, use: Use) -> None:
    (cwd / ".git" / "hooks").mkdir(parents=True)
    (cwd / ".git" / "config").write_text("old")
    (cwd / "folder").symlink_to(".git/hooks")
    (cwd / "file").symlink_to(".git/config")
    (cwd / "dangling").symlink_to(".git/hooks/pre-push")
    (cwd / "chain").symlink_to("folder")
    for path in ("folder/x", "chain/x", "file", "dangling", "a/../folder/x"):
        with pytest.raises(ToolError, match="read-only for agents"):
            use(edit_file, path=path, old="old" if path == "file" else "", new="new")
    assert [(path.name, path.is_dir() or path.read_text()) for path in sorted((cwd / ".git").rglob("*"))] == [
        ("config", "old"),
        ("hooks", True),
    ]


def test_what_a_read_only_place_is_a_link_to_is_read_only_by_its_own_name_as_well(
    cwd: Path, use: Use, context: ToolContext
) -> None:
    (cwd / ".git").mkdir()
    for name in ("dotfiles/agents", "dotfiles/github/workflows"):
        (cwd / name).mkdir(parents=True)
    (cwd / "dotfiles" / "bashrc").write_text("old")
    (cwd / ".gemini").symlink_to("dotfiles")
    (cwd / ".bashrc").symlink_to("dotfiles/bashrc")
    (cwd / ".github").symlink_to("dotfiles/github")
    for path in ("dotfiles/agents/a.md", "dotfiles/github/workflows/ci.yml", ".gemini/agents/a.md", ".gemini/new"):
        with pytest.raises(ToolError, match="read-only for agents"):
            use(edit_file, path=path, old="", new="x")
    for path in ("dotfiles/bashrc", ".bashrc"):
        with pytest.raises(ToolError, match="read-only for agents"):
            use(edit_file, path=path, old="old", new="new")
    allowing = replace(context, protected=Protected(writable=[".gemini", ".bashrc"]))
    edit_file.function(args_of(edit_file, path="dotfiles/agents/a.md", old="", new="x"), allowing)
    edit_file.function(args_of(edit_file, path=".bashrc", old="old", new="new"), allowing)
    assert (cwd / "dotfiles" / "bashrc").read_text() == "new"
    assert (cwd / "dotfiles" / "agents" / "a.md").read_text() == "x"


def test_no_file_with_another_name_is_written_and_that_name_keeps_its_content(cwd: Path, use: Use) -> None:
    secret = cwd.parent.parent / "outside" / "secret.txt"
    os.link(secret, cwd / "name.txt")
    with pytest.raises(ToolError, match=r"has 2 names \(hard links\).*may lie outside"):
        use(edit_file, path="name.txt", old="secret", new="mine")
    assert secret.read_text() == "secret"
    assert (cwd / "name.txt").samefile(secret)


def test_a_worktrees_git_file_is_a_place_as_well(cwd: Path, use: Use) -> None:
    (cwd / ".git").write_text("gitdir: /srv/repo/.git/worktrees/x")
    with pytest.raises(ToolError, match="read-only for agents"):
        use(edit_file, path=".git", old="/srv/repo", new="/tmp")


@pytest.mark.parametrize(("root", "path"), [(".github/workflows", "ci.yml"), (".git/hooks", "pre-commit")])
def test_a_workspace_within_such_a_place_is_in_it(root: str, path: str, cwd: Path, context: ToolContext) -> None:
    (cwd / ".git").mkdir()
    (cwd / root).mkdir(parents=True)
    below = replace(context, cwd=cwd / root, root=cwd / root)
    with pytest.raises(ToolError, match="read-only for agents"):
        edit_file.function(args_of(edit_file, path=path, old="", new="x"), below)


def test_a_project_that_lies_below_such_a_place_is_a_project(cwd: Path, context: ToolContext) -> None:
    tree = cwd / ".claude" / "worktrees" / "one"
    tree.mkdir(parents=True)
    (tree / ".git").write_text("gitdir: elsewhere")
    edit_file.function(args_of(edit_file, path="a.py", old="", new="x"), replace(context, cwd=tree, root=tree))
    assert (tree / "a.py").read_text() == "x"


@pytest.mark.parametrize(
    ("allowed", "path", "is_written"),
    [
        (".github/workflows", ".github/workflows/ci.yml", True),
        (".github/workflows/ci.yml", ".github/workflows/ci.yml", True),
        (".github/workflows/ci.yml", ".github/workflows/other.yml", False),
        (".GITHUB/Workflows/", "sub/.github/workflows/ci.yml", True),
        ("workflows", ".github/workflows/ci.yml", False),
        ("ci.yml", ".github/workflows/ci.yml", False),
        (".gemini/agents", ".gemini/agents/a.md", True),
        (".gemini/agents", ".gemini/settings.json", False),
        (".gemini/agents", ".git/.gemini/agents/a.md", False),
        (".gemini", ".gemini/.git/hooks/x", False),
        (".git", ".git/modules/x/.git/config", True),
        ("Jenkinsfile", "Jenkinsfile", True),
        ("Jenkinsfile", ".git/Jenkinsfile", False),
    ],
)
def test_what_the_setting_names_may_be_written_and_nothing_else(
    allowed: str, path: str, is_written: bool, cwd: Path, context: ToolContext
) -> None:
    args = args_of(edit_file, path=path, old="", new="x")
    allowing = replace(context, protected=Protected(writable=[allowed]))
    if is_written:
        edit_file.function(args, allowing)
    else:
        with pytest.raises(ToolError, match="read-only for agents"):
            edit_file.function(args, allowing)
    assert (cwd / path).exists() == is_written


@pytest.mark.parametrize(
    ("glob", "path", "is_written"),
    [
        ("*.lock", "poetry.lock", False),
        ("*.lock", "a/b/Cargo.LOCK", False),
        ("*.lock", "a.lock.txt", True),
        ("deploy", "deploy/prod/x.yml", False),
        ("deploy/**", "sub/deploy/prod/x.yml", False),
        ("deploy/*/x.yml", "deploy/prod/x.yml", False),
        ("/".join(["a", "**", "b"]), "a/c/d/b", False),
        ("{docs,site}", "site/index.md", False),
        ("docs", "mydocs/a.md", True),
        ("*", ".env", False),
        ("[A-Z]*.md", "README.md", False),
    ],
)
def test_what_the_setting_adds_is_read_only_and_no_other_setting_lifts_it(
    glob: str, path: str, is_written: bool, cwd: Path, context: ToolContext
) -> None:
    args = args_of(edit_file, path=path, old="", new="x")
    guarding = replace(context, protected=Protected([glob], path.split("/")))
    if is_written:
        edit_file.function(args, guarding)
    else:
        with pytest.raises(ToolError, match=r"read-only for agents: the setting tools\.read_only has"):
            edit_file.function(args, guarding)
    assert (cwd / path).exists() == is_written


@pytest.mark.parametrize(
    ("variable", "value", "problem"),
    [
        ("EKIDEN_TOOLS_WRITABLE", "*", "has a wildcard"),
        ("EKIDEN_TOOLS_WRITABLE", '[".git", "**"]', "has a wildcard"),
        ("EKIDEN_TOOLS_WRITABLE", "/srv/x", "no relative path"),
        ("EKIDEN_TOOLS_WRITABLE", "", "no relative path"),
        ("EKIDEN_TOOLS_READ_ONLY", "../x", "no relative path"),
        ("EKIDEN_TOOLS_READ_ONLY", "~/x", "no relative path"),
        ("EKIDEN_TOOLS_READ_ONLY", "a//b", "no relative path"),
        ("EKIDEN_TOOLS_READ_ONLY", "[z-a]", "not a regular expression"),
        ("EKIDEN_TOOLS_READ_ONLY", '["a"', "JSON"),
    ],
)
def test_a_setting_that_cannot_be_read_is_an_error(
    variable: str, value: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigurationError, match=problem) as refusal:
        load_settings()
    assert f"environment {variable}" in str(refusal.value)


def test_settings_are_one_text_or_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EKIDEN_TOOLS_READ_ONLY", "*.lock")
    monkeypatch.setenv("EKIDEN_TOOLS_WRITABLE", '[".github/workflows", "Jenkinsfile"]')
    found = load_settings()
    assert (found.tools_read_only, found.tools_writable) == (["*.lock"], [".github/workflows", "Jenkinsfile"])
    monkeypatch.setenv("EKIDEN_TOOLS_READ_ONLY", "[]")
    assert load_settings().tools_read_only == []


@pytest.fixture
def home(cwd: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder that is the workspace, with all that Ekiden keeps there."""
    monkeypatch.setenv("HOME", str(cwd))
    remember(cwd / "project")
    change_setting(global_file(), "ekiden.redis_url", "redis://:needle@127.0.0.1/0")
    (state_folder() / "digest" / "appendonlydir").mkdir(parents=True)
    (state_folder() / "digest" / "appendonlydir" / "a.aof").write_text("needle")
    (state_folder() / "worker.log").write_text("needle")
    (cwd / "notes.txt").write_text("needle")
    return cwd


@pytest.mark.parametrize("root", ["home", "/"])
def test_nothing_of_ekidens_is_read_or_written_even_if_the_workspace_is_the_home_folder_or_the_disk(
    root: str, home: Path, context: ToolContext
) -> None:
    context = replace(context, root=Path(root) if root == "/" else home, cwd=home)
    (home / "link").symlink_to(state_folder())
    kept = [*state_folder().rglob("*"), state_folder(), global_file(), home / "link"]
    assert len(kept) > 6
    for path in kept:
        for tool, args in ((read_file, {}), (ls, {}), (grep, {"pattern": "x"}), (glob, {"pattern": "*"})):
            with pytest.raises(ToolError, match="closed to agents"):
                tool.function(args_of(tool, path=str(path), **args), context)
        with pytest.raises(ToolError, match="closed to agents"):
            edit_file.function(args_of(edit_file, path=f"{path}/x", old="", new="x"), context)
    assert grep.function(args_of(grep, pattern="needle"), context) == "notes.txt:1:needle"
    found = str(glob.function(args_of(glob, pattern="**"), context)).splitlines()
    assert sorted(found) == ["link", "notes.txt"]


def test_a_data_folder_is_closed_wherever_it_lies(cwd: Path, use: Use) -> None:
    with attach(cwd / "elsewhere"):
        (cwd / "elsewhere" / "needle").write_text("needle")
        for tool, args in ((ls, {}), (grep, {"pattern": "."}), (glob, {"pattern": "**"})):
            with pytest.raises(ToolError, match="closed to agents"):
                use(tool, path="elsewhere", **args)
        with pytest.raises(ToolError, match="closed to agents"):
            use(read_file, path="elsewhere/appendonlydir/appendonly.aof.manifest")
        with pytest.raises(ToolError, match="closed to agents"):
            use(edit_file, path="elsewhere/new", old="", new="x")
        assert use(grep, pattern="needle").startswith("no line")
        assert use(glob, pattern="**").startswith("no file")


def test_a_search_of_the_whole_disk_does_not_enter_the_kernels_files(
    cwd: Path, context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ekiden.workers.tools.builtin import paths

    monkeypatch.setattr(
        paths, "_entries", lambda folder: ([], ["proc", "sys", "dev"]) if is_root(folder) else (["a"], [])
    )
    everything = replace(context, root=Path("/"), cwd=Path("/"))
    assert str(glob.function(args_of(glob, pattern="**"), everything)).startswith("no file")


def is_root(folder: int) -> bool:
    return os.path.samestat(os.fstat(folder), Path("/").stat())


ODD = [
    *("..", ".", "", "a", "job", "outside", "secret.txt", "link", "deep", "file-link", "up", "loop", "hard", "src"),
    *(".git", ".GIT", ".git.", ".git ", "git~1", "hooks", "pre-commit", ".gemini", "settings.json", ".github"),
    *("workflows", "Jenkinsfile", "\uff0egit", ".g\u200bit", "\u202e.git", "e\u0301", "\xe9", "x" * 300, "..."),
    *("a\0b", "\ud800", "\udcff", "\\", "~", "*", "..\\..", "%2e%2e", "C:", "root", "proc", "self", "\n", " "),
]
STARTS = ["", "", "", "/", "//", "./", "{root}/", "{outside}/", "/proc/self/root/", "/proc/self/cwd/"]
ENDS = ["", "", "", "/", "/.", "/..", "/" + "y" * 5_000]


def any_name(chance: Random) -> str:
    codes = [*range(128), chance.randrange(128, 0xD800)]
    return "".join(map(chr, chance.choices(codes, k=chance.randrange(9))))


def any_path(seed: int) -> str:
    """A path, always the same for a seed: to have Hypothesis draw each of its parts takes as long as all the rest."""
    chance = Random(seed)
    names = [chance.choice(ODD) if chance.randrange(2) else any_name(chance) for _ in range(chance.randrange(9))]
    return chance.choice(STARTS) + "/".join(names) + chance.choice(ENDS)


CALLS: dict[str, tuple[Tool, dict[str, Any]]] = {
    "read": (read_file, {}),
    "list": (ls, {}),
    "grep": (grep, {"pattern": "outer|secret"}),
    "glob": (glob, {"pattern": "**"}),
    "read many": (read_many_files, {"include": ["**"]}),
    "create": (edit_file, {"old": "", "new": "written"}),
    "edit": (edit_file, {"old": "e", "new": "written", "replace_all": True}),
    "write": (write_file, {"content": "written"}),
    "delete": (delete_file, {}),
}


@pytest.mark.usefixtures("way")
@settings(
    deadline=5_000, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(path=st.integers(0, 2**32).map(any_path), call=st.sampled_from(sorted(CALLS)))
def test_whatever_path_a_model_gives_nothing_outside_is_read_or_changed_and_nothing_read_only_changed(
    cwd: Path, use: Use, path: str, call: str
) -> None:
    top = cwd.parent.parent
    if "root/job/.git" not in (before := content_of(top)) or written(before):
        plant(cwd)
        before = content_of(top)
    path = path.replace("{root}", str(cwd.parent)).replace("{outside}", str(top / "outside"))
    said = ""
    try:
        tool, args = CALLS[call]
        said = use(tool, path=path if tool.read_only else path or "?", **args)
        if not tool.read_only:  # a diff tells what was there: within
            said = ""
    except (ToolError, ValidationError) as error:  # which the gate tells the model
        said = str(error).replace(repr(path), "")
    assert "outer words" not in said
    assert "deeper.txt" not in said
    after = content_of(top)
    for folder in ("outside", "root/job/.git", "root/job/.github/workflows"):
        assert below(folder, after) == below(folder, before)
    assert {path.partition("/")[0] for path in after} == {"root", "outside"}
    assert not any(name.casefold() in BUILTIN_PLACES for name in written(after))


def plant(cwd: Path) -> None:
    """Make the tree (anew: what one example has written is none of the next one's business)."""
    outside = cwd.parent.parent / "outside"
    shutil.rmtree(cwd.parent)
    (cwd / ".git" / "hooks").mkdir(parents=True)
    (cwd / ".github" / "workflows").mkdir(parents=True)
    for path in (cwd / ".git" / "config", cwd / ".github" / "workflows" / "ci.yml", cwd / "a", cwd / "src"):
        path.write_text("here")
    (outside / "deep").mkdir(exist_ok=True)
    for path in (outside / "secret.txt", outside / "deep" / "deeper.txt"):
        path.write_text("outer words")
    links: dict[str, str | Path] = {
        "link": outside,
        "deep": "../../outside/deep",
        "file-link": outside / "secret.txt",
        "up": "..",
    }
    for name, target in {**links, "loop": "loop", "hooks": ".git/hooks", "pre-commit": ".git/hooks/pre-commit"}.items():
        (cwd / name).symlink_to(target)


def content_of(folder: Path) -> dict[str, bytes | None]:
    """All that lies below a folder by its path from there, and what the files hold that are no links."""
    found: dict[str, bytes | None] = {}
    for at, folders, files in os.walk(folder):
        way = f"{at}/".removeprefix(f"{folder}/")
        found |= {way + name: None for name in folders}
        found |= {way + path.name: path.read_bytes() for name in files if not (path := Path(at, name)).is_symlink()}
    return found


def below(folder: str, content: dict[str, bytes | None]) -> dict[str, bytes | None]:
    return {path: held for path, held in content.items() if path.startswith(f"{folder}/")}


def written(content: dict[str, bytes | None]) -> list[str]:
    """The names of files with what an example wrote, and of their folders."""
    return [name for path, held in content.items() if held and b"written" in held for name in path.split("/")]


def test_git_itself_takes_no_order_from_what_an_agent_wrote(cwd: Path, use: Use) -> None:
    git = shutil.which("git")
    if git is None:
        pytest.skip("git is not installed")
    subprocess.run([git, "init", "-q", str(cwd)], check=True)
    before = content_of(cwd / ".git")
    for path in (".git/hooks/post-checkout", ".git/config", ".git/info/attributes", ".gitmodules"):
        with pytest.raises(ToolError, match=r"read-only|exists"):
            use(edit_file, path=path, old="", new="[core]\n\tfsmonitor = id")
    assert content_of(cwd / ".git") == before


def as_linked_hooks(cwd: Path) -> None:
    (cwd / ".git").mkdir()
    (cwd / ".git" / "hooks").symlink_to("../led")


def as_hooks_path(cwd: Path) -> None:
    (cwd / ".git").mkdir()
    (cwd / ".git" / "config").write_text("[core]\n\tbare = false\n\thooksPath = led # ours\n")


def as_separate_git_dir(cwd: Path) -> None:
    (cwd / ".git").write_text("gitdir: led\n")


def as_hooks_path_of_a_separate_git_dir(cwd: Path) -> None:
    (cwd / "meta").mkdir()
    (cwd / ".git").write_text("gitdir: meta\n")
    (cwd / "meta" / "config").write_text('[core]\nhookspath = "led"\n')


def as_linked_agents(cwd: Path) -> None:
    (cwd / ".gemini").mkdir()
    (cwd / ".gemini" / "agents").symlink_to("../led")


def as_linked_agent(cwd: Path) -> None:
    (cwd / ".gemini" / "agents").mkdir(parents=True)
    (cwd / ".gemini" / "agents" / "x.md").symlink_to("../../led/file")


def as_linked_workflow(cwd: Path) -> None:
    (cwd / ".github" / "workflows").mkdir(parents=True)
    (cwd / ".github" / "workflows" / "x.yml").symlink_to("../../led/file")


@pytest.mark.parametrize(
    "lead",
    [
        as_linked_hooks,
        as_hooks_path,
        as_separate_git_dir,
        as_hooks_path_of_a_separate_git_dir,
        as_linked_agents,
        as_linked_agent,
        as_linked_workflow,
    ],
)
def test_what_a_read_only_place_leads_to_is_read_only(lead: Callable[[Path], None], cwd: Path, use: Use) -> None:
    (cwd / "led").mkdir()
    (cwd / "led" / "file").write_text("old")
    lead(cwd)
    with pytest.raises(ToolError, match="read-only for agents"):
        use(edit_file, path="led/file", old="old", new="new")
    use(edit_file, path="ledger", old="", new="new")


@pytest.mark.parametrize(
    "place",
    [
        "AGENTS.md",
        "docs/CLAUDE.md",
        ".github/copilot-instructions.md",
        "x.pth",
        "lib/sitecustomize.py",
        ".local/share/applications/x.desktop",
        "lefthook.toml",
        "a.code-workspace",
        ".cargo/config.toml",
        ".config/git/config",
    ],
)
def test_texts_that_programs_or_assistants_obey_are_read_only_unless_named(place: str) -> None:
    names = place.split("/")
    assert Protected().problem_of(names) is not None
    assert Protected(writable=[place]).problem_of(names) is None
