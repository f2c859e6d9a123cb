"""The guardrails of one leg: they judge what hooks have made of it, once, and that is recorded before its effect."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from ekiden.shared.approvals import ANSWER, ANSWER_ID
from ekiden.shared.definitions.fields import keys_of
from ekiden.shared.definitions.guardrails import GuardedPlace, Guardrail
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.definitions.transfer_names import transfer_tool_name
from ekiden.shared.guardrails.subject import HANDED_OVER, Subject
from ekiden.shared.handoff import HandoffContext
from ekiden.shared.messages import WITHHELD, ToolCall, ToolResult, error_result
from ekiden.shared.outcomes import Answer, Failed, Suspended, Transfer, Unfinished
from ekiden.shared.records import Guarded, Noticed, Nudged
from ekiden.shared.relay.leg import Leg
from ekiden.shared.schemas import problems
from ekiden.workers.approvals import Approvals
from ekiden.workers.judgements import About, Judgement, Judgements
from ekiden.workers.tools.builtin.kept import read_output

__all__ = ["Around", "GuardedResult", "Handover", "Rails", "for_words", "unreadable", "violation", "with_answer"]

MAX_VIOLATIONS = 3
"""Turns of a leg in which calls, or what came of them, did not pass, before it ends."""
NOT_PASSED = "Your answer was not accepted. Give another one, in which this is mended:"
NOBODY_LET_IT = ", and no person has let it pass"
PROVISIONAL = "what it says is provisional until its guardrails have judged the answer"
NO_OBJECT = "the whole: arguments are an object"


class GuardedCall(NamedTuple):
    """A call with the arguments that may be carried out, or why it must not be."""

    call: ToolCall
    why: str = ""
    asked: str = ""
    """What a person is to decide about; empty: nothing."""


class Around(NamedTuple):
    """The agent of a graph in whose node a leg is, and who asks its guardrails."""

    agent: AgentDefinition
    judgements: Callable[[], Judgements]


class GuardedResult(NamedTuple):
    """A call's result as guardrails let it pass, and what is to be recorded in front of it."""

    result: ToolResult
    records: tuple[Guarded, ...] = ()


class Handover(NamedTuple):
    """What may go with control, or why nothing may."""

    context: HandoffContext
    why: str = ""
    asked: str = ""
    """See ``GuardedCall``."""


