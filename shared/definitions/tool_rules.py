"""Which tools an agent file allows and forbids: all forms and the names of other programs' tools become our rules.

==============================  ======================================================================
form                            meaning
==============================  ======================================================================
``Read, Bash(git:*, npm run)``  a text: entries are separated by commas, or spaces, outside of brackets
``[Read, Grep]``                a list of such entries
``*``                           all tools
``!bash``, ``not: bash``        all but this one, among entries that allow
``{allow: […], deny: […]}``     ours
``{bash: false, read: true}``   what is true is allowed, what is false forbidden
==============================  ======================================================================

Rules are never widened. ``Bash(git diff)`` allows some uses of a tool; nothing here can hold an agent to them, so the
entry is put aside; forbidden uses forbid the tool. Where nobody can tell which tools an entry forbids, or what a word
beside ``*`` takes from it, the agent has no tool beyond the safe ones. Tools of other programs are put aside, too: an
agent uses them where a worker has them, and is never kept waiting for them.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from ekiden.shared.definitions.fields import refuses
from ekiden.shared.definitions.tool_names import (
    SAFE_TOOLS,
    forbidden_names,
    is_clear,
    is_known,
    is_of_our_style,
    is_ours,
    mcp_name,
    own_name,
    tools_forbidden,
    tools_meant,
)
from ekiden.shared.errors import DefinitionError
from ekiden.shared.faults import as_written
from ekiden.shared.risk import RISKS, Risk

__all__ = ["EXPECTED", "RulesReader", "named"]

EXPECTED = "deny or allow ('ask' does not work yet)"
"""Of what may be said of tools ``after_untrusted``."""

_ENTRY = re.compile(r"(?P<name>[^()]*)(?:\((?P<uses>.*?)\)?)?\s*\Z", re.DOTALL)
_OURS = {"allow", "deny", "after_untrusted"}
_SIMPLE = re.compile(r"[^()]*(\([^()]*\))?")
_NOT = re.compile(r"[!^~\s\-\u2010-\u2015\u2212\ufe63\uff01\uff0d]+")
_NOT_IN_WORDS = re.compile(r"(?:not?|non|without|except|but)[\s:_-]+", re.IGNORECASE)
"""How an entry begins that means all but what follows."""
_WRAPPING = "\"'`\u2018\u2019\u201c\u201d\u00b4 \t\n"
_AROUND = re.compile(r"\A(?:_+|(?:not?|non|without)[-_]+)+|[-_]*(?:tools?)?_*\Z", re.IGNORECASE)
"""What authors write around the name of a tool that they forbid: ``no-bash``, ``bash_tool``."""
_EVERYTHING = ("all", "any", "every", "everything")
_LONGEST_LIST = 12
_MOST_ENTRIES = 500
_LONGEST_ENTRY = 500


@dataclass
class RulesReader:
    """Collects the rules of one file.

    Attributes:
        allow: None until something is allowed or the file allows nothing.
        ask: Patterns of the tools whose calls are asked about; what begins with ``!`` is none of them.
        auto_approve: The levels of risk that run without asking; None: the file does not say.
        at: The field that is being read.
        narrowed: What the agent lacks because nothing here can hold it to what its file says: field, and a sentence.
        notes: What else was not taken as it is written, likewise.
        network: Whether commands may reach one.
        is_confined: Whether the agent has no tool beyond those that some field names.
    """

    allow: list[str] | None = None
    deny: list[str] = field(default_factory=list)
    ask: list[str] = field(default_factory=list)
    auto_approve: list[Risk] | None = None
    unknown: list[str] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)
    at: str = "tools"
    narrowed: list[tuple[str, str]] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)
    network: bool | None = None
    is_confined: bool = False

    @property
    def rules(self) -> dict[str, Any] | None:
        """The values of ``ToolRules``; None when the file has no rules."""
        said = {**self.extra, "allow": self.allow, "auto_approve": self.auto_approve, "network": self.network}
        if not (self.deny or self.ask or self.extra) and all(value is None for value in said.values()):
            return None
        lists = {"deny": self.deny, "ask": self.ask, "unknown": self.unknown}
        lists["narrowed"] = [text for _, text in self.narrowed]
        return said | {key: _unique(names) for key, names in lists.items()}

    def read(self, value: Any) -> None:
        """Read the ``tools`` of a file, in any form.

        Raises:
            DefinitionError: the value is none of the forms.
        """
        if not isinstance(value, Mapping):
            self._allow(_entries("tools", value, _are_tools))
        elif value.keys() & _OURS:
            self._read_ours(value)
        elif value and all(isinstance(item, bool) for item in value.values()):
            self._read_switches(value)
        else:
            raise DefinitionError(
                "must be a list of names, {allow: [...], deny: [...]} or {name: true or false}, not an object with "
                f"{sorted(value)}"
            )

    def read_too(self, value: Any) -> None:
        """Read one more field that says which tools the agent gets: it gets those that all of them allow.

        Raises:
            DefinitionError: the value is none of the forms.
        """
        before, kept, waited_for = self._entries_so_far(), self.extra, self.allow or []
        self.allow, self.unknown, self.extra = None, [], {}
        self.read(value)
        both = _common(before, self._entries_so_far())
        if lost := [entry for entry in before if entry not in both]:
            self.narrow(f"{self.at!r} does not allow {named(lost)}: the agent has what all such fields allow")
        waited_for += self.allow or []
        self.allow = [entry for entry in both if entry in waited_for]
        self.unknown = [entry for entry in both if entry not in waited_for]
        self.extra = {**kept, **self.extra} if self.extra.get("after_untrusted") == "deny" else {**self.extra, **kept}

    def _entries_so_far(self) -> list[str]:
        return sorted(SAFE_TOOLS) if self.allow is None else self.allow + self.unknown

    def forbid(self, value: Any) -> None:
        """Read a list of forbidden tools, in any form. Raises ``DefinitionError``."""
        for entry in _names_in(_entries("deny", value, _any_words)):
            name, uses = _parts(entry)
            if not is_clear(name) or not _SIMPLE.fullmatch(entry):
                self.deny += [tool for word in re.findall(r"\w+", entry) for tool in tools_forbidden(word)]
                self.confine(f"{self.at!r} forbids {entry!r:.60}, which is no tool's name")
                continue
            self.deny += forbidden_names(name)
            if uses:
                tool = " or ".join(map(repr, tools_meant(name) or [name]))
                self._note(f"{entry!r} forbids some uses of a tool; here, all of {tool} is forbidden")

    def approve(self, value: Any) -> None:
        """Read the levels of risk that run without asking; of several fields, those that all of them have.

        Raises:
            DefinitionError: they are none.
        """
        words = [word.strip() for word in value.split(",") if word.strip()] if isinstance(value, str) else value
        if not isinstance(words, list) or not all(word in RISKS[:-1] for word in words):
            raise DefinitionError(f"must be a list of {', '.join(RISKS[:-1])}, not {as_written(value)}")
        self.auto_approve = [word for word in words if self.auto_approve is None or word in self.auto_approve]

    def ask_about(self, names: Iterable[str], why: str, *, but: Iterable[str] = ()) -> None:
        """Have somebody asked before calls of tools.

        Args:
            names: Names or patterns of tools, in any spelling.
            why: A clause on what the file says of them.
            but: Our names of tools that a pattern does not mean.
        """
        names = _names_in(names)
        if not all(map(is_clear, names)):
            self.confine(why)
            return
        self.ask += [*(one for name in names for one in forbidden_names(name)), *(f"!{tool}" for tool in but)]

    def guard(self, names: Iterable[str], why: str) -> None:
        """Forbid tools whose use somebody, or something, would have to look at first, except for safe ones.

        Args:
            names: Names or patterns of tools, in any spelling.
            why: A clause on what the file says of them.
        """
        names = _names_in(names)
        if "*" in names or not all(map(is_clear, names)):
            self.confine(why)
            return
        lost = _unique(tool for name in names for tool in tools_forbidden(name) if tool not in SAFE_TOOLS)
        others = (one for name in names for one in forbidden_names(name) if not _means_safe(one))
        self.deny += [*lost, *others]
        if lost:
            self.narrow(f"{why}: nobody can do that here, so the agent works without {named(lost)}")

    def confine(self, why: str) -> None:
        """Leave no tool but safe ones; ``why``: a clause on what the file says that cannot be kept here."""
        self.keep_only(SAFE_TOOLS)
        self.narrow(f"{why}: the agent has no tool beyond the safe ones ({', '.join(sorted(SAFE_TOOLS))})")

    def allow_network(self, value: Any) -> None:
        """Read whether commands may reach a network; of several words, no. Raises ``DefinitionError`` for others."""
        if value is not True and not refuses(value):
            raise DefinitionError(f"must be true or false, not {value!r:.60}")
        self.network = value is True and self.network is not False

    def narrow(self, text: str) -> None:
        """Say what the agent lacks, and why."""
        self.narrowed.append((self.at, text))

    def keep_only(self, tools: Iterable[str]) -> None:
        """Leave no tool but those of ``tools``, exact names, that the file allows so far."""
        self.is_confined = True
        entries = self._entries_so_far()
        left = [tool for tool in sorted(tools) if any(fnmatchcase(tool, entry) for entry in entries)]
        # What the file does not name is not waited for.
        named, self.allow, self.unknown = self.allow or [], [], []
        for tool in left:
            (self.allow if tool in named else self.unknown).append(tool)

    def _read_ours(self, value: Mapping[str, Any]) -> None:
        self.extra = {key: item for key, item in value.items() if key not in ("allow", "deny")}
        if self.extra.get("after_untrusted", "deny") not in ("allow", "deny"):
            raise DefinitionError(f"'after_untrusted' is {self.extra['after_untrusted']!r}, expected {EXPECTED}")
        if value.get("allow") is not None:
            self._allow(_entries("allow", value["allow"], _are_tools))
        if value.get("deny") is not None:
            self.forbid(value["deny"])
        if strange := sorted(self.extra.keys() - _OURS):
            self.confine(f"'tools' says {named(strange)}, which is not understood")

    def _read_switches(self, value: Mapping[str, bool]) -> None:
        on = [name for name, is_on in value.items() if is_on]
        off = [name for name, is_on in value.items() if not is_on and name != "*"]
        if on or value.get("*") is False:
            self._allow(on)
        self.forbid(off)

    def _allow(self, entries: list[str]) -> None:
        self.allow = []
        forbidden = [name for entry in entries if (name := _negated(entry))]
        entries = [entry for entry in entries if not _negated(entry)]
        partly: list[tuple[str, str]] = []
        # A file for another program names its tools; nobody will ever start a worker that has them.
        is_foreign_file = any(not is_of_our_style(_parts(entry)[0]) for entry in entries)
        for entry in entries:
            name, uses = _parts(entry)
            tool = own_name(name)
            if tool is None or (is_foreign_file and not is_ours(tool)):
                self.unknown.append(mcp_name(name) or entry)
            elif uses:
                partly.append((entry, tool))
            else:
                self.allow.append(tool)
        self.allow = _unique(self.allow)
        self._note_unknown()
        self._put_aside([pair for pair in partly if pair[1] not in self.allow])
        if prose := [entry for entry in entries if _is_prose(_parts(entry)[0], beside_all="*" in entries)]:
            self.confine(f"{self.at!r} says {named(prose)}, which is no tool's name")
        self.forbid(forbidden)

    def _note(self, text: str) -> None:
        self.notes.append((self.at, text))

    def _note_unknown(self) -> None:
        if self.unknown:
            listed = named(_unique(self.unknown))
            self._note(f"no tool of Ekiden's: {listed}. The agent works without, until a worker has such a tool")

    def _put_aside(self, partly: list[tuple[str, str]]) -> None:
        if partly:
            self.unknown += [entry for entry, _ in partly]
            tools = " or ".join(repr(tool) for tool in _unique(tool for _, tool in partly))
            self.narrow(
                f"{named([entry for entry, _ in partly])}: a tool cannot be narrowed to some uses here, so it is "
                f"left out. Write {tools} to allow every use"
            )


def named(names: list[str]) -> str:
    """Return a list of names for a sentence, not too long."""
    more = len(names) - _LONGEST_LIST
    return ", ".join(map(repr, names[:_LONGEST_LIST])) + (f" and {more} more" if more > 0 else "")


def _common(some: list[str], others: list[str]) -> list[str]:
    """Return the entries of each list that the other one allows altogether."""
    return _unique(
        entry
        for entries, allowing in ((some, others), (others, some))
        for entry in entries
        if any(one in (entry, "*") or (_is_exact(entry) and fnmatchcase(entry, one)) for one in allowing)
    )


def _is_exact(entry: str) -> bool:
    return not set(entry) & set("*?[")


def _names_in(entries: Iterable[str]) -> list[str]:
    """Return the names that entries which forbid are made of, without quotes.

    Raises:
        DefinitionError: they are too many.
    """
    found = []
    for entry in entries:
        pieces = [bare for piece in _split(entry, ",\n") if (bare := piece.strip(_WRAPPING))] or [entry]
        for piece in pieces:
            several = [part.strip(_WRAPPING) for part in _split(piece, ";|/")]
            found += several if all(tools_meant(_parts(part)[0]) for part in several) else [piece]
    found += [core for name in found if (core := _AROUND.sub("", name)) != name and tools_meant(core)]
    return _few("deny", _unique("*" if name.casefold() in _EVERYTHING else name for name in found))


def _negated(entry: str) -> str:
    """Return what an entry takes from the others, as it stands where that is nothing; empty: it takes nothing."""
    bare = entry.strip(_WRAPPING)
    if found := _NOT.match(bare):
        return bare[found.end() :] or entry
    rest = bare[found.end() :] if (found := _NOT_IN_WORDS.match(bare)) else ""
    return rest if tools_meant(rest.strip(_WRAPPING)) else ""


def _is_prose(name: str, *, beside_all: bool) -> bool:
    """Tell whether a name is none: ``all but bash``; beside ``*``, the words of that one by one."""
    return " " in name or (beside_all and not (is_known(name) or tools_meant(name)))


def _means_safe(entry: str) -> bool:
    return any(fnmatchcase(tool, entry) for tool in SAFE_TOOLS)


def _entries(key: str, value: Any, are_several: Callable[[list[str]], bool]) -> list[str]:
    """Return the entries of a list, or of a text; ``are_several``: whether the words of one are entries themselves."""
    items = _split(value, ",\n") if isinstance(value, str) else value if isinstance(value, list) else [value]
    texts = [_text(key, item) for item in items if not isinstance(value, str) or item.strip()]
    words = [[word for word in _split(text, " \t\n") if word] for text in texts]
    entries = [
        one for text, parts in zip(texts, words, strict=True) for one in (parts if are_several(parts) else [text])
    ]
    return _few(key, entries)


def _few(key: str, entries: list[str]) -> list[str]:
    if len(entries) > _MOST_ENTRIES:
        raise DefinitionError(f"{key!r} has {len(entries):,} entries, at most {_MOST_ENTRIES} are read: use patterns")
    return entries


def _are_tools(words: list[str]) -> bool:
    """Tell whether words are names of tools: of ``all but bash``, none may be taken for an allowed tool."""
    return len(words) > 1 and all(is_known(_parts(word)[0]) for word in words)


def _any_words(words: list[str]) -> bool:
    return len(words) > 1


def _text(key: str, item: Any) -> str:
    if not isinstance(item, str):
        raise DefinitionError(f"{key!r} must hold names of tools, not {item!r}; put it in quotes")
    if not item.strip():
        raise DefinitionError(f"{key!r} holds an empty text; remove it")
    if len(item) > _LONGEST_ENTRY:
        raise DefinitionError(f"{key!r} holds a text of {len(item):,} characters; {_LONGEST_ENTRY} are the most")
    return item.strip()


def _split(text: str, separators: str) -> list[str]:
    """Split at separators that no bracket encloses."""
    parts, depth = [""], 0
    for char in text:
        depth = max(0, depth + (char in "([{") - (char in ")]}"))
        if char in separators and not depth:
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


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
