"""Who asks models for an agent: the ones that its file names, within what all workers may use of them together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ekiden.shared.fallback_causes import FallbackCause
from ekiden.shared.hooks.base import HookedModel
from ekiden.shared.llm.base import ChatModel
from ekiden.shared.llm.making import Models
from ekiden.shared.llm.models import ModelChoice
from ekiden.shared.model_admission import ModelLimits
from ekiden.shared.prices import Prices
from ekiden.shared.relay.leg import Leg
from ekiden.workers.model_caller import Candidate, ModelCaller
from ekiden.workers.node_calls import NodeCall
from ekiden.workers.own_names import OwnNames

__all__ = ["ModelCallers"]


@dataclass(frozen=True)
class ModelCallers:
    """The models of one worker."""

    models: Models
    """Which there are."""
    prices: Prices
    """What they cost."""
    limits: ModelLimits | None = None
    """What all workers may use of them together; None: any amount."""

    def caller(self, names: Sequence[str | None], leg: Leg, fallback_on: Sequence[FallbackCause] = ()) -> ModelCaller:
        """Return who asks the models ``names`` in a leg, each where the one before it gives no answer.

        Args:
            names: None: the model of the settings.
            leg: Where what is asked and answered is recorded.
            fallback_on: Why the next one is asked; empty: as the settings say.
        """
        choices = self.models.choose_all(names)
        is_followed = [True] * (len(choices) - 1) + [False]
        limited = self._limited(leg, choices)
        candidates = [
            Candidate(choice, HookedModel(OwnNames(self._asked(choice, leg, limited, has_fallback=follows)), leg.hooks))
            for choice, follows in zip(choices, is_followed, strict=True)
        ]
        on = fallback_on or self.models.fallback_on
        return ModelCaller(candidates, self.prices, leg.record, leg=leg.number, on=on)

    def _limited(self, leg: Leg, choices: Sequence[ModelChoice]) -> Callable[[ChatModel], ChatModel]:
        if self.limits is None:
            return lambda model: model
        return self.limits.under(leg.lease, [choice.name for choice in choices])

    def _asked(
        self, choice: ModelChoice, leg: Leg, limited: Callable[[ChatModel], ChatModel], *, has_fallback: bool
    ) -> ChatModel:
        model = limited(self.models.model(choice, has_fallback=has_fallback))
        return NodeCall(leg.agent, leg.inputs, model) if leg.context.does_part else model
