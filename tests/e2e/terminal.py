"""The real program on a terminal of its own, as a person sees and types."""

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from typing import Self

from tests.e2e.program import EKIDEN, PATIENCE_S, Program
from tests.warm import take_terminal

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]")


class Terminal:
    """Runs ``ekiden`` with arguments; what it writes is read as far as ``wait_for`` needs it."""

    def __init__(self, ekiden: Program, *args: object, env: dict[str, str] | None = None) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.process = subprocess.Popen(
            [*EKIDEN, *map(str, args)],
            cwd=ekiden.folder,
            env={**ekiden.env, "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1", **(env or {})},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=take_terminal,  # noqa: PLW1509 - so that Ctrl-C reaches it
        )
        os.close(theirs)
        self.output = ""
        self._read_upto = 0

    @property
    def text(self) -> str:
        """All that was written, without what steers the terminal."""
        return _ESCAPES.sub("", self.output)

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def interrupt(self, within_s: float = PATIENCE_S) -> int:
        """Press Ctrl-C until the program ends, as people do, and return its exit code.

        Python reads a line in C: a Ctrl-C that comes after the question and before that read waits for the next key.
        """
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            self.type("\x03")
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self.ends(1.0)
        raise AssertionError(f"it did not end at Ctrl-C: {self.text}")

    def wait_for(self, text: str, within_s: float = PATIENCE_S) -> None:
        """Return when ``text`` was written, behind what was waited for before."""
        deadline = time.monotonic() + within_s
        while (place := self.text.find(text, self._read_upto)) < 0:
            assert self._read(deadline), f"did not write {text!r}: {self.text}"
        self._read_upto = place + len(text)

    def ends(self, within_s: float = PATIENCE_S) -> int:
        deadline = time.monotonic() + within_s
        while self._read(deadline):
            pass
        return self.process.wait(max(0.1, deadline - time.monotonic()))

    def _read(self, deadline: float) -> bool:
        """Read what comes next; False at the end, or after the deadline."""
        if not select.select([self._ours], [], [], max(0.0, deadline - time.monotonic()))[0]:
            return False
        try:
            chunk = os.read(self._ours, 65536)
        except OSError:  # Linux says so when the other side has closed
            return False
        self.output += chunk.decode("utf-8", "replace")
        return bool(chunk)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(60)
        os.close(self._ours)
