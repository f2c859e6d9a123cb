"""Tools that give what is recorded, and do nothing."""

from collections.abc import Callable, Iterable

from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.messages import ToolCall, ToolResult, error_result
from ekiden.shared.relay.leg import Leg
from ekiden.workers.memory import Remember
from ekiden.workers.playback.recorded import RecordedJob, Recordings
from ekiden.workers.tools.base import Tool, ToolContext, ToolQuestion
from ekiden.workers.tools.running import Notes
from ekiden.workers.tools.threads import ToolThreads
from ekiden.workers.tools.tool_runner import ToolRunner
from ekiden.workers.untrusted import Untrusted

__all__ = ["RecordedToolRunner", "remembering"]

NOT_RECORDED = "nothing is recorded for this call"


class RecordedToolRunner(ToolRunner):
    """Checks calls as ever, and answers them from recordings."""

    def __init__(
        self,
        recordings: Recordings,
        tools: Iterable[Tool],
        threads: int | ToolThreads = 1,
        offered: Callable[[], Iterable[str]] | None = None,
        *,
        known: Iterable[str] = (),
    ) -> None:
        super().__init__(tools, threads, offered, known=known)
        self._recordings = recordings

    def only(self, tools: Iterable[Tool], offered: Callable[[], Iterable[str]] | None = None) -> ToolRunner:
        """See ``ToolRunner``."""
        return RecordedToolRunner(self._recordings, tools, self._threads, offered, known=self._known)

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """Return what the call gave then, and write the variables that it wrote. Raises ``ToolQuestion``."""
        job, place = self._recordings.of(context.job), (context.leg, call.id)
        _ask_again(job, place, context)
        finished = job.finished.get(place)
        if finished is None or finished.record.result.name != call.name:
            return error_result(call, NOT_RECORDED)
        for name, value in finished.changes.items():
            context.state.set(name, value)
        context.running.untrusted = finished.record.untrusted
        return finished.result


def _ask_again(job: RecordedJob, place: tuple[int, str], context: ToolContext) -> None:
    """Raise the question that the tool asked next, behind the one that was answered."""
    asked = job.questions.get(place, [])
    states = [paused.state for paused, _ in asked]
    answered = context.answered
    number = 0 if answered is None else states.index(answered.state) + 1 if answered.state in states else len(asked)
    if number < len(asked) and (view := asked[number][1]) is not None:
        raise ToolQuestion(view.text, view.choices, states[number])


def remembering(recordings: Recordings) -> Remember:
    """Return what puts before agents the notes that they were given then."""

    async def remember(_: AgentDefinition, leg: Leg, __: Untrusted) -> Notes | None:
        recalled = recordings.of(leg.job).recalled.get(leg.number)
        if recalled is not None and not leg.conversation.turns and leg.conversation.recalled is None:
            await leg.record(recalled)
        return None

    return remember
