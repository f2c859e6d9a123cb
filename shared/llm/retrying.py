"""Tries a model again after failures that may pass."""

import asyncio
from collections.abc import Awaitable, Callable

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    stop_before_delay,
    wait_random_exponential,
)

from ekiden.shared.errors import CircuitOpen, ModelUnavailable
from ekiden.shared.late_logger import LateLogger
from ekiden.shared.llm.base import ChatModel, Delta, ModelReply, ModelRequest, OnDelta

__all__ = ["Restarting", "RetryingModel"]

_FIRST_WAIT_S = 1.0
_SHORTEST_WAIT_S = 0.25
_LONGEST_WAIT_S = 60.0
_SPREAD_S = 0.1

log = LateLogger(__name__)


class RetryingModel:
    """A ``ChatModel`` that calls another one up to ``attempts`` times, for no longer than ``total_s``.

    Only ``ModelUnavailable`` is tried again, and that not while the model's circuit is open. Waits grow exponentially,
    with jitter; where the provider says when to come back, that is kept, plus a little, so that many workers do not
    come back at once. Cancellation passes at once.
    """

    def __init__(
        self,
        model: ChatModel,
        *,
        attempts: int = 5,
        total_s: float = 300.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._model = model
        self._attempts = attempts
        self._total_s = total_s
        self._sleep = sleep

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        """Return the first reply that comes; raise the last failure, with its ``retry_after_s``, if none does."""
        retrying = AsyncRetrying(
            retry=retry_if_exception(_may_pass),
            wait=_wait_s,
            stop=stop_after_attempt(self._attempts) | stop_before_delay(self._total_s),
            sleep=self._sleep,
            before_sleep=_report(request.model),
            retry_error_callback=_give_up,
        )
        restarting = Restarting(on_delta) if on_delta is not None else None
        return await retrying(self._attempt, request, restarting)

    async def _attempt(self, request: ModelRequest, restarting: "Restarting | None") -> ModelReply:
        if restarting is None:
            return await self._model.reply(request)
        restarting.begin()
        return await self._model.reply(request, restarting.show)


class Restarting:
    """Passes deltas on and says when the earlier ones are void."""

    def __init__(self, on_delta: OnDelta) -> None:
        self._on_delta = on_delta
        self._has_shown = False

    def begin(self) -> None:
        """Begin an attempt."""
        if self._has_shown:
            self._on_delta(Delta("", restart=True))
        self._has_shown = False

    def show(self, delta: Delta) -> None:
        """Pass one delta on."""
        self._has_shown = not delta.restart
        self._on_delta(delta)


_exponential = wait_random_exponential(multiplier=_FIRST_WAIT_S, min=_SHORTEST_WAIT_S, max=_LONGEST_WAIT_S)
_spread = wait_random_exponential(multiplier=_SPREAD_S, max=1.0)


def _may_pass(error: BaseException) -> bool:
    return isinstance(error, ModelUnavailable) and not isinstance(error, CircuitOpen)


def _wait_s(state: RetryCallState) -> float:
    told = _failure(state).retry_after_s
    return _exponential(state) if told is None else told + _spread(state)


def _report(model: str) -> Callable[[RetryCallState], None]:
    def report(state: RetryCallState) -> None:
        wait_s = round(state.upcoming_sleep, 1)
        log.warning(
            "model_retry", model=model, attempt=state.attempt_number, wait_s=wait_s, problem=str(_failure(state))
        )

    return report


def _give_up(state: RetryCallState) -> ModelReply:
    failure = _failure(state)
    if state.attempt_number == 1 and failure.retry_after_s is None:
        raise failure
    later = f"; it asks to come back in {failure.retry_after_s:g} s" if failure.retry_after_s is not None else ""
    message = f"{failure} (tried {state.attempt_number} times{later})"
    raise ModelUnavailable(message, failure.retry_after_s) from failure


def _failure(state: RetryCallState) -> ModelUnavailable:
    failure = state.outcome.exception() if state.outcome is not None else None
    assert isinstance(failure, ModelUnavailable)
    return failure
