"""Asking a model, for whatever purpose: what it answers, what that costs, how long it took; and who answers for it."""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from math import inf
from typing import NamedTuple

import structlog

from ekiden.shared.errors import ExceedsLimit, ModelError, ModelUnavailable, NotAsked, OverLimit, QuotaExhausted
from ekiden.shared.fallback_causes import FallbackCause
from ekiden.shared.llm.base import ChatModel, ModelReply, ModelRequest, OnDelta
from ekiden.shared.llm.making import RETRY_BEFORE_FALLBACK_S
from ekiden.shared.llm.models import ModelChoice
from ekiden.shared.llm.retrying import Restarting
from ekiden.shared.messages import Usage
from ekiden.shared.prices import Prices
from ekiden.shared.records import FellBack

__all__ = ["Candidate", "ModelAnswer", "ModelCaller"]

_LONGEST = 500
"""Characters of a failure that a record keeps."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class ModelAnswer:
    """A model's reply with what a record says of it."""

    reply: ModelReply
    cost_usd: float | None
    """None: nobody said what the model costs."""
    duration_ms: int


@dataclass(frozen=True)
class Candidate:
    """A model that may be asked."""

    choice: ModelChoice
    model: ChatModel


class _Failure(NamedTuple):
    """A model that gave no answer."""

    candidate: Candidate
    error: ModelError | OverLimit
    duration_ms: int

    @property
    def wait_s(self) -> float:
        """For how long it has no room, about."""
        return self.error.wait_s if isinstance(self.error, OverLimit) else inf


