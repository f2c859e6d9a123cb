"""Puts keywords and examples into an agent file as its author would: all else, comments too, stays as it is.

What is put in is the least text at the place where it belongs. That the file then says what it said before and what
was added, and nothing else, is checked by reading it: where it does not, nothing is written.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, SequenceNode

from ekiden.shared.definitions.frontmatter import fences, read_front_matter
from ekiden.shared.errors import DefinitionError, InvalidRequest

__all__ = ["as_yaml", "with_triggers"]

_KEY = "triggers"
_COMMENT = re.compile(r"#.*")
Added = Mapping[str, Sequence[str]]
"""``keywords`` and ``examples`` that are new."""


def as_yaml(added: Added) -> str:
    """Return the block that an agent file without triggers would have."""
    lines = [f"{_KEY}:"]
    for name, texts in added.items():
        if texts:
            lines += [f"  {name}:", *(f"    - {_scalar(text)}" for text in texts)]
    return "".join(f"{line}\n" for line in lines)


def with_triggers(text: str, added: Added) -> str:
    """Return the file's ``text`` (line feeds only) with what is ``added``.

    Raises ``InvalidRequest`` where its author has to do it: triggers in another form than lists by name.
    """
    lines = text.split("\n")
    start, end = fences(lines)
    front = "".join(f"{line}\n" for line in lines[start + 1 : end])
    parts = read_front_matter(text)
    wanted = _expected(parts.fields, added)
    edited = front + as_yaml(added) if _KEY not in parts.fields else _extended(front, added)
    whole = "\n".join([*lines[: start + 1], *edited.split("\n")[:-1], *lines[end:]])
    try:
        found = read_front_matter(whole)
    except DefinitionError:
        raise _by_hand() from None
    if (found.fields, found.body) != (wanted, parts.body):
        raise _by_hand()
    return whole


def _expected(fields: Mapping[str, Any], added: Added) -> dict[str, Any]:
    triggers = fields.get(_KEY) or {}
    if not isinstance(triggers, dict) or not all(isinstance(triggers.get(name) or [], list) for name in added):
        raise _by_hand()
    lists = {name: [*(triggers.get(name) or []), *texts] for name, texts in added.items() if texts}
    return {**fields, _KEY: {**triggers, **lists}}


def _extended(front: str, added: Added) -> str:
    """Put ``added`` into triggers that there are."""
    try:
        triggers = _value(yaml.compose(front, yaml.SafeLoader), _KEY)
    except yaml.YAMLError:
        raise _by_hand() from None
    if not isinstance(triggers, MappingNode):
        raise _by_hand()
    lists = {name: _value(triggers, name) for name, texts in added.items() if texts}
    pieces = [_items(front, node, added[name]) for name, node in lists.items() if node is not None]
    if missing := {name: added[name] for name, node in lists.items() if node is None}:
        pieces.append(_lists(front, triggers, missing))
    for at, text in sorted(pieces, reverse=True):  # from the last place to the first: each leaves those before it
        front = front[:at] + text + front[at:]
    return front


def _items(front: str, node: Node, texts: Sequence[str]) -> tuple[int, str]:
    """Return where items of the list ``node`` come, and how they are written there."""
    if not isinstance(node, SequenceNode):
        raise _by_hand()
    if node.flow_style:
        return _in_flow(front, node, ", ".join(map(_scalar, texts)))
    indent = " " * node.start_mark.column
    return _end_of(front, node), "".join(f"{indent}- {_scalar(text)}\n" for text in texts)


def _lists(front: str, triggers: MappingNode, missing: Added) -> tuple[int, str]:
    """The same for whole lists in ``triggers``."""
    if triggers.flow_style:
        lists = [f"{name}: [{', '.join(map(_scalar, texts))}]" for name, texts in missing.items()]
        return _in_flow(front, triggers, ", ".join(lists))
    indent = " " * triggers.start_mark.column
    lines = [
        line for name, texts in missing.items() for line in (f"{name}:", *(f"  - {_scalar(one)}" for one in texts))
    ]
    return _end_of(front, triggers), "".join(f"{indent}{line}\n" for line in lines)


def _in_flow(front: str, node: SequenceNode | MappingNode, text: str) -> tuple[int, str]:
    """The same in front of the bracket that closes ``node``."""
    at = int(node.end_mark.index) - 1
    last = node.value[-1] if node.value else None
    end = at if last is None else int((last[1] if isinstance(last, tuple) else last).end_mark.index)
    needs_comma = last is not None and "," not in _COMMENT.sub("", front[end:at])
    return at, f", {text}" if needs_comma else text


def _end_of(front: str, node: Node) -> int:
    """Return where the line behind the last one of ``node`` begins: the node's own end may be far behind that."""
    while isinstance(node, SequenceNode | MappingNode) and not node.flow_style and node.value:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    end = int(node.end_mark.index)
    return end if front[end - 1 : end] == "\n" else front.find("\n", end) + 1


def _value(node: Node | None, name: str) -> Node | None:
    pairs = node.value if isinstance(node, MappingNode) else ()
    return next((value for key, value in pairs if key.value == name), None)


def _scalar(text: str) -> str:
    """Return a text as YAML reads it: in double quotes, which are JSON's."""
    return json.dumps(text, ensure_ascii=False)


def _by_hand() -> InvalidRequest:
    return InvalidRequest(
        "the file's triggers are in a form that is not changed here: put in what is suggested yourself "
        "(`ekiden agents edit NAME`)"
    )
