"""One configured MCP server: what gemini-cli's ``mcpServers``, Claude Code's ``.mcp.json`` and agent files say of it.

Secrets stand in none of them: ``$NAME``, ``${NAME}`` and ``${NAME:-default}`` are filled in by the worker that starts
the server, from its own environment.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from ekiden.shared.errors import ConfigurationError
from ekiden.shared.faults import fault_in

__all__ = ["Expected", "ServerEntry", "Transport", "filled", "identity_of", "server_of", "servers_in"]

Transport = Literal["stdio", "http", "sse", "either"]
"""``either``: streamable HTTP, and the older events where the server does not know it."""

_NAME = re.compile(r"[^\s.*?\[\]/\\]{1,64}")
_VARIABLE = re.compile(r"\$\{(?P<braced>[A-Za-z_]\w*)(?::-(?P<default>[^}]*))?\}|\$(?P<bare>[A-Za-z_]\w*)")
_KINDS = {"stdio": "stdio", "http": "http", "streamable-http": "http", "streamableHttp": "http", "sse": "sse"}
_TEXTS = ("description", "name", "title", "$comment", "_comment")
"""Fields that only tell people something."""


class Expected(BaseModel):
    """Who must answer: a server that says it is another, or of another version, is not used."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str | None = None
    version: str | None = None


