"""Which commit a folder has checked out: a fork names it, since its files are not rewound."""

import os
import subprocess
from pathlib import Path

from ekiden.shared.environments import for_tools

__all__ = ["commit_of"]

_TIMEOUT_S = 5.0


def commit_of(folder: str | None) -> str:
    """Return the commit that ``folder`` on this machine has checked out; empty where that is not to be known."""
    if not folder or not Path(folder).is_dir():
        return ""
    command = ["git", "--no-optional-locks", "-C", folder, "rev-parse", "--verify", "--quiet", "HEAD"]
    try:
        found = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, env=for_tools(os.environ)
        )
    except (OSError, subprocess.TimeoutExpired):  # there is no git
        return ""
    return found.stdout.strip() if found.returncode == 0 else ""
