"""What it costs to open every file of a search beneath the workspace root.

    python -m tests.benchmarks.searching [--files 10000] [--rounds 5]

``grep`` and ``glob`` of the file tools against the same search by ``os.walk`` and paths, in turns, over one tree of
small files; both ways of opening (``openat2``, and folder by folder).
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ekiden.workers.tools.base import ToolContext
from ekiden.workers.tools.builtin import safe_open
from ekiden.workers.tools.builtin.patterns import compiled
from ekiden.workers.tools.builtin.searching import Glob, Grep, glob, grep
from ekiden.workers.tools.builtin.text_file import TextFile

PER_FOLDER = 25
LINES = 60
NOWHERE = "nothing_has_this"


def main() -> None:
    """Print the time of each search, and the ratio to the one by paths."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        plant(root, args.files)
        measure(root, args.rounds)


def plant(root: Path, files: int) -> None:
    """Write the tree."""
    text = "".join(f"value_{number} = {number * 7919}\n" for number in range(LINES))
    for number in range(files):
        path = root / f"a{number // (PER_FOLDER * 20)}" / f"b{number // PER_FOLDER}" / f"c{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def measure(root: Path, rounds: int) -> None:
    """Run every search ``rounds`` times, in turns, and print the medians."""
    context = ToolContext(job="j", leg=1, agent="a", call_id="c", cwd=root, root=root)
    searches: dict[str, dict[str, Callable[[], object]]] = {
        "grep": {"paths": lambda: read_by_path(root), "tool": lambda: grep.function(Grep(pattern=NOWHERE), context)},
        "glob": {"paths": lambda: list_by_path(root), "tool": lambda: glob.function(Glob(pattern="**/*.md"), context)},
    }
    for has_call in (True, False) if safe_open._has_openat2() else (False,):
        safe_open._has_openat2 = lambda has_call=has_call: has_call  # type: ignore[assignment]
        for name, ways in searches.items():
            took: dict[str, list[float]] = {way: [] for way in ways}
            for _ in range(rounds):
                for way, search in ways.items():
                    took[way].append(timed(search))
            ms = {way: statistics.median(times) * 1000 for way, times in took.items()}
            how = "openat2" if has_call else "step by step"
            print(f"{name}, {how}: by paths {ms['paths']:.0f} ms, beneath {ms['tool']:.0f} ms, ratio ", end="")
            print(f"{ms['tool'] / ms['paths']:.2f}")


def timed(search: Callable[[], object]) -> float:
    """Return the processor time of one search, in seconds."""
    began = time.process_time()
    search()
    return time.process_time() - began


def list_by_path(root: Path) -> list[str]:
    """Walk the tree and compare each relative path with a pattern, as ``glob`` does."""
    expression = compiled(r"\.md\z")
    files = [Path(parent, name) for parent, _, names in os.walk(root) for name in sorted(names)]
    return [str(file) for file in files if expression.search(file.relative_to(root).as_posix().encode())]


def read_by_path(root: Path) -> list[str]:
    """Read every file by its path and search its lines, as ``grep`` did before."""
    expression = compiled(NOWHERE)
    found = []
    for parent, _, names in os.walk(root):
        for file in (Path(parent, name) for name in sorted(names)):
            if file.is_symlink() or not file.is_file() or (text := TextFile.decode(file.read_bytes())) is None:
                continue
            lines = text.utf8.split(b"\n")
            found += [str(file) for line in lines if expression.search(line.removesuffix(b"\r")[:100_000])]
    return found


if __name__ == "__main__":
    main()
