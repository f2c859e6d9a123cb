"""What YAML 1.1 makes numbers, dates and truths of, where the author of an agent file has written words.

``12:30`` is 750 to it, ``007`` is 7, ``1_000`` is 1000, ``1.10`` is 1.1, ``on`` is true, and ``Use when: x`` is a map.
"""

import re
from collections.abc import Iterator

import yaml

from ekiden.shared.definitions.fields import PROSE

__all__ = ["as_written"]

_TEXT = "tag:yaml.org,2002:str"
_OTHER = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("bool", "float", "int", "timestamp"))
_STRUCTURES = frozenset({"tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"})
_RESOLVER = yaml.resolver.Resolver()
_NUMBERS = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("float", "int"))
_ODD_NUMBER = re.compile(r"[-+]?0[0-9_]+|.*[:_].*")
"""A number that YAML 1.1 reads in another base, or whose digits it joins."""
_TEXTS = frozenset({*PROSE, "handoffs", "model", "name", "subagents", "systemPrompt", "version"})
_TEXTS_WITHIN = {
    "guardrails": frozenset({"name", "prompt", "validator"}),
    "handoffs": frozenset({"agent", "condition", "description", "name", "to", "when"}),
    "subagents": frozenset({"agent", "description", "name", "to"}),
    "triggers": frozenset({"examples", "intent", "keywords", "patterns", "regex"}),
}
"""Fields, and the keys in the objects that they hold, whose values are texts or lists of texts."""


def as_written(root: yaml.MappingNode, source: str) -> list[tuple[str, int]]:
    """Make text of what is meant as text in a front matter that YAML has parsed into nodes.

    Returns:
        The sentences that YAML took for structure: field and line, from 0.
    """
    for node in _all_scalars(root):
        if node.tag in _NUMBERS and _ODD_NUMBER.fullmatch(node.value):
            node.tag = _TEXT
    for key_node in _all_keys(root):
        _make_text(key_node)
    told = []
    for place, (key, value) in enumerate(root.value):
        name = str(key.value)
        if name in PROSE and value.tag in _STRUCTURES:
            told.append((name, key.start_mark.line))
            root.value[place] = (key, yaml.ScalarNode(_TEXT, _source_of(value, source)))
        if name in _TEXTS:
            _make_text(value)
        if name in _TEXTS_WITHIN:
            _make_texts_within(value, _TEXTS_WITHIN[name])
    return told


def _make_texts_within(node: yaml.Node, keys: frozenset[str]) -> None:
    for entry in node.value if isinstance(node, yaml.SequenceNode) else [node]:
        for key, value in entry.value if isinstance(entry, yaml.MappingNode) else ():
            if key.value in keys:
                _make_text(value)


def _make_text(node: yaml.Node) -> None:
    for one in node.value if isinstance(node, yaml.SequenceNode) else [node]:
        if isinstance(one, yaml.ScalarNode) and one.tag in _OTHER and _is_implicit(one):
            one.tag = _TEXT


def _is_implicit(node: yaml.ScalarNode) -> bool:
    """Tell whether YAML, and not the author, has said what the value is."""
    meant: str = _RESOLVER.resolve(yaml.ScalarNode, node.value, (True, False))  # type: ignore[no-untyped-call]  # PyYAML's
    return meant == node.tag


def _all_scalars(root: yaml.Node) -> Iterator[yaml.ScalarNode]:
    return (node for node in _all_nodes(root) if isinstance(node, yaml.ScalarNode))


def _all_keys(root: yaml.Node) -> Iterator[yaml.Node]:
    return (key for node in _all_nodes(root) if isinstance(node, yaml.MappingNode) for key, _ in node.value)


def _all_nodes(root: yaml.Node) -> Iterator[yaml.Node]:
    waiting, seen = [root], {id(root)}
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, yaml.ScalarNode):
            continue
        below = [one for pair in node.value for one in pair] if isinstance(node, yaml.MappingNode) else node.value
        waiting += [one for one in below if id(one) not in seen]
        seen |= {id(one) for one in below}


def _source_of(node: yaml.Node, source: str) -> str:
    """Return the lines of a value as they stand in the file, without their indentation."""
    start, end = node.start_mark, node.end_mark
    lines = source.split("\n")[start.line : end.line + 1]
    if end.line < start.line + len(lines):
        lines[-1] = lines[-1][: end.column]
    lines[0] = lines[0][start.column :]
    return "\n".join(line.strip() for line in lines).strip()
