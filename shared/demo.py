"""The demo project, shipped as data: one YAML file, path -> content."""

from pathlib import Path, PurePosixPath

import yaml

from ekiden.shared.definitions.loader import shipped_agents_dir

__all__ = ["write_demo"]

_FILE = PurePosixPath("_demo/cart.yaml")


def write_demo(target: Path) -> list[Path]:
    """Write the demo project's files under ``target`` and return their paths. Existing files are overwritten."""
    files: dict[str, str] = yaml.safe_load((shipped_agents_dir() / _FILE).read_text(encoding="utf-8"))
    written = []
    for name, content in files.items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8", newline="\n")
        written.append(path)
    return written