class Rails:
    """Asks the guardrails of an agent's file."""

    def __init__(
        self,
        leg: Leg,
        agent: AgentDefinition,
        judgements: Judgements,
        approvals: Approvals,
        around: Sequence[AgentDefinition] = (),
        within: Sequence[Around] = (),
    ) -> None:
        """``around``: the agents of the graphs that the leg is in, of which the agent's answer may be that.

        ``within``: those in whose nodes it is, also of jobs above: these judge what is handed over there, too.
        """
        self._leg = leg
        self._around = around
        self._within = [one for one in within if any("handoff" in rail.on for rail in one.agent.guardrails)]
        self._approvals = approvals
        self._agent = agent
        self._judgements = judgements

    def guard_results_of(self, tool: str) -> bool:
        """Whether what a tool gives is judged: nobody sees it grow then."""
        return bool(self._at("tool_output", tool))

    @property
    def guard_answers(self) -> bool:
        """Whether an answer is judged before anybody sees it."""
        rails = [rail for agent in (self._agent, *self._around) for rail in agent.guardrails]
        return any(not rail.stream for rail in rails if "output" in rail.on)

    async def begin(self) -> Failed | None:
        """Judge what the agent is asked, before its first turn or the next one; return how the leg ends by that."""
        if why := unreadable(self._agent):
            return Failed("GUARDRAIL", why)
        if not self._agent.guardrails:
            return None
        if turns := self._leg.conversation.turns:
            return await self._added(turns[-1].said)
        if self._at("output") and not self.guard_answers:
            await self._tell_once(f"{self._agent.name}: {PROVISIONAL}")
        if (back := self._leg.context.returned) is None:
            failed = (await self._judgements.of(About("input"), self._asked, self._at("input"))).rejected
        else:
            rails = for_words(self._at("delegation", self._leg.context.from_agent), is_error=back.is_error)
            about = About("delegation", back.call_id)
            if (refused := await self._added(self._leg.added)) is not None:
                return refused
            failed = (await self._judgements.of(about, Subject(back.text), rails)).rejected
        return None if failed is None else self._failed(failed)

    async def _added(self, words: str) -> Failed | None:
        """Judge what the user has added in a fork, where the request has been judged."""
        if not words:
            return None
        failed = (await self._judgements.of(About("input"), Subject(words), self._at("input"))).rejected
        return None if failed is None else self._failed(failed)

    async def answered(self, outcome: Answer | Unfinished) -> Answer | Unfinished | Failed | Suspended | None:
        """Return an answer that passes, or how the leg ends or pauses instead; None: the agent gives another one."""
        if not (rails := self._at("output")):
            return outcome
        if isinstance(outcome, Unfinished):
            given, about, rails = Subject(outcome.text), About("output"), for_words(rails, is_error=True)
        else:
            given = Subject(outcome.text) if outcome.output is None else Subject.of(outcome.output)
            about = About("output", form=self._faults_of_output)
        subject, failed, asked = await self._judgements.of(about, given, rails)
        if failed is not None:
            return await self._not_answered(failed)
        if asked:
            call = ToolCall(id=ANSWER_ID, name=ANSWER, args={ANSWER: subject.value})
            said = self._approvals.put_to_people(call, _questions(asked))
            if not isinstance(said, ToolCall):
                return said or await self._not_answered(asked[-1], NOBODY_LET_IT)
            subject = _as_said(subject, said.args[ANSWER])
        return outcome if subject is given else with_answer(outcome, subject)

    async def _not_answered(self, failed: Guarded, how: str = "") -> Failed | None:
        """Return how the leg ends whose answer does not pass; None: the job was retried, and it gives another one."""
        if not self._leg.conversation.turns[-1].is_forgiven:
            return self._failed(failed, how)
        await self._leg.record(Nudged(leg=self._leg.number, text=_listed(NOT_PASSED, failed)))
        return None

    async def call(self, call: ToolCall) -> GuardedCall:
        """Return a call with arguments that pass, or say, to the model, why it must not be carried out."""
        if not (rails := self._at("tool_input", call.name)):
            return GuardedCall(call)
        given = Subject.of(dict(call.args))
        about = About("tool_input", call.id, _faults_of_arguments)
        subject, failed, asked = await self._judgements.of(about, given, rails)
        if failed is not None:
            what = f"not executed: the guardrail {failed.rail!r} does not let these arguments pass:"
            return GuardedCall(call, _listed(what, failed))
        guarded = call if subject is given else call.model_copy(update={"args": subject.value})
        return GuardedCall(guarded, asked=_questions(asked))

    async def result(
        self,
        place: GuardedPlace,
        call: ToolCall,
        result: ToolResult,
        *,
        said: str | None = None,
        agent: str = "",
        quoted: Callable[[str], str] = str,
    ) -> GuardedResult:
        """Return a call's result, or that it is withheld. No word is recorded: results come side by side.

        Of an error what is said is judged, not its form: it is as well somebody else's text.

        Args:
            place: Where it stands.
            call: What it is the result of.
            result: As hooks have made it.
            said: What is judged, where that is not all of its text.
            agent: Whose result it is.
            quoted: Makes the result's text of what is said, where that was repaired.
        """
        rails = for_words(self._at(place, call.name, *([agent] if agent else [])), is_error=result.is_error)
        subject, judged = Subject(result.content if said is None else said), list[Guarded]()
        for number, rail in enumerate(rails):
            judged.append(await self._judgements.by(rail, About(place, call.id), subject, rails[:number]))
            if judged[-1].status == "failed":
                why = f"{WITHHELD}the guardrail {rail.name!r} does not let it pass:"
                return GuardedResult(error_result(call, _listed(why, judged[-1])), tuple(judged))
            if judged[-1].status == "repaired":
                subject = subject.of_same_kind(judged[-1].value)
                result = result.model_copy(update={"content": quoted(subject.text), "data": None})
        return GuardedResult(result, tuple(judged))

    async def handed_over(self, context: HandoffContext, call_id: str) -> Handover:
        """Return what may go with control, or say, to the model, why the handoff is not made as it wants it."""
        if not (self._at("handoff") or self._within):
            return Handover(context)
        given, (subject, failed, asked) = await self._handed_over(context, call_id)
        if failed is not None:
            what = f"Not executed: the guardrail {failed.rail!r} does not let it pass:"
            return Handover(context, _listed(what, failed))
        return Handover(_with(context, given, subject), asked=_questions(asked))

    async def handed_over_by_file(self, transfer: Transfer) -> Transfer | Failed | Suspended:
        """Judge a handoff that the agent's file makes; return how the leg ends by that: nobody could mend it."""
        context = transfer.context
        given, (subject, failed, asked) = await self._handed_over(context, f"auto:{context.to_agent}")
        if failed is not None:
            return self._failed(failed)
        if asked:
            call_id, name = asked[-1].call_id, transfer_tool_name(context.to_agent)
            call = ToolCall(id=call_id, name=name, args=dict(subject.value))
            said = self._approvals.put_to_people(call, _questions(asked))
            if not isinstance(said, ToolCall):
                return said or self._failed(asked[-1], NOBODY_LET_IT)
            subject = _as_said(subject, said.args)
        return replace(transfer, context=_with(context, given, subject))

    async def _handed_over(self, context: HandoffContext, call_id: str) -> tuple[Subject, Judgement]:
        """Judge what goes with control by the agent's own file, then by those of the graphs around it.

        These ask nobody: their files must not say so.
        """
        given, form = Subject.handed_over(context), partial(self._faults_of_payload, context.to_agent)
        said = await self._judgements.of(About("handoff", call_id, form), given, self._at("handoff"))
        for around in reversed(self._within):
            if said.rejected is None:
                rails = [rail for rail in around.agent.guardrails if "handoff" in rail.on]
                way = f"edge:{around.agent.name}: {self._agent.name} → {context.to_agent} ({call_id})"
                about = About("handoff", way, form)
                said = (await around.judgements().of(about, said.subject, rails))._replace(asked=said.asked)
        return given, said

    def stopped(self) -> Failed | None:
        """Return how the leg ends whose agent has not mended what it was told of."""
        said = self._leg.conversation.guarded.values()
        failed = [one for one in said if one.status == "failed" and one.at not in ("input", "output")]
        if len({one.turn for one in failed}) < MAX_VIOLATIONS:
            return None
        return self._failed(failed[-1], f", in {MAX_VIOLATIONS} turns; the last")

    @property
    def _asked(self) -> Subject:
        """What is said to the agent; a schema looks at what it is called with, or handed."""
        request, is_first = self._leg.request, self._leg.number == 1
        return Subject.asked(self._leg.asked, request.inputs, None if is_first else self._leg.context)

    async def _tell_once(self, text: str) -> None:
        if not any(isinstance(record, Noticed) and record.text == text for record in self._leg.records):
            await self._leg.record(Noticed(leg=self._leg.number, text=text))

    def _at(self, place: GuardedPlace, *names: str) -> Sequence[Guardrail]:
        """Return who stands at a place, where a call of that name, or something about that agent, comes by."""
        return [rail for rail in self._agent.guardrails if place in rail.on and (not names or _looks_at(rail, names))]

    def _faults_of_output(self, fixed: Subject) -> list[str]:
        """Return what is wrong with a repaired object by the agent's own declaration of its output."""
        declared = self._agent.output.schema_ if self._agent.output and fixed.data is not None else None
        return problems(fixed.data, declared) if declared else []

    def _faults_of_payload(self, to: str, fixed: Subject) -> list[str]:
        """Return what is wrong with a repaired payload by what the file says that goes to the agent ``to``."""
        declared = next((rule.payload for rule in self._agent.handoffs if rule.to == to and rule.payload), None)
        return [] if declared is None else problems(fixed.data or {}, {"type": "object", **declared})

    def _failed(self, said: Guarded, how: str = "") -> Failed:
        return Failed("GUARDRAIL", violation(self._agent.name, said, how))


