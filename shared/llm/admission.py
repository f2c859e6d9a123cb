"""Attempts of calls that wait for their turn; each one counts, also those that only repeat another."""

from ekiden.shared.llm.base import ChatModel, ModelReply, ModelRequest, OnDelta

__all__ = ["AdmittedModel"]


class AdmittedModel:
    """A ``ChatModel`` that asks another one when the request's admission lets it."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        """Return the model's reply; raise what it raises, or ``OverLimit``."""
        if request.admission is None:
            return await self._model.reply(request, on_delta)
        return await request.admission(request, lambda: self._model.reply(request, on_delta))
