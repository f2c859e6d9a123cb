"""Packages as an installer leaves them in a folder: a module and its metadata."""

import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

__all__ = ["install_wheel", "place_distribution"]


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


def install_wheel(
    folder: Path, name: str, text: str, version: str = "1.2", entries: Mapping[str, Mapping[str, str]] | None = None
) -> None:
    """Build a wheel of such a package, as its author would, and let pip install it into ``folder``."""
    source = folder.parent / f"source of {name}"
    source.mkdir()
    place_distribution(source, name, text, version, entries)
    module = name.replace("-", "_")
    info = source / f"{module}-{version}.dist-info"
    (info / "WHEEL").write_text("Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    files = sorted(path for path in source.rglob("*") if path.is_file())
    names = [path.relative_to(source).as_posix() for path in files]
    (info / "RECORD").write_text("".join(f"{one},,\n" for one in [*names, f"{info.name}/RECORD"]))
    wheel = folder.parent / f"{module}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as packed:
        for path in [*files, info / "RECORD"]:
            packed.write(path, path.relative_to(source).as_posix())
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", str(folder)]
    subprocess.run([*pip, str(wheel)], check=True, capture_output=True, timeout=120)