class ServerEntry(BaseModel):
    """How one server is reached, and how far it is trusted. A field that is not here makes the entry unusable."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_by_name=True, validate_by_alias=True)

    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    cwd: str | None = None
    url: str | None = None
    http_url: str | None = Field(default=None, alias="httpUrl")
    type: str | None = None
    headers: dict[str, str] = Field(default_factory=dict)
    headers_helper: tuple[str, ...] = Field(default=(), alias="headersHelper")
    """A command that prints further headers, as a JSON object: a token that is made anew at each connection."""
    timeout: int = Field(default=600_000, ge=100, le=86_400_000)
    """Milliseconds that a call may take."""
    trust: bool = False
    """Whether what the server says of its tools (``readOnlyHint``, …) is believed; else each is of high risk."""
    include_tools: tuple[str, ...] | None = Field(default=None, alias="includeTools")
    exclude_tools: tuple[str, ...] = Field(default=(), alias="excludeTools")
    auto_start: bool = Field(default=False, alias="autoStart")
    """Whether a worker starts it at once; else with the first agent that uses it."""
    disabled: bool = False
    expect: Expected = Expected()
    sandbox: bool = False
    network: bool | None = None
    """Whether a program in the sandbox may reach networks."""

    @property
    def transport(self) -> Transport:
        """How it is spoken to."""
        if self.command is not None:
            return "stdio"
        if self.http_url is not None:
            return "http"
        return _KINDS[self.type] if self.type else "either"  # type: ignore[return-value]

    @property
    def address(self) -> str:
        """Where it is; of a program, its command."""
        return self.http_url or self.url or self.command or ""

    @property
    def timeout_s(self) -> float:
        """Seconds that a call may take."""
        return self.timeout / 1000

    def offers(self, tool: str) -> bool:
        """Tell whether its user lets a tool of it be used at all."""
        return tool not in self.exclude_tools and (self.include_tools is None or tool in self.include_tools)

    @field_validator("args", "headers_helper", "include_tools", "exclude_tools", mode="before")
    @classmethod
    def _as_list(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @field_validator("include_tools", "exclude_tools")
    @classmethod
    def _bare(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """Take off what gemini-cli lets stand behind a tool's name: ``tool(argument)`` means the tool."""
        return None if value is None else tuple(one.partition("(")[0].strip() for one in value)

    @field_validator("env", "headers", mode="before")
    @classmethod
    def _as_texts(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        return {
            key: str(one) if isinstance(one, int | float) and not isinstance(one, bool) else one
            for key, one in value.items()
        }

    @model_validator(mode="after")
    def _one_way(self) -> "ServerEntry":
        ways = [way for way in (self.command, self.url, self.http_url) if way is not None]
        if len(ways) != 1 or not ways[0].strip():
            raise ValueError("give one of 'command' (a program), 'httpUrl' or 'url' (an address)")
        if self.type is not None and self.type not in _KINDS:
            raise ValueError(f"its type is {self.type!r}, expected {', '.join(_KINDS)}")
        is_program = self.command is not None
        if self.type is not None and is_program != (_KINDS[self.type] == "stdio"):
            raise ValueError(f"its type {self.type!r} does not go with its address: leave the type out")
        if not is_program and not re.match(r"https?://|\$", ways[0]):
            raise ValueError(f"its address {ways[0]!r} is none: it must begin with http:// or https://")
        for name in ("args", "env", "cwd", "sandbox") if not is_program else ("headers", "headers_helper"):
            if getattr(self, name):
                what = "an address" if is_program else "a program"
                raise ValueError(f"{name!r} goes with {what} only")
        if self.network is not None and not self.sandbox:
            raise ValueError("'network' goes with 'sandbox: true' only: nothing else keeps a program from networks")
        return self


def server_of(name: str, value: Any) -> ServerEntry:
    """Return the server that an object describes.

    Raises:
        ConfigurationError: it describes none; names the server and the field, never a value that could be a secret.
    """
    if not _NAME.fullmatch(name):
        raise ConfigurationError(f"MCP server {name!r:.80}: a name has no spaces, dots, slashes, '*', '?' or brackets")
    if not isinstance(value, Mapping):
        raise ConfigurationError(f'MCP server {name!r}: must be an object such as {{"command": "uvx"}}')
    try:
        return ServerEntry(**{key: one for key, one in value.items() if key not in _TEXTS})
    except TypeError:
        raise ConfigurationError(f"MCP server {name!r}: its fields must be named by texts") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"]))
        problem = fault_in(first)
        if first["type"] == "extra_forbidden":
            problem = "is no field that Ekiden knows of an MCP server, and it might forbid something: remove it"
        raise ConfigurationError(f"MCP server {name!r}: {f'{field!r} ' if field else ''}{problem}") from None


def servers_in(values: Mapping[str, Any]) -> Iterator[tuple[str, ServerEntry | ConfigurationError]]:
    """Yield the servers of an ``mcpServers`` object: one that is wrong, with why, hides no other."""
    servers = values.get("mcpServers")
    if servers is None:
        return
    if not isinstance(servers, Mapping):
        yield "", ConfigurationError("'mcpServers' must be an object: {name: {command: …}}")
        return
    for name, value in servers.items():
        try:
            yield str(name), server_of(str(name), value)
        except ConfigurationError as error:
            yield str(name), error


def filled(entry: ServerEntry, environ: Mapping[str, str]) -> ServerEntry:
    """Return the entry with its variables filled in.

    Raises:
        ConfigurationError: a variable is not set, and has no default.
    """
    # Texts are filled in one by one: a variable's value can hold what JSON would take for its own.
    values = entry.model_dump(exclude_defaults=True)
    return ServerEntry(**{name: _filled(value, environ) for name, value in values.items()})


def _filled(value: Any, environ: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return _VARIABLE.sub(lambda found: _value_of(found, environ), value)
    if isinstance(value, Mapping):
        return {key: _filled(one, environ) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_filled(one, environ) for one in value]
    return value


def _value_of(found: re.Match[str], environ: Mapping[str, str]) -> str:
    name = found["braced"] or found["bare"]
    if (value := environ.get(name)) or found["default"] is not None:
        return value or found["default"]
    raise ConfigurationError(f"the environment of this worker has no {name}: set it, or give ${{{name}:-default}}")


def identity_of(name: str, entry: ServerEntry) -> str:
    """Return the digest of an entry as it is written, before it is filled in: equal entries are one server."""
    text = json.dumps([name, entry.model_dump(mode="json")], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
