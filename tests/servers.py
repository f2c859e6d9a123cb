"""The real server that all tests of a process share, each with an empty database.

A scenario costs a third of what it costs on fakeredis, which compiles each script anew whenever it runs.
"""

import atexit
import shutil
import tempfile
from contextlib import ExitStack
from functools import cache
from pathlib import Path

from ekiden.shared.embedded import attach

__all__ = ["shared_url"]


@cache
def shared_url() -> str:
    """Return the address of the server, which runs from now on until this process ends."""
    folder = Path(tempfile.mkdtemp(prefix="ekiden-tests-", dir="/tmp"))  # not the folder of whichever test is first
    with ExitStack() as opened:
        opened.callback(shutil.rmtree, folder, ignore_errors=True)
        url = opened.enter_context(attach(folder / "valkey")).url
        atexit.register(opened.pop_all().close)
    return url
