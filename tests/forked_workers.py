"""Forks the processes of pytest-xdist off one that has imported what all of them would: pytest, its plugins and Ekiden.

What they start programs with (``tests/warm.py``) is forked off them in turn, before they import any test.
"""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.warm import RUN_TESTS, Template, WarmPopen, start_template

__all__ = ["fork_workers"]


def fork_workers(config: pytest.Config) -> None:
    """Let pytest-xdist fork its processes, where that is less than what a few files of tests import themselves."""
    if sys.platform != "linux" or not any(Path(path).is_dir() for path in config.args):
        return
    template = start_template(RUN_TESTS)

    class ForkedPopen(WarmPopen):
        def _template_of(self, how: Mapping[str, Any]) -> Template | None:
            return template if how["args"][:3] == [sys.executable, "-u", "-c"] else None

    patch = pytest.MonkeyPatch()
    patch.setattr(subprocess, "Popen", ForkedPopen)
    config.add_cleanup(patch.undo)
