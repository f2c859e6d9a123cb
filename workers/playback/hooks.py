"""Hooks that are not asked: what they said then is taken from the journal."""

from collections.abc import Iterable
from typing import TypeVar

from ekiden.shared.errors import HookStopped
from ekiden.shared.hooks.asking import HookAsking, Said
from ekiden.shared.hooks.events import BeforeModel, BeforeTool, BeforeToolSelection, Event
from ekiden.shared.hooks.intervening import EVENTS, Intervening
from ekiden.shared.hooks.occasions import AfterAgent
from ekiden.shared.hooks.replies import HookReply, ToolChoice
from ekiden.shared.messages import ToolCall
from ekiden.shared.records import Hooked
from ekiden.workers.playback.models import reply_of
from ekiden.workers.playback.recorded import Recordings
from ekiden.workers.request_changes import changed_request

__all__ = ["RecordedHooks"]

E = TypeVar("E", bound=Event)


class RecordedHooks(HookAsking):
    """Say what hooks said at the same place; those of agents' files are asked neither: they run programs."""

    def __init__(self, recordings: Recordings) -> None:
        super().__init__()
        self._recordings = recordings

    def __bool__(self) -> bool:
        """See ``HookAsking``."""
        return True

    def and_those(self, hooks: Iterable[Intervening]) -> HookAsking:
        """See ``HookAsking``."""
        return self

    def at(self, event: str) -> bool:
        """See ``HookAsking``: whether anything is recorded there depends on the job."""
        return event in EVENTS

    async def ask(self, event: E) -> Said[E]:
        """Return what hooks said of ``event`` then. Raises ``HookStopped`` where one ended the job there."""
        job, said = self._recordings.of(event.place.job), Said(event)
        call = getattr(event, "call", None)
        call_id = call.id if isinstance(call, ToolCall) else ""
        place = event.name, event.place.leg, event.place.turn, call_id
        if (known := job.hooked.get(place)) is None:
            if (why := job.stopped_at(*place)) is not None:
                raise HookStopped(why)
            return said
        said.block, said.ask, said.context = known.block, known.ask, known.context
        said.by, said.changed, said.is_recorded = [*known.by], [*known.changed], True
        if "reply" in known.changed and isinstance(event, BeforeModel):
            said.reply = reply_of(job.replies[event.place.leg, event.place.turn])
        elif known.changed:
            said.event = event.changed(_changes(event, known), event)
        return said


def _changes(event: Event, known: Hooked) -> HookReply:
    """Return what changes an event again; of results and replies nothing: they are recorded as they became."""
    match event:
        case BeforeTool():
            return HookReply(args=known.value)
        case BeforeToolSelection():
            names = known.value["names"]
            return HookReply(tools=ToolChoice(known.value["mode"], None if names is None else tuple(names)))
        case BeforeModel(request=request):
            return HookReply(request=changed_request(request, known.value))
        case AfterAgent():
            return HookReply(answer=known.value)
        case _:
            return HookReply()
