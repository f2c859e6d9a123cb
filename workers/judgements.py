"""What the guardrails of one leg say, asked once each; and what a model makes of what does not pass.

What is ours says the same whenever it is asked, so its word goes with the next write, and costs none. What others wrote
is recorded at once: who goes on with the leg elsewhere does not ask again.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

from ekiden.shared.definitions.guardrails import GuardedPlace, Guardrail, GuardrailPolicy
from ekiden.shared.guardrails.judging import faults_of
from ekiden.shared.guardrails.subject import Subject
from ekiden.shared.records import Guarded
from ekiden.shared.relay.leg import Leg
from ekiden.shared.step_limits import run_limited
from ekiden.workers.rail_judge import RailJudge
from ekiden.workers.repairs import MOST_REPAIRS, Repairs, repaired
from ekiden.workers.validators import Said, Validators

__all__ = ["About", "Judgement", "Judgements"]

_LET_ON: Mapping[GuardrailPolicy, Literal["warned", "asked"]] = {"warn": "warned", "ask": "asked"}
"""What it says of what does not pass and goes on, for now or for good."""
NOT_REPAIRED = "the whole: the repair gave nothing of the form that it was to repair"


class Judgement(NamedTuple):
    """What goes on, as guardrails have had it repaired; who rejects it, and who want a person to be asked."""

    subject: Subject
    rejected: Guarded | None = None
    asked: tuple[Guarded, ...] = ()


class About(NamedTuple):
    """What is judged: where it stands, the call that it is about, and what else a repaired one has to fit."""

    place: GuardedPlace
    call_id: str = ""
    form: Callable[[Subject], list[str]] = lambda _: []


class Judgements:
    """Asks guardrails one after the other."""

    def __init__(self, leg: Leg, validators: Validators, repairs: Repairs, judge: RailJudge) -> None:
        self._leg = leg
        self._validators = validators
        self._repairs = repairs
        self._judge = judge

    async def of(self, about: About, subject: Subject, rails: Sequence[Guardrail]) -> Judgement:
        """Ask each about what those before have made of ``subject``; the first that rejects it ends that."""
        turn, known, asked = len(self._leg.conversation.turns), self._leg.conversation.guarded, list[Guarded]()
        for number, rail in enumerate(rails):
            if (said := known.get((turn, about.place, about.call_id, rail.name))) is None:
                said = await self.by(rail, about, subject, rails[:number])
                if rail.is_own and said.status != "repaired":
                    self._leg.hold(said)
                else:
                    await self._leg.record(said)
            if said.status == "failed":
                return Judgement(subject, said)
            if said.status == "repaired":
                subject = subject.of_same_kind(said.value)
            if said.status == "asked":
                asked.append(said)
        return Judgement(subject, asked=tuple(asked))

    async def by(self, rail: Guardrail, about: About, subject: Subject, before: Sequence[Guardrail] = ()) -> Guarded:
        """Return what a guardrail says; ``before``: who has let it pass, and also has to let a repair of it pass."""
        said = await self._said(rail, about, subject)
        judged = Guarded(
            leg=self._leg.number,
            at=about.place,
            rail=rail.name,
            policy=rail.policy,
            status="passed",
            errors=tuple(said.errors),
            turn=len(self._leg.conversation.turns),
            call_id=about.call_id,
        )
        if not said.errors:
            return judged
        if rail.policy in _LET_ON and not said.is_broken:
            return judged.model_copy(update={"status": _LET_ON[rail.policy]})
        if rail.policy == "repair" and not said.is_broken:
            value, last = await self._repaired(rail, about, subject, said.errors, before)
            if value is not None:
                return judged.model_copy(update={"status": "repaired", "value": value})
            judged = judged.model_copy(update={"errors": tuple(last)})
        return judged.model_copy(update={"status": "failed"})

    async def _said(self, rail: Guardrail, about: About, subject: Subject) -> Said:
        """Ask the rules first, then somebody's code, and a model only about what they let pass."""
        said = Said(await run_limited(partial(faults_of, rail, subject)))
        if rail.is_foreign:
            more = await self._validators.said_of(rail.validator, subject)
            said = Said([*said.errors, *more.errors], more.is_broken)
        if rail.prompt and not said.errors:
            return await self._judge.said_of(rail, about.place, subject, about.call_id)
        return said

    async def _repaired(
        self, rail: Guardrail, about: About, subject: Subject, errors: Sequence[str], before: Sequence[Guardrail]
    ) -> tuple[Any, Sequence[str]]:
        """Return what a model makes of ``subject`` that passes (None: nothing), and what is wrong with its last try."""
        made = self._repairs.made((len(self._leg.conversation.turns), about.place, about.call_id, rail.name))
        for number in range(MOST_REPAIRS):
            record = made[number] if number < len(made) else None
            record = record or await self._repairs.next(rail, about.place, subject, errors, about.call_id)
            if record is None:
                break
            fixed = repaired(record, subject)
            errors = [NOT_REPAIRED] if fixed is None else await self._faults_of_repair(rail, about, fixed, before)
            if fixed is not None and not errors:
                return fixed.value, ()
            subject = fixed or subject
        return None, errors

    async def _faults_of_repair(
        self, rail: Guardrail, about: About, fixed: Subject, before: Sequence[Guardrail]
    ) -> list[str]:
        """Return what is wrong with a repaired value: by who wanted it, who let the original pass, and its form."""
        found = [*(await self._said(rail, about, fixed)).errors]
        for one in before:
            said = await self._said(one, about, fixed)
            found += said.errors if one.policy != "warn" or said.is_broken else []
        return [*found, *await run_limited(partial(about.form, fixed))]
