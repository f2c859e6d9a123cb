import os
import time
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random

import pytest

from ekiden.shared.errors import ToolError
from ekiden.workers.tools.base import Tool
from ekiden.workers.tools.builtin import searching
from ekiden.workers.tools.builtin.editing import edit_file
from ekiden.workers.tools.builtin.files import ls, read_file
from ekiden.workers.tools.builtin.patterns import compiled
from ekiden.workers.tools.builtin.searching import glob, grep
from tests.unit.tools.conftest import Use


def _tree(folder: Path, *paths: str, text: str = "") -> None:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.py", ["a.py"]),
        ("./*.py", ["a.py"]),
        ("**/*.py", ["a.py", "src/b.py", "src/deep/c.py"]),
        ("src/**", ["src/b.py", "src/b.ts", "src/deep/c.py"]),
        ("src/*", ["src/b.py", "src/b.ts"]),
        ("**/*.{ts,md}", ["src/b.ts", "说明.md"]),
        ("**/[bc].py", ["src/b.py", "src/deep/c.py"]),
        ("**/[!ab].py", ["src/deep/c.py"]),
        ("?.py", ["a.py"]),
        ("说*.md", ["说明.md"]),
        ("a+b(1).txt", ["a+b(1).txt"]),
        ("[", []),
    ],
)
def test_globs(pattern: str, found: list[str], cwd: Path, use: Use) -> None:
    _tree(cwd, "a.py", "src/b.py", "src/b.ts", "src/deep/c.py", "说明.md", "a+b(1).txt")
    text = use(glob, pattern=pattern)
    assert text.startswith("no file matches") if not found else text.splitlines() == found


def test_glob_names_files_relative_to_the_jobs_folder(cwd: Path, use: Use) -> None:
    _tree(cwd, "src/deep/c.py")
    assert use(glob, pattern="**/*.py", path="src") == "src/deep/c.py"
    assert use(glob, pattern="job/**/*.py", path="..") == "src/deep/c.py"


def test_searches_skip_folders_of_tools(cwd: Path, use: Use) -> None:
    skipped = [".git/x.py", ".ekiden/x.py", "a/__pycache__/x.py", "a/node_modules/x.py", ".venv/x.py"]
    _tree(cwd, *skipped, ".github/x.py", text="needle")
    assert use(glob, pattern="**/*.py") == ".github/x.py"
    assert use(grep, pattern="needle") == ".github/x.py:1:needle"


def test_glob_is_capped_with_a_note(cwd: Path, use: Use) -> None:
    for number in range(510):
        (cwd / f"{number:03}.py").touch()
    lines = use(glob, pattern="*.py").splitlines()
    assert lines[499] == "499.py"
    assert lines[500:] == ["(cut: 500 of 510 files; narrow the pattern)"]


def test_glob_hints_at_the_folders_below(cwd: Path, use: Use) -> None:
    _tree(cwd, "src/b.py")
    assert "'**/'" in use(glob, pattern="*.py")


@pytest.mark.parametrize("pattern", ["/etc/*", "../*", "a/../../*"])
def test_glob_refuses_patterns_that_climb(pattern: str, use: Use) -> None:
    with pytest.raises(ToolError, match="must be relative"):
        use(glob, pattern=pattern)


def test_searches_do_not_leave_through_links(cwd: Path, use: Use) -> None:
    (cwd / "folder").symlink_to("../../outside")
    (cwd / "file.txt").symlink_to("../../outside/secret.txt")
    assert use(glob, pattern="**/secret*").startswith("no file")
    assert use(grep, pattern="secret").startswith("no line")
    with pytest.raises(ToolError, match="outside the workspace"):
        use(grep, pattern="secret", path="file.txt")
    with pytest.raises(ToolError, match="outside the workspace"):
        use(glob, pattern="*", path="folder")


def test_grep_prints_file_line_and_text(cwd: Path, use: Use) -> None:
    _tree(cwd, "商店/购物车.py", text="x = 1\n\ttotal = 价格\r\n")
    assert use(grep, pattern="价.$") == "商店/购物车.py:2:\ttotal = 价格"
    assert use(grep, pattern="^x", path="商店/购物车.py") == "商店/购物车.py:1:x = 1"


def test_grep_matches_line_by_line(cwd: Path, use: Use) -> None:
    _tree(cwd, "a.txt", text="one\ntwo\n")
    assert use(grep, pattern=r"one\stwo").startswith("no line")
    assert use(grep, pattern="[^x]$").splitlines() == ["a.txt:1:one", "a.txt:2:two"]


