"""The validators that workers ship with: each says what is wrong with a value; nothing: it passes."""

from collections.abc import Callable, Mapping

from ekiden.shared.guardrails.injection import injected_instructions
from ekiden.shared.guardrails.personal import personal_data
from ekiden.shared.guardrails.plain import plain
from ekiden.shared.guardrails.subject import Subject
from ekiden.shared.redaction import redact, redact_all
from ekiden.shared.storable import strict_json

__all__ = ["VALIDATORS", "Validate"]

Validate = Callable[[Subject], list[str]]

NO_JSON = "the whole: it is no JSON (words before or behind it, or a fence of code round it, do not count)"


def is_json(subject: Subject) -> list[str]:
    """A text must be one JSON value, by the letter: without NaN."""
    if subject.data is not None:
        return []
    try:
        strict_json(subject.text)
    except (ValueError, RecursionError):
        return [NO_JSON]
    return []


def no_secrets(subject: Subject) -> list[str]:
    """Nothing may look like a key, a token or a password; see ``redaction``."""
    for text in dict.fromkeys([subject.text, plain(subject.text), *subject.readings()]):
        if (masked := redact(text)) != text:
            at = next((place for place, (one, other) in enumerate(zip(text, masked, strict=False)) if one != other), 0)
            return [f"it holds what looks like a secret (line {text.count(chr(10), 0, at) + 1})"]
    said = subject.parsed
    return [] if redact_all(said) == said else ["it holds what looks like a secret"]


def _in_any_reading(find: Callable[[str], list[str]]) -> Validate:
    return lambda subject: next((found for text in subject.readings() if (found := find(text))), [])


VALIDATORS: Mapping[str, Validate] = {
    "json": is_json,
    "no_secrets": no_secrets,
    "no_pii": _in_any_reading(personal_data),
    "no_prompt_injection": _in_any_reading(injected_instructions),
    "max_length": lambda _: [],  # the number stands beside it, and is looked at with or without that name
}
"""By the names in ``definitions.guardrails.BUILT_IN``."""
