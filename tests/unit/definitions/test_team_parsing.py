import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ekiden.shared.definitions.loader import load_file
from ekiden.shared.definitions.model import AgentDefinition, Delegation, HandoffRule, Output, Subagent
from ekiden.shared.definitions.parsing import definition_from
from ekiden.shared.definitions.problems import AgentFileError

NAMED = {"name": "lead", "description": "Leads."}
FILES = {"type": "object", "properties": {"files": {"type": "array", "items": {"type": "string"}}}}


def read(**fields: Any) -> AgentDefinition:
    return definition_from(NAMED | fields, "You lead.")


def rule(**fields: Any) -> HandoffRule:
    return read(handoffs=[{"to": "reviewer", **fields}]).handoffs[0]


def refused(**fields: Any) -> AgentFileError:
    with pytest.raises(AgentFileError) as caught:
        read(**fields)
    return caught.value


@pytest.mark.parametrize(
    ("fields", "when", "condition"),
    [
        ({}, "manual", ""),
        ({"when": "manual"}, "manual", ""),
        ({"when": "auto"}, "auto", ""),
        ({"when": "task.status == 'need-review'"}, "manual", "task.status == 'need-review'"),
        ({"when": "conditional", "condition": "state.ready"}, "manual", "state.ready"),
        ({"when": "manual", "condition": " state.ready\n"}, "manual", "state.ready"),
        ({"condition": "state.ready"}, "manual", "state.ready"),
        ({"when": "auto", "condition": "has(output.files)"}, "auto", "has(output.files)"),
    ],
)
def test_reads_when_in_every_form(fields: dict[str, Any], when: str, condition: str) -> None:
    assert (rule(**fields).when, rule(**fields).condition) == (when, condition)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"when": True}, "'when' of the handoff to 'reviewer' must be manual, auto or a condition, not True"),
        ({"when": "conditional"}, "needs a 'condition'"),
        ({"when": "auto", "condition": True}, "'condition' of the handoff to 'reviewer' must be text, not True"),
        ({"when": "state.a", "condition": "state.b"}, "has two conditions"),
        ({"when": "task.status === 'x'"}, "CEL compares with '==' and '!='"),
        ({"when": "always"}, "'always'"),
        ({"return": "later"}, "'return' of the handoff to 'reviewer' must be true or false, not 'later'"),
        ({"payload": "files"}, "'payload' of the handoff to 'reviewer' must be a JSON Schema"),
        ({"payload": {"schema": ["files"]}}, "must be a JSON Schema"),
        ({"payload": {"type": "string"}}, "must describe an object, not type 'string'"),
        ({"payload": {"properties": {"a": {"type": "text"}}}}, "properties.a.type"),
        (
            {"payload": {"properties": {"a": {"$ref": "http://127.0.0.1:1/a.json"}}}},
            "must point into the schema itself",
        ),
        ({"include_context": "perhaps"}, "'include_context' must be true, false, {last: N} or summary"),
        ({"include_context": {"last": 0}}, "'include_context' must be"),
        ({"include_context": {"last": True}}, "'include_context' must be"),
        ({"include_context": {"last": 3, "first": 1}}, "'include_context' must be"),
    ],
)
def test_refuses_a_handoff_that_cannot_be_meant(fields: dict[str, Any], said: str) -> None:
    error = refused(handoffs=[{"to": "reviewer", **fields}])

    assert error.field == "handoffs"
    assert said in str(error)


def test_a_payload_is_a_schema_with_or_without_the_word() -> None:
    assert rule(payload={"schema": FILES}).payload == FILES
    assert rule(payload=FILES).payload == FILES
    assert rule(payload={"schema": {"properties": {}}}).payload == {"type": "object", "properties": {}}
    assert rule().payload is None


def test_control_returns_where_the_file_says_so() -> None:
    assert rule(**{"return": True}).returns
    assert rule(returns=True).returns
    assert not rule().returns


@pytest.mark.parametrize(
    "form", ["a, b", ["a", "b"], [{"agent": "a"}, {"name": "b"}], [{"to": "a", "timeout": None}, "b"]]
)
def test_reads_subagents_in_every_form(form: Any) -> None:
    assert read(subagents=form).subagents == (Subagent(agent="a"), Subagent(agent="b"))


