"""Patterns of files in rules: written as in ``.gitignore``, relative to a folder."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ekiden.shared.globs import glob_expression
from ekiden.shared.patterns import Pattern, compile_pattern

__all__ = ["PathPattern", "path_pattern"]

_WILD = frozenset("*?[{")


@dataclass(frozen=True)
class PathPattern:
    """Files and folders, with all that is in them.

    Attributes:
        glob: Relative to the base.
        base: The folder where it begins; None: the job's.
    """

    glob: str
    base: Path | None = None

    def fits(self, path: str, cwd: Path, *, ignore_case: bool) -> bool:
        """Tell whether an absolute path is meant, or lies in a folder that is."""
        base = str(self._base(cwd)).rstrip("/") + "/"
        folder, within = path[: len(base)], path[len(base) :]
        if (folder.casefold() != base.casefold()) if ignore_case else (folder != base):
            return False
        compiled = _compiled(self.glob, ignore_case)
        places = [within, *(str(above) for above in Path(within).parents)]
        return any(compiled.search(place.encode("utf-8", "surrogatepass")) for place in places)

    def root(self, cwd: Path) -> Path:
        """Return the folder above the first wildcard, or the very file; of what may lie anywhere, the first place."""
        names = self.glob.removeprefix("**/").split("/")
        wild = next((place for place, name in enumerate(names) if _WILD & set(name)), len(names))
        return self._base(cwd).joinpath(*names[:wild])

    def _base(self, cwd: Path) -> Path:
        return self.base if self.base is not None else cwd


def path_pattern(text: str, base: Path | None) -> PathPattern:
    """Return the pattern that ``text`` is. ``//`` begins at the root, ``~/`` at home, ``/`` at ``base``.

    Raises:
        DefinitionError: it is no glob.
    """
    if text.startswith("//"):
        pattern = PathPattern(text.strip("/"), Path("/"))
    elif text.startswith("~/"):
        pattern = PathPattern(text[2:].strip("/"), Path.home())
    else:
        is_anchored = "/" in text.rstrip("/")
        relative = text.removeprefix("./").strip("/")
        pattern = PathPattern(relative if is_anchored else f"**/{relative}", base)
    _compiled(pattern.glob, ignore_case=True)
    return pattern


@lru_cache(maxsize=1_024)
def _compiled(glob: str, ignore_case: bool) -> Pattern:
    return compile_pattern(glob_expression(glob), ignore_case=ignore_case, named=glob)
