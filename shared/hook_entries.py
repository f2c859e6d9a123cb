"""Commands that are hooks, as settings and agent files write them: ours, gemini-cli's and Claude Code's forms.

=======  ===========================================================================  =========
form     an entry below an event's name                                               timeout
=======  ===========================================================================  =========
ours     ``{matcher, command, timeout, required, name, env, sequential}``             seconds
gemini   ``{matcher, sequential, hooks: [{type: command, command, timeout, …}]}``     ms
Claude   the same without ``sequential``, below an event's name of Claude Code's      seconds
=======  ===========================================================================  =========

What both call by the same name is Claude Code's where the block has an event of its own, else gemini-cli's.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from ekiden.shared.errors import DefinitionError
from ekiden.shared.faults import as_written
from ekiden.shared.patterns import Pattern, compile_pattern

__all__ = ["CLAUDE_NAMES", "HOOK_EVENTS", "FaultyHook", "HookEntry", "Refused", "entries_in", "named_by"]

HOOK_EVENTS = (
    "SessionStart",
    "SessionEnd",
    "BeforeRoute",
    "BeforeAgent",
    "AfterAgent",
    "BeforeModel",
    "AfterModel",
    "BeforeToolSelection",
    "BeforeTool",
    "AfterTool",
    "BeforeHandoff",
    "AfterHandoff",
    "PreCompress",
    "Notification",
)
"""Those that commands are asked at."""
CLAUDE_NAMES = {
    "PreToolUse": "BeforeTool",
    "PostToolUse": "AfterTool",
    "UserPromptSubmit": "BeforeAgent",
    "SubagentStart": "BeforeAgent",
    "Stop": "AfterAgent",
    "SubagentStop": "AfterAgent",
    "PreCompact": "PreCompress",
}
"""What Claude Code calls them."""
_OF = {"UserPromptSubmit": "requests", "Stop": "requests", "SubagentStart": "delegated", "SubagentStop": "delegated"}
"""Whose agents some of them are about; in an agent's file, of that agent."""
_OUTSIDE = frozenset({"BeforeRoute", "SessionEnd", "Notification"})
"""Those that no agent's file is asked at: nobody has read it by then, or nobody reads it any more."""
_WITHOUT_SUBJECT = frozenset(
    {"BeforeAgent", "AfterAgent", "BeforeModel", "AfterModel", "BeforeToolSelection", "BeforeRoute"}
)
_TIMEOUT_S = 60.0
_SHORTEST_S, _LONGEST_S = 0.1, 600.0
_MOST = 100
"""Commands of one block."""
_LONGEST_TEXT = 10_000
_IN_FOLDER = re.compile(r"(^|[\s\"'=])\.{1,2}/|(^|[\s\"'=])\.(claude|gemini)/|(CLAUDE|GEMINI)_PROJECT_DIR")
_PLAIN = re.compile(r"[\w\- ]+(\|[\w\- ]+)*")
_GROUP_KEYS = frozenset({"matcher", "hooks", "sequential", "description"})
_COMMAND_KEYS = frozenset({"type", "command", "timeout", "name", "description", "env", "required", "statusMessage"})
_OUR_KEYS = (_COMMAND_KEYS - {"statusMessage"}) | {"matcher", "sequential"}

Form = Literal["ours", "gemini", "claude"]


class HookEntry(BaseModel):
    """One command, at one event."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    at: str
    """The event, by our name."""
    command: str
    """For a shell."""
    form: Form = "ours"
    """Whose words it reads and writes."""
    matcher: str = ""
    """An expression of RE2 that is looked for in the names of a tool, or what else the event is about; empty: any."""
    written: str = ""
    """The event as it is written; empty: by our name."""
    of: Literal["", "requests", "delegated"] = ""
    """Whose agents it is about: of users' requests, or of jobs that other agents began; empty: of both."""
    timeout_s: float = _TIMEOUT_S
    required: bool = False
    sequential: bool = False
    name: str = ""
    """Empty: the command is its name."""
    env: dict[str, str] = Field(default_factory=dict)


class FaultyHook(DefinitionError):
    """An entry is none that can be read. ``path``: where it stands in its block."""

    path: tuple[str | int, ...] = ()


class Refused(NamedTuple):
    """A hook that cannot be run here as its author means it."""

    event: str
    """As it is written."""
    at: str
    """The event by our name, if it is one."""
    why: str
    matcher: Any = None
    form: Form = "ours"
    path: tuple[str | int, ...] = ()
    """Where it stands in its block."""


