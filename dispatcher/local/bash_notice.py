"""What is said once for each project, before the first agent works in it."""

from pathlib import Path

from ekiden.shared.terminal_text import note
from ekiden.shared.trust.notices import BASH

__all__ = ["warn_of_bash"]

_TOLD = "bash.told"


def warn_of_bash(data_dir: Path) -> None:
    """Say where to look what confines ``bash``. ``data_dir``, which is the user's and the project's, remembers it."""
    told = data_dir / _TOLD
    if not told.exists():
        note(f"ekiden: file tools stay in the workspace; {BASH} (said once here)")
        told.touch()
