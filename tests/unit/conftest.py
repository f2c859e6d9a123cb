"""Packages that are made for a test, and found like installed ones."""

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ekiden.shared import plugins
from tests.distributions import place_distribution

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Return what installs a package of one module: its name, the module's text, its entry points by group."""
    known = set(sys.modules)
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(name: str, text: str, version: str = "1.2", **entries: dict[str, str]) -> None:
        module = name.replace("-", "_")
        targets = {
            f"ekiden.{group}": {entry: f"{module}:{attribute}" for entry, attribute in named.items()}
            for group, named in entries.items()
        }
        place_distribution(tmp_path, name, text, version, targets)
        importlib.invalidate_caches()

    yield make
    plugins.fetch.cache_clear()
    for module in sys.modules.keys() - known:
        if str(getattr(sys.modules[module], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[module]
