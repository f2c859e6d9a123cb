"""Hooks that interfere with one leg: what they have said is recorded in front of the step that it changes.

A leg that goes on elsewhere reads it there and does the same: no hook is asked again about a step that it has changed,
or that has begun. A hook that changed nothing has left no record, and may be asked twice.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.definitions.transfer_names import transfer_tool_name
from ekiden.shared.errors import DefinitionError, HookFailed, HookStopped
from ekiden.shared.handoff import HandoffContext
from ekiden.shared.hook_entries import entries_in
from ekiden.shared.hooks.asking import NOBODY, HookAsking, Said, by_hooks
from ekiden.shared.hooks.commands import command_hooks
from ekiden.shared.hooks.events import AfterModel, AfterTool, BeforeModel, BeforeTool, BeforeToolSelection, Event, Place
from ekiden.shared.hooks.occasions import (
    AfterAgent,
    AfterHandoff,
    BeforeAgent,
    BeforeHandoff,
    PreCompress,
    SessionStart,
)
from ekiden.shared.ids import is_first_of_session, parent_of, session_of
from ekiden.shared.instructions import plain
from ekiden.shared.llm.base import ModelReply, ModelRequest
from ekiden.shared.messages import ToolCall, ToolResult, error_result
from ekiden.shared.outcomes import Answer
from ekiden.shared.records import Hooked, Noticed, Nudged, Record, Refused
from ekiden.shared.relay.leg import Leg
from ekiden.workers.request_changes import changed_request, changes_of, choice_of, with_choice

__all__ = ["HookedReply", "HookedResult", "LegHooks", "hooks_of"]

_NO_FOLDER = Path("/")
"""Where commands of agent files start: in no folder that somebody else may have written."""

E = TypeVar("E", bound=Event)


@dataclass(frozen=True)
class HookedResult:
    """A call's result as hooks want it."""

    result: ToolResult
    records: tuple[Record, ...] = ()
    """What is to be recorded in front of it."""
    end: HookStopped | HookFailed | None = None
    """What is to be raised once it is recorded."""


@dataclass(frozen=True)
class HookedReply:
    """A model's reply as hooks want it."""

    reply: ModelReply
    records: tuple[Record, ...] = ()
    """What is to be recorded in front of it."""


