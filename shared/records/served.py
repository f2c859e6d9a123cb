"""The record of what MCP servers offered an agent: a job is played again without them."""

from typing import Any, Literal

from pydantic import Field

from ekiden.shared.records.base import BaseRecord
from ekiden.shared.risk import Risk
from ekiden.shared.stored_model import StoredModel

__all__ = ["Served", "ServedTool", "ServedTools"]


class ServedTool(StoredModel):
    """A tool of a server, as its agent's model was told of it, and as rules see it."""

    name: str
    description: str
    parameters: dict[str, Any]
    full_name: str
    package: str
    risk: Risk
    read_only: bool = False
    idempotent: bool = False
    untrusted: bool = False


class ServedTools(StoredModel):
    """All tools of servers that an agent was offered, and what it was told of those that were not there."""

    tools: tuple[ServedTool, ...] = ()
    readers: dict[str, ServedTool] = Field(default_factory=dict)
    """What reads the resources of servers, by server: to the model these are one tool."""
    problems: tuple[str, ...] = ()


class Served(BaseRecord):
    """What MCP servers offer the agent of this leg from here on; recorded where it is not what was offered before."""

    type: Literal["served"] = "served"
    agent: str
    digest: str
    """Of ``ServedTools`` as JSON: kept beside the journals under it, once for all jobs."""
    tools: ServedTools | None = Field(default=None, exclude_if=lambda value: value is None)
    """In recordings, which are read elsewhere: what is kept under the digest; None: nothing is any more."""
