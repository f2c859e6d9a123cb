from pathlib import Path

import pytest

from ekiden.shared.errors import ToolError
from ekiden.workers.tools.builtin.files import ls, read_file
from tests.unit.tools.conftest import Use


def test_lists_names_sorted_with_folders_and_links_marked(cwd: Path, use: Use) -> None:
    (cwd / "源码").mkdir()
    (cwd / "b.py").write_text("")
    (cwd / ".env").write_text("")
    (cwd / "link").symlink_to("/etc")
    assert use(ls).splitlines() == [".env", "b.py", "link -> /etc", "源码/"]


def test_says_when_a_folder_is_empty(use: Use) -> None:
    assert use(ls) == "(empty folder)"


def test_cuts_a_long_listing(cwd: Path, use: Use) -> None:
    for number in range(1005):
        (cwd / f"{number:04}").touch()
    lines = use(ls).splitlines()
    assert len(lines) == 1001
    assert "1,005" in lines[-1]


def test_refuses_to_list_outside(use: Use) -> None:
    with pytest.raises(ToolError, match="outside the workspace"):
        use(ls, path="..//..")


def test_numbers_lines_from_one(cwd: Path, use: Use) -> None:
    (cwd / "价格.py").write_text("总价 = 1\n\nprint(总价)\n", encoding="utf-8")
    assert use(read_file, path="价格.py") == "1\t总价 = 1\n2\t\n3\tprint(总价)"


def test_shows_no_carriage_returns_or_byte_order_marks(cwd: Path, use: Use) -> None:
    (cwd / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    (cwd / "b.txt").write_bytes("\ufeff早\n".encode("utf-16-le"))
    assert use(read_file, path="a.txt") == "1\tone\n2\ttwo"
    assert use(read_file, path="b.txt") == "1\t早"


def test_counts_only_line_feeds_as_line_ends(cwd: Path, use: Use) -> None:
    (cwd / "a.txt").write_text("a\x0cb\u2028c\nd", encoding="utf-8")
    assert use(read_file, path="a.txt") == "1\ta\x0cb\u2028c\n2\td"


def test_says_how_to_go_on_when_cut(cwd: Path, use: Use) -> None:
    (cwd / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 11)))
    assert use(read_file, path="a.txt", offset=3, limit=2) == (
        "3\tline 3\n4\tline 4\n(cut: lines 3-4 of 10; go on with offset=5)"
    )
    assert "cut" not in use(read_file, path="a.txt", offset=9, limit=2)


def test_reads_2000_lines_by_default_and_cuts_long_lines(cwd: Path, use: Use) -> None:
    (cwd / "a.txt").write_text("x" * 3000 + "\n" + "y\n" * 2500)
    lines = use(read_file, path="a.txt").split("\n")
    assert lines[0] == "1\t" + "x" * 2000 + " (cut: the line has 3,000 characters)"
    assert lines[-1].startswith("(cut: lines 1-2000 of 2,501; go on with offset=2001)")


def test_keeps_an_answer_small_enough_for_its_note_to_survive(cwd: Path, use: Use) -> None:
    (cwd / "a.txt").write_text(("x" * 1500 + "\n") * 500)
    text = use(read_file, path="a.txt")
    assert len(text) < 100_000
    assert "go on with offset=" in text.split("\n")[-1]


def test_reads_the_end_of_a_file_of_10_mb(cwd: Path, use: Use) -> None:
    (cwd / "big.log").write_text("0123456789abcdefghi\n" * 500_000)
    assert use(read_file, path="big.log", offset=500_000) == "500000\t0123456789abcdefghi"


def test_refuses_an_offset_behind_the_end(cwd: Path, use: Use) -> None:
    (cwd / "a.txt").write_text("a\nb\n")
    with pytest.raises(ToolError, match="has 2 lines"):
        use(read_file, path="a.txt", offset=3)
    (cwd / "empty").write_text("")
    assert use(read_file, path="empty") == "(empty file)"


def test_refuses_binary_files(cwd: Path, use: Use) -> None:
    (cwd / "a.png").write_bytes(b"\x89PNG\r\n\0\0\0")
    with pytest.raises(ToolError, match=r"'a\.png' is a binary file"):
        use(read_file, path="a.png")


def test_marks_bytes_that_are_not_utf8(cwd: Path, use: Use) -> None:
    (cwd / "a.txt").write_bytes("café\n".encode("latin-1"))
    assert use(read_file, path="a.txt").startswith("1\tcaf\ufffd\n(not valid UTF-8")


def test_refuses_files_over_the_limit(cwd: Path, use: Use) -> None:
    with (cwd / "huge").open("wb") as file:
        file.truncate(60_000_000)
    with pytest.raises(ToolError, match="60,000,000 bytes"):
        use(read_file, path="huge")
