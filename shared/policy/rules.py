"""A rule of a policy: which calls it means, and what it says of them."""

from dataclasses import dataclass
from fnmatch import fnmatchcase

from ekiden.shared.policy.command_patterns import CommandPattern
from ekiden.shared.policy.conditions import Condition
from ekiden.shared.policy.decision import Verdict
from ekiden.shared.policy.shell_starters import all_commands, hidden_in
from ekiden.shared.policy.shell_tree import Command, Script
from ekiden.shared.policy.tool_use import SHELL, ToolUse

__all__ = ["Rule"]

_WILD = frozenset("*?[")


@dataclass(frozen=True)
class Rule:
    """One rule, from whatever form it was read."""

    verdict: Verdict
    source: str
    """The file or setting that it stands in."""
    name: str
    """How people find it again: ``rule 3 of ~/.gemini/policies/x.toml``."""
    tools: tuple[str, ...] = ("*",)
    """Names and shell-style patterns."""
    but: tuple[str, ...] = ()
    """The tools that are not meant, of those."""
    commands: tuple[CommandPattern, ...] = ()
    """Empty: any command."""
    conditions: tuple[Condition, ...] = ()
    priority: int = 0
    reason: str = ""
    approvers: tuple[str, ...] = ()
    separate: bool = False
    timeout_s: float | None = None
    allows_redirection: bool = False
    """Whether an allowed command may write files below its folder by redirection."""

    def concerns(self, use: ToolUse) -> bool:
        """Tell whether the rule is about this call, its command aside: may be, or for one that allows certainly."""
        certainly = self.verdict == "allow"
        if not (self._names_tool(use) if use.is_control else self._means_tool(use.tool)):
            return False
        if self.commands and use.tool != SHELL:
            return False
        return all(one.holds(use, certainly=certainly) for one in self.conditions)

    def _means_tool(self, tool: str) -> bool:
        if any(fnmatchcase(tool, one) for one in self.but):
            return False
        if self.verdict == "allow":
            return any(fnmatchcase(tool, one) for one in self.tools)
        return any(fnmatchcase(tool.casefold(), one.casefold()) for one in self.tools)

    def _names_tool(self, use: ToolUse) -> bool:
        return any(one[:1] not in _WILD and fnmatchcase(use.tool, one) for one in self.tools)

    def meant_commands(self, use: ToolUse) -> list[Command]:
        """Return the commands of the call, as they stand in it, that the rule means or may mean: if it restricts."""
        if use.script is None:
            return []
        return [one for one in use.script.commands if self._may_mean(one)]

    def _may_mean(self, command: Command) -> bool:
        return any(p.may_mean(one) for one in all_commands(Script((command,))) for p in self.commands)

    def hides(self, use: ToolUse) -> str:
        """Say why nobody can tell whether the rule means one of the commands; empty: it can be told."""
        if use.script is None:
            return "the call has no command that can be read"
        return hidden_in(use.script)

    def permits(self, command: Command) -> bool:
        """Tell whether the rule, one that allows, means this command."""
        return any(pattern.permits(command) for pattern in self.commands)

    def names_critical(self, use: ToolUse) -> bool:
        """Tell whether the rule names what makes the call critical: the very tool, or the very commands."""
        if not use.critical_commands:
            return use.tool in self.tools
        return all(any(_names(one, pattern, use) for pattern in self.commands) for one in use.critical_commands)


def _names(critical: Command, pattern: CommandPattern, use: ToolUse) -> bool:
    """Tell whether a pattern has the very command in it, alone or behind what starts it: ``sudo reboot``."""
    if not critical.words or not (pattern.words or pattern.beginning):
        return False
    begin = pattern.words or tuple((pattern.beginning or "").split())
    has_program = any(word.rpartition("/")[2].casefold() == critical.program for word in begin)
    whole = use.script.commands if use.script else ()
    return has_program and any(map(pattern.may_mean, (critical, *whole)))
