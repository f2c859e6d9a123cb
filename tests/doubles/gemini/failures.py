"""Errors as Google's servers word them."""

from typing import Any

__all__ = ["ApiError", "bad_key", "no_key", "quota", "unknown_field"]

_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_TEXT = {
    401: "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid "
    "authentication credential.",
    403: "The caller does not have permission",
    429: "You exceeded your current quota, please check your plan and billing details.",
    500: "An internal error has occurred.",
    503: "The model is overloaded. Please try again later.",
    504: "Deadline expired before operation could complete.",
}
_RPC = "type.googleapis.com/google.rpc."
_METRIC = "generativelanguage.googleapis.com/generate_content_free_tier_requests"
_HELP = "https://ai.google.dev/gemini-api/docs/rate-limits"


class ApiError(Exception):
    """An answer that is an error: status code, JSON body, headers besides."""

    def __init__(
        self,
        code: int,
        message: str | None = None,
        details: list[dict[str, Any]] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        error = {"code": code, "message": message or _TEXT.get(code, "error"), "status": _STATUS.get(code, "UNKNOWN")}
        super().__init__(error["message"])
        self.code = code
        self.body: dict[str, Any] = {"error": {**error, **({"details": details} if details else {})}}
        self.headers = headers or {}


def quota(model: str, delay_s: float, *, per_day: bool = False, limit: int = 10) -> ApiError:
    """A used-up quota, with the three details that Gemini gives: violations, help, RetryInfo.

    As protobuf does, it leaves a limit of 0 out of the violation: only the sentence says it.
    """
    quota_id = f"GenerateRequestsPer{'Day' if per_day else 'Minute'}PerProjectPerModel-FreeTier"
    violation = {
        "quotaMetric": _METRIC,
        "quotaId": quota_id,
        "quotaDimensions": {"location": "global", "model": model},
        **({"quotaValue": str(limit)} if limit else {}),
    }
    details: list[dict[str, Any]] = [
        {"@type": f"{_RPC}QuotaFailure", "violations": [violation]},
        {"@type": f"{_RPC}Help", "links": [{"description": "Learn more about Gemini API quotas", "url": _HELP}]},
        {"@type": f"{_RPC}RetryInfo", "retryDelay": f"{delay_s:g}s"},
    ]
    exceeded = f"Quota exceeded for metric: {_METRIC}, limit: {limit}, model: {model}"
    return ApiError(429, f"{_TEXT[429]}\n* {exceeded}\nPlease retry in {delay_s}s.", details)


def bad_key() -> ApiError:
    """A wrong key: 400, not 401."""
    detail = {
        "@type": f"{_RPC}ErrorInfo",
        "reason": "API_KEY_INVALID",
        "domain": "googleapis.com",
        "metadata": {"service": "generativelanguage.googleapis.com"},
    }
    return ApiError(400, "API key not valid. Please pass a valid API key.", [detail])


def no_key() -> ApiError:
    return ApiError(
        403,
        "Method doesn't allow unregistered callers (callers without established identity). Please use API Key or other "
        "form of API consumer identity to call this API.",
    )


def unknown_field(name: str, where: str) -> ApiError:
    violation = {"field": where, "description": f'Unknown name "{name}"'}
    return ApiError(
        400,
        f"Invalid JSON payload received. Unknown name \"{name}\" at '{where}': Cannot find field.",
        [{"@type": f"{_RPC}BadRequest", "fieldViolations": [violation]}],
    )
