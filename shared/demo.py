"""The demo project, shipped as data: one YAML file, path -> content."""

from pathlib import Path, PurePosixPath

from ekiden.shared.errors import InvalidRequest
from ekiden.shared.packs import shipped_agents_dir
from ekiden.shared.yaml_places import LONGEST, LocatedYaml, read_at_most

__all__ = ["write_demo", "write_files"]

_FILE = PurePosixPath("_demo/cart.yaml")


def write_demo(target: Path) -> list[Path]:
    """Write the demo project's files under ``target`` and return their paths. Existing files are overwritten."""
    return write_files(shipped_agents_dir() / _FILE, target)


def write_files(source: Path, target: Path) -> list[Path]:
    """Write the files of a YAML file (path -> content) under ``target`` and return their paths.

    Raises:
        InvalidRequest: it is no such file, or names a path that leads elsewhere.
    """
    files = LocatedYaml(read_at_most(source, 4 * LONGEST), str(source)).data
    if not isinstance(files, dict) or not all(isinstance(text, str) for text in files.values()):
        raise InvalidRequest(f"{source}: expected paths of files, each with its text")
    written = []
    for name, content in files.items():
        path = target / str(name)
        if not path.resolve().is_relative_to(target.resolve()):
            raise InvalidRequest(f"{source}: {name!r} leads out of the folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8", newline="\n")
        written.append(path)
    return written
