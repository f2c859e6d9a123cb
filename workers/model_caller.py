"""Asking a model, for whatever purpose: what it answers, what that costs, how long it took; and who answers for it."""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

import structlog

from ekiden.shared.errors import ModelError, ModelUnavailable, NotAsked, QuotaExhausted
from ekiden.shared.fallback_causes import FallbackCause
from ekiden.shared.llm.base import ChatModel, ModelReply, ModelRequest, OnDelta
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


class ModelCaller:
    """Asks the model of one leg, and its fallbacks where that gives no answer.

    Each is told the whole conversation anew, in the words of its provider: nothing of what the one before has begun to
    say remains. Where nobody answers, it is as if there had been one model: a refusal stands, and who may come back
    is waited for.
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
        self._told: set[str] = set()
        """Models of which it is recorded that they are left alone."""

    async def ask(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelAnswer:
        """Return the reply to ``request``, whose ``model`` names the one that has given it. Raises ``ModelError``."""
        restarting = Restarting(on_delta) if on_delta is not None else None
        failures: list[ModelError] = []
        refused: ModelAnswer | None = None
        for candidate, after in zip_longest(self._candidates, self._candidates[1:]):
            began = time.monotonic()
            try:
                answer = await self._ask(candidate, request, restarting)
            except ModelError as error:
                cause = _cause_of(error)
                if not failures and refused is None and cause not in self._on:
                    raise
                failures.append(error)
                if isinstance(error, NotAsked) and candidate.choice.name in self._told:
                    continue  # no call: the first time tells why another model answers
                if isinstance(error, NotAsked):
                    self._told.add(candidate.choice.name)
                passed = FellBack(why=cause or "unavailable", text=str(error), to="", duration_ms=_ms_since(began))
                name = candidate.choice.name
            else:
                if answer.reply.finish != "refused" or after is None or "refused" not in self._on:
                    return answer
                refused, name = answer, answer.reply.model
                passed = _refusal(answer)
            if after is not None:
                await self._pass_on(passed.model_copy(update={"model": name, "to": after.choice.name}))
        if refused is not None:  # what it took is recorded
            return ModelAnswer(refused.reply.model_copy(update={"usage": Usage()}), 0.0, 0)
        raise _together(failures)

    async def _ask(self, candidate: Candidate, request: ModelRequest, restarting: Restarting | None) -> ModelAnswer:
        began = time.monotonic()
        name = candidate.choice.name
        asked = request if request.model == name else replace(request, model=name)
        if restarting is not None:
            restarting.begin()
        reply = await candidate.model.reply(asked, restarting.show if restarting else None)
        return ModelAnswer(reply, self._prices.cost_usd(reply.model, reply.usage), _ms_since(began))

    async def _pass_on(self, passed: FellBack) -> None:
        log.warning("model_fallback", model=passed.model, why=passed.why, to=passed.to, problem=passed.text)
        await self._record(passed.model_copy(update={"leg": self._leg, "text": passed.text[:_LONGEST]}))


def _cause_of(error: ModelError) -> FallbackCause | None:
    if isinstance(error, QuotaExhausted):
        return "quota"
    return "unavailable" if isinstance(error, ModelUnavailable) else None


def _refusal(answer: ModelAnswer) -> FellBack:
    return FellBack(
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
