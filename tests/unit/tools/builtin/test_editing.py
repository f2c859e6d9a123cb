import os
import time
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from ekiden.shared.errors import ToolError
from ekiden.workers.tools.builtin.editing import edit_file
from tests.unit.tools.conftest import Use


def test_replaces_the_one_occurrence_and_shows_a_diff(cwd: Path, use: Use) -> None:
    (cwd / "cart.py").write_text("".join(f"line {n}\n" for n in range(1, 30)))
    text = use(edit_file, path="cart.py", old="line 20", new="第二十行")
    assert (cwd / "cart.py").read_text(encoding="utf-8").split("\n")[19] == "第二十行"
    assert text.splitlines() == [
        "edited cart.py",
        "--- cart.py",
        "+++ cart.py",
        "@@ -17,7 +17,7 @@",
        " line 17",
        " line 18",
        " line 19",
        "-line 20",
        "+第二十行",
        " line 21",
        " line 22",
        " line 23",
    ]


def test_matches_a_regular_expression_only_literally(cwd: Path, use: Use) -> None:
    (cwd / "a.py").write_text("x = a.*b\n")
    use(edit_file, path="a.py", old="a.*b", new=r"\1\g<0>")
    assert (cwd / "a.py").read_text() == "x = \\1\\g<0>\n"


def test_keeps_crlf_line_ends(cwd: Path, use: Use) -> None:
    (cwd / "a.txt").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    use(edit_file, path="a.txt", old="one\ntwo", new="1\n2\nzwei")
    assert (cwd / "a.txt").read_bytes() == b"1\r\n2\r\nzwei\r\nthree\r\n"
    use(edit_file, path="a.txt", old="three", new="3\n4")
    assert (cwd / "a.txt").read_bytes() == b"1\r\n2\r\nzwei\r\n3\r\n4\r\n"


def test_keeps_lf_where_the_model_writes_crlf_and_mixed_ends_where_they_are(cwd: Path, use: Use) -> None:
    (cwd / "a.txt").write_bytes(b"one\ntwo\r\nthree\r\nfour\n")
    use(edit_file, path="a.txt", old="three\r\nfour", new="3\r\n4")
    use(edit_file, path="a.txt", old="one\ntwo", new="1\n2")
    assert (cwd / "a.txt").read_bytes() == b"1\n2\r\n3\r\n4\n"


