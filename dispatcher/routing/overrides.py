"""What a request itself says about its routing: ``@debugger "…"``, ``@auto --strategy=rule "…"``.

An ``@name`` counts at the very beginning only, and only before a space: an e-mail address, a mention in the middle of a
text or a decorator of a program is none.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, get_args

from ekiden.shared.errors import InvalidRequest, UnknownAgent
from ekiden.shared.suggestions import nearest

__all__ = ["AUTO", "Override", "Strategy", "parse_override", "strategy_of"]

Strategy = Literal["rule", "semantic", "llm", "hybrid"]
AUTO = "auto"
"""``@auto``: let the router choose, even where something else was set."""

_NAMED = re.compile(r"@(?:\"(?P<quoted>[^\"\n]+)\"|(?P<name>[^\s\"'“”@,;:!?()]+))(?:\s+|$)")
_OPTION = re.compile(r"--(?P<option>[A-Za-z][\w-]*)(?:=|\s+)(?P<value>\S+)\s*")
_QUOTES = {'"': '"', "'": "'", "“": "”", "「": "」"}


@dataclass(frozen=True)
class Override:
    """A request without what it says about its routing. ``agent`` None: the router chooses."""

    prompt: str
    agent: str | None = None
    strategy: Strategy | None = None
    is_auto: bool = False


def parse_override(text: str, agents: Collection[str] | None = None) -> Override:
    """Take the override off ``text``, if it begins with one.

    Args:
        text: The request as the user typed it.
        agents: The names that are known; None: not known here, any name is taken.

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
        strategy, rest = _strategy(rest)
        return Override(_unquoted(rest, f"@{name}"), strategy=strategy, is_auto=True)
    return Override(_unquoted(rest, f"@{name}"), _known(name, agents))


def strategy_of(text: str) -> Strategy:
    """Return ``text`` as a strategy. Raises ``InvalidRequest`` naming what there is."""
    for strategy in get_args(Strategy):
        if text.casefold() == strategy:
            return strategy  # type: ignore[no-any-return]  # get_args has no types
    near = nearest(text.casefold(), get_args(Strategy), n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise InvalidRequest(f"there is no strategy {text!r}: give one of {', '.join(get_args(Strategy))}{hint}")


def _strategy(rest: str) -> tuple[Strategy | None, str]:
    option = _OPTION.match(rest)
    if option is None:
        return None, rest
    if option["option"] != "strategy":
        raise InvalidRequest(f"@auto knows no option {'--' + option['option']!r}: give --strategy=…, or none")
    return strategy_of(option["value"].strip("\"'")), rest[option.end() :]


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
