"""What a catalog is made of is encoded once; whatever is wrong with what was kept of it is no failure."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ekiden.shared.embedding import kept_files
from ekiden.shared.embedding.kept_vectors import MANY, kept_vectors
from ekiden.shared.project_folders import cache_folder

encoded: list[int] = []
TEXTS = [f"text {number}" for number in range(MANY)]


def encode(texts: Sequence[str]) -> NDArray[np.float32]:
    encoded.append(len(texts))
    return np.array([[len(text), ord(text[-1])] for text in texts], dtype=np.float32)


def is_right(texts: Sequence[str] = TEXTS, encoder: str = "v1") -> bool:
    vectors = kept_vectors(texts, encoder, encode, width=2)
    return vectors.dtype == np.float32 and vectors.tolist() == [[len(text), ord(text[-1])] for text in texts]


def kept() -> list[Path]:
    return list(cache_folder().glob("vectors-*"))


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    encoded.clear()


def test_they_are_made_the_first_time_and_read_from_then_on() -> None:
    assert [is_right() for _ in range(3)] == [True] * 3
    assert encoded == [MANY]


def test_a_request_is_not_kept() -> None:
    assert is_right(["fix it"])
    assert is_right(["fix it"])
    assert encoded == [1, 1]
    assert not cache_folder().exists()


def test_other_texts_and_another_encoder_have_vectors_of_their_own() -> None:
    assert is_right()
    assert is_right([*TEXTS[:-1], "another"])
    assert is_right([*TEXTS[:-2], TEXTS[-2] + TEXTS[-1], "x"])
    assert is_right(encoder="v2")
    assert len(encoded) == 4


@pytest.mark.parametrize("spoil", [b"", b"nonsense", b"\x00" * 1_000])
def test_what_is_broken_is_made_again(spoil: bytes) -> None:
    assert is_right()
    kept()[0].write_bytes(spoil)
    assert is_right()
    assert is_right()
    assert encoded == [MANY, MANY]


@pytest.mark.parametrize("text", [np.ones((MANY, 3), np.float32), np.full((MANY, 2), np.nan, np.float32)])
def test_vectors_that_no_encoder_makes_are_made_again(text: NDArray[np.float32]) -> None:
    assert is_right()
    (path,) = kept()
    path.write_bytes(kept_files._head_of(memoryview(text.tobytes())) + text.tobytes())
    assert is_right()
    assert encoded == [MANY, MANY]


def test_nobody_waits_for_a_pipe_or_follows_a_link_that_stands_there(tmp_path: Path) -> None:
    assert is_right()
    (path,) = kept()
    elsewhere = path.rename(tmp_path / "elsewhere")
    path.symlink_to(elsewhere)
    assert is_right()
    path.unlink()
    os.mkfifo(path)
    assert is_right()
    assert is_right(), "a file stands in its place again"
    assert encoded == [MANY] * 3


def test_where_nothing_can_be_kept_they_are_made_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert is_right()
    assert is_right()
    assert encoded == [MANY, MANY]


def test_of_many_catalogs_the_last_are_kept() -> None:
    for number in range(25):
        assert is_right([f"{number} {text}" for text in TEXTS])
    assert len(kept()) == 20
