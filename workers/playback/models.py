"""Models that give what is recorded, and ask nobody."""

from collections.abc import Sequence
from dataclasses import dataclass

from ekiden.shared.errors import HookStopped, ModelError
from ekiden.shared.fallback_causes import FallbackCause
from ekiden.shared.hooks.base import HookedModel
from ekiden.shared.hooks.events import AfterModel
from ekiden.shared.llm.base import ChatModel, ModelReply, ModelRequest, OnDelta
from ekiden.shared.llm.models import SCRIPTED, ModelChoice, provider_of
from ekiden.shared.messages import Message, TextPart, ToolCall
from ekiden.shared.records import GuardJudged, LoopJudged, ModelCall, ModelReplied, Repairing, Summarised
from ekiden.shared.relay.leg import Leg
from ekiden.workers.compression import COMPRESSOR, SUMMARISER
from ekiden.workers.loops.judge import JUDGE, as_answer
from ekiden.workers.model_caller import Candidate, ModelCaller
from ekiden.workers.model_callers import ModelCallers
from ekiden.workers.node_calls import NodeCall
from ekiden.workers.playback.recorded import Beside, RecordedJob, Recordings
from ekiden.workers.rail_judge import JUDGE as RAIL_JUDGE
from ekiden.workers.rail_judge import as_answer as judgement_of
from ekiden.workers.repairs import REPAIRER

__all__ = ["RecordedCallers", "RecordedModel", "reply_of"]

_BESIDE: dict[str, tuple[type[Beside], str]] = {
    JUDGE: (LoopJudged, ""),
    REPAIRER: (Repairing, ""),
    RAIL_JUDGE: (GuardJudged, ""),
    COMPRESSOR: (Summarised, "compression"),
    SUMMARISER: (Summarised, "summary"),
}
"""Who is asked beside the turns -> what is recorded of it."""


@dataclass(frozen=True)
class RecordedCallers(ModelCallers):
    """Let the legs of a worker ask recordings."""

    recordings: Recordings | None = None

    def caller(self, names: Sequence[str | None], leg: Leg, fallback_on: Sequence[FallbackCause] = ()) -> ModelCaller:
        """Return who gives what is recorded for the leg, under the name of the model that was asked then."""
        assert self.recordings is not None, "a recorded caller has recordings"
        job = self.recordings.of(leg.job)
        name = job.model_of(leg.number) or SCRIPTED.name
        choice = ModelChoice(name, provider_of(name) or SCRIPTED)
        model: ChatModel = RecordedModel(job, leg)
        if leg.context.does_part:  # a call, which a graph says, and no model: as the graph says it now
            model = NodeCall(leg.agent, leg.inputs, model)
        asked = [Candidate(choice, HookedModel(model, leg.hooks))]
        return ModelCaller(asked, self.prices, leg.record, leg=leg.number, drawn_then=job.drawn)


class RecordedModel:
    """A ``ChatModel`` that gives what is recorded for one leg."""

    def __init__(self, job: RecordedJob, leg: Leg) -> None:
        self._job = job
        self._leg = leg

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        """Return what was answered here.

        Raises ``ModelError``: what failed then, or that nothing is recorded.

        Raises ``HookStopped`` where a hook ended the job once it had seen the reply.
        """
        if request.agent in _BESIDE:
            return self._beside(request.agent)
        turn = len(self._leg.conversation.turns) + 1
        said = self._job.replies.get((self._leg.number, turn))
        if said is None:
            if (why := self._job.stopped_at(AfterModel.name, self._leg.number, turn)) is not None:
                raise HookStopped(why)  # it did not let the reply be recorded
            raise ModelError(self._why_not(turn))
        return reply_of(said)

    def _why_not(self, turn: int) -> str:
        """Return what the job failed with here, if it did."""
        end = self._job.end
        is_here = (
            end is not None
            and end.leg == self._leg.number
            and (end.leg, turn - 1) in {*self._job.replies, (end.leg, 0)}
        )
        if end is not None and is_here and end.status == "failed" and end.error:
            return end.error
        return f"nothing is recorded for turn {turn} of leg {self._leg.number} ({self._leg.agent})"

    def _beside(self, agent: str) -> ModelReply:
        kind, purpose = _BESIDE[agent]
        match record := self._job.next_beside(kind, purpose):
            case LoopJudged():
                return _reply(record, as_answer(record))
            case Summarised(text=text, why=why) if text or not why:
                return _reply(record, TextPart(text=text))
            case Repairing():
                return _reply(record, TextPart(text=record.text))
            case GuardJudged():
                return _reply(record, judgement_of(record))
            case Summarised():
                raise ModelError(record.why)
        raise ModelError(f"nothing is recorded for {agent}")


def reply_of(said: ModelReplied) -> ModelReply:
    """Return a reply as it was recorded."""
    return ModelReply(message=said.message, finish=said.finish, usage=said.usage, model=said.model, detail=said.detail)


def _reply(record: ModelCall, part: TextPart | ToolCall) -> ModelReply:
    message = Message(role="model", parts=(part,), model=record.model)
    return ModelReply(message=message, usage=record.usage, model=record.model)
