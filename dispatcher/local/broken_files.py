"""What is wrong with agent files is told in full once; later commands say how many there are, and where to read on."""

import contextlib
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from ekiden.shared.atomic_file import replace_atomically

__all__ = ["BrokenFiles"]

_TOLD = "agent_files.told"


class BrokenFiles:
    """What one command tells of them. ``data_dir``, which is the user's and the project's, remembers what was told."""

    def __init__(self, data_dir: Path) -> None:
        self._place = data_dir / _TOLD
        self._known = self._remembered()
        self._told: set[str] = set()
        self._waiting: set[str] = set()
        """Files of which nothing is new, before it is clear that these are all."""
        self._is_counted = False

    def news(self, problems: Mapping[str, str]) -> Iterator[str]:
        """Yield what is to be told of ``problems`` (text to file), which may become more from look to look."""
        new = [text for text in problems if _mark(text) not in self._known and text not in self._told]
        if new:
            self._told.update(new)
            self._remember(problems)
            yield from new
        waiting = {file for text, file in problems.items() if text not in self._told}
        if waiting and waiting == self._waiting and not self._is_counted:
            self._is_counted = True
            yield _count(len(waiting))
        self._waiting = waiting

    def _remembered(self) -> set[str]:
        try:
            return set(self._place.read_text("utf-8").split())
        except (OSError, ValueError):
            return set()

    def _remember(self, problems: Mapping[str, str]) -> None:
        """Keep what is wrong now; what is not any more would be new again."""
        with contextlib.suppress(OSError):  # then it is told in full once more
            replace_atomically(self._place, "\n".join(map(_mark, problems)).encode(), 0o600)


def _count(files: int) -> str:
    many = f"{files} agent files have the errors" if files > 1 else "an agent file has the error"
    return f"{many} that {'were' if files > 1 else 'was'} told before: `ekiden agents validate` tells of them again"


def _mark(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
