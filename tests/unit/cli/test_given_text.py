"""Files that users name, and standard input, are read no further than what is expected of them, whatever they are."""

import io
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ekiden.dispatcher.cli.commands import approvals, config, policy
from ekiden.dispatcher.cli.given_text import given_text, piped_text
from ekiden.dispatcher.cli.running import batch_file, note_file, request
from ekiden.dispatcher.cli.views import route_analysis
from ekiden.shared.errors import InvalidRequest

MOST = 1_000


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


def test_as_much_as_may_be_is_read_and_no_character_more(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("é" * MOST)
    assert len(given_text(file, MOST)) == MOST
    file.write_text("é" * (MOST + 1))
    with pytest.raises(InvalidRequest, match="holds more than 1,000 characters"):
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
    with pytest.raises(InvalidRequest, match="given' holds more than 1,000 characters"):
        given_text(file, MOST)


def test_of_standard_input_no_more_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    given = io.StringIO("x" * 3 * MOST)
    monkeypatch.setattr("sys.stdin", given)
    with pytest.raises(InvalidRequest, match="standard input holds more than 1,000 characters"):
        given_text("-", MOST)
    assert given.tell() == MOST + 1


@pytest.mark.parametrize(("name", "why"), [("missing", "No such file"), (".", "Is a directory"), ("bad", "no UTF-8")])
def test_what_cannot_be_read_is_said(name: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(b"\xff")
    with pytest.raises(InvalidRequest, match=rf"cannot be read: .*{why}"):
        given_text(tmp_path / name, MOST)


READERS: dict[str, tuple[object, str, Callable[[Path], object]]] = {
    "policy test": (policy, "LONGEST", policy.hold_against),
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
    with pytest.raises(InvalidRequest, match="holds more than 1,000 characters"):
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
        monkeypatch.setattr("sys.stdin", io.StringIO("x" * 3 * MOST))
        with pytest.raises(InvalidRequest, match="standard input holds more than 1,000 characters"):
            read()


def test_results_are_written_to_a_device_of_which_nothing_is_read() -> None:
    with batch_file.opened_results(Path("/dev/full")) as results:  # which gives zeros without end
        assert results.known == frozenset()