def test_a_subagent_has_its_own_timeout_and_description() -> None:
    [one] = read(subagents={"agent": "a", "timeout": 90, "description": "Looks things up."}).subagents

    assert (one.timeout, one.description) == (90.0, "Looks things up.")


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("subagents", ["a", {"agent": "a"}], "'a' is listed twice"),
        ("subagents", [{"timeout": 3}], "each entry names its agent"),
        ("subagents", [{"agent": "a", "timeout": 0}], "must be between 0.1 and 604800"),
        ("delegation", "any", "must be an object such as {join: all"),
        ("delegation", {"join": "most"}, "must be all, any or quorum:<n>"),
        ("delegation", {"join": "quorum:0"}, "must be all, any or quorum:<n>"),
        ("delegation", {"max_children": 101}, "must be between 1 and 100"),
        ("delegation", {"timeout": True}, "must be a number"),
        ("transfer", "many", "'many'"),
        ("complete_task", "perhaps", "'complete_task' is 'perhaps'"),
        ("inputs", ["objective"], "must be an object such as {objective:"),
        ("inputs", {"objective": "string"}, "'objective' must be an object such as {type: string, required: true}"),
        ("inputs", {"the goal": {}}, "the input 'the goal' must be a name of ASCII letters"),
        ("inputs", {"objective": {"type": "text"}}, "'text'"),
        ("inputs", {"n": {"type": "integer", "default": "x"}}, "the default of 'n' does not fit"),
        ("inputs", {"n": {"type": "integer", "minimum": "x"}}, "'n': no JSON Schema: at minimum"),
        ("output", "report", "must be an object such as {name: report"),
        ("output", {"name": "the report"}, "'name' 'the report' must be a name"),
        ("output", {"schema": "x"}, "'schema' must be a JSON Schema, not 'x'"),
        ("output", {"schema": {"type": "text"}}, "'schema': no JSON Schema: at type"),
        ("output", {"state": ["files"]}, "'state' must be an object"),
        ("output", {"state": {"files": "a..b"}}, "state variable 'files' needs a path in the output"),
    ],
)
def test_says_what_cannot_be_meant_and_what_is_allowed(field: str, value: Any, said: str) -> None:
    error = refused(**{field: value})

    assert error.field == field
    assert field in str(error)
    assert said in str(error)


def test_the_error_has_the_line_of_what_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "lead.md"
    file.write_text("---\nname: lead\ndescription: d\ninputs:\n  n: {type: text}\n---\nYou.\n", encoding="utf-8")

    definition, [problem] = load_file(file, "project")

    assert definition is None
    assert (problem.line, problem.aspect) == (5, "values")


def test_what_a_caller_gives_is_a_schema() -> None:
    fields = {
        "objective": {"required": True, "description": "What to find."},
        "depth": {"type": "integer", "minimum": 1, "default": 0 + 2},
        "prefix": {"default": ""},
    }

    assert read(inputs=fields).inputs_schema == {
        "type": "object",
        "properties": {
            "objective": {"type": "string", "description": "What to find."},
            "depth": {"type": "integer", "minimum": 1, "default": 2},
            "prefix": {"type": "string", "default": ""},
        },
        "required": ["objective"],
    }


def test_an_agent_without_inputs_takes_an_objective() -> None:
    schema = read().inputs_schema

    assert schema["required"] == ["objective"]
    assert schema["properties"]["objective"]["type"] == "string"


def test_how_many_children_must_succeed_is_told_by_the_join() -> None:
    needed = {join: Delegation(join=join).needed(4) for join in ("all", "any", "quorum:3", "quorum:9")}

    assert needed == {"all": 0, "any": 1, "quorum:3": 3, "quorum:9": 4}


def test_what_the_new_fields_say_survives_the_store() -> None:
    agent = read(
        handoffs=[{"to": "reviewer", "when": "state.ready", "payload": FILES, "return": True}],
        subagents=[{"agent": "a", "timeout": 5}],
        delegation={"join": "quorum:2"},
        transfer="single",
        inputs={"objective": {"required": True}},
        output={"name": "report", "schema": FILES, "state": {"changed": "files"}},
        complete_task=True,
    )
    again = AgentDefinition.from_json(agent.to_json())

    assert again == agent
    assert again.digest == agent.digest
    assert again.output == Output(name="report", schema_=FILES, state={"changed": "files"})
    assert json.loads(agent.to_json())["output"]["schema"] == FILES


def test_a_definition_that_uses_no_new_field_is_stored_as_before() -> None:
    stored = json.loads(read(handoffs=["reviewer"]).to_json())

    assert stored.keys().isdisjoint({"subagents", "delegation", "transfer", "inputs", "output", "complete_task"})
    assert stored["handoffs"][0].keys() == {"to", "when", "description", "include_context"}


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ({"when": "state.ready"}, {"when": "manual", "condition": "state.ready"}),
        ({"when": "auto"}, {"when": "auto"}),
        ({"payload": {"schema": FILES}}, {"payload": FILES}),
        ({"payload": "files"}, {"payload": None}),
        ({"return": True}, {"returns": True}),
        ({"return": "later"}, {"returns": False}),
        ({"include_context": {"some": 1}}, {"include_context": {"some": 1}}),
    ],
)
def test_reads_what_a_former_version_stored(stored: dict[str, Any], expected: dict[str, Any]) -> None:
    former = json.dumps({"to": "reviewer", "when": "manual", "description": "", "include_context": True, **stored})

    assert HandoffRule.model_validate_json(former) == HandoffRule(to="reviewer", **expected)


def test_unknown_keys_are_kept() -> None:
    assert rule(colour="red").model_extra == {"colour": "red"}
    assert read(subagents=[{"agent": "a", "colour": "red"}]).subagents[0].model_extra == {"colour": "red"}


_WORDS = """to agent when condition payload schema return include_context type required default name state timeout join
properties pattern items $ref enum minimum"""
_KEYS = st.sampled_from(_WORDS.split())
_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from(["a", "object", "auto", "#/a", "#", "(", "state.a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(st.sampled_from(["handoffs", "subagents", "delegation", "inputs", "output", "transfer", "complete_task"]), _JSON)
def test_any_value_gives_a_definition_that_can_be_stored_or_a_named_refusal(field: str, value: Any) -> None:
    try:
        agent = read(**{field: value})
    except AgentFileError as error:
        assert error.field == field  # noqa: PT017  # a value may just as well be accepted
        return
    assert AgentDefinition.from_json(agent.to_json()) == agent