def unreadable(agent: AgentDefinition) -> str:
    """Say why the guardrails of an agent cannot be asked; empty: they can."""
    if not keys_of(agent.extra, ["guardrails"]):  # else a version of Ekiden that did not judge has published it
        return ""
    return f"'guardrails' of agent {agent.name!r} cannot be read: publish its file again"


def violation(agent: str, said: Guarded, how: str = "") -> str:
    """Say to the user which guardrail of ``agent`` did not let what pass, and why."""
    whose = {"input": "what it was asked", "output": "its answer", "handoff": "what it hands over"}
    where = f"agent {agent!r}, {whose.get(said.at, said.at.replace('_', ' '))}"
    return f"Guardrail violation: {said.rail} ({where}){how}: {'; '.join(said.errors)}"


def _as_said(subject: Subject, value: Any) -> Subject:
    """Return what a person has let pass: as it was, or another value that they have put in its place."""
    return subject if value == subject.value else subject.of_same_kind(value)


def with_answer(outcome: Answer | Unfinished, subject: Subject) -> Answer | Unfinished:
    """Return an answer as guardrails have had it repaired."""
    if isinstance(outcome, Answer) and outcome.output is not None:
        outcome = replace(outcome, output=subject.value)
    return replace(outcome, text=subject.text)


def _questions(asked: Sequence[Guarded]) -> str:
    """Return what a person reads who is to decide; empty: nobody is."""
    return "; ".join(f"{'; '.join(one.errors)} (guardrail {one.rail})" for one in asked)


def _faults_of_arguments(fixed: Subject) -> list[str]:
    return [] if isinstance(fixed.data, dict) else [NO_OBJECT]


def _with(context: HandoffContext, given: Subject, subject: Subject) -> HandoffContext:
    """Return what goes with control as guardrails have had it repaired, if they had."""
    if subject is given or subject.fields is None:
        return context
    return context.model_copy(update={name: subject.fields.get(name) for name in HANDED_OVER})


def _looks_at(rail: Guardrail, names: Iterable[str]) -> bool:
    """Tell whether a guardrail is for one of these; what was kept of a long result would be read behind its back."""
    return any(rail.is_for(name) or name == read_output.name for name in names)


def _listed(what: str, said: Guarded) -> str:
    return "\n".join([what, *(f"- {error}" for error in said.errors)])


def for_words(rails: Sequence[Guardrail], *, is_error: bool) -> Sequence[Guardrail]:
    """Return what of guardrails holds of a value, or of the word that there is none."""
    return [rail.for_words() for rail in rails] if is_error else rails