class LegHooks:
    """Asks hooks about the steps of one leg, and records what they change.

    All raise ``HookStopped`` where a hook ends the job, and ``HookFailed`` where one has failed that is required.
    """

    def __init__(self, leg: Leg, asking: HookAsking = NOBODY) -> None:
        self._leg = leg
        self._asking = asking

    def at(self, event: str) -> bool:
        """Tell whether anybody is asked at the event of this name."""
        return self._asking.at(event)

    @property
    def context(self) -> str:
        """What hooks tell the agent, in all turns of the leg."""
        told = (said.context for said in self._leg.conversation.begun.values() if said.context)
        return "\n\n".join(dict.fromkeys(told))

    async def begin(self) -> None:
        """Ask what is to be known before the leg's first turn, or before it goes on with what a fork has added."""
        leg, turns = self._leg, self._leg.conversation.turns
        if not self._asking or (turns and not turns[-1].said):
            return
        place = self.place(1)
        occasions: list[Event] = [BeforeAgent(place, leg.asked)]
        if not turns and (leg.number > 1 or leg.context.node):
            occasions.insert(0, AfterHandoff(place, leg.context.from_agent, leg.context.reason))
        if not turns and not place.is_delegated and leg.context.is_first_agent(leg.number):
            occasions.insert(0, SessionStart(place, "startup" if is_first_of_session(leg.job) else "resume"))
        for occasion in occasions:
            if self.at(occasion.name) and occasion.name not in leg.conversation.begun:
                said = await self._asked(occasion)
                self._refuse_blocked(said, "the agent")
                await self._record(said, changed=())

    async def after_agent(self, answer: Answer) -> Answer | None:
        """Return an answer as hooks want it; None: the agent is told why it must go on."""
        turn, conversation = self._leg.conversation.turns[-1], self._leg.conversation
        if (known := turn.answered) is not None:
            return replace(answer, text=known.value) if "answer" in known.changed else answer
        if not self.at(AfterAgent.name):
            return answer
        is_retry = any(one.answered and one.answered.block for one in conversation.turns)
        said = await self._asked(AfterAgent(self.place(), self._leg.asked, answer.text, answer.output, is_retry))
        if said.block and conversation.last_turn is not None:
            raise HookStopped(f"{by_hooks(said.by)} blocked the answer of the last turn: {said.block}")
        changed = _changed(said, same=said.event.answer == answer.text)
        records = self._records(said, changed=changed, value=said.event.answer if changed else None)
        if said.block:
            await self._leg.record(*records, Nudged(leg=self._leg.number, text=said.block))
            return None
        self._leg.hold(*records)
        return replace(answer, text=said.event.answer)

    async def may_hand_over(self, context: HandoffContext) -> bool:
        """Tell whether hooks let the agent's file hand over; where they do not, that is recorded."""
        if not self.at(BeforeHandoff.name):
            return True
        said = await self._asked_by_file(context.to_agent, {"reason": context.reason})
        if not said.block:
            return True
        why = f"{by_hooks(said.by)}: {said.block}"
        refused = Refused(leg=self._leg.number, name=context.to_agent, code="HOOK_BLOCKED", message=why)
        await self._leg.record(*self._records(said, changed=()), refused)
        return False

    async def why_not_along(self, edge: str, to_agent: str, reason: str, output: Any) -> str:
        """Say why hooks do not let an edge of a graph be taken to the next agent; empty: they do.

        Args:
            edge: What it is known by within the leg.
            to_agent: Who is to get ``output``.
            reason: The edge, for people.
            output: What the node before has given, JSON.
        """
        if not self.at(BeforeHandoff.name):
            return ""
        given = {"payload": output} if isinstance(output, dict) else {"context": plain(output)}
        said = await self._asked_by_file(to_agent, {"reason": reason, **given}, edge)
        self._leg.hold(*self._records(said, call_id=edge, changed=()))
        return f"{by_hooks(said.by)} blocked {reason} at {BeforeHandoff.name}: {said.block}" if said.block else ""

    async def _asked_by_file(self, to_agent: str, args: dict[str, Any], call_id: str = "") -> Said[BeforeHandoff]:
        """Return what hooks say of control that moves because a file says so."""
        call = ToolCall(id=call_id, name=transfer_tool_name(to_agent), args=args)
        return await self._asked(BeforeHandoff(self.place(), call, to_agent, is_automatic=True))

    async def before_compression(self, tokens: int) -> Said[PreCompress]:
        """Ask about a conversation that grows too long: not to compress it (``block``), what to keep (``context``)."""
        return await self._asked(PreCompress(self.place(1), tokens=tokens))

    async def before_call(self, event: BeforeTool) -> ToolCall:
        """Return a call as hooks want it.

        What they block, or want a person to approve, is decided of it where rules are: see ``Deciding``.
        """
        call, said = event.call, await self._asked(event)
        changed = _changed(said, same=said.event.call.args == call.args)
        await self._record(said, call_id=call.id, changed=changed, value=said.event.call.args if changed else None)
        return said.event.call

    async def after_tool(self, call: ToolCall, result: ToolResult) -> HookedResult:
        """Return a call's result as hooks want it."""
        if not self.at(AfterTool.name):
            return HookedResult(result)
        try:
            said = await self._ask(AfterTool(self.place(), call, result))
        except HookFailed as error:
            return HookedResult(error_result(call, f"The result is withheld: {error}"), end=error)
        final = said.event.result
        if said.block:
            final = error_result(call, f"The result is withheld by {by_hooks(said.by)}: {said.block}")
        if said.context:
            final = final.with_notes(behind=[said.context])
        records = self._records(said, call_id=call.id, changed=_changed(said, same=final == result))
        return HookedResult(final, records, _stop(said))

    async def before_model(self, request: ModelRequest) -> tuple[ModelRequest, HookedReply | None]:
        """Return a request as hooks want it, and the reply that they give in the model's place, if they do."""
        request = await self._with_chosen_tools(request)
        if (known := self._leg.conversation.upcoming.get(BeforeModel.name)) is not None:
            return changed_request(request, known.value or {}), None
        if not self.at(BeforeModel.name):
            return request, None
        said = await self._asked(BeforeModel(self.place(1), request))
        self._refuse_blocked(said, "the model's turn")
        if said.reply is not None:
            reply = said.reply.model_copy(update={"model": f"hook {said.by[-1]}"})  # nobody takes it for a model's
            return request, HookedReply(reply, self._records(said, changed=("reply",)))
        changes = changes_of(request, said.event.request)
        await self._record(said, changed=_changed(said, same=not changes), value=changes or None)
        return said.event.request, None

    async def after_model(self, request: ModelRequest, reply: ModelReply) -> HookedReply:
        """Return a model's reply as hooks want it."""
        if not self.at(AfterModel.name):
            return HookedReply(reply)
        said = await self._asked(AfterModel(self.place(1), request, reply))
        self._refuse_blocked(said, "the model's turn")
        final = said.event.reply
        return HookedReply(final, self._records(said, changed=_changed(said, same=final == reply)))

    async def _with_chosen_tools(self, request: ModelRequest) -> ModelRequest:
        known = self._leg.conversation.upcoming.get(BeforeToolSelection.name)
        if known is not None:
            return with_choice(request, known.value)
        if not self.at(BeforeToolSelection.name):
            return request
        said = await self._asked(BeforeToolSelection(self.place(1), request))
        if (choice := said.event.choice) is None:
            return request
        await self._record(said, changed=("tools",), value=choice_of(choice))
        return with_choice(request, choice_of(choice))

    def place(self, further_turns: int = 0) -> Place:
        """Return where the leg is; ``further_turns``: seen from a turn that is still to come."""
        leg = self._leg
        turn = len(leg.conversation.turns) + further_turns
        is_delegated = parent_of(leg.job) is not None
        return Place(session_of(leg.job), leg.job, leg.number, leg.agent, turn, leg.cwd or "", is_delegated)

    async def _asked(self, event: E) -> Said[E]:
        """Return what hooks say that do not end the job."""
        said = await self._ask(event)
        if (stop := _stop(said)) is not None:
            raise stop
        return said

    async def _ask(self, event: E) -> Said[E]:
        """Return what hooks say; the user is told what they say to him, and which of them failed."""
        said = await self._asking.ask(event)
        await self._tell(said.notes)
        return said

    async def _tell(self, notes: Iterable[str]) -> None:
        told = {record.text for record in self._leg.records if isinstance(record, Noticed)}
        if news := [text for text in dict.fromkeys(notes) if text not in told]:
            await self._leg.record(*(Noticed(leg=self._leg.number, text=text) for text in news))

    async def _record(self, said: Said[E], **about: object) -> None:
        if records := self._records(said, **about):
            await self._leg.record(*records)

    def _records(self, said: Said[E], **about: object) -> tuple[Record, ...]:
        """Return the record of what hooks have said, where that is anything."""
        words = {"block": said.block, "ask": said.ask, "context": said.context}
        if not any([*words.values(), about["changed"]]):
            return ()
        where = {"leg": self._leg.number, "turn": said.event.place.turn, "at": said.event.name}
        return (Hooked.model_validate({**where, "by": said.by, **words, **about}),)

    def _refuse_blocked(self, said: Said[E], what: str) -> None:
        if said.block:
            raise HookStopped(f"{by_hooks(said.by)} blocked {what} at {said.event.name}: {said.block}")


def hooks_of(agents: Iterable[AgentDefinition], leg: Leg, asking: HookAsking, env: Mapping[str, str]) -> LegHooks:
    """Return who may interfere with a leg: those with any one, and those of agents' files. Raises ``HookFailed``."""
    for agent in agents:
        if block := agent.extra.get("hooks"):
            try:
                entries, _ = entries_in(block, in_agent_file=True)
            except DefinitionError as error:  # a version of Ekiden that did not run them has published it
                raise HookFailed(f"'hooks' of agent {agent.name!r}: {error}; mend it, and publish it again") from None
            asking = asking.and_those(command_hooks(entries, env, _NO_FOLDER))
    return LegHooks(leg, asking)


def _changed(said: Said[E], *, same: bool) -> tuple[str, ...]:
    return () if same and not said.is_recorded else tuple(said.changed)


def _stop(said: Said[E]) -> HookStopped | None:
    if not said.stop:
        return None
    return HookStopped(f"{by_hooks(said.by)} ended the job at {said.event.name}: {said.stop}")
