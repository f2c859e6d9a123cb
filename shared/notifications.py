"""A command of the operator's that is told of each approval that waits: a message to a chat, a sound, a ticket."""

import contextlib
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence

from ekiden.shared.approvals import ApprovalView, approval_json
from ekiden.shared.hooks.base import Hook
from ekiden.shared.late_logger import LateLogger

__all__ = ["CommandNotifier"]

TIMEOUT_S = 10.0
"""How long the command may take; then it is ended with all that it started."""
MOST_WAITING = 1_000
"""Notifications that wait for the one before them; more are dropped, and logged."""

log = LateLogger(__name__)


class CommandNotifier(Hook):
    """Runs a command for each approval, one after the other, with the approval as JSON on its standard input.

    It runs where the leg was suspended, in a thread of its own, and nothing waits for it. What becomes of it is logged
    and changes nothing.
    """

    def __init__(self, command: Sequence[str], env: Mapping[str, str], timeout_s: float = TIMEOUT_S) -> None:
        """``env``: all of the environment that the command gets."""
        self._command = [*command]
        self._env = dict(env)
        self._timeout_s = timeout_s
        self._waiting: queue.Queue[ApprovalView | None] = queue.Queue(MOST_WAITING)
        self._thread: threading.Thread | None = None

    def approval_asked(self, view: ApprovalView) -> None:
        """See ``Hook``."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="notifications", daemon=True)
            self._thread.start()
        try:
            self._waiting.put_nowait(view)
        except queue.Full:
            log.warning("notification_dropped", approval=view.id, waiting=MOST_WAITING)

    def close(self) -> None:
        """See ``Hook``: what waits is still told, as far as there is time."""
        if self._thread is not None:
            with contextlib.suppress(queue.Full):
                self._waiting.put_nowait(None)
            self._thread.join()

    def _run(self) -> None:
        while (view := self._waiting.get()) is not None:
            try:
                code = self._tell(view)
            except (OSError, subprocess.SubprocessError) as error:
                log.warning("notification_failed", approval=view.id, problem=f"{type(error).__name__}: {error}")
                continue
            if code:
                log.warning("notification_failed", approval=view.id, problem=f"the command ended with {code}")

    def _tell(self, view: ApprovalView) -> int:
        """Run the command; return its exit code. Raises ``OSError``, ``subprocess.TimeoutExpired``."""
        process = subprocess.Popen(
            self._command,
            cwd="/",  # a program must not be found in a project's folder
            env=self._env,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            process.communicate(approval_json(view).encode(errors="replace") + b"\n", self._timeout_s)
        finally:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        return process.returncode
