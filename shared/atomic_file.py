"""Files that are written at once or not at all: others see the old one or the new one, and no part of one stays."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["replace_atomically", "written_beside"]


def replace_atomically(path: Path, data: bytes, mode: int) -> None:
    """Replace a file, or make it. A link would be replaced, too: resolve it before. Raises ``OSError``."""
    with written_beside(path, data, mode) as written:
        written.replace(path)


@contextmanager
def written_beside(path: Path, data: bytes, mode: int) -> Iterator[Path]:
    """Give a complete file in the folder of ``path``, to be renamed or linked; under its first name it does not stay.

    Raises ``OSError``.
    """
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        written = Path(file.name)
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            written.chmod(mode)
            yield written
        finally:
            written.unlink(missing_ok=True)
