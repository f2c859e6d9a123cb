"""What is decided about: a call of a tool by an agent."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ekiden.shared.definitions.model import canonical_json
from ekiden.shared.policy.shell_dangers import critical_commands, risk_of
from ekiden.shared.policy.shell_tree import Command, Script, script_of
from ekiden.shared.risk import RISKS, Risk

__all__ = ["SHELL", "ToolUse"]

SHELL = "bash"
"""The tool whose argument ``command`` is a command line."""


@dataclass(frozen=True)
class ToolUse:
    """A call, with all that rules can ask about."""

    tool: str
    """``bash``, ``mcp.<server>.<tool>``, ``delegate_to_<agent>``."""
    args: Mapping[str, Any] = field(default_factory=dict)
    agent: str = ""
    user: str | None = None
    """Who asked for the job; None: nobody knows."""
    is_user_claimed: bool = False
    """Whether ``user`` is only what somebody says of himself."""
    tool_risk: Risk = "medium"
    """That of the tool; see ``risk``."""
    annotations: Mapping[str, bool] = field(default_factory=dict)
    """``read_only``, ``idempotent``, ``destructive``, ``open_world``, as far as the tool says."""
    package: str = ""
    """The distribution, or the MCP server, that it comes from."""
    cwd: Path = Path()
    """Where relative paths begin."""
    is_control: bool = False
    """Whether it moves control between agents and has no effects here: only rules that name it are asked."""

    @cached_property
    def script(self) -> Script | None:
        """The command line, taken apart; None for other tools."""
        command = self.args.get("command") if self.tool == SHELL else None
        return script_of(command) if isinstance(command, str) else None

    @cached_property
    def risk(self) -> Risk:
        """How much this very call can do: the tool's level, or more by its command."""
        return risk_of(self.script, self.tool_risk) if self.script else self.tool_risk

    @cached_property
    def critical_commands(self) -> list[Command]:
        """Return the commands because of which it is critical; none where the tool itself is."""
        return critical_commands(self.script) if self.script and self.tool_risk != RISKS[-1] else []

    @cached_property
    def json(self) -> bytes:
        """The arguments as the canonical JSON that expressions are matched on."""
        return canonical_json(dict(self.args)).encode("utf-8", "surrogatepass")
