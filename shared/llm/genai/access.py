"""Where Gemini is and who pays. Light to import: the command line reads it to say what is usable."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from ekiden.shared.addresses import proxy_problem_of, web_problem_of
from ekiden.shared.errors import ConfigurationError, MissingModel

__all__ = ["GeminiAccess"]

_KEYS = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
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
        is_wanted = _key(env) or _flag(env, "GOOGLE_GENAI_USE_VERTEXAI")
        return GeminiAccess.what_is_broken(env) if is_wanted else _NO_KEY

    @staticmethod
    def account(env: Mapping[str, str]) -> str:
        """Return whose key or project it is; see ``Provider``."""
        is_vertex = _flag(env, "GOOGLE_GENAI_USE_VERTEXAI")
        places = ("GOOGLE_CLOUD_LOCATION", "GEMINI_BASE_URL", f"GOOGLE_{_service(is_vertex)}_BASE_URL")
        who = _value(env, "GOOGLE_CLOUD_PROJECT") if is_vertex else None
        return " ".join(map(str, (who or _key(env), *(_value(env, name) for name in places))))

    @staticmethod
    def what_is_broken(env: Mapping[str, str]) -> str:
        """Say what was set for using Gemini and cannot be used; empty where nothing was set, or all is well.

        Whoever has set it means Gemini: nothing may stand in for it.
        """
        name = next((name for name in _KEYS if _value(env, name)), None)
        is_vertex = _flag(env, "GOOGLE_GENAI_USE_VERTEXAI")
        if name is None and not is_vertex:
            return ""
        if name and not re.fullmatch(r"[!-~]+", _value(env, name) or ""):
            return f"{name} holds characters that no key has, such as a line end: copy it again"
        if is_vertex and name is None and _value(env, "GOOGLE_CLOUD_PROJECT") is None:
            return "GOOGLE_GENAI_USE_VERTEXAI is set without a project: set GOOGLE_CLOUD_PROJECT"
        return next(filter(None, (_proxy_problem(env, proxy) for proxy in _PROXIES)), "")


def _proxy_problem(env: Mapping[str, str], name: str) -> str:
    """Say why the HTTP client cannot use a proxy of the environment; its address, which may hold a secret, is not said.

    The client reads them all when it is made, whatever ``NO_PROXY`` names; but ``*`` there switches them off.
    """
    if (lower := name.lower()) in env and env[lower] != env.get(name):  # which comes first
        name = lower
    address = _value(env, name)
    if address is None or "*" in _names_in(env.get("no_proxy", env.get("NO_PROXY", ""))):
        return ""
    if (problem := proxy_problem_of(address)) is not None:
        return f"{name} is no address of a proxy: {problem}; set one such as http://HOST:PORT, or unset it"
    if address.lower().startswith("socks") and find_spec("socksio") is None:
        return f"{name} is a SOCKS proxy, which needs the Python package socksio: install it, or set an HTTP proxy"
    return ""


def _names_in(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _service(is_vertex: bool) -> str:
    return "VERTEX" if is_vertex else "GEMINI"


def _key(env: Mapping[str, str]) -> str | None:
    return next(filter(None, (_value(env, name) for name in _KEYS)), None)


def _flag(env: Mapping[str, str], name: str) -> bool:
    return (_value(env, name) or "").lower() in ("1", "true", "yes", "on")


def _value(env: Mapping[str, str], name: str) -> str | None:
    return env.get(name, "").strip() or None