class ModelCaller:
    """Asks the model of one leg, and its fallbacks where that gives no answer.

    Each is told the whole conversation anew, in the words of its provider: nothing of what the one before has begun to
    say remains. Where nobody answers, it is as if there had been one model: a refusal stands, and who may come back
    is waited for: of those that a limit leaves no room for, the one that has room soonest, in its queue.
    """

    def __init__(
        self,
        candidates: Sequence[Candidate],
        prices: Prices,
        record: Callable[[FellBack], Awaitable[None]],
        *,
        leg: int = 0,
        on: Sequence[FallbackCause] = (),
        drawn_then: Sequence[str] = (),
    ) -> None:
        """Ask ``candidates`` in this order; the next one for a cause among ``on``, which is recorded first."""
        self.name = candidates[0].choice.name
        self.window = min(candidate.choice.window for candidate in candidates)
        """What every one of them reads."""
        self.drawn_then = drawn_then
        """The ids of the job's handoffs in the run that is played; none: nothing is played."""
        self._candidates = candidates
        self._prices = prices
        self._record = record
        self._leg = leg
        self._on = on
        self._passes_limits = "limit" in on and len(candidates) > 1
        self._told: set[str] = set()
        """Models of which it is recorded that they are left alone."""

    async def ask(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelAnswer:
        """Return the reply to ``request``, whose ``model`` names the one that has given it. Raises ``ModelError``."""
        restarting = Restarting(on_delta) if on_delta is not None else None
        failures: list[_Failure] = []
        refused: ModelAnswer | None = None
        for candidate, after in zip_longest(self._candidates, self._candidates[1:]):
            began = time.monotonic()
            try:
                answer = await self._ask(candidate, request, restarting, queues=not self._passes_limits)
            except (ModelError, OverLimit) as error:
                self._let_stand(error, is_first=not failures and refused is None)
                failures.append(_Failure(candidate, error, _ms_since(began)))
                passed = self._passed_over(failures[-1])
            else:
                if answer.reply.finish != "refused" or after is None or "refused" not in self._on:
                    return answer
                refused, passed = answer, _refusal(answer)
            if after is not None and passed is not None:
                await self._pass_on(passed.model_copy(update={"to": after.choice.name}))
        if full := [failure for failure in failures if isinstance(failure.error, OverLimit)]:
            return await self._queue(full, failures[-1], request, restarting)
        if refused is not None:  # what it took is recorded
            return ModelAnswer(refused.reply.model_copy(update={"usage": Usage()}), 0.0, 0)
        raise _together([failure.error for failure in failures if isinstance(failure.error, ModelError)])

    def _let_stand(self, error: ModelError | OverLimit, *, is_first: bool) -> None:
        """Raise a failure for which nobody else is asked; behind another one, only a limit that is to be waited for."""
        is_wanted = self._cause_of(error) is not None
        is_waited_for = isinstance(error, OverLimit) and not (is_wanted and len(self._candidates) > 1)
        if is_waited_for or (is_first and not is_wanted):
            raise error

    def _cause_of(self, error: ModelError | OverLimit) -> FallbackCause | None:
        """Return for which cause another model is asked; None: for none of those that the agent names."""
        return next((cause for cause in _causes_of(error) if cause in self._on), None)

    def _passed_over(self, failure: _Failure) -> FellBack | None:
        """Return what is recorded of a model that gave no answer; None: that it is not even asked is known already."""
        name, error = failure.candidate.choice.name, failure.error
        if isinstance(error, NotAsked):
            if name in self._told:
                return None
            self._told.add(name)
        why = self._cause_of(error) or next(iter(_causes_of(error)), "unavailable")
        return FellBack(model=name, why=why, text=str(error), to="", duration_ms=failure.duration_ms)

    async def _queue(
        self, full: Sequence[_Failure], last: _Failure, request: ModelRequest, restarting: Restarting | None
    ) -> ModelAnswer:
        """Ask again the model that has room soonest, which takes a place in its queue; ``last``: who failed before.

        A short wait is worth more than the order of the models; who is woken asks the first one first all the same.
        """
        soonest = min(full, key=lambda failure: failure.wait_s)
        if last not in full and (passed := self._passed_over(last)) is not None:
            await self._pass_on(passed.model_copy(update={"to": soonest.candidate.choice.name}))
        try:
            return await self._ask(soonest.candidate, request, restarting, queues=True)
        except OverLimit as error:
            others = [str(failure.error) for failure in full if failure is not soonest]
            raise OverLimit("; ".join((str(error), *others)), error.wait_s) from None

    async def _ask(
        self, candidate: Candidate, request: ModelRequest, restarting: Restarting | None, *, queues: bool
    ) -> ModelAnswer:
        began = time.monotonic()
        name = candidate.choice.name
        is_as_asked = (request.model, request.queues) == (name, queues)
        asked = request if is_as_asked else replace(request, model=name, queues=queues)
        if restarting is not None:
            restarting.begin()
        reply = await candidate.model.reply(asked, restarting.show if restarting else None)
        return ModelAnswer(reply, self._prices.cost_usd(reply.model, reply.usage), _ms_since(began))

    async def _pass_on(self, passed: FellBack) -> None:
        log.warning("model_fallback", model=passed.model, why=passed.why, to=passed.to, problem=passed.text)
        await self._record(passed.model_copy(update={"leg": self._leg, "text": passed.text[:_LONGEST]}))


def _causes_of(error: ModelError | OverLimit) -> tuple[FallbackCause, ...]:
    match error:
        case OverLimit() if error.is_refusal and error.wait_s > RETRY_BEFORE_FALLBACK_S:
            return "unavailable", "limit"  # as it is for whoever has heard that from the provider
        case OverLimit() | ExceedsLimit():
            return ("limit",)
        case QuotaExhausted():
            return ("quota",)
        case ModelUnavailable():
            return ("unavailable",)
    return ()


def _refusal(answer: ModelAnswer) -> FellBack:
    return FellBack(
        model=answer.reply.model,
        why="refused",
        text=answer.reply.detail or answer.reply.message.text,
        to="",
        usage=answer.reply.usage,
        cost_usd=answer.cost_usd,
        duration_ms=answer.duration_ms,
    )


def _together(failures: Sequence[ModelError]) -> ModelError:
    """Return one failure for all: of a kind that is waited for, where waiting may help."""
    first, *others = failures
    if not others:
        return first
    text = "; ".join(map(str, failures))
    away = [error for error in failures if isinstance(error, ModelUnavailable)]
    if not away:
        return type(first)(text)
    return ModelUnavailable(
        text, min((one.retry_after_s for one in away if one.retry_after_s is not None), default=None)
    )


def _ms_since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)
