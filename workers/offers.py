"""What a model is told that it may call, turn by turn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ekiden.shared.llm.base import ToolSpec
from ekiden.shared.relay.leg import Leg
from ekiden.workers.completion import Completion
from ekiden.workers.delegation import Delegations
from ekiden.workers.handoffs import Transfers
from ekiden.workers.limits import job_is_used_up
from ekiden.workers.outputs import JobOutputs
from ekiden.workers.tools.base import Tool
from ekiden.workers.tools.builtin.kept import read_output

__all__ = ["Offer", "Offers"]


@dataclass(frozen=True)
class Offer:
    """What a model is told that it may call, now: conditions decide which targets are there."""

    tools: tuple[ToolSpec, ...]
    transfers: str
    """What the instructions say of transfers, where the tools do not."""


@dataclass(frozen=True)
class Offers:
    """Makes the offers of one leg."""

    leg: Leg
    tools: Mapping[str, Tool]
    problems: Sequence[str]
    """Which tools are not there now, and why: the model might look for them in vain."""
    outputs: JobOutputs
    completion: Completion
    delegations: Delegations
    transfers: Transfers

    def now(self) -> Offer:
        """Return what may be called now. In its last turn a leg can only end."""
        if self.leg.conversation.last_turn is not None:
            if job_is_used_up(self.leg):
                return Offer(self.completion.specs, "")
            return Offer((*self.completion.specs, *self.transfers.specs), self.transfers.instruction)
        kept = [read_output.spec] if self.outputs.has_any else []
        specs = sorted([*(tool.spec for tool in self.tools.values()), *kept], key=lambda spec: spec.name)
        told = "\n\n".join(filter(None, (self.transfers.instruction, self._gone())))
        return Offer((*specs, *self.delegations.specs, *self.completion.specs, *self.transfers.specs), told)

    def names(self) -> list[str]:
        """Return the names of all that may be called now."""
        return [spec.name for spec in self.now().tools]

    def _gone(self) -> str:
        gone = "\n".join(f"- {one}" for one in self.problems)
        return f"Tools that you do not have now:\n{gone}" if gone else ""
