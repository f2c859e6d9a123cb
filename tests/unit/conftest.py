"""Packages that are made for a test, and found like installed ones."""

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ekiden.shared import plugins

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Return what installs a package of one module: its name, the module's text, its entry points by group."""
    known = set(sys.modules)
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(name: str, text: str, version: str = "1.2", **entries: dict[str, str]) -> None:
        place_distribution(tmp_path, name, text, version, **entries)
        importlib.invalidate_caches()

    yield make
    plugins.fetch.cache_clear()
    for module in sys.modules.keys() - known:
        if str(getattr(sys.modules[module], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[module]


def place_distribution(folder: Path, name: str, text: str, version: str = "1.2", **entries: dict[str, str]) -> None:
    """Write what an installed package leaves in a folder: its module, named after it, and its metadata."""
    module = name.replace("-", "_")
    (folder / f"{module}.py").write_text(text, "utf-8")
    info = folder / f"{module}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", "utf-8")
    lines = [
        line
        for group, named in entries.items()
        for line in (f"[ekiden.{group}]", *(f"{entry} = {module}:{attribute}" for entry, attribute in named.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n", "utf-8")
