"""What files say, in fields of other programs, that an agent must not do: kept where rules of tools can keep it.

======================  ==============================================================================================
field                   meaning here
======================  ==============================================================================================
permission(s)           ``deny``, ``{edit: deny, bash: {"git *": allow}}``, ``[{action, resource, effect}]``, or a list
                        of names; it takes tools away and gives none; ``ask``: calls are asked about
permissionMode, mode    ``plan`` and the like: safe tools only; of the first, ``ask``: other tools are asked about
bash, write, …          a tool, ``false``: forbidden; ``ask``: asked about
hooks                   the tools are left out that one looks at beforehand that does not run here
readonly, sandbox, …    a field that nobody here knows and whose name says that it restricts: safe tools only
canWrite, writable, …   one whose name says that it permits, ``false``: safe tools only
======================  ==============================================================================================

Where nothing here can hold an agent to a restriction, it has no tool beyond the safe ones.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ekiden.shared.definitions.fields import (
    asks,
    folded,
    is_known,
    is_restricting,
    refuses,
    seems_permitting,
    seems_restricting,
)
from ekiden.shared.definitions.tool_names import BUILTIN_TOOLS, SAFE_TOOLS, is_clear, tools_forbidden, tools_meant
from ekiden.shared.definitions.tool_rules import RulesReader
from ekiden.shared.hook_entries import entries_in

__all__ = ["restrict"]

_EFFECTS = ("allow", "ask", "deny")
"""From the least to the most that is kept from an agent."""
_OPEN_MODES = ("default", "acceptedits", "bypasspermissions", "inherit")
"""The values of ``permissionMode`` that restrict no more than a file does which has none."""
_ASKING_MODES = ("ask", "confirm", "manual")
_CLOSED_MODE = re.compile(r"ask|confirm|dontask|manual|.*(plan|read.?only|restrict|review|safe|sandbox)")
_OBSERVERS = frozenset(
    [
        "AfterAgent",
        "AfterModel",
        "AfterTool",
        "Notification",
        "PostToolUse",
        "PostToolUseFailure",
        "PreCompact",
        "PreCompress",
        "SessionEnd",
        "SessionStart",
        "Stop",
        "SubagentStart",
        "SubagentStop",
    ]
)
_NAMES = re.compile(r"\w+(\|\w+)*")


def restrict(fields: Mapping[str, Any], reader: RulesReader) -> None:
    """Take from the rules that ``reader`` has read what the other fields of a file keep from the agent."""
    for key, value in fields.items():
        reader.at = key
        if not _asking(key, value, reader):
            _restrict(key, value, reader)


def _restrict(key: str, value: Any, reader: RulesReader) -> None:
    match folded(key):
        case "permission" | "permissions" if value is not None:
            _permission(key, value, reader)
        case "permissionmode" if value is not None and folded(value) not in _OPEN_MODES:
            reader.confine(f"{key!r} is {value!r:.60}")
        case "mode" if _CLOSED_MODE.match(folded(value)):
            reader.confine(f"{key!r} is {value!r:.60}")
        case "hooks" if value:
            _hooks(key, value, reader)
        case _ if refuses(value) and (tools := tools_forbidden(re.sub(r"[\s-]", "_", str(key)))):
            reader.forbid(tools)
        case _ if refuses(value) and seems_permitting(key):
            reader.confine(f"{key!r} is {value!r}")
        case _ if value and seems_restricting(key):
            reader.confine(f"{key!r} is not understood, and seems to restrict")
        case _ if not is_known(key) and (within := _restricting_within(value)):
            reader.confine(f"'{key}.{within}' is not understood, and seems to restrict")


def _asking(key: str, value: Any, reader: RulesReader) -> bool:
    """Have tools asked about if that, and no more, is what a field says; tell whether it was."""
    tools = tools_meant(re.sub(r"[\s-]", "_", str(key))) if asks(value) else []
    is_of_all = asks(value) and seems_permitting(key)
    if not tools and not is_of_all and not (folded(key) == "permissionmode" and folded(value) in _ASKING_MODES):
        return False
    reader.ask_about(tools or ["*"], f"{key!r} is {value!r:.60}", but=() if tools else sorted(SAFE_TOOLS))
    return True


def _restricting_within(value: Any, depth: int = 50) -> str:
    """Return the place of a key that seems to restrict, somewhere in the value of a field that nobody here knows."""
    for key, inner in value.items() if isinstance(value, Mapping) and depth else ():
        if inner and (is_restricting(str(key)) or seems_restricting(str(key))):
            return str(key)
        if within := _restricting_within(inner, depth - 1):
            return f"{key}.{within}"
    return ""


def _permission(key: str, value: Any, reader: RulesReader) -> None:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        reader.keep_only({tool for name in value for tool in tools_meant(name)})
        # "all but bash", in one text or in several
        if prose := [name for name in value if not is_clear(name) or ("*" in value and not tools_meant(name))]:
            reader.confine(f"{key!r} says {prose[0]!r:.60}, which is no tool's name")
        return
    effects = _last_words(_effects(value))
    if unclear := [name for name, effect in effects.items() if effect not in _EFFECTS]:
        reader.confine(f"{key!r} says of {unclear[0]!r:.60} what is none of allow, ask and deny")
        effects = {name: effect for name, effect in effects.items() if effect in _EFFECTS}
    reader.forbid([name for name, effect in effects.items() if effect == "deny" and name != "*"])
    asked = [name for name, effect in effects.items() if effect == "ask" and name != "*"]
    reader.ask_about(asked, f"{key!r} wants to be asked")
    match effects.get("external_directory", "allow"):
        case "ask":
            reader.ask_about(["bash"], f"{key!r} wants to be asked of folders elsewhere")
        case "deny":
            reader.guard(["bash"], f"{key!r} wants paths to be looked at")
    _by_default(key, effects, reader)


def _by_default(key: str, effects: Mapping[str, str], reader: RulesReader) -> None:
    """Have asked about, or leave out, what is not allowed by name where the word on all other tools is another one."""
    everything = effects.get("*", "allow")
    if everything == "allow":
        return
    words = {tool: _word_on(tool, effects) for tool in sorted(BUILTIN_TOOLS)}
    if everything == "ask":
        unasked = [tool for tool, word in words.items() if word == "allow"]
        reader.ask_about(["*"], f"{key!r} wants to be asked", but=unasked)
        return
    allowed = {tool for tool, word in words.items() if word in ("allow", "ask")}
    if not allowed:
        reader.forbid("*")
    reader.keep_only(allowed)


def _word_on(tool: str, effects: Mapping[str, str]) -> str:
    """Return the last word on a tool that workers ship with."""
    return [effect for name, effect in effects.items() if tool in tools_meant(name)][-1]


def _effects(value: Any) -> Iterator[tuple[str, str]]:
    """Yield what is said of each tool; of some uses of it, the strictest word; what nobody understands as it is."""
    if isinstance(value, Mapping):
        for name, said in value.items():
            yield str(name).strip() or "*", _strictest(said.values() if isinstance(said, Mapping) else [said])
        return
    for item in value if isinstance(value, list) else [value]:
        rule = item if isinstance(item, Mapping) else {"effect": item}
        names = rule.get("action", rule.get("permission", rule.get("tool", "*")))
        is_whole = rule.get("resource", rule.get("pattern", "*")) == "*"
        effect = _strictest([rule.get("effect"), *([] if is_whole else ["ask"])])
        yield from ((str(name), effect) for name in (names if isinstance(names, list) else [names]))


def _last_words(effects: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the last word on each name, in the order in which they were spoken."""
    said: dict[str, str] = {}
    for name, effect in effects:
        said.pop(name, None)
        said[name] = effect
    return said


def _strictest(words: Iterable[Any]) -> str:
    said = [str(word).casefold() for word in words] or [""]
    return max(said, key=lambda word: _EFFECTS.index(word) if word in _EFFECTS else len(_EFFECTS))


def _hooks(key: str, value: Any, reader: RulesReader) -> None:
    """Leave out the tools that a hook would look at beforehand that does not run here."""
    if key != "hooks":
        reader.confine(f"{key!r} is not understood: it is spelt 'hooks'")
        return
    for hook in entries_in(value, in_agent_file=True)[1]:
        if hook.event not in _OBSERVERS:
            looked_at = _looked_at(hook.matcher) if hook.at == "BeforeTool" else ["*"]
            reader.guard(looked_at, f"{key!r} has {hook.event}, which looks at what the agent does beforehand")


def _looked_at(matcher: Any) -> Iterator[str]:
    if isinstance(matcher, str) and _NAMES.fullmatch(matcher):
        yield from (f"*{name}*" for name in matcher.split("|"))
    else:
        yield "*"
