"""Agent files that are small and take for ever to load: each is refused, with the file and the field, in a moment."""

import time
from pathlib import Path

import pytest

from ekiden.shared.definitions.loader import load_file
from ekiden.shared.definitions.model import ToolRules

BOMB = "\n".join(
    [
        f"a: &a [{', '.join('x' * 20)}]",
        *(f"{b}: &{b} [{', '.join([f'*{a}'] * 5)}]" for a, b in zip("abcd", "bcde", strict=True)),
    ]
)
TEN = [", ".join([f"{{$ref: '#/$defs/a{n + 1}'}}"] * 10) for n in range(7)]
FAN = ", ".join(f"a{n}: {{allOf: [{refs}]}}" for n, refs in enumerate(TEN))
SCHEMA = f"{{type: object, properties: {{a: {{$ref: '#/$defs/a0'}}}}, $defs: {{{FAN}, a7: {{type: string}}}}}}"
MANY = ", ".join(f"n{n}" for n in range(600))

FILES = {
    "fan-out in a payload": (
        f"handoffs: [{{to: y, payload: {{schema: {SCHEMA}}}}}]",
        "'payload' of the handoff to 'y'",
    ),
    "fan-out in an output": (f"output: {{name: r, schema: {SCHEMA}}}", "'output': 'schema': it would be applied 22"),
    "fan-out in an input": (f"inputs: {{r: {SCHEMA}}}", "'inputs': 'r': it would be applied 22"),
    "a condition of loops": (
        "handoffs: [{to: y, when: " + repr("state.l.all(a, " * 4 + "true" + ")" * 4) + "}]",
        "costs too",
    ),
    "a pattern in a condition": (
        "handoffs: [{to: y, when: \"output.matches('([ab]{900})([ab]{900})([ab]{900})')\"}]",
        "too large",
    ),
    "a pattern that repeats": ("triggers: {patterns: ['([ab]{900})([ab]{900})([ab]{900})']}", "'triggers': pattern"),
    "a long pattern": (f"triggers: {{patterns: ['{'x' * 1_001}']}}", "'triggers': a pattern has at most 1,000"),
    "many patterns": (f"triggers: {{patterns: [{MANY}]}}", "'triggers': it has 600 patterns, 100 are the most"),
    "many targets": (f"handoffs: [{MANY}]", "'handoffs': it names 600 agents, 500 are the most"),
    "many sub-agents": (f"subagents: [{MANY}]", "'subagents': it names 600 agents, 500 are the most"),
    "many tools": (f"tools: [{MANY}]", "'tools' has 600 entries, at most 500"),
    "many forbidden tools": (f"disallowedTools: '{MANY}'", "'disallowedTools': 'deny' has 600 entries, at most 500"),
    "a tool of brackets and gaps": (f"tools: ['Bash({' ' * 150_000}x']", "'tools' holds a text of 150,006"),
    "a glob of stars": (f"tools: ['{'**/' * 300}x']", "'tools' holds a text of 901 characters; 500"),
    "aliases in aliases": (BOMB, "'e' is too large: at most 10,000 values"),
    "very many values": (f"extra: [{'a,' * 20_000}]", "'extra' is too large: at most 10,000 values"),
    "a huge front matter": (f"extra: '{'x' * 210_000}'", "characters, at most 200,000 are read"),
    "nested without end in flow": (
        f"extra: {'[' * 50_000}{']' * 50_000}",
        "not valid YAML: while increasing flow level",
    ),
    "nested without end in blocks": (f"extra:\n  {'- ' * 50_000}x", "not valid YAML: while increasing block level"),
}


def loaded(tmp_path: Path, front: str) -> list[str]:
    """The problems of a file with these fields; the lenient reader has them, too."""
    file = tmp_path / "evil.md"
    file.write_text(f"---\nname: evil\ndescription: Evil.\n{front}\n---\nBody.\n")
    return [f"{problem.where}: {problem.message}" for problem in load_file(file, "project")[1]]


@pytest.mark.parametrize(("front", "said"), FILES.values(), ids=FILES)
def test_is_refused_in_a_moment_with_file_and_field(tmp_path: Path, front: str, said: str) -> None:
    began = time.thread_time()
    [problem] = loaded(tmp_path, front)

    assert "evil.md" in problem
    assert said in problem
    assert time.thread_time() - began < 2


@pytest.mark.parametrize("line", ["Foo: bar: x", "foo: bar", "\tfoo: bar: x", "- x: y: z"])
def test_the_lenient_reader_takes_time_in_proportion(tmp_path: Path, line: str) -> None:
    """Each line was held against all lines before it: a quarter of a minute."""
    began = time.thread_time()
    loaded(tmp_path, "note: a: b\n" + f"{line}\n" * (180_000 // len(line)))
    assert time.thread_time() - began < 8


def test_many_patterns_of_tools_are_asked_in_a_moment() -> None:
    """They were compiled anew for each tool: an agent has tools, and its file patterns, in every leg."""
    rules = ToolRules(allow=tuple(f"*{'*a' * 20}*b{n}" for n in range(500)), deny=tuple(f"x*{n}" for n in range(500)))
    began = time.thread_time()

    assert [rules.permits("a" * 100 + str(n)) for n in range(100)] == [False] * 100
    assert rules.permits("a" * 100 + "b499")
    assert not rules.permits("xa" * 50 + "b499")
    assert time.thread_time() - began < 3
