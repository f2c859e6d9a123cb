"""Which tools an agent file allows and forbids: all forms and the names of other programs' tools become our rules.

=============================  =======================================================================
form                           meaning
=============================  =======================================================================
``Read, Bash(git:*, npm run)``  a text: entries are separated by commas outside of brackets
``[Read, Grep]``                a list of such entries
``*``                           all tools
``{allow: […], deny: […]}``     ours
``{bash: false, read: true}``   what is true is allowed, what is false forbidden
=============================  =======================================================================

Rules are never widened. ``Bash(git diff)`` allows some uses of a tool; nothing here can hold an agent to them, so the
entry is put aside; forbidden uses forbid the tool. Tools of other programs are put aside, too: an agent uses them where
a worker has them, and is never kept waiting for them.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from ekiden.shared.errors import DefinitionError

__all__ = ["ALIASES", "BUILTIN_TOOLS", "EXPECTED", "SAFE_TOOLS", "RulesReader", "is_foreign"]

BUILTIN_TOOLS = frozenset({"bash", "edit_file", "glob", "grep", "ls", "read_file", "set_state"})
"""The tools that workers ship with."""
SAFE_TOOLS = frozenset({"glob", "grep", "ls", "read_file", "set_state"})
"""Those that change nothing outside of their own session: what agents get that nobody trusts."""
EXPECTED = "deny or allow ('ask' does not work yet)"
"""Of what may be said of tools ``after_untrusted``."""

_ALIASES_BY_TOOL = {
    "read_file": "Read read View view NotebookRead read_many_files",
    "edit_file": "Edit edit MultiEdit Write write replace write_file edit_files create_file",
    "bash": "Bash Shell shell execute run_shell_command run_command run_terminal_command",
    "grep": "Grep Search search search_file_content grep_search",
    "glob": "Glob find_files file_search",
    "ls": "LS list_directory list_dir",
}
ALIASES = {alias: tool for tool, aliases in _ALIASES_BY_TOOL.items() for alias in aliases.split()}
"""Names of gemini-cli's, Claude Code's and other programs' tools, and ours for them."""

_FOREIGN_NAMES = (
    "activate_skill ask_user codebase enter_plan_mode exit_plan_mode fetch get_internal_docs google_web_search "
    "save_memory todo web_fetch web_search webfetch websearch write_todos"
)
_FOREIGN = frozenset(_FOREIGN_NAMES.split())
"""Tools of those programs that ours cannot stand in for, as far as their spelling does not give them away."""
_OWN_STYLE = re.compile(r"mcp\..+|(?!mcp_)[a-z*?\[][a-z0-9_.*?\[\]!]*")  # Python's names, and patterns
_ENTRY = re.compile(r"(?P<name>[^()]*)(?:\((?P<uses>.*?)\)?)?\s*\Z", re.DOTALL)
_OURS = {"allow", "deny", "after_untrusted"}
_LONGEST_LIST = 12
_MOST_ENTRIES = 500
_LONGEST_ENTRY = 500


