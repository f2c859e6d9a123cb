"""Files that users name, and standard input, are read no further than what is expected of them, whatever they are."""

import io
import os
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from ekiden.dispatcher.cli.commands import approvals, config, policy
from ekiden.dispatcher.cli.given_text import MOST_OF_LINES, MOST_OF_PROMPT, given_lines, given_text, piped_text
from ekiden.dispatcher.cli.running import batch_file, note_file, request
from ekiden.dispatcher.cli.views import route_analysis
from ekiden.shared.errors import InvalidRequest

MOST = 1_000


class Endless(io.RawIOBase):
    """Gives the same bytes again and again."""

    def __init__(self, piece: bytes) -> None:
        self._piece, self.bytes_read = piece, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # as all that reads calls it
        start = self.bytes_read % len(self._piece)
        times = len(buffer) // len(self._piece) + 2
        buffer[:] = (self._piece * times)[start : start + len(buffer)]
        self.bytes_read += len(buffer)
        return len(buffer)


def pipe(path: Path, text: str) -> threading.Thread:
    """A pipe under a name, and who writes into it."""
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: path.write_text(text), daemon=True)
    writer.start()
    return writer


def test_a_file_a_link_and_a_pipe_give_their_text_without_a_mark_in_front(tmp_path: Path) -> None:
    file, link, fifo = (tmp_path / name for name in ("file", "link", "fifo"))
    file.write_bytes(b"\xef\xbb\xbf" + "a\r\né".encode())
    link.symlink_to(file)
    assert given_text(file, MOST) == given_text(link, MOST) == "a\né"
    writer = pipe(fifo, "piped")
    assert given_text(fifo, MOST) == "piped"
    writer.join()


def test_as_much_as_may_be_is_read_and_no_byte_more(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("é" * (MOST // 2))
    assert len(given_text(file, MOST)) == MOST // 2
    file.write_text("é" * (MOST // 2) + "x")
    with pytest.raises(InvalidRequest, match="holds more than 1,000 bytes"):
        given_text(file, MOST)


@pytest.mark.parametrize("kind", ["file", "link", "device", "pipe"])
def test_what_is_larger_is_not_read_to_its_end(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "given"
    if kind == "pipe":
        pipe(file, "x" * 10 * MOST)
    elif kind == "device":
        file.symlink_to("/dev/zero")
    else:
        large = tmp_path / "large" if kind == "link" else file
        large.touch()
        os.truncate(large, 1 << 40)  # of which nothing is stored: who reads it needs a terabyte
        if kind == "link":
            file.symlink_to(large)
    with pytest.raises(InvalidRequest, match="given' holds more than 1,000 bytes"):
        given_text(file, MOST)


def test_of_standard_input_no_more_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    given = io.BytesIO(b"x" * 3 * MOST)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(given))
    with pytest.raises(InvalidRequest, match="standard input holds more than 1,000 bytes"):
        given_text("-", MOST)
    assert given.tell() == MOST + 1


@pytest.mark.parametrize("piece", ["x", "\0", "\U0001f600", "x" * 9_000 + "\U0001f600"])
def test_what_is_read_before_a_refusal_takes_no_more_memory_than_a_few_times_the_cap(
    piece: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 1_000_000
    given = Endless(piece.encode())
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(given), "utf-8"))
    tracemalloc.start()
    try:
        with pytest.raises(InvalidRequest, match="standard input holds more than 1,000,000 bytes"):
            list(given_lines("-", most))
        assert tracemalloc.get_traced_memory()[1] < 6 * most
    finally:
        tracemalloc.stop()
    assert given.bytes_read < 1.2 * most


def test_the_caps_are_what_a_machine_can_hold_a_few_times() -> None:
    assert MOST_OF_PROMPT <= MOST_OF_LINES <= 100_000_000


def test_lines_are_given_without_their_ends(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"\xef\xbb\xbf1\r\n\n" + "é\u2028ü\rlast".encode())
    assert list(given_lines(file, MOST)) == ["1", "", "é\u2028ü", "last"]


def test_lines_before_the_one_that_is_too_much_are_given_as_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    given = Endless(b"line\n")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(given, 100), "utf-8"))
    lines = given_lines("-", 1_000_000)
    assert [next(lines) for _ in range(3)] == ["line"] * 3
    assert given.bytes_read < 100_000
    with pytest.raises(InvalidRequest, match="holds more than 1,000,000 bytes"):
        list(lines)


def test_bytes_of_standard_input_that_are_no_text_are_refused_whatever_the_locale_makes_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a\xff"), "utf-8", "surrogateescape"))
    with pytest.raises(InvalidRequest, match=r"standard input cannot be read: .*no UTF-8"):
        piped_text(MOST)


def test_standard_input_is_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = io.TextIOWrapper(io.BytesIO("é".encode()), "utf-8")
    monkeypatch.setattr("sys.stdin", stdin)
    assert (piped_text(MOST), piped_text(MOST)) == ("é", "")
    assert not stdin.buffer.closed


@pytest.mark.parametrize(("name", "why"), [("missing", "No such file"), (".", "Is a directory"), ("bad", "no UTF-8")])
def test_what_cannot_be_read_is_said(name: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(b"\xff")
    with pytest.raises(InvalidRequest, match=rf"cannot be read: .*{why}"):
        given_text(tmp_path / name, MOST)


READERS: dict[str, tuple[object, str, Callable[[Path], object]]] = {
    "policy test": (policy, "_MOST_BYTES", policy.hold_against),
    "route eval": (route_analysis, "MOST_OF_LINES", lambda file: route_analysis._cases(file, [])),
    "submit --file": (batch_file, "MOST_OF_LINES", batch_file.read_batch),
    "memory import": (note_file, "MOST_OF_LINES", note_file.read_notes),
    "approvals approve --edit": (approvals, "_MOST_BYTES", lambda file: approvals._file_text(str(file))),
}


@pytest.mark.parametrize("command", READERS)
def test_a_command_reads_a_device_without_end_no_further_than_its_own_cap(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of, cap, read = READERS[command]
    monkeypatch.setattr(of, cap, MOST)
    (tmp_path / "zero").symlink_to("/dev/zero")
    with pytest.raises(InvalidRequest, match="holds more than 1,000 bytes"):
        read(tmp_path / "zero")


def test_a_prompt_and_a_value_that_are_piped_have_a_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request, "MOST_OF_PROMPT", MOST)
    monkeypatch.setattr(config, "_LONGEST_VALUE", MOST)
    readers: list[Callable[[], str]] = [
        lambda: request.prompt_of(["-"]),
        lambda: config._read("model"),
        lambda: piped_text(MOST),
    ]
    for read in readers:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"x" * 3 * MOST)))
        with pytest.raises(InvalidRequest, match="standard input holds more than 1,000 bytes"):
            read()


def test_results_are_written_to_a_device_of_which_nothing_is_read() -> None:
    with batch_file.opened_results(Path("/dev/full")) as results:  # which gives zeros without end
        assert results.known == frozenset()
