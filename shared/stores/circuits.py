"""Circuits of models on Redis: one hash for the whole deployment, which holds only those of models that have failed."""

import re
from dataclasses import dataclass

from ekiden.shared.late_logger import LateLogger
from ekiden.shared.once import Once
from ekiden.shared.stores import keys
from ekiden.shared.stores.clock import RelayClock
from ekiden.shared.stores.redis import Redis, as_any, ms, translated
from ekiden.shared.stores.scripts import Scripts

__all__ = ["CircuitView", "RedisCircuitStore"]

_NUMBERS = re.compile(r"[0-9]{1,15}( [0-9]{1,15}){3}")
_said = Once()

log = LateLogger(__name__)


@dataclass(frozen=True)
class CircuitView:
    """The circuit of a model that has failed."""

    id: str
    model: str
    why: str
    """What its last call failed with."""
    is_over: bool
    """Whether that is that its quota is used up."""
    failures: int
    """In a row."""
    open_s: float
    """How long nobody asks it; 0: it may be asked."""
    has_opened: bool
    """Whether it was open, and nobody has had an answer since."""


class RedisCircuitStore:
    """Counts failures in a row, in the server's time."""

    def __init__(self, client: Redis) -> None:
        self._redis = client
        self._scripts = Scripts(client)
        self._clock = RelayClock(client, self._scripts)

    async def worked(self, circuit: str) -> None:
        """Close the circuit: the model has answered."""
        await self._run("worked", circuit)

    async def may_ask(self, circuit: str, most: int, trial_s: float) -> tuple[str, float]:
        """Return ``closed``; ``trial``: the caller alone may ask, for ``trial_s`` seconds; ``open``, for so many."""
        return await self._run("may", circuit, most=most, open_s=trial_s)

    async def failed(
        self, circuit: str, most: int, window_s: float, open_s: float, *, is_over: bool, model: str, why: str
    ) -> tuple[str, float]:
        """Count a failure: of the ``most``-th in a row, begun within ``window_s``, the circuit opens for ``open_s``.

        For ``CIRCUIT_LONGEST_S`` at most. ``is_over``: it opens at once. Returns what became of the circuit, as
        ``may_ask`` does.
        """
        word = "over" if is_over else "failed"
        return await self._run(
            word, circuit, most=most, window_s=window_s, open_s=open_s, about=f"{model}\n{word}\n{why}"
        )

    @translated
    async def all(self) -> list[CircuitView]:
        """Return the circuits of all models that have failed and not answered since."""
        found: dict[str, str] = await as_any(self._redis.hgetall(keys.CIRCUITS))
        if not found:
            return []
        now_ms = await self._clock.passed_ms()
        views = (_view(circuit, text, now_ms) for circuit, text in sorted(found.items()))
        return [view for view in views if view is not None]

    @translated
    async def _run(
        self, word: str, circuit: str, *, most: int = 1, window_s: float = 0, open_s: float = 0, about: str = ""
    ) -> tuple[str, float]:
        state, left_ms = await self._scripts.run(
            "circuit",
            circuits=keys.CIRCUITS,
            word=word,
            id=circuit,
            most=most,
            window_ms=ms(window_s),
            open_ms=ms(min(open_s, keys.CIRCUIT_LONGEST_S)),
            about=about,
        )
        return state, int(left_ms) / 1000


def _view(circuit: str, text: str, now_ms: int) -> CircuitView | None:
    """Return what an entry says; None for one that none of us has written, which is left out."""
    numbers, model, word, why = (*text.split("\n", 3), "", "", "")[:4]
    if not _NUMBERS.fullmatch(numbers):
        if _said.first((circuit, numbers)):
            log.warning("circuit_unreadable", circuit=circuit, says=numbers[:50])
        return None
    failures, _, open_ms, trial_ms = map(int, numbers.split())
    left_s = [(at - now_ms) / 1000 for at in (open_ms, trial_ms)]
    open_s = max([0.0, *(left for left in left_s if left <= keys.CIRCUIT_LONGEST_S)])  # as circuit.lua believes it
    return CircuitView(circuit, model, why, word == "over", failures, open_s, open_ms > 0)
