"""How far a batch is: on a terminal in its last line, elsewhere a line for each tenth of it; on standard error."""

import sys
import time

from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.shared.stores.views import JobView

__all__ = ["BatchProgress"]

_TENTHS = 10
_BAR = 20
"""Columns."""


class BatchProgress:
    """Counts, and says how far it is."""

    def __init__(self, output: Output | None = None) -> None:
        self._out = output or Output(sys.stderr)
        self._all = self._before = self._done = self._refused = self._not_done = 0
        self._tokens, self._micro_usd = 0, 0
        self._began = time.monotonic()
        self._told = 0

    @property
    def failed(self) -> int:
        """How many of the requests of this run came to nothing."""
        return self._not_done + self._refused

    def begin(self, requests: int, before: int) -> None:
        """Begin with so many requests, of which so many have a result from a run before."""
        self._all, self._before, self._began = requests, before, time.monotonic()
        self._told = self._tenths
        if before:
            self._out.line(f"{before} of {requests} have a result already")
        self._show()

    def refused(self) -> None:
        """Count a request that could not be submitted."""
        self._refused += 1
        self._show()

    def ended(self, view: JobView) -> None:
        """Count a job that has ended."""
        self._done += view.status == "done"
        self._not_done += view.status != "done"
        self._tokens += view.spent.tokens
        self._micro_usd += view.spent.micro_usd
        self._show()

    def end(self) -> None:
        """Say what came of it."""
        self._out.line(self._text)

    @property
    def _finished(self) -> int:
        return self._before + self._done + self.failed

    @property
    def _tenths(self) -> int:
        return self._finished * _TENTHS // self._all

    @property
    def _text(self) -> str:
        left = self._all - self._finished
        now = self._done + self.failed
        parts = [f"{self._finished}/{self._all}", f"{self._done} done", f"{self.failed} failed"]
        parts += [f"{self._tokens:,} tokens"] + ([f"${self._micro_usd / 1e6:.4f}"] if self._micro_usd else [])
        if left and now:
            parts.append(f"{_duration((time.monotonic() - self._began) / now * left)} left")
        return f" {self._out.symbols['dot']} ".join(parts)

    def _show(self) -> None:
        if self._out.is_terminal:
            filled = self._finished * _BAR // self._all
            self._out.progress(f"[{'#' * filled}{'.' * (_BAR - filled)}] {self._text}")
        elif self._told < self._tenths < _TENTHS:
            self._told = self._tenths
            self._out.line(self._text)


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 3_600 else f"{seconds / 3_600:.1f} h"
