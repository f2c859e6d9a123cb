"""Failures of the openai client and of the wire below it, as ours, each with its remedy."""

import re
from collections.abc import Mapping
from json import JSONDecodeError
from typing import Any

import openai
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

__all__ = ["is_content_filter", "is_refused_temperature", "no_choice", "no_completion", "translated"]

_TRANSIENT_CODES = {408, 409, 425}
_NO_MONEY = {"insufficient_quota", "billing_hard_limit_reached", "insufficient_user_quota"}
_NETWORK = {"httpx2", "httpcore2"}
_BAD_ADDRESS = {"InvalidURL", "UnsupportedProtocol", "TooManyRedirects", "LocalProtocolError"}
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")
"""As in ``x-ratelimit-reset-requests``: ``1s``, ``6m0s``, ``120ms``."""


def translated(error: Exception, access: KeyAccess, model: str) -> EkidenError | None:
    """Return what ``error`` means for a call of ``model``; None if it is no failure of the provider but a bug."""
    if isinstance(error, openai.APIStatusError):
        return _refusal(error, access, model)
    if isinstance(error, openai.APIConnectionError):
        name = type(error.__cause__ or error).__name__
        if name in _BAD_ADDRESS:
            return ModelError(f"{access.name} cannot be called at this address ({name}): {_check_address(access)}")
        return ModelUnavailable(f"Connection to {access.name} lost or refused ({name})")
    if isinstance(error, openai.APIResponseValidationError):
        return no_completion(access)
    if isinstance(error, openai.APIError):  # in the middle of a stream, without a status
        if error.code in _NO_MONEY:
            return QuotaExhausted(_no_money(access, _said(error, access)))
        return ModelUnavailable(f"{access.name} broke its answer off: {_said(error, access)}")
    is_unreadable = isinstance(error, JSONDecodeError | UnicodeDecodeError | ValidationError | OSError)
    if is_unreadable or type(error).__module__.partition(".")[0] in _NETWORK:
        return ModelUnavailable(f"The answer of {access.name} cannot be read ({type(error).__name__})")
    return None


def no_completion(access: KeyAccess) -> ModelError:
    """Return what an answer means that is no completion at all: a page of another server's."""
    return ModelError(f"What answers for {access.name} does not speak Chat Completions: {_check_address(access)}")


def no_choice(access: KeyAccess, beside: Mapping[str, Any]) -> ModelError:
    """Return what an answer means that is none, with what stands in its place: some report failures with status 200."""
    error = beside.get("error")
    return ModelUnavailable(f"{access.name} gave no answer: {first_line(error, access.key)}")


def is_content_filter(error: Exception) -> bool:
    """Tell whether the provider's rules forbid the request, as Azure says it: with an error instead of an answer."""
    return isinstance(error, openai.BadRequestError) and error.code in ("content_filter", "content_policy_violation")


def is_refused_temperature(error: Exception) -> bool:
    """Tell whether the model takes no temperature, as those that reason do not."""
    return isinstance(error, openai.BadRequestError) and error.param == "temperature"


def _refusal(error: openai.APIStatusError, access: KeyAccess, model: str) -> EkidenError:
    code, said = error.status_code, _said(error, access)
    if code == 402 or error.code in _NO_MONEY:
        return QuotaExhausted(_no_money(access, said))
    if code == 429:
        told = f"Rate limit of model {model!r} reached (429): {said}"
        return ModelUnavailable(told, _retry_after_s(error), is_rate_limit=True)
    if code in _TRANSIENT_CODES or code >= 500:
        return ModelUnavailable(f"{access.name} cannot answer now ({code}): {said}", _retry_after_s(error))
    if code in (401, 403):
        key = f"check {access.key_variable}" if access.key_variable else "name its key's variable (api_key_env)"
        return ModelAccessDenied(f"{access.name} refuses the key or account ({code}): {said}: {key}")
    if error.code == "model_not_found" or (code == 404 and _is_json(error)):
        return UnknownModel(f"{access.name} has no model {access.bare(model)!r}: {said}")
    if code < 400 or code in (404, 405) or not _is_json(error):
        return ModelError(f"{access.name} does not speak Chat Completions there ({code}): {_check_address(access)}")
    return RequestRefused(f"{access.name} refuses the request for model {model!r} ({code}): {said}")


def _no_money(access: KeyAccess, said: str) -> str:
    return f"The quota or credit of {access.name} is used up: {said}. Raise it, or choose another model"


def _check_address(access: KeyAccess) -> str:
    return f"check the address (providers.{access.name}.base_url); it ends with the version, as in http://HOST:PORT/v1"


def _is_json(error: openai.APIStatusError) -> bool:
    return isinstance(error.body, dict)


def _retry_after_s(error: openai.APIStatusError) -> float | None:
    """Return the wait that the server asks for, in seconds: Retry-After, else when what is used up comes back."""
    headers = error.response.headers
    if (told := seconds_in(headers.get("retry-after"))) is not None:
        return told
    ends = [
        _duration(headers.get(f"x-ratelimit-reset-{kind}"))
        for kind in ("requests", "tokens")
        if headers.get(f"x-ratelimit-remaining-{kind}") == "0"
    ]
    return max((one for one in ends if one is not None), default=None)


def _duration(value: str | None) -> float | None:
    found = _DURATION.fullmatch(value.strip()) if value and value.strip() else None
    if found is None:
        return seconds_in(value)
    hours, minutes, seconds, millis = (float(part or 0) for part in found.groups())
    return hours * 3600 + minutes * 60 + seconds + millis / 1000


def _said(error: openai.APIError, access: KeyAccess) -> str:
    return first_line(error.body, access.key)
