"""Asking a model, for whatever purpose: what it answers, what that costs, how long it took."""

import time
from dataclasses import dataclass

from ekiden.shared.llm.base import ChatModel, ModelReply, ModelRequest, OnDelta
from ekiden.shared.prices import Prices

__all__ = ["ModelAnswer", "ModelCaller"]


@dataclass(frozen=True)
class ModelAnswer:
    """A model's reply with what a record says of it."""

    reply: ModelReply
    cost_usd: float | None
    """None: nobody said what the model costs."""
    duration_ms: int


class ModelCaller:
    """Asks the model of one leg."""

    def __init__(self, model: ChatModel, name: str, prices: Prices) -> None:
        """``name``: what requests call the model, and what its window and prices are looked up by."""
        self.name = name
        self._model = model
        self._prices = prices

    async def ask(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelAnswer:
        """Return the reply to ``request``. Raises ``ModelError``."""
        began = time.monotonic()
        reply = await self._model.reply(request, on_delta)
        took = round((time.monotonic() - began) * 1000)
        return ModelAnswer(reply, self._prices.cost_usd(reply.model, reply.usage), took)