@pytest.mark.parametrize(
    ("mark", "encoding"), [(b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")]
)
def test_keeps_byte_order_mark_and_encoding(mark: bytes, encoding: str, cwd: Path, use: Use) -> None:
    (cwd / "a.txt").write_bytes(mark + "价格 = 1\n".encode(encoding))
    use(edit_file, path="a.txt", old="价格 = 1", new="总价 = 2")
    assert (cwd / "a.txt").read_bytes() == mark + "总价 = 2\n".encode(encoding)


def test_leaves_bytes_alone_that_are_not_utf8(cwd: Path, use: Use) -> None:
    (cwd / "a.txt").write_bytes(b"caf\xe9 = 1\n\xff\xfe\n")
    use(edit_file, path="a.txt", old="= 1", new="= 2")
    assert (cwd / "a.txt").read_bytes() == b"caf\xe9 = 2\n\xff\xfe\n"
    with pytest.raises(ToolError, match="not valid UTF-8"):
        use(edit_file, path="a.txt", old="= 2", new="= é")


def test_keeps_the_mode_and_leaves_no_temporary_file(cwd: Path, use: Use) -> None:
    (cwd / "run.sh").write_text("echo 1\n")
    (cwd / "run.sh").chmod(0o751)
    use(edit_file, path="run.sh", old="1", new="2")
    assert (cwd / "run.sh").stat().st_mode & 0o7777 == 0o751
    assert [entry.name for entry in cwd.iterdir()] == ["run.sh"]


def test_leaves_the_file_whole_when_the_new_one_cannot_be_put_in_place(
    cwd: Path, use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    (cwd / "a.txt").write_text("old text")
    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(ToolError, match="No space left"):
        use(edit_file, path="a.txt", old="old", new="new")
    assert [(entry.name, entry.read_text()) for entry in cwd.iterdir()] == [("a.txt", "old text")]


def test_edits_through_a_link_and_keeps_it(cwd: Path, use: Use) -> None:
    (cwd / "real.txt").write_text("a")
    (cwd / "alias.txt").symlink_to("real.txt")
    assert use(edit_file, path="alias.txt", old="a", new="b").startswith("edited real.txt")
    assert (cwd / "alias.txt").is_symlink()
    assert (cwd / "real.txt").read_text() == "b"


@pytest.mark.parametrize("old", ["", "secret"])
@pytest.mark.parametrize("path", ["../../outside/secret.txt", "link/secret.txt", "link/new.txt"])
def test_writes_nothing_outside(path: str, old: str, cwd: Path, use: Use) -> None:
    outside = cwd.parent.parent / "outside"
    (cwd / "link").symlink_to(outside)
    with pytest.raises(ToolError, match="outside the workspace"):
        use(edit_file, path=path, old=old, new="x")
    assert [(entry.name, entry.read_text()) for entry in outside.iterdir()] == [("secret.txt", "secret")]


def test_creates_a_file_with_its_folders(cwd: Path, use: Use) -> None:
    text = use(edit_file, path="新/目录/模块.py", old="", new="x = 1\n")
    assert (cwd / "新/目录/模块.py").read_text(encoding="utf-8") == "x = 1\n"
    assert text.splitlines()[0] == "created 新/目录/模块.py"
    assert "+x = 1" in text.splitlines()
    assert (cwd / "新/目录/模块.py").stat().st_mode & 0o600 == 0o600


def test_refuses_to_create_what_exists(cwd: Path, use: Use) -> None:
    (cwd / "a.py").write_text("precious")
    for path in ("a.py", "."):
        with pytest.raises(ToolError, match="exists already"):
            use(edit_file, path=path, old="", new="x")
    assert (cwd / "a.py").read_text() == "precious"


def test_fills_an_empty_file(cwd: Path, use: Use) -> None:
    (cwd / "__init__.py").touch()
    use(edit_file, path="__init__.py", old="", new="x = 1\n")
    assert (cwd / "__init__.py").read_text() == "x = 1\n"


def test_names_the_lines_where_the_text_occurs_more_than_once(cwd: Path, use: Use) -> None:
    (cwd / "a.py").write_text("x = 1\ny = 2\nx = 1\nx = 1\n")
    with pytest.raises(ToolError, match=r"occurs 3 times in 'a\.py', at lines 1, 3, 4"):
        use(edit_file, path="a.py", old="x = 1", new="x = 2")
    assert "x = 2" not in (cwd / "a.py").read_text()


def test_replaces_all_when_asked(cwd: Path, use: Use) -> None:
    (cwd / "a.py").write_text("x = 1\ny = 2\nx = 1\n")
    text = use(edit_file, path="a.py", old="x = 1", new="x = 3", replace_all=True)
    assert (cwd / "a.py").read_text() == "x = 3\ny = 2\nx = 3\n"
    assert text.startswith("edited a.py: 2 replacements")
    assert text.count("+x = 3") == 1


@pytest.mark.parametrize(
    ("old", "expected"),
    [
        ("return self.totl", r"no line 'return self.totl'; nearest lines:\n3\t        return self.total$"),
        ("return self.total\ndef sum(self):", r"in another order:\n3\t        return self.total$"),
        ("2\t    def sum(self):", "leave out the line numbers"),
        ("something quite different", "read the file again"),
        ("\n\n\n", "only white space"),
    ],
)
def test_explains_why_the_text_was_not_found(old: str, expected: str, cwd: Path, use: Use) -> None:
    (cwd / "a.py").write_text("class Cart:\n    def sum(self):\n        return self.total\n")
    with pytest.raises(ToolError, match=expected) as refusal:
        use(edit_file, path="a.py", old=old, new="x")
    assert "'old' does not occur in 'a.py'" in str(refusal.value)


def test_says_when_nothing_would_change(cwd: Path, use: Use) -> None:
    (cwd / "a.py").write_text("x")
    with pytest.raises(ToolError, match="nothing to change"):
        use(edit_file, path="a.py", old="x", new="x")


def test_refuses_a_missing_file_and_a_binary_one(cwd: Path, use: Use) -> None:
    (cwd / "a.bin").write_bytes(b"x\0")
    with pytest.raises(ToolError, match="binary"):
        use(edit_file, path="a.bin", old="x", new="y")
    with pytest.raises(ToolError, match=r"no file 'gone\.py'"):
        use(edit_file, path="gone.py", old="x", new="y")


def test_edits_and_explains_in_a_file_of_10_mb(cwd: Path, use: Use) -> None:
    (cwd / "big.txt").write_text("".join(f"line number {n:07}\n" for n in range(500_000)))
    text = use(edit_file, path="big.txt", old="line number 0400000", new="changed")
    assert "@@ -399998,7 +399998,7 @@" in text
    with pytest.raises(ToolError, match="does not occur"):
        use(edit_file, path="big.txt", old="line nummer 0000007", new="x")
    assert len(use(edit_file, path="big.txt", old="line", new="L", replace_all=True)) < 2_000


def test_a_repetitive_file_takes_linear_time_and_never_the_interpreter(cwd: Path, use: Use) -> None:
    """An expression went back at each line, in code that nothing can interrupt: hours, for a megabyte."""
    (cwd / "a.txt").write_bytes(b"a\n" * 400_000 + b"b\n")
    began = time.thread_time()

    with pytest.raises(ToolError, match="does not occur"):
        use(edit_file, path="a.txt", old="a\n" * 100_000 + "c", new="x")
    assert use(edit_file, path="a.txt", old="a\n" * 100_000 + "b", new="x").startswith("edited a.txt")
    assert (cwd / "a.txt").read_bytes() == b"a\n" * 300_000 + b"x\n"
    assert time.thread_time() - began < 8


@pytest.mark.parametrize(
    ("content", "old", "new", "after"),
    [
        (b"a\r\nb\nc\r\nd", "a\nb", "1\n2", b"1\r\n2\nc\r\nd"),
        (b"a\r\nb\nc\r\nd", "\nc\n", "-", b"a\r\nb-d"),
        (b"\r\n\r\nx\r\n", "x\n", "y\n", b"\r\n\r\ny\r\n"),
        (b"a\r\r\nb\r\n", "a\r\nb", "c", b"a\r\r\nb\r\n"),
        (b"\xef\xbb\xbfa\r\nb", "a\r\nb", "c\nd", b"\xef\xbb\xbfc\r\nd"),
        (b"x\r\nx\r\nx", "x\nx", "y", b"y\r\nx"),
    ],
)
def test_finds_line_ends_of_both_kinds(cwd: Path, use: Use, content: bytes, old: str, new: str, after: bytes) -> None:
    (cwd / "a.txt").write_bytes(content)
    with suppress(ToolError):
        use(edit_file, path="a.txt", old=old, new=new)
    assert (cwd / "a.txt").read_bytes() == after


def test_refuses_to_grow_a_file_without_end(cwd: Path, use: Use) -> None:
    (cwd / "a.txt").write_text("a" * 100_000)
    with pytest.raises(ToolError, match="at most 1,000,000 places, and 50,000,000 characters"):
        use(edit_file, path="a.txt", old="a", new="b" * 10_000, replace_all=True)
    assert (cwd / "a.txt").read_text() == "a" * 100_000


def test_advice_on_a_line_that_is_like_very_many_takes_bounded_time(cwd: Path, use: Use) -> None:
    letters, chance = "abcdefghij" * 20, Random(1)
    shuffled = ["".join(sorted(letters, key=lambda _: chance.random())) for _ in range(5_000)]  # as alike as can be
    (cwd / "a.txt").write_text("\n".join(shuffled))
    began = time.thread_time()

    with pytest.raises(ToolError, match="does not occur"):
        use(edit_file, path="a.txt", old=letters, new="x")
    assert time.thread_time() - began < 4


def test_keeps_the_diff_of_a_large_change_short(cwd: Path, use: Use) -> None:
    text = use(edit_file, path="new.txt", old="", new="x\n" * 5_000)
    assert len(text) < 1_000
    whole = "x\n" * 4_999 + "x"
    assert "too long to show" in use(edit_file, path="new.txt", old=whole, new="y\n" * 3_000)


@pytest.mark.parametrize(
    ("text", "old", "new", "after"),
    [
        ("class A:\n    def f(self):\n        return 1\n", "def f(self):\n    return 1", "def f(self):\n    return 2\n",
         "class A:\n    def f(self):\n        return 2\n"),
        ("if a:\n\treturn sums\n", "if a:\n    return sums", "if a:\n    return 0", "if a:\n    return 0\n"),
        ("x = foo( a,  b )\n", "foo(a, b)", "foo(b, a)", "x = foo(b, a)\n"),
        ('say("one\\n")\nend\n', 'say(\\"one\\\\n\\")', 'say(\\"two\\\\n\\")', 'say("two\\n")\nend\n'),
        ("first line\nsecond line\n", "first line\\nsecond line", "one\\ntwo", "one\ntwo\n"),
    ],
)  # fmt: skip
def test_an_edit_that_misses_by_white_space_or_escapes_is_corrected_and_says_so(
    text: str, old: str, new: str, after: str, cwd: Path, use: Use
) -> None:
    (cwd / "a.py").write_text(text)
    said = use(edit_file, path="a.py", old=old, new=new)
    assert (cwd / "a.py").read_text() == after
    assert said.startswith("edited a.py (corrected: ")


@pytest.mark.parametrize(
    ("text", "old"),
    [
        ("    return total\n  return total\n", "return  total"),  # two places
        ("a b\n", "a  b"),  # too little to be sure
        ("return totals\n", "return  total + 1"),
        ("say(1)\nsay(1)\n", "say(1)\\n\\n"),
    ],
)
def test_an_edit_that_may_mean_several_places_or_none_is_refused(text: str, old: str, cwd: Path, use: Use) -> None:
    (cwd / "a.py").write_text(text)
    with pytest.raises(ToolError, match="does not occur"):
        use(edit_file, path="a.py", old=old, new="x")
    assert (cwd / "a.py").read_text() == text
