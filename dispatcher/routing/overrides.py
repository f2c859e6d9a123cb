"""What a request itself says about its routing: ``@debugger "…"``, ``@auto --strategy=rule "…"``.

An ``@name`` counts at the very beginning only, and only before a space: an e-mail address, a mention in the middle of a
text or a decorator of a program is none.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass

from ekiden.shared.errors import InvalidRequest, UnknownAgent
from ekiden.shared.suggestions import nearest

__all__ = ["AUTO", "Override", "no_strategy", "parse_override", "strategy_of"]

AUTO = "auto"
"""``@auto``: let the router choose, even where something else was set."""

_LLM = "llm"
"""The strategy that settings switch off."""
_NAMED = re.compile(r"@(?:\"(?P<quoted>[^\"\n]+)\"|(?P<name>[^\s\"'“”@,;:!?()]+))(?:\s+|$)")
_OPTION = re.compile(r"--(?P<option>[A-Za-z][\w-]*)(?:=|\s+)(?P<value>\S+)\s*")
_QUOTES = {'"': '"', "'": "'", "“": "”", "「": "」"}


@dataclass(frozen=True)
class Override:
    """A request without what it says about its routing. ``agent`` None: the router chooses."""

    prompt: str
    agent: str | None = None
    strategy: str | None = None
    is_auto: bool = False


def parse_override(
    text: str, agents: Collection[str] | None = None, strategies: Collection[str] | None = None
) -> Override:
    """Take the override off ``text``, if it begins with one.

    Args:
        text: The request as the user typed it.
        agents: The names that are known; None: not known here, any name is taken.
        strategies: The routers that there are, by name; None: the dispatcher knows.

    Raises:
        UnknownAgent: no agent has the name; the message has the near ones.
        InvalidRequest: the strategy is none, or nothing is left to be done.
    """
    stripped = text.lstrip()
    named = _NAMED.match(stripped)
    if named is None:
        return Override(text)
    name = named["quoted"] or named["name"]
    rest = stripped[named.end() :]
    if name.casefold() == AUTO and (agents is None or name not in agents):
        strategy, rest = _strategy(rest, strategies)
        return Override(_unquoted(rest, f"@{name}"), strategy=strategy, is_auto=True)
    return Override(_unquoted(rest, f"@{name}"), _known(name, agents))


def strategy_of(text: str, known: Collection[str] | None = None) -> str:
    """Return ``text`` as the name of a strategy. Raises ``InvalidRequest`` naming what is ``known``, if that is."""
    name = text.casefold()
    if known is not None and name not in known:
        raise InvalidRequest(no_strategy(text, known))
    return name


def no_strategy(text: str, known: Collection[str]) -> str:
    """Say that no strategy is called ``text``, and which there are."""
    near = nearest(text.casefold(), known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    where = " where agents.routing.llm.enabled is false" if text.casefold() == _LLM else ""
    return f"there is no strategy {text!r}{where}: give one of {', '.join(sorted(known))}{hint}"


def _strategy(rest: str, known: Collection[str] | None) -> tuple[str | None, str]:
    option = _OPTION.match(rest)
    if option is None:
        return None, rest
    if option["option"] != "strategy":
        raise InvalidRequest(f"@auto knows no option {'--' + option['option']!r}: give --strategy=…, or none")
    return strategy_of(option["value"].strip("\"'"), known), rest[option.end() :]


def _known(name: str, agents: Collection[str] | None) -> str:
    if agents is None or name in agents:
        return name
    folded = {known.casefold(): known for known in agents}
    if name.casefold() in folded:
        return folded[name.casefold()]
    near = [folded[one] for one in nearest(name.casefold(), folded)]
    hint = f"did you mean {' or '.join('@' + one for one in near)}?" if near else "`ekiden agents list` shows all"
    raise UnknownAgent(f"no agent is named {name!r}: {hint} (to begin a text with @, put a space or a word before it)")


def _unquoted(rest: str, before: str) -> str:
    prompt = rest.strip()
    if len(prompt) > 1 and _QUOTES.get(prompt[0]) == prompt[-1] and prompt[0] not in prompt[1:-1]:
        prompt = prompt[1:-1].strip()
    if not prompt:
        raise InvalidRequest(f'nothing follows {before}: say what is to be done, as in {before} "the tests fail"')
    return prompt