def entries_in(block: Any, *, in_agent_file: bool = False) -> tuple[list[HookEntry], list[Refused]]:
    """Read a block of hooks: event to list of entries.

    Args:
        block: The value of ``hooks``.
        in_agent_file: Workers start it in no folder, so it names no file in one; and what looks at calls beforehand is
            required unless it says otherwise: the agent has its tools because of it.

    Returns:
        The commands, and those hooks that cannot be run here.

    Raises:
        FaultyHook: something is no such entry; says which one, and what is expected.
    """
    if not isinstance(block, Mapping):
        raise FaultyHook(
            f"must be an object such as {{BeforeTool: [{{command: ./check.sh}}]}}, not {as_written(block)}"
        )
    is_claude = any(event in CLAUDE_NAMES for event in block)
    found: list[HookEntry] = []
    refused: list[Refused] = []
    for event, groups in block.items():
        if not groups:
            continue
        if why := _why_not_at(str(event), in_agent_file=in_agent_file):
            refused.append(Refused(str(event), _ours(str(event)), why, path=(str(event),)))
            continue
        for place, group in enumerate(groups if isinstance(groups, list) else [groups], 1):
            written = _Written(str(event), place, (str(event), place - 1), is_claude, in_agent_file)
            try:
                read = list(_read(group, written))
            except DefinitionError as error:
                fault = FaultyHook(str(error))
                fault.path = written.path
                raise fault from None
            found += [one for one in read if isinstance(one, HookEntry)]
            refused += [one for one in read if isinstance(one, Refused)]
    if len(found) > _MOST:
        raise FaultyHook(f"it has {len(found)} commands, {_MOST} are the most")
    return found, refused


class _Written(NamedTuple):
    """Where an entry stands."""

    event: str
    place: int
    path: tuple[str | int, ...]
    is_claude: bool
    in_agent_file: bool


def _ours(event: str) -> str:
    return CLAUDE_NAMES.get(event, event)


def _why_not_at(event: str, *, in_agent_file: bool) -> str:
    """Say why nothing is asked at an event, if nothing is."""
    at = _ours(event)
    if in_agent_file and at in _OUTSIDE:
        return f"an agent's file is not asked at {event}: put it into the settings"
    return "" if at in HOOK_EVENTS else f"nothing is asked at {event!r:.60} here: there are {', '.join(HOOK_EVENTS)}"


def _read(group: Any, written: _Written) -> Iterator[HookEntry | Refused]:
    """Yield the commands of an entry, and those that cannot be run here."""
    at, where = _ours(written.event), f"entry {written.place} of {written.event}"
    for command, form, around in _commands(group, where, is_claude=written.is_claude):
        if why := _why_not(command, around, at) or (written.in_agent_file and _why_not_found(command)) or "":
            matcher = command.get("matcher", around.get("matcher"))
            yield Refused(written.event, at, f"{where}: {why}", matcher, form, written.path)
            continue
        required = written.in_agent_file and at == "BeforeTool"
        entry = _entry({**around, **command}, at, form, where, required=required)
        of = "" if written.in_agent_file else _OF.get(written.event, "")
        yield entry.model_copy(update={"written": written.event, "of": of})


def _commands(group: Any, where: str, *, is_claude: bool) -> Iterator[tuple[dict[str, Any], Form, dict[str, Any]]]:
    """Yield each command of an entry, whose words it speaks, and what the entry says around it."""
    if not isinstance(group, Mapping):
        raise DefinitionError(f"{where} must be an object with a 'command', not {as_written(group)}")
    if "hooks" not in group:
        _refuse_unknown(group, _OUR_KEYS, where)
        yield dict(group), "ours", {}
        return
    _refuse_unknown(group, _GROUP_KEYS, where)
    inner = group["hooks"]
    around = {key: group[key] for key in ("matcher", "sequential") if key in group}
    for command in inner if isinstance(inner, list) else [inner]:
        if not isinstance(command, Mapping):
            raise DefinitionError(
                f"'hooks' of {where} must be a list of {{type: command, command: …}}, not {as_written(inner)}"
            )
        yield dict(command), "claude" if is_claude else "gemini", around


