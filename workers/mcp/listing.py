"""What a server offers, as all workers remember it: one of them asks, the others read."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["ListedTool", "Listing"]


@dataclass(frozen=True)
class ListedTool:
    """One tool, as its server describes it. The hints are the server's word."""

    name: str
    description: str
    schema: Mapping[str, Any]
    only_reads: bool = False
    only_adds: bool = False
    """Whether it says that it destroys nothing."""
    idempotent: bool = False


@dataclass(frozen=True)
class ListedResource:
    """Something that a server keeps to be read."""

    uri: str
    """Of a template: with names in braces."""
    told: str = ""


@dataclass(frozen=True)
class ListedArgument:
    """What a prompt is filled in with."""

    name: str
    is_required: bool = False


@dataclass(frozen=True)
class ListedPrompt:
    """A text that a server writes for people to send."""

    name: str
    told: str = ""
    arguments: tuple[ListedArgument, ...] = ()


@dataclass(frozen=True)
class Listing:
    """All of one server."""

    tools: tuple[ListedTool, ...] = ()
    dropped: Mapping[str, str] = field(default_factory=dict)
    """Tools that cannot be used, with why."""
    server: str = ""
    """What it calls itself: name and version."""
    resources: tuple[ListedResource, ...] = ()
    prompts: tuple[ListedPrompt, ...] = ()

    def to_json(self) -> str:
        """Write it for others."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Listing":
        """Read what ``to_json`` wrote. Raises ``ValueError``, ``TypeError``, ``KeyError``: another version wrote it."""
        read = json.loads(text)
        return cls(
            tuple(ListedTool(**tool) for tool in read["tools"]),
            read["dropped"],
            read["server"],
            tuple(ListedResource(**one) for one in read["resources"]),
            tuple(map(_prompt, read["prompts"])),
        )


def _prompt(read: Mapping[str, Any]) -> ListedPrompt:
    return ListedPrompt(**{**read, "arguments": tuple(ListedArgument(**one) for one in read["arguments"])})
