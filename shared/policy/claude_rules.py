"""Claude Code's rules: ``permissions: {allow, ask, deny}`` with entries such as ``Bash(npm run test:*)``."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ekiden.shared.errors import DefinitionError
from ekiden.shared.policy.command_patterns import CommandPattern, exact_command, prefix_command, wildcard_command
from ekiden.shared.policy.conditions import Hosts, PathIs
from ekiden.shared.policy.decision import Verdict
from ekiden.shared.policy.path_patterns import path_pattern
from ekiden.shared.policy.rule_files import Loaded, PlaceOf, in_place_of
from ekiden.shared.policy.rules import Rule
from ekiden.shared.policy.tool_patterns import tool_patterns
from ekiden.shared.policy.tool_use import SHELL
from ekiden.shared.policy.word_sets import words

__all__ = ["read_permissions"]

_ENTRY = re.compile(r"(?P<name>[^()\s]+)(?:\((?P<specifier>.*)\))?", re.DOTALL)
_VERDICTS: tuple[Verdict, ...] = ("deny", "ask", "allow")
_OTHER_KEYS = frozenset({"additionalDirectories", "disableBypassPermissionsMode", "disableAutoMode", "defaultMode"})
_STRICT_MODES = frozenset({"plan", "dontask"})
"""The default modes in which nothing but reading goes without a word."""
_READING = ("read_file", "read_many_files", "grep", "glob", "ls")
_WRITING = ("edit_file", "write_file")
_REMOVING = ("delete_file",)
_OF_ONE = {"read": _READING, "webfetch": ("web_fetch",), "websearch": ("web_search",)}
_READERS = words("read grep glob ls notebookread")
_WRITERS = words("edit write multiedit notebookedit")
_DELEGATING = words("agent task")


def read_permissions(value: Any, source: str, base: Path | None, place_of: PlaceOf) -> Loaded:
    """Read an object of permissions. What cannot be read is a problem, and is asked about; it never raises.

    Args:
        value: What stands under ``permissions``.
        source: The file or setting, as people know it.
        base: The folder that paths are relative to; None: the job's.
        place_of: Where what is below that stands.
    """
    if not isinstance(value, Mapping):
        problem = f"'permissions' must be an object with allow, ask and deny, not {type(value).__name__}"
        return Loaded((in_place_of(source, source, problem),), (f"{place_of([])}: {problem}",))
    strange = [str(key) for key in value if key not in _VERDICTS and key not in _OTHER_KEYS]
    said = "is not understood; known are deny, ask and allow"
    problems = [f"{place_of([key])}: permissions: {key!r} {said}" for key in strange]
    rules = [in_place_of(source, source, problems[0])] if problems else []
    rules += _by_mode(value.get("defaultMode"), source)
    for verdict in _VERDICTS:
        for rule, problem in _listed(verdict, value.get(verdict, []), source, base, place_of):
            rules += [rule] if rule else []
            problems += [problem] if problem else []
    return Loaded(tuple(rules), tuple(problems))


def _by_mode(mode: Any, source: str) -> list[Rule]:
    if str(mode).casefold() not in _STRICT_MODES:
        return []
    name = f"permissions.defaultMode of {source}"
    return [Rule("ask", source, name, but=_READING, reason=f"the mode is {mode!r}")]


def _listed(
    verdict: Verdict, entries: Any, source: str, base: Path | None, place_of: PlaceOf
) -> Iterator[tuple[Rule | None, str]]:
    if not isinstance(entries, list):
        problem = f"permissions.{verdict} must be a list of texts, not {type(entries).__name__}"
        yield None if verdict == "allow" else in_place_of(source, source, problem), f"{place_of([verdict])}: {problem}"
        return
    for number, entry in enumerate(entries):
        what = f"permissions.{verdict} {str(entry)!r:.80}"
        name = f"{what} of {source}"
        try:
            yield _rule(verdict, entry, source, name, base), ""
        except DefinitionError as error:
            problem = f"{place_of([verdict, number])}: {what}: {error}"
            yield None if verdict == "allow" else in_place_of(source, name, str(error), _tools_of(entry)), problem


def _tools_of(entry: Any) -> tuple[str, ...]:
    name = re.match(r"\w+", entry) if isinstance(entry, str) else None
    return _named(name[0], restricts=True) if name else ("*",)


def _rule(verdict: Verdict, entry: Any, source: str, name: str, base: Path | None) -> Rule:
    found = _ENTRY.fullmatch(entry.strip()) if isinstance(entry, str) else None
    if found is None:
        raise DefinitionError("expected the name of a tool, or Tool(specifier)")
    restricts = verdict != "allow"
    rule = Rule(verdict, source, name, _named(found["name"], restricts=restricts))
    specifier = (found["specifier"] or "").strip()
    if specifier in ("", "*", ":*"):
        return rule
    return _specified(rule, found["name"].casefold(), specifier, base)


def _named(name: str, *, restricts: bool) -> tuple[str, ...]:
    folded = name.casefold()
    if folded in _WRITERS:
        return _WRITING + (_REMOVING if restricts else ())
    if folded in _OF_ONE:
        return _OF_ONE[folded]
    if folded in _DELEGATING:
        return ("delegate_to_*",)
    return tool_patterns(name, restricts=restricts)


def _specified(rule: Rule, tool: str, specifier: str, base: Path | None) -> Rule:
    """Return the rule for the uses of the tool that the specifier means."""
    if SHELL in rule.tools:
        return replace(rule, tools=(SHELL,), commands=(_command(specifier, restricts=rule.verdict != "allow"),))
    if tool in _READERS | _WRITERS:
        return replace(rule, conditions=(PathIs((path_pattern(specifier, base),)),))
    if tool == "webfetch" and specifier.startswith("domain:"):
        return replace(rule, tools=("web_fetch",), conditions=(_hosts(specifier, rule.verdict),))
    if tool in _DELEGATING:
        return replace(rule, tools=(f"delegate_to_{specifier.replace('-', '_')}",))
    raise DefinitionError(f"{specifier!r:.60} says nothing of this tool here: name the tool alone")


def _command(specifier: str, *, restricts: bool) -> CommandPattern:
    if specifier.endswith(":*") and "*" not in specifier[:-2]:
        return prefix_command(specifier[:-2], restricts=restricts)
    if "*" in specifier:
        return wildcard_command(specifier.replace(":*", " *"))
    return exact_command(specifier, restricts=restricts)


def _hosts(specifier: str, verdict: Verdict) -> Hosts:
    host = specifier.removeprefix("domain:").strip().casefold()
    if not re.fullmatch(r"(\*\.)?[\w.-]+", host):
        raise DefinitionError(f"{host!r} is no host: write domain:example.com, or domain:*.example.com")
    return Hosts((host,) if verdict == "allow" else (host, f"*.{host}"))