@dataclass
class RulesReader:
    """Collects the rules of one file.

    Attributes:
        allow: None until something is allowed or the file allows nothing.
        notes: What was not taken as it is written, for people.
    """

    allow: list[str] | None = None
    deny: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def rules(self) -> dict[str, Any] | None:
        """The values of ``ToolRules``; None when the file has no rules."""
        if self.allow is None and not self.deny and not self.extra:
            return None
        return {**self.extra, "allow": self.allow, "deny": _unique(self.deny), "unknown": _unique(self.unknown)}

    def read(self, value: Any) -> None:
        """Read the ``tools`` of a file, in any form.

        Raises:
            DefinitionError: the value is none of the forms.
        """
        if not isinstance(value, Mapping):
            self._allow(_entries("tools", value))
        elif value.keys() & _OURS:
            self._read_ours(value)
        elif value and all(isinstance(item, bool) for item in value.values()):
            self._read_switches(value)
        else:
            raise DefinitionError(
                "must be a list of names, {allow: [...], deny: [...]} or {name: true or false}, not an object with "
                f"{sorted(value)}"
            )

    def forbid(self, value: Any) -> None:
        """Read a list of forbidden tools, in any form. Raises ``DefinitionError``."""
        for entry in _entries("deny", value):
            name, uses = _parts(entry)
            tool = ALIASES.get(name, name)
            # A tool of that very name may exist, too.
            self.deny += [tool, name] if _OWN_STYLE.fullmatch(name) else [tool]
            if uses:
                self.notes.append(f"{entry!r} forbids some uses of a tool; here, all of {tool!r} is forbidden")

    def _read_ours(self, value: Mapping[str, Any]) -> None:
        self.extra = {key: item for key, item in value.items() if key not in ("allow", "deny")}
        if self.extra.get("after_untrusted", "deny") not in ("allow", "deny"):
            raise DefinitionError(f"'after_untrusted' is {self.extra['after_untrusted']!r}, expected {EXPECTED}")
        if value.get("allow") is not None:
            self._allow(_entries("allow", value["allow"]))
        if value.get("deny") is not None:
            self.forbid(value["deny"])

    def _read_switches(self, value: Mapping[str, bool]) -> None:
        on = [name for name, is_on in value.items() if is_on]
        off = [name for name, is_on in value.items() if not is_on and name != "*"]
        if on or value.get("*") is False:
            self._allow(on)
        self.forbid(off)

    def _allow(self, entries: list[str]) -> None:
        self.allow = []
        narrowed: list[tuple[str, str]] = []
        # A file for another program names its tools; nobody will ever start a worker that has them.
        is_foreign_file = any(not _OWN_STYLE.fullmatch(_parts(entry)[0]) for entry in entries)
        for entry in entries:
            name, uses = _parts(entry)
            tool = _own_name(name)
            if tool is None or (is_foreign_file and not _is_ours(tool)):
                self.unknown.append(_mcp_name(name) or entry)
            elif uses:
                narrowed.append((entry, tool))
            else:
                self.allow.append(tool)
        self.allow = _unique(self.allow)
        self._note_unknown()
        self._put_aside([pair for pair in narrowed if pair[1] not in self.allow])

    def _note_unknown(self) -> None:
        if self.unknown:
            named = _named(_unique(self.unknown))
            self.notes.append(f"no tool of Ekiden's: {named}. The agent works without, until a worker has such a tool")

    def _put_aside(self, narrowed: list[tuple[str, str]]) -> None:
        if narrowed:
            self.unknown += [entry for entry, _ in narrowed]
            tools = " or ".join(repr(tool) for tool in _unique(tool for _, tool in narrowed))
            self.notes.append(
                f"{_named([entry for entry, _ in narrowed])}: a tool cannot be narrowed to some uses here, so it is "
                f"left out. Write {tools} to allow every use"
            )


def is_foreign(name: str) -> bool:
    """Tell whether ``name`` is a tool of another program that none of ours can stand in for."""
    return _own_name(name) is None


def _entries(key: str, value: Any) -> list[str]:
    parts = [part for part in _split(value) if part.strip()] if isinstance(value, str) else value
    entries = [_text(key, item) for item in (parts if isinstance(parts, list) else [parts])]
    if len(entries) > _MOST_ENTRIES:
        raise DefinitionError(f"{key!r} has {len(entries):,} entries, at most {_MOST_ENTRIES} are read: use patterns")
    return entries


def _text(key: str, item: Any) -> str:
    if not isinstance(item, str):
        raise DefinitionError(f"{key!r} must hold names of tools, not {item!r}; put it in quotes")
    if not item.strip():
        raise DefinitionError(f"{key!r} holds an empty text; remove it")
    if len(item) > _LONGEST_ENTRY:
        raise DefinitionError(f"{key!r} holds a text of {len(item):,} characters; {_LONGEST_ENTRY} are the most")
    return item.strip()


def _split(text: str) -> list[str]:
    """Split at commas and line ends that no bracket encloses."""
    parts, depth = [""], 0
    for char in text:
        depth = max(0, depth + (char in "([{") - (char in ")]}"))
        if char in ",\n" and not depth:
            parts.append("")
        else:
            parts[-1] += char
    return parts


def _parts(entry: str) -> tuple[str, str]:
    """Return the tool's name, and the uses of it that the entry is narrowed to; empty for all uses."""
    found = _ENTRY.match(entry)
    if found is None:
        return entry, ""
    return found["name"].strip(), (found["uses"] or "").strip(" :*")


def _own_name(name: str) -> str | None:
    """Return our name of the tool, or None when none of ours can be meant."""
    if name in ALIASES:
        return ALIASES[name]
    return name if _OWN_STYLE.fullmatch(name) and name not in _FOREIGN else None


def _is_ours(entry: str) -> bool:
    return entry.startswith("mcp.") or any(fnmatchcase(tool, entry) for tool in BUILTIN_TOOLS)


def _mcp_name(name: str) -> str | None:
    """Return ``mcp.server.tool`` for ``mcp__server__tool``."""
    if not name.startswith("mcp__"):
        return None
    server, _, tool = name.removeprefix("mcp__").partition("__")
    return f"mcp.{server}.{tool or '*'}"


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _named(names: list[str]) -> str:
    more = len(names) - _LONGEST_LIST
    return ", ".join(map(repr, names[:_LONGEST_LIST])) + (f" and {more} more" if more > 0 else "")
