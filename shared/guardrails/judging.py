"""What is wrong with a value by a guardrail, as far as nobody else's code is asked."""

from ekiden.shared.definitions.guardrails import Guardrail
from ekiden.shared.errors import TooCostly
from ekiden.shared.guardrails.builtin import NO_JSON, VALIDATORS
from ekiden.shared.guardrails.subject import Subject
from ekiden.shared.schemas import VALUE_TEXT, problems
from ekiden.shared.step_limits import limited, spend

__all__ = ["faults_of", "faults_of_form"]

MOST_FAULTS = 10
_CHARACTERS_A_STEP = 16
"""Characters that all expressions of a validator together read in a step of the limit."""


def faults_of(rail: Guardrail, subject: Subject) -> list[str]:
    """Return what is wrong with ``subject``, at most ten lines; empty: it passes.

    On an event loop, call it within ``step_limits.run_limited``. What is too long to be looked at does not pass.
    """
    if len(subject.text) > VALUE_TEXT:
        return [f"the whole: it has {len(subject.text):,} characters, {VALUE_TEXT:,} are the most that is looked at"]
    with limited() as limit:
        try:
            return _faults(rail, subject)[:MOST_FAULTS]
        except TooCostly:
            if not limit.is_final:
                raise
            return ["the whole: to look at it takes too long: give less"]


def faults_of_form(rail: Guardrail, subject: Subject) -> list[str]:
    """Return what is wrong with the form of ``subject``: its length, and what a schema says of it."""
    found = []
    if rail.max_length is not None and len(subject.text) > rail.max_length:
        found.append(f"the whole: it has {len(subject.text):,} characters, {rail.max_length:,} are the most")
    if rail.schema_ is None:
        return found
    try:
        value = subject.text if rail.schema_.get("type") == "string" else subject.as_json()
    except ValueError:
        return [*found, NO_JSON]
    return [*found, *problems(value, rail.schema_, formats=True)]


def _faults(rail: Guardrail, subject: Subject) -> list[str]:
    found = faults_of_form(rail, subject)
    if (validate := VALIDATORS.get(rail.validator)) is not None:
        spend(len(subject.text) // _CHARACTERS_A_STEP)
        found += validate(subject)
    return found
