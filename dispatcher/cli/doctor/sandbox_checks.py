"""What confines commands of tools: what a worker would find here, and what the pools say that they have."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Sequence

from ekiden.dispatcher.cli.doctor.findings import Finding, error, ok, warning
from ekiden.shared.process_secrets import handed_on
from ekiden.shared.stores.views import PoolView

__all__ = ["sandbox_here", "sandboxes_there"]

_PROGRAM = [sys.executable, "-P", "-m", "ekiden.workers.sandbox"]
_TRY_S = 60.0
_OPEN = "; open: "
"""Behind it an announcement says what a sandbox leaves open (``workers/sandbox/sandbox.py:Sandbox.told``)."""
_REMEDY = "install bubblewrap (or ekiden[sandbox]); tools.sandbox 'required' runs no command without a sandbox"


async def sandbox_here() -> Finding:
    """Try what would confine the commands of a worker on this machine."""
    try:
        found = json.loads(await asyncio.to_thread(_said))
    except (OSError, subprocess.SubprocessError, ValueError) as fault:
        return error("sandbox", f"it cannot be tried here: {fault}", "start a worker, whose log says more")
    if problem := found.get("problem"):
        return error("sandbox", problem)
    return _judged("sandbox", f"commands run in {found['told']}")


def sandboxes_there(pools: Sequence[PoolView]) -> list[Finding]:
    """Tell which pools run commands that are not fully confined."""
    opened = [pool for pool in pools if _OPEN in pool.sandbox]
    return [_judged("sandbox of the pools", f"commands of {pool.id} run in {pool.sandbox}") for pool in opened]


def _judged(check: str, text: str) -> Finding:
    return warning(check, text, _REMEDY) if _OPEN in text else ok(check, text)


def _said() -> str:
    with handed_on(os.environ) as (env, passed):
        process = subprocess.Popen(
            _PROGRAM, env=env, pass_fds=passed, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
    with process:
        try:
            return process.communicate(timeout=_TRY_S)[0]
        except BaseException:
            process.kill()
            raise