@pytest.mark.parametrize(
    "pattern",
    [
        *("a", "^a", "b$", "^$", "x*", "é.", "a|^$", r"\bab\b", "[^a]b", r"[^\n]$", "^[^a]*$", r"\s$", r"\\", "a\nb"),
        *("(?i)AB", "(?-m)^a", "(?s)a.b", "(?m)^b$", "(?P<x>b)a$", "(?:ab|^b)+", r"(?m:\Aa)", r"\Aab", r"b\z", r"\Qa"),
    ],
)
def test_grep_finds_what_is_found_in_each_line_by_itself(
    pattern: str, cwd: Path, use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "_BLOCK", 8)  # bytes, so that there are many
    text = "".join(Random(1).choices(["a", "b", "\\", "é", " ", "\n", "\r\n", "\r"], k=900))
    (cwd / "a.txt").write_bytes(text.encode())
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    found = [f"a.txt:{n}:{line}" for n, line in enumerate(lines, 1) if compiled(pattern).search(line.encode())]
    assert use(grep, pattern=pattern, path="a.txt").split("\n") == (
        found or [f"no line matches {pattern!r} under 'a.txt'"]
    )


def test_grep_includes_by_name_or_by_path(cwd: Path, use: Use) -> None:
    _tree(cwd, "a.py", "src/b.py", "src/c.md", text="needle")
    assert use(grep, pattern="needle", include="*.py").splitlines() == ["a.py:1:needle", "src/b.py:1:needle"]
    assert use(grep, pattern="needle", include="src/*.md") == "src/c.md:1:needle"


def test_grep_passes_over_binary_files_and_pipes(cwd: Path, use: Use) -> None:
    (cwd / "a.bin").write_bytes(b"needle\0")
    os.mkfifo(cwd / "pipe")
    (cwd / "latin.txt").write_bytes(b"needle caf\xe9\n")
    (cwd / "wide.txt").write_bytes("\ufeffneedle 早\n".encode("utf-16-le"))
    assert use(grep, pattern="needle").splitlines() == ["latin.txt:1:needle caf\ufffd", "wide.txt:1:needle 早"]


def test_grep_is_capped_with_a_note_and_cuts_long_lines(cwd: Path, use: Use) -> None:
    (cwd / "a.txt").write_text(("x" * 1000 + "\n") * 501)
    lines = use(grep, pattern="x").splitlines()
    assert len(lines) == 501
    assert lines[0] == "a.txt:1:" + "x" * 300 + " (cut)"
    assert lines[-1].startswith("(cut: the first 500")


def test_grep_does_not_claim_a_cut_when_everything_is_shown(cwd: Path, use: Use) -> None:
    (cwd / "a.txt").write_text("x\n" * 500)
    assert len(use(grep, pattern="x").splitlines()) == 500


@pytest.mark.parametrize("pattern", ["(", "a(?=b)", r"(a)\1", "[z-a]", "x{99999}"])
def test_grep_explains_patterns_that_re2_does_not_know(
    pattern: str, use: Use, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ToolError, match="RE2 syntax"):
        use(grep, pattern=pattern)
    assert capfd.readouterr().err == ""


def test_grep_takes_linear_time(cwd: Path, use: Use) -> None:
    (cwd / "a.txt").write_text("a" * 20_000)
    began = time.monotonic()
    assert use(grep, pattern="(a+)+$b").startswith("no line")
    assert time.monotonic() - began < 60


def test_grep_finds_a_line_in_10_mb(cwd: Path, use: Use) -> None:
    (cwd / "big.log").write_text("0123456789abcdefghi\n" * 500_000 + "needle\n")
    assert use(grep, pattern="need.e") == "big.log:500001:needle"


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        (glob, {"pattern": "**/" * 320 + "x"}),
        (glob, {"pattern": "*a" * 400}),
        (glob, {"pattern": "{a,b}" * 190}),
        (glob, {"pattern": "[" * 1_000}),
        (grep, {"pattern": "x", "include": "**/" * 320 + "x"}),
        (grep, {"pattern": "(((a?){30}){30}b)"}),
        (grep, {"pattern": "(a+)+$" * 100}),
    ],
)
def test_a_pattern_that_would_take_for_ever_takes_a_moment(
    tool: Tool, args: dict[str, str], cwd: Path, use: Use
) -> None:
    _tree(cwd, "a" * 200, "/".join(["a"] * 50), text="a" * 5_000)
    began = time.thread_time()
    with suppress(ToolError):
        use(tool, **args)
    assert time.thread_time() - began < 3


