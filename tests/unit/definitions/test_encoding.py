import pytest

from ekiden.shared.definitions.encoding import decode
from ekiden.shared.definitions.problems import AgentFileError

TEXT = "---\nname: 审查\ndescription: 这个代理负责审查所有的代码。\n---\n你审查代码。\n"


@pytest.mark.parametrize("newline", ["\r\n", "\r"])
def test_a_byte_order_mark_and_foreign_line_ends_are_no_fault(newline: str) -> None:
    decoded = decode(b"\xef\xbb\xbf" + TEXT.replace("\n", newline).encode())

    assert (decoded.text, decoded.warning) == (TEXT, "")


@pytest.mark.parametrize(
    ("encoding", "line"),
    [("gb18030", 2), ("gbk", 2), ("utf-16", 1), ("utf-16-be", 1), ("utf-16-le", 1), ("utf-32", 1)],
)
def test_guesses_another_encoding_with_a_warning(encoding: str, line: int) -> None:
    decoded = decode(TEXT.encode(encoding))

    assert decoded.text == TEXT
    assert decoded.warning.startswith("the file is not UTF-8; it was read as ")
    assert decoded.line == line


def test_reads_western_texts_by_their_lonely_high_bytes() -> None:
    text = "---\nname: größe\ndescription: façade – déjà vu\n---\n"

    decoded = decode(text.encode("cp1252"))

    assert decoded.text == text
    assert "CP1252" in decoded.warning


def test_one_bad_byte_does_not_make_another_encoding_of_utf8() -> None:
    decoded = decode(TEXT.encode() + b"\xff\n")

    assert decoded.text == TEXT + "\ufffd\n"
    assert "single bytes were replaced" in decoded.warning
    assert decoded.line == 6


def test_every_byte_is_read_as_something_or_refused_as_no_text() -> None:
    assert decode(b"caf\xe9 \x81\x8d").text == "café \x81\x8d"
    with pytest.raises(AgentFileError, match="not text"):
        decode(b"\x89PNG\0\0\x01\xff")
