"""Failures of the anthropic client and of the wire below it, as ours, each with its remedy."""

from json import JSONDecodeError
from typing import Any

import anthropic
from pydantic import ValidationError

from ekiden.shared.errors import (
    EkidenError,
    ModelAccessDenied,
    ModelError,
    ModelUnavailable,
    QuotaExhausted,
    RequestRefused,
    UnknownModel,
)
from ekiden.shared.llm.access import KeyAccess
from ekiden.shared.llm.wire_failures import first_line, seconds_in

__all__ = ["refused_option", "translated"]

_TRANSIENT = ("overloaded_error", "api_error", "timeout_error")
_NETWORK = {"httpx2", "httpcore2"}
_CHECK_ADDRESS = "check the address (ANTHROPIC_BASE_URL)"


def translated(error: Exception, access: KeyAccess, model: str) -> EkidenError | None:
    """Return what ``error`` means for a call of ``model``; None if it is no failure of the provider but a bug."""
    if isinstance(error, anthropic.APIStatusError):
        return _refusal(error, access, model)
    if isinstance(error, anthropic.APIConnectionError):
        name = type(error.__cause__ or error).__name__
        return ModelUnavailable(f"Connection to Anthropic lost or refused ({name})")
    is_unreadable = isinstance(error, JSONDecodeError | UnicodeDecodeError | ValidationError | OSError)
    if is_unreadable or type(error).__module__.partition(".")[0] in _NETWORK:
        return ModelUnavailable(f"Anthropic's answer cannot be read ({type(error).__name__}): {_CHECK_ADDRESS}")
    return None


def refused_option(error: Exception) -> str:
    """Return what of a request the model does not take, and can be left out: newer ones take no temperature.

    Those that think cannot be told that they must call a tool. Empty: it is something else.
    """
    said = str(_inner(error).get("message")) if isinstance(error, anthropic.BadRequestError) else ""
    return next((option for option in ("temperature", "tool_choice") if option in said), "")


def _refusal(error: anthropic.APIStatusError, access: KeyAccess, model: str) -> EkidenError:
    code, kind, said = error.status_code, _inner(error).get("type"), first_line(_inner(error), access.key)
    if kind == "billing_error" or "credit balance" in said:
        return QuotaExhausted(f"The credit with Anthropic is used up: {said}. Raise it, or choose another model")
    if code == 429 or kind == "rate_limit_error":
        return ModelUnavailable(
            f"Rate limit of model {model!r} reached (429): {said}",
            seconds_in(error.response.headers.get("retry-after")),
            is_rate_limit=True,
        )
    if code in (408, 409) or code >= 500 or kind in _TRANSIENT:
        return ModelUnavailable(
            f"Anthropic cannot answer now ({code}): {said}", seconds_in(error.response.headers.get("retry-after"))
        )
    if code in (401, 403):
        return ModelAccessDenied(f"Anthropic refuses the key or account ({code}): {said}: check {access.key_variable}")
    if kind == "not_found_error":
        return UnknownModel(f"Anthropic has no model {model!r}: {said}")
    if not kind or code < 400:
        return ModelError(f"No Anthropic API answers there ({code}): {_CHECK_ADDRESS}")
    return RequestRefused(f"Anthropic refuses the request for model {model!r} ({code}): {said}")


def _inner(error: anthropic.APIStatusError) -> dict[str, Any]:
    inner = error.body.get("error") if isinstance(error.body, dict) else None
    return inner if isinstance(inner, dict) else {}