@pytest.mark.parametrize(("tool", "field"), [(glob, "pattern"), (grep, "pattern"), (grep, "include")])
def test_a_pattern_has_a_length(tool: Tool, field: str) -> None:
    with pytest.raises(ToolError, match="at most 1000 characters"):
        tool.parse({"pattern": "x", field: "[" * 1_001})


@pytest.mark.parametrize("pattern", ["([ab]{900})([ab]{900})([ab]{900})", "(?i)(\\pL{90}x|\\pN{90}y)"])
def test_grep_refuses_a_pattern_that_is_too_large_to_run(pattern: str, use: Use) -> None:
    with pytest.raises(ToolError, match="too large"):
        use(grep, pattern=pattern)


@pytest.mark.parametrize(("tool", "pattern"), [(glob, "*.py"), (grep, "needle")])
def test_a_search_ends_after_its_time_with_what_it_has_found(
    tool: Tool, pattern: str, cwd: Path, use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    _tree(cwd, "a.py", "b.py", "c.py", text="needle")
    clock = count()
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(searching, "_MAX_SECONDS", 1.5)

    lines = use(tool, pattern=pattern).splitlines()
    assert len(lines) == 2
    assert lines[1] == "(stopped after 1.5 s; search a smaller folder, or for something simpler)"


def test_a_search_within_one_file_ends_after_its_time(cwd: Path, use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    (cwd / "a.txt").write_text("x\n" * 300 + "needle\n")
    clock = count()
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(searching, "_MAX_SECONDS", 3.5)

    assert "(stopped after 3.5 s" in use(grep, pattern="needle")


def test_a_very_long_line_is_searched_to_a_point_and_that_is_said(
    cwd: Path, use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "_MAX_WORK", 20_000)
    (cwd / "a.txt").write_text("x" * 10_000 + "needle\nneedle\n")

    lines = use(grep, pattern="needle").splitlines()
    assert lines[0] == "a.txt:2:needle"
    assert lines[1].startswith("(lines were searched up to ")


def test_searches_stop_after_so_many_files_and_say_so(cwd: Path, use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "_MAX_VISITED", 2)
    _tree(cwd, "a.py", "b.py", "c.py", text="needle")
    assert use(glob, pattern="*.py").splitlines()[:2] == ["a.py", "b.py"]
    assert "only the first 2 files" in use(grep, pattern="needle")


def test_names_that_are_no_utf8_are_found_shown_and_read_as_they_are_shown(cwd: Path, use: Use) -> None:
    for raw in (b"caf\xe9.txt", b"d\xffr/in.txt", "说明.txt".encode()):
        path = cwd / os.fsdecode(raw)
        path.parent.mkdir(exist_ok=True)
        path.write_text("needle\n")
    shown = ["caf\ufffd.txt", "d\ufffdr/in.txt", "说明.txt"]
    assert use(glob, pattern="**/*").splitlines() == shown
    assert use(glob, pattern="caf?.txt").splitlines() == shown[:1]
    assert sorted(use(grep, pattern="needle").splitlines()) == [f"{name}:1:needle" for name in shown]
    assert use(ls).splitlines() == ["caf\ufffd.txt", "d\ufffdr/", "说明.txt"]
    for name in shown:
        assert use(read_file, path=name) == "1\tneedle"
    use(edit_file, path="caf\ufffd.txt", old="needle", new="thread")
    assert (cwd / os.fsdecode(b"caf\xe9.txt")).read_text() == "thread\n"


def test_two_names_that_are_shown_alike_are_not_guessed_at(cwd: Path, use: Use) -> None:
    for name in (b"caf\xe9", b"caf\xe8"):
        (cwd / os.fsdecode(name)).touch()
    with pytest.raises(ToolError, match="2 files are shown"):
        use(read_file, path="caf\ufffd")


def test_a_name_that_cannot_be_shown_leads_no_further_than_another(cwd: Path, use: Use) -> None:
    link = cwd / os.fsdecode(b"l\xff")
    link.symlink_to("/etc")
    with pytest.raises(ToolError, match="outside the workspace"):
        use(read_file, path="l\ufffd/passwd")