def _why_not(command: Mapping[str, Any], around: Mapping[str, Any], at: str) -> str:
    """Say why a command that is well written cannot be run as its author means it."""
    if (kind := command.get("type", "command")) != "command":
        return f"hooks of the type {kind!r:.40} do not run here: commands do"
    if unknown := sorted(command.keys() - _COMMAND_KEYS - _OUR_KEYS):
        return f"{unknown[0]!r:.40} is not understood"
    matcher = str(command.get("matcher", around.get("matcher", "")) or "")
    if at in _WITHOUT_SUBJECT and matcher not in ("", "*"):
        return f"{at} has nothing that a matcher could look at: leave 'matcher' out"
    return ""


def _why_not_found(command: Mapping[str, Any]) -> str:
    """Say why a worker would not find what the command of an agent file starts."""
    text = str(command.get("command") or "")
    first = text.split(maxsplit=1)[0].strip("\"'") if text.split() else ""
    if not (_IN_FOLDER.search(text) or ("/" in first and first[0] not in "/~$")):
        return ""
    return (
        f"{text!r:.60} is in a folder, and workers have no folder of an agent file: give an absolute path, "
        "or put the hook into the settings"
    )


def _entry(said: Mapping[str, Any], at: str, form: Form, where: str, *, required: bool) -> HookEntry:
    command = said.get("command")
    if not isinstance(command, str) or not command.strip():
        raise DefinitionError(f"{where} needs a 'command': text for a shell, not {command!r:.60}")
    for key in ("required", "sequential"):
        if not isinstance(said.get(key, False), bool):
            raise DefinitionError(f"{key!r} of {where} must be true or false, not {said[key]!r:.60}")
    env = said.get("env") or {}
    if not isinstance(env, Mapping) or not all(isinstance(word, str) for pair in env.items() for word in pair):
        raise DefinitionError(f"'env' of {where} must be an object of texts, not {env!r:.60}")
    name = said.get("name") or ""
    if not isinstance(name, str) or max(len(name), len(command)) > _LONGEST_TEXT:
        raise DefinitionError(f"'name' and 'command' of {where} must be texts of {_LONGEST_TEXT:,} characters at most")
    return HookEntry(
        at=at,
        command=command,
        form=form,
        matcher=_matcher(said.get("matcher"), form, where),
        timeout_s=_timeout_s(said.get("timeout"), form, where),
        required=said.get("required", required),
        sequential=said.get("sequential", False),
        name=name,
        env=dict(env),
    )


def _matcher(value: Any, form: Form, where: str) -> str:
    """Return the expression: plain names mean whole ones, except in gemini-cli's form."""
    if value in (None, "", "*"):
        return ""
    if not isinstance(value, str):
        raise DefinitionError(f"'matcher' of {where} must be text, not {value!r:.60}")
    is_plain = form != "gemini" and _PLAIN.fullmatch(value) is not None
    expression = f"^(?:{re.sub(r' *[|] *', '|', value.strip())})$" if is_plain else value
    try:
        compile_pattern(expression, ignore_case=True, named=value)
    except DefinitionError as error:
        raise DefinitionError(f"'matcher' of {where}: {error}") from None
    return expression


def named_by(matcher: Any, form: Form = "ours") -> Pattern | None:
    """Return what finds the names of tools that a matcher means; None: all, also where nobody can tell which."""
    try:
        expression = _matcher(matcher, form, "")
        return compile_pattern(expression, ignore_case=True) if expression else None
    except DefinitionError:
        return None


def _timeout_s(value: Any, form: Form, where: str) -> float:
    if value is None:
        return _TIMEOUT_S
    unit = "milliseconds, as in gemini-cli" if form == "gemini" else "seconds"
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DefinitionError(f"'timeout' of {where} must be a number of {unit}, not {value!r:.60}")
    seconds = value / 1000 if form == "gemini" else float(value)
    if not _SHORTEST_S <= seconds <= _LONGEST_S:
        raise DefinitionError(
            f"'timeout' of {where} is {value!r:.60} {unit}: it must be from {_SHORTEST_S:g} to {_LONGEST_S:g} seconds"
        )
    return seconds


def _refuse_unknown(said: Mapping[Any, Any], known: frozenset[str], where: str) -> None:
    if unknown := sorted(str(key) for key in said.keys() - known):
        raise DefinitionError(f"{unknown[0]!r:.60} of {where} is not known: there are {', '.join(sorted(known))}")
