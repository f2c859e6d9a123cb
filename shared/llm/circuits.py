"""Circuits: a model that keeps failing is not asked for a while, by no worker; then by one, and by all if it answers.

While a model answers, nobody asks the server about it: a process looks there once it has failed itself, and learns
of others' failures beside its calls, every second (``Circuits.refresh``).
"""

import hashlib
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from ekiden.shared.errors import (
    CircuitOpen,
    EkidenError,
    ModelError,
    ModelUnavailable,
    QuotaExhausted,
    QuotaStillExhausted,
)
from ekiden.shared.late_logger import LateLogger
from ekiden.shared.llm.base import ChatModel, ModelReply, ModelRequest, OnDelta
from ekiden.shared.redaction import redact

__all__ = ["CircuitModel", "CircuitRules", "CircuitStore", "Circuits", "OpenCircuit", "circuit_id"]

WINDOW_S = 60.0
"""Failures that are further apart are no row."""
TRIAL_S = 30.0
"""How long the one who tries a model again may take: then somebody else tries."""
_QUOTA_S = 300.0
"""How long a model is left alone whose quota is used up: for a day, perhaps, but somebody may raise it."""
_LONGEST_TEXT = 200

log = LateLogger(__name__)


@dataclass(frozen=True)
class CircuitRules:
    """When a circuit opens, and for how long."""

    failures: int = 5
    """In a row; 0: never."""
    open_s: float = 15.0
    """Where the provider does not say when to come back."""


class OpenCircuit(Protocol):
    """A circuit as the store tells of it."""

    @property
    def id(self) -> str:
        """Which."""
        ...

    @property
    def why(self) -> str:
        """What the model failed with."""
        ...

    @property
    def is_over(self) -> bool:
        """Whether that is that its quota is used up."""
        ...

    @property
    def open_s(self) -> float:
        """For how long nobody asks; 0: it is closed, or may be tried."""
        ...

    @property
    def has_opened(self) -> bool:
        """Whether it was open, and nobody has had an answer since."""
        ...


class CircuitStore(Protocol):
    """Where all workers count. States: ``closed``, ``trial`` (the caller alone may ask), ``open`` for some seconds."""

    async def worked(self, circuit: str) -> None:
        """Close it."""
        ...

    async def may_ask(self, circuit: str, most: int, trial_s: float) -> tuple[str, float]:
        """Return its state, for a caller that would ask."""
        ...

    async def failed(
        self, circuit: str, most: int, window_s: float, open_s: float, *, is_over: bool, model: str, why: str
    ) -> tuple[str, float]:
        """Count a failure, the last one that is needed if ``is_over`` (no quota is left); return the state."""
        ...


def circuit_id(provider: str, model: str, account: str) -> str:
    """Return what a circuit is known by: a model as one account reaches it, which cannot be read off the id."""
    return hashlib.sha256("\n".join((provider, model, account)).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class _Known:
    """What a process knows of a circuit."""

    until: float
    """When it may be asked again, by our own clock; 0: it may be, it has not yet failed often enough."""
    why: str = ""
    is_over: bool = False

    def until_in(self, seconds: float) -> "_Known":
        return replace(self, until=time.monotonic() + seconds)

    def refusal(self, model: str) -> ModelError:
        left_s = max(0.0, self.until - time.monotonic())
        text = f"Model {model!r} keeps failing, nobody asks it for {left_s:.0f} s more: {self.why}"
        return QuotaStillExhausted(text) if self.is_over else CircuitOpen(text, left_s)


class Circuits:
    """What this process knows of circuits. Where the store cannot be asked, all may be asked."""

    def __init__(self, store: CircuitStore, rules: CircuitRules) -> None:
        self._store = store
        self._rules = rules
        self._known: dict[str, _Known] = {}
        """Of models that have failed. All others answer."""

    async def admit(self, circuit: str, model: str) -> None:
        """Let a call pass, or raise ``NotAsked``. Only who finds that the time is over asks the server."""
        known = self._known.get(circuit)
        if known is None or not known.until or not self._rules.failures:
            return
        if known.until > time.monotonic():
            raise known.refusal(model)
        self._known[circuit] = known.until_in(TRIAL_S)  # the others here wait for what becomes of this call
        try:
            state, left_s = await self._store.may_ask(circuit, self._rules.failures, TRIAL_S)
        except EkidenError as error:
            log.warning("circuit_unknown", model=model, error=str(error))
            return
        if state == "open":
            self._known[circuit] = known = known.until_in(left_s)
            raise known.refusal(model)
        if state == "closed":
            self._known[circuit] = _Known(0.0)

    async def worked(self, circuit: str) -> None:
        """Note that the model answers."""
        if self._known.pop(circuit, None) is not None:
            try:
                await self._store.worked(circuit)
            except EkidenError as error:
                log.warning("circuit_unknown", error=str(error))

    async def failed(self, circuit: str, model: str, error: ModelUnavailable | QuotaExhausted) -> None:
        """Note that it does not."""
        if not self._rules.failures:
            return
        is_over = isinstance(error, QuotaExhausted)
        told = None if isinstance(error, QuotaExhausted) else error.retry_after_s
        open_s = _QUOTA_S if is_over else self._rules.open_s if told is None else told
        why = redact(" ".join(str(error).split()))[:_LONGEST_TEXT]
        most = self._rules.failures
        try:
            state, left_s = await self._store.failed(
                circuit, most, WINDOW_S, open_s, is_over=is_over, model=model, why=why
            )
        except EkidenError as fault:
            log.warning("circuit_unknown", model=model, error=str(fault))
            return
        known = _Known(0.0, why, is_over)
        self._known[circuit] = known.until_in(left_s) if state == "open" else known
        if state == "open":
            log.warning("circuit_open", model=model, open_s=round(left_s, 1), problem=why)

    def refresh(self, circuits: Iterable[OpenCircuit]) -> None:
        """Take in what the store knows: it comes from another thread."""
        known = ((one, _Known(0.0, one.why, one.is_over)) for one in circuits)
        self._known = {one.id: it.until_in(one.open_s) if one.has_opened else it for one, it in known}


class CircuitModel:
    """A ``ChatModel`` that is not asked while its circuit is open."""

    def __init__(self, model: ChatModel, circuits: Circuits, provider: str, account: str) -> None:
        self._model = model
        self._circuits = circuits
        self._provider = provider
        self._account = account

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        """Return the model's reply; raise what it raises, or ``NotAsked``."""
        circuits, circuit = self._circuits, circuit_id(self._provider, request.model, self._account)
        await circuits.admit(circuit, request.model)
        try:
            reply = await self._model.reply(request, on_delta)
        except (ModelUnavailable, QuotaExhausted) as error:
            await circuits.failed(circuit, request.model, error)
            raise
        except ModelError:  # it refuses, but it is there
            await circuits.worked(circuit)
            raise
        await circuits.worked(circuit)
        return reply
