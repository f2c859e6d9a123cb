"""The operator's guardrails: they judge each request before anybody is looked for, once, and no model is asked.

What a fork adds to one is judged, with all of it, where the fork goes on: no dispatcher sees it.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from ekiden.shared.definitions.guardrail_parsing import request_guardrails
from ekiden.shared.definitions.guardrails import Guardrail
from ekiden.shared.errors import ConfigurationError, DefinitionError
from ekiden.shared.guardrails.judging import faults_of
from ekiden.shared.guardrails.subject import Subject
from ekiden.shared.outcomes import Failed
from ekiden.shared.records import BY_FORK, Forked, Guarded, StateChanged
from ekiden.shared.relay.leg import Leg
from ekiden.shared.settings.model import Settings, key_of, origin_of
from ekiden.shared.step_limits import run_limited

__all__ = ["RequestRails", "request_rails_of"]

AT = "request"
"""Where they stand, in records."""


class RequestRails:
    """Asks each in turn about what the user wants: the request, with its inputs and session variables."""

    def __init__(self, rails: Sequence[Guardrail] = ()) -> None:
        self._rails = rails

    async def refused(self, leg: Leg) -> Failed | None:
        """Return how a job ends whose request does not pass. What they say goes with the leg's end."""
        if not self._rails or (leg.number > 0 and not any(isinstance(one, Forked) for one in leg.records)):
            return None
        known = {said.rail: said for said in leg.conversation.guarded.values() if said.at == AT}
        subject = Subject.asked(leg.asked, leg.request.inputs, state=_set_by_user(leg))
        for rail in self._rails:
            if (said := known.get(rail.name)) is None:
                said = await _said(rail, subject, leg)
                leg.hold(said)
            if said.status == "failed":
                return Failed("GUARDRAIL", f"Guardrail violation: {said.rail} (the request): {'; '.join(said.errors)}")
        return None


def request_rails_of(settings: Settings) -> RequestRails:
    """Return those that the settings name. Raises ``ConfigurationError``: what cannot be read is not passed over."""
    try:
        return RequestRails(request_guardrails(settings.guardrails_request))
    except DefinitionError as error:
        name = "guardrails_request"
        raise ConfigurationError(f"setting {key_of(name)!r} ({origin_of(name)}): {error}") from None


def _set_by_user(leg: Leg) -> dict[str, Any]:
    """Return the session variables that come with the request, or that forks set, of which there may be several."""
    said = dict(leg.request.state)
    for record in (entry.record for entry in leg.entries):
        if isinstance(record, StateChanged) and record.by == BY_FORK:
            said |= record.changes
    return {name: value for name, value in said.items() if value is not None}


async def _said(rail: Guardrail, subject: Subject, leg: Leg) -> Guarded:
    errors = await run_limited(partial(faults_of, rail, subject))
    status = "passed" if not errors else "warned" if rail.policy == "warn" else "failed"
    said = Guarded(leg=leg.number, at=AT, rail=rail.name, policy=rail.policy, status=status, errors=tuple(errors))
    return said.model_copy(update={"turn": len(leg.conversation.turns)})
