"""What a job uses up, counted as its steps come; what is below it counts above, too."""

from ekiden.shared.messages import Usage
from ekiden.shared.prices import Prices
from ekiden.shared.records import Forked, ModelCall, Record, Routed, Unrouted

__all__ = ["Spending", "spent_of"]

_LEAST_USD = 0.0001
_LISTED = Prices()
"""For records that say no cost."""


class Spending:
    """Tokens and cost of a job and all below it."""

    def __init__(self, above: "Spending | None" = None) -> None:
        self._above = above
        self._usage = Usage()
        self._cost_usd = 0.0
        self._is_known = True

    def note(self, record: Record) -> None:
        """Count what a step has used up."""
        match record:
            case Forked():  # what stands before, another job has paid for
                self._usage, self._cost_usd, self._is_known = Usage(), 0.0, True
            case Routed(stages=stages) | Unrouted(stages=stages):
                for stage in (one for one in stages if one.model):
                    said = stage.cost_usd
                    self.add(stage.usage, _LISTED.cost_usd(stage.model, stage.usage) if said is None else said)
            case ModelCall(usage=usage, model=model):
                said = record.cost_usd
                self.add(usage, _LISTED.cost_usd(model, usage) if said is None else said)
            case _:
                pass

    def add(self, usage: Usage, cost_usd: float | None) -> None:
        """Count a call of a model; None: nobody said what it costs."""
        self._usage += usage
        self._cost_usd += cost_usd or 0.0
        self._is_known &= cost_usd is not None
        if self._above is not None:
            self._above.add(usage, cost_usd)

    @property
    def figures(self) -> list[str]:
        """For people: the tokens, and the cost; ``at least`` where nobody said what some of it costs."""
        tokens, *cost = spent_of(self._usage, self._cost_usd, has_tokens=True)
        return [tokens, *(one if self._is_known else f"at least {one}" for one in cost)]


def spent_of(usage: Usage, cost_usd: float | None, *, has_tokens: bool = False) -> list[str]:
    """Return what was used up, for people; nothing of nothing, unless tokens are said in any case."""
    tokens = usage.input_tokens + usage.output_tokens
    cost = f"${cost_usd:.4f}" if cost_usd and cost_usd >= _LEAST_USD else f"under ${_LEAST_USD}"
    return [*([f"{tokens} tokens"] if tokens or has_tokens else []), *([cost] if cost_usd else [])]
