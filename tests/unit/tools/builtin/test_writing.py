import os
from pathlib import Path

import pytest

from ekiden.shared.errors import ToolError
from ekiden.workers.tools.builtin.many_files import read_many_files
from ekiden.workers.tools.builtin.writing import delete_file, write_file
from tests.unit.tools.conftest import Use


def test_writes_a_new_file_with_its_folders_and_shows_a_diff(cwd: Path, use: Use) -> None:
    assert use(write_file, path="src/new/a.py", content="x = 1\n").startswith("created src/new/a.py\n--- src/new/a.py")
    assert (cwd / "src/new/a.py").read_text() == "x = 1\n"


def test_replaces_all_of_a_file_and_keeps_its_encoding_and_mode(cwd: Path, use: Use) -> None:
    (cwd / "a.txt").write_bytes(b"\xff\xfe" + "价\n".encode("utf-16-le"))
    (cwd / "a.txt").chmod(0o754)
    said = use(write_file, path="a.txt", content="总\n")
    assert (cwd / "a.txt").read_bytes() == b"\xff\xfe" + "总\n".encode("utf-16-le")
    assert (cwd / "a.txt").stat().st_mode & 0o777 == 0o754
    assert "\n-价\n+总" in said
    assert use(write_file, path="a.txt", content="总\n") == "a.txt holds this text already"


def test_an_empty_file_is_a_text_too(cwd: Path, use: Use) -> None:
    (cwd / "a.txt").write_text("")
    assert use(write_file, path="a.txt", content="x").startswith("wrote a.txt")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("../../outside/new.txt", "outside the workspace"),
        (".git/hooks/pre-commit", "read-only for agents"),
        ("folder", "is a folder"),
        ("binary", "binary file"),
        ("hard", "2 names"),
    ],
)
def test_writes_nothing_where_no_text_file_may_be(path: str, said: str, cwd: Path, use: Use) -> None:
    (cwd / "folder").mkdir()
    (cwd / "binary").write_bytes(b"\0\1")
    os.link(cwd.parent.parent / "outside" / "secret.txt", cwd / "hard")
    with pytest.raises(ToolError, match=said):
        use(write_file, path=path, content="x")
    assert (cwd.parent.parent / "outside" / "secret.txt").read_text() == "secret"


def test_deletes_one_file(cwd: Path, use: Use) -> None:
    (cwd / "sub").mkdir()
    (cwd / "sub" / "a.txt").write_text("x")
    assert use(delete_file, path="sub/a.txt") == "deleted sub/a.txt"
    assert list((cwd / "sub").iterdir()) == []


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("gone", "there is nothing at 'gone'"),
        ("folder", "no regular file at 'folder'"),
        ("link", "is a link to 'target'"),
        ("outer", "outside the workspace"),
        (".git/config", "read-only for agents"),
    ],
)
def test_deletes_nothing_else(path: str, said: str, cwd: Path, use: Use) -> None:
    (cwd / "folder").mkdir()
    (cwd / ".git").mkdir()
    for name in ("target", ".git/config"):
        (cwd / name).write_text("kept")
    (cwd / "link").symlink_to("target")
    (cwd / "outer").symlink_to(cwd.parent.parent / "outside" / "secret.txt")
    with pytest.raises(ToolError, match=said):
        use(delete_file, path=path)
    assert (cwd / "target").read_text() == (cwd / ".git/config").read_text() == "kept"
    assert (cwd.parent.parent / "outside" / "secret.txt").exists()


def test_reads_many_files_in_the_order_of_their_paths(cwd: Path, use: Use) -> None:
    (cwd / "src").mkdir()
    for name, text in {"b.py": "b\n", "src/a.py": "a\n", "src/skip_a.py": "s", "notes.txt": "n"}.items():
        (cwd / name).write_text(text)
    (cwd / "blob.py").write_bytes(b"\0")
    assert use(read_many_files, include=["**/*.py", "*.py"], exclude=["**/skip*"]) == (
        "--- b.py ---\nb\n\n--- src/a.py ---\na\n"
    )
    assert use(read_many_files, include=["a.py"], path="src") == "--- src/a.py ---\na\n"


def test_what_does_not_fit_is_named(cwd: Path, use: Use) -> None:
    for name in ("a.txt", "b.txt", "c.txt"):
        (cwd / name).write_text("x" * 40_000)
    said = use(read_many_files, include=["*.txt"])
    assert said.endswith("(left out, read them with read_file: c.txt)")
    assert len(said) < 100_000


@pytest.mark.parametrize("pattern", ["/etc/*", "../*"])
def test_reads_nothing_outside(pattern: str, use: Use) -> None:
    with pytest.raises(ToolError, match="must be relative"):
        use(read_many_files, include=[pattern])


def test_says_when_nothing_matches(use: Use) -> None:
    assert use(read_many_files, include=["*.rs"]) == "no text file matches '*.rs'"
