"""Where Gemini is and who pays. Light to import: the command line reads it to say what is usable."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ekiden.shared.addresses import web_problem_of
from ekiden.shared.errors import ConfigurationError, MissingModel

__all__ = ["GeminiAccess"]

_NO_KEY = (
    "no key: set GEMINI_API_KEY (from https://aistudio.google.com/apikey), or GOOGLE_GENAI_USE_VERTEXAI=true with "
    "GOOGLE_CLOUD_PROJECT"
)


@dataclass(frozen=True)
class GeminiAccess:
    """Where Gemini is and who pays: a key of AI Studio, or Vertex AI with a project (or a key of its own)."""

    api_key: str | None = None
    is_vertex: bool = False
    project: str | None = None
    location: str | None = None
    base_url: str | None = None
    """Another address than Google's: a proxy, a test server."""
    credentials: Any = None
    """google-auth credentials for Vertex AI; None: the application default ones."""

    def __repr__(self) -> str:
        """Show all but the secrets."""
        where = f"Vertex AI, project {self.project!r}" if self.is_vertex else "AI Studio"
        return f"GeminiAccess({where}, base_url={self.base_url!r})"

    @classmethod
    def from_env(cls, env: Mapping[str, str], base_url: str | None = None) -> "GeminiAccess":
        """Read the variables of gemini-cli and google-genai; ``base_url`` outranks theirs.

        Raises:
            MissingModel: there is neither a key nor a project.
            ConfigurationError: a value cannot be what it is meant to be.
        """
        if why := cls.why_not(env):
            raise MissingModel(f"Gemini cannot be used: {why}")
        is_vertex = _flag(env, "GOOGLE_GENAI_USE_VERTEXAI")
        project = _value(env, "GOOGLE_CLOUD_PROJECT") if is_vertex else None
        address = base_url or _value(env, "GEMINI_BASE_URL") or _value(env, f"GOOGLE_{_service(is_vertex)}_BASE_URL")
        if address and (problem := web_problem_of(address)) is not None:
            raise ConfigurationError(f"Gemini's base URL: {problem}")
        return cls(
            api_key=None if project else _key(env),
            is_vertex=is_vertex,
            project=project,
            location=(_value(env, "GOOGLE_CLOUD_LOCATION") or "global") if project else None,
            base_url=address,
        )

    @staticmethod
    def why_not(env: Mapping[str, str]) -> str:
        """Say what is missing for using Gemini, and how to mend it; empty when nothing is."""
        key = _key(env)
        if key and not re.fullmatch(r"[!-~]+", key):
            return "GEMINI_API_KEY holds characters that no key has: copy it again"
        if _flag(env, "GOOGLE_GENAI_USE_VERTEXAI") and not (_value(env, "GOOGLE_CLOUD_PROJECT") or key):
            return "GOOGLE_GENAI_USE_VERTEXAI is set without a project: set GOOGLE_CLOUD_PROJECT"
        return "" if key or _flag(env, "GOOGLE_GENAI_USE_VERTEXAI") else _NO_KEY


def _service(is_vertex: bool) -> str:
    return "VERTEX" if is_vertex else "GEMINI"


def _key(env: Mapping[str, str]) -> str | None:
    return _value(env, "GEMINI_API_KEY") or _value(env, "GOOGLE_API_KEY")


def _flag(env: Mapping[str, str], name: str) -> bool:
    return (_value(env, name) or "").lower() in ("1", "true", "yes", "on")


def _value(env: Mapping[str, str], name: str) -> str | None:
    return env.get(name, "").strip() or None
