"""Packages as an installer leaves them in a folder: a module and its metadata."""

from collections.abc import Mapping
from pathlib import Path

__all__ = ["place_distribution"]


def place_distribution(
    folder: Path, name: str, text: str, version: str = "1.2", entries: Mapping[str, Mapping[str, str]] | None = None
) -> None:
    """Put a package of one module, named after it, into ``folder``. ``entries``: by group of entry points, by name."""
    module = name.replace("-", "_")
    (folder / f"{module}.py").write_text(text, "utf-8")
    info = folder / f"{module}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", "utf-8")
    lines = [
        line
        for group, named in (entries or {}).items()
        for line in (f"[{group}]", *(f"{entry} = {target}" for entry, target in named.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n", "utf-8")
