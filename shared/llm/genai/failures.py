"""Failures of google-genai and of the wire below it, as ours, each with its remedy."""

import math
import re
from collections.abc import Iterator
from json import JSONDecodeError
from typing import Any

from google.auth import exceptions as auth
from google.genai import errors
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

__all__ = ["translated"]

_MAX_TEXT = 300
_TRANSIENT_CODES = {408, 409, 425, 499}
_NETWORK = {"httpx", "httpx2", "httpcore", "httpcore2", "aiohttp"}
"""Packages that may carry the request: google-genai takes what is installed."""
_BAD_ADDRESS = {"InvalidURL", "UnsupportedProtocol", "TooManyRedirects"}
_CHECK_ADDRESS = "check the address (GEMINI_BASE_URL)"
_NO_QUOTA = re.compile(r"\blimit: 0(?![.\d])|doesn't have a free quota tier")
_LOG_IN = "set GEMINI_API_KEY, or log in with 'gcloud auth application-default login' for Vertex AI"


def translated(error: Exception, model: str) -> EkidenError | None:
    """Return what ``error`` means for a call of ``model``; None if it is no failure of the provider but a bug."""
    if isinstance(error, errors.APIError):
        return _refusal(error, model)
    if isinstance(error, errors.UnknownApiResponseError | JSONDecodeError | ValidationError):
        return ModelUnavailable(f"The answer for model {model!r} is not what Gemini sends: {_CHECK_ADDRESS}")
    if isinstance(error, auth.TransportError):
        return ModelUnavailable("Google's log-in server cannot be reached")
    if isinstance(error, auth.GoogleAuthError):
        return ModelAccessDenied(f"Google's credentials cannot be used: {_LOG_IN}")
    if type(error).__module__.partition(".")[0] in _NETWORK or isinstance(error, OSError):
        name = type(error).__name__
        if name in _BAD_ADDRESS:
            return ModelError(f"Gemini cannot be called at this address ({name}): {_CHECK_ADDRESS}")
        return ModelUnavailable(f"Connection to Gemini lost or refused ({name})")
    return None


def _refusal(error: errors.APIError, model: str) -> EkidenError:
    code = error.code or 0
    if code == 429:
        return _quota(error, model)
    if code in _TRANSIENT_CODES or code >= 500:
        return ModelUnavailable(f"Gemini cannot answer now ({code}): {_said(error)}", _retry_after_s(error))
    if code in (401, 403) or _is_bad_key(error):
        return ModelAccessDenied(
            f"Gemini refuses the key or account ({code}): {_said(error)}. Check GEMINI_API_KEY, or "
            "GOOGLE_CLOUD_PROJECT and its permissions"
        )
    if code == 404 and error.status == "NOT_FOUND":
        return UnknownModel(f"Gemini has no model {model!r}: {_said(error)}. 'ekiden models' lists the usable ones")
    if not 400 <= code < 500 or code in (404, 405):
        return ModelError(f"No Gemini API answers there ({code}): {_CHECK_ADDRESS}")
    return RequestRefused(f"Gemini refuses the request for model {model!r} ({code}): {_said(error)}")


def _is_bad_key(error: errors.APIError) -> bool:
    """A wrong or expired key is a 400, not a 401."""
    return any(detail.get("reason") == "API_KEY_INVALID" for detail in _details(error)) or "API key" in _said(error)


def _quota(error: errors.APIError, model: str) -> ModelError:
    violations = list(_violations(error))
    if _has_no_quota(error, violations):
        return QuotaExhausted(
            f"This key has no quota for model {model!r} (its limit is 0): choose another model ('ekiden models' lists "
            "them), or enable billing for the key's project"
        )
    for quota in (str(violation.get("quotaId", "")) for violation in violations):
        if "PerDay" in quota:
            return QuotaExhausted(
                f"The day's quota of model {model!r} is used up ({quota}): go on tomorrow, choose another model, or "
                "raise the quota of the key's project"
            )
    return ModelUnavailable(f"Rate limit of model {model!r} reached (429)", _retry_after_s(error), is_rate_limit=True)


def _has_no_quota(error: errors.APIError, violations: list[dict[str, Any]]) -> bool:
    """Tell whether a limit is 0: the sentence says so where the violation's value is left out, as a zero may be."""
    said = _NO_QUOTA.search(str(error.message or "")) is not None
    return said or any(str(violation.get("quotaValue", "")) == "0" for violation in violations)


def _retry_after_s(error: errors.APIError) -> float | None:
    """Return the wait that RetryInfo or, without one, the header Retry-After asks for, in seconds."""
    delays = [detail.get("retryDelay") for detail in _details(error)]
    headers = getattr(error.response, "headers", None) or {}
    for value in (*delays, headers.get("retry-after")):
        found = re.fullmatch(r"(\d+(?:\.\d+)?)s?", str(value or "").strip())
        if found and math.isfinite(float(found[1])):
            return float(found[1])
    return None


def _violations(error: errors.APIError) -> Iterator[dict[str, Any]]:
    for detail in _details(error):
        violations = detail.get("violations")
        yield from (one for one in violations if isinstance(one, dict)) if isinstance(violations, list) else ()


def _details(error: errors.APIError) -> list[dict[str, Any]]:
    body = error.details if isinstance(error.details, dict) else {}
    inner = body.get("error") if isinstance(body.get("error"), dict) else body
    details = inner.get("details") if isinstance(inner, dict) else None
    return [one for one in details if isinstance(one, dict)] if isinstance(details, list) else []


def _said(error: errors.APIError) -> str:
    """Return the first line of what the server said, cut; never its whole answer, which may quote the user."""
    said = str(error.message or error.status or "").strip()
    if not said or said.startswith("<"):  # a proxy's page, not Gemini's words
        return "no reason given"
    return said.splitlines()[0][:_MAX_TEXT].removeprefix("* ").rstrip(". ")
