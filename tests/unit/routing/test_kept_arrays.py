"""What is kept comes back as it was, is plain data, and runs nothing when it is read."""

import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from ekiden.shared.embedding.kept_arrays import as_bytes, from_bytes


@dataclass(frozen=True)
class Point:
    place: tuple[float, ...]
    values: Any


class Stranger:
    pass


def again(value: Any) -> Any:
    return from_bytes(memoryview(as_bytes(value, {"Point": Point})), {"Point": Point})


def test_values_arrays_and_objects_come_back_as_they_were() -> None:
    found = again(
        {"kind": "测试", "of": [1, 0.1, None, True], "point": Point((0.5, 1e-6), np.eye(2, dtype=np.float32))}
    )

    assert (found["kind"], found["of"]) == ("测试", [1, 0.1, None, True])
    assert isinstance(found["point"], Point)
    assert found["point"].place == (0.5, 1e-6)
    assert found["point"].values.dtype == np.float32
    assert found["point"].values.tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize("shape", [(0,), (0, 3), (1,), (3, 5, 7)])
def test_arrays_of_all_shapes_come_back_mapped_and_aligned(shape: tuple[int, ...]) -> None:
    arrays = [np.arange(np.prod(shape), dtype=kind).reshape(shape) for kind in (np.uint8, np.int64, np.float64)]
    for array, found in zip(arrays, again(arrays), strict=True):
        assert (found.dtype, found.shape, found.tolist()) == (array.dtype, array.shape, array.tolist())
        assert not found.flags.owndata


@pytest.mark.parametrize("value", [Stranger(), {"deep": [Stranger()]}, np.array([Stranger()]), np.int64(1), b"bytes"])
def test_what_is_not_plain_is_not_kept(value: Any) -> None:
    with pytest.raises(ValueError, match="is not kept"):
        as_bytes(value)


@pytest.mark.parametrize(
    "text", [b"", b"x" * 100, pickle.dumps(Stranger()), as_bytes(Point((), 1), {"Point": Point}), b"\0" * 64]
)
def test_what_is_not_ours_is_no_value(text: bytes) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        from_bytes(memoryview(text))
