"""The documents' example of the Python API does what it says."""

import re
import sys
from pathlib import Path

from ekiden.shared.demo import write_demo
from tests.e2e.program import Program

PAGE = Path(__file__).parents[2] / "docs" / "python.md"
LINES = 10


def example() -> str:
    """The code block behind the marker."""
    found = re.search(
        r"<!-- not run: tests/e2e/test_python_example.py does -->\s*```python\n(.*?)```",
        PAGE.read_text("utf-8"),
        re.DOTALL,
    )
    assert found is not None, "python.md has no Python block behind its comment"
    return found[1]


def test_the_example_of_the_python_api_submits_follows_and_prints_the_answer(
    ekiden: Program, redis_url: str, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    write_demo(project)
    ekiden.start("dispatcher")
    ekiden.start("worker", "--workspace-root", project)
    code = example()
    assert len([line for line in code.splitlines() if line.strip()]) <= LINES
    running = ekiden.start(program=[sys.executable, "-c", code])
    assert running.ends() == 0, running.output
    assert "ended" in running.output
    answer = ekiden.run("job", "result", ekiden.run("jobs", "--json").stdout.split('"')[3]).stdout
    assert answer.strip()
    assert running.output.endswith(answer)
