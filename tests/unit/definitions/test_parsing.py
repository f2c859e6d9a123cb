from typing import Any

import pytest

from ekiden.shared.definitions.model import AgentDefinition, HandoffRule, Limits, ToolRules
from ekiden.shared.definitions.parsing import definition_from, read_definition
from ekiden.shared.definitions.problems import AgentFileError
from ekiden.shared.job_limits import JobLimits

NAMED = {"name": "fixer", "description": "Repairs."}


def read(**fields: Any) -> AgentDefinition:
    return definition_from(NAMED | fields, "You repair.")


def refused(**fields: Any) -> AgentFileError:
    with pytest.raises(AgentFileError) as caught:
        read(**fields)
    return caught.value


def test_name_and_description_are_enough() -> None:
    agent = read()

    assert agent.title == "fixer"
    assert agent.instructions == "You repair."
    assert agent.model is None
    assert agent.tools is None
    assert agent.limits == Limits(max_turns=30, max_seconds=600, max_handoff_depth=5)
    assert agent.triggers.priority == 50
    assert agent.extra == {}


def test_a_title_stands_in_for_the_description() -> None:
    assert definition_from({"name": "x", "title": "Fixer"}, "").description == "Fixer"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"description": "d"}, "'name' is missing"),
        ({"name": "  ", "description": "d"}, "'name' is missing"),
        ({"name": "x"}, "needs a 'description'"),
        ({"name": "x", "descripton": "y"}, "There is 'descripton': did you mean 'description'"),
        ({"nmae": "x", "description": "y"}, "There is 'nmae': did you mean 'name'"),
        ({"name": 12, "description": "d"}, "'name' is 12: it must be text"),
        ({"name": "a\nb", "description": "d"}, r"'name' is 'a\\nb': it must be one line of printable characters"),
        ({"name": "User", "description": "d"}, "reserved"),
        ({"name": "x", "description": ["d"]}, "'description' is \\['d'\\]: it must be text"),
    ],
)
def test_says_what_is_missing_in_the_identity(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(AgentFileError, match=said):
        definition_from(fields, "")


@pytest.mark.parametrize("name", ["code-fixer", "Billing Agent", "代码修复", "O'Neil & Söhne"])
def test_any_printable_name_loads(name: str) -> None:
    assert read(name=name).name == name


@pytest.mark.parametrize("model", [None, "inherit", "Inherit", ""])
def test_inherit_and_absent_are_no_model(model: str | None) -> None:
    assert read(model=model).model is None


def test_keeps_a_named_model_and_a_version_that_yaml_read_as_a_number() -> None:
    agent = read(model="gemini-2.5-flash", version=1.0, temperature=0.2)

    assert (agent.model, agent.version, agent.temperature) == ("gemini-2.5-flash", "1.0", 0.2)


@pytest.mark.parametrize(
    ("tools", "rules"),
    [
        (None, None),
        ([], ToolRules(allow=())),
        (["ls", "grep"], ToolRules(allow=("ls", "grep"))),
        ("ls, grep", ToolRules(allow=("ls", "grep"))),
        ("*", ToolRules(allow=("*",))),
        ({"allow": ["ls"], "deny": "bash"}, ToolRules(allow=("ls",), deny=("bash",))),
        ({"deny": ["bash"]}, ToolRules(deny=("bash",))),
    ],
)
def test_reads_tools_in_every_form(tools: Any, rules: ToolRules | None) -> None:
    assert read(tools=tools).tools == rules


@pytest.mark.parametrize("tools", [{"bash": 1}, {}, [True], 3.5j, [["ls"]], {"allow": [{}]}])
def test_tools_that_are_not_understood_never_become_all_tools(tools: Any) -> None:
    assert refused(tools=tools).field == "tools"


def test_reads_triggers_as_an_object() -> None:
    triggers = read(triggers={"keywords": "bug, crash", "patterns": "a,b", "examples": ["x"], "priority": 90}).triggers

    assert triggers.keywords == ("bug", "crash")
    assert triggers.patterns == ("a,b",)
    assert triggers.examples == ("x",)
    assert triggers.priority == 90


def test_merges_a_list_of_triggers_and_takes_the_highest_priority_tenfold() -> None:
    triggers = read(
        triggers=[
            {"intent": "debug", "keywords": ["bug", "crash"], "priority": 8},
            {"regex": "fix.*test", "priority": 5},
            {"keywords": ["oops"]},
        ]
    ).triggers

    assert triggers.keywords == ("bug", "crash", "oops")
    assert triggers.patterns == ("fix.*test",)
    assert triggers.priority == 80
    assert triggers.model_extra == {"intents": ["debug"]}


def test_a_list_of_triggers_without_priorities_has_the_default() -> None:
    assert read(triggers=[{"keywords": ["bug"]}]).triggers.priority == 50


@pytest.mark.parametrize(
    ("triggers", "said"),
    [
        ("bug", "must be an object"),
        (["bug"], "entry 1 must be an object"),
        ([{"keywords": ["a"]}, {"priority": 50}], "priority of entry 2 must be between 0 and 10 in a list, not 50"),
        ({"keywords": [True]}, "'keywords' must hold texts, not True"),
        ({"keywords": [" "]}, "empty text"),
        ({"keywords": ["x" * 201]}, "at most 200 characters"),
        ({"patterns": ["(a"]}, "missing \\)"),
        ({"patterns": ["(?<=a)b"]}, "Look-around"),
    ],
)
def test_refuses_triggers_that_cannot_be_meant(triggers: Any, said: str) -> None:
    error = refused(triggers=triggers)

    assert error.field == "triggers"
    with pytest.raises(AgentFileError, match=said):
        raise error


def test_reads_handoffs_as_names_and_as_rules() -> None:
    agent = read(
        handoffs=[
            "reviewer",
            {"to": "documenter", "description": "Afterwards.", "include_context": {"last": 3}, "payload": {"a": 1}},
            {"to": "tester", "when": "conditional", "condition": "state.ready"},
        ]
    )

    assert agent.targets == ("reviewer", "documenter", "tester")
    assert agent.handoffs[0] == HandoffRule(to="reviewer")
    assert agent.handoffs[1].include_context == {"last": 3}
    assert agent.handoffs[1].payload == {"type": "object", "a": 1}
    assert (agent.handoffs[2].when, agent.handoffs[2].condition) == ("manual", "state.ready")


@pytest.mark.parametrize(
    ("handoffs", "said"),
    [
        ([{"when": "auto"}], "names its target"),
        ([3], "names its target"),
        (["a", {"to": "a "}], "'a' is listed twice"),
        ([{"to": "a", "when": "conditional"}], "needs a 'condition'"),
        ([{"to": "a", "include_context": "perhaps"}], "'include_context' must be"),
    ],
)
def test_refuses_handoffs_that_cannot_be_meant(handoffs: Any, said: str) -> None:
    error = refused(handoffs=handoffs)

    assert error.field == "handoffs"
    assert said in str(error)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"limits": {"max_turns": 0}}, "'limits.max_turns' is 0: must be between 1 and 10000"),
        ({"limits": {"max_turns": True}}, "'limits.max_turns' is True: must be a number"),
        ({"limits": {"max_seconds": float("nan")}}, "'limits.max_seconds' is 'nan': must be between 1 and 604800"),
        ({"limits": {"max_handoff_depth": -1}}, "'limits.max_handoff_depth' is -1: must be between 0 and 100"),
        ({"limits": {"max_tokens": "many"}}, "'limits.max_tokens' is 'many'"),
        ({"limits": 5}, "'limits': must be an object"),
        ({"compression": "often"}, "'compression': must be true, false, or an object such as {threshold: 0.5}"),
        ({"compression": {"threshold": 0}}, "'compression.threshold' is 0: must be between 0.01 and 1"),
        ({"compression": {"keep": 1}}, "'compression.keep' is 1: must be between 0 and 0.9"),
        ({"compression": {"model": 3}}, "'compression': must be the name of a model or 'inherit', not 3"),
        ({"triggers": {"priority": 500}}, "'triggers.priority' is 500: must be between 0 and 100"),
        ({"temperature": 3}, "'temperature' is 3: must be between 0 and 2"),
        ({"transfer_to_parent": "perhaps"}, "'transfer_to_parent' is 'perhaps'"),
    ],
)
def test_names_field_value_and_allowed_range(fields: dict[str, Any], said: str) -> None:
    error = refused(**fields)

    assert said in str(error)
    assert error.field == next(iter(fields))


def test_reports_every_bad_limit_at_once() -> None:
    error = refused(limits={"max_turns": 0, "max_seconds": 0})

    assert "max_turns" in str(error)
    assert "max_seconds" in str(error)


def test_the_prompt_may_stand_in_the_front_matter() -> None:
    assert definition_from(NAMED | {"systemPrompt": "You repair."}, " \n").instructions == "You repair."
    both = definition_from(NAMED | {"systemPrompt": "Other."}, "The body.")
    assert both.instructions == "The body."
    assert both.extra == {"systemPrompt": "Other."}


def test_keeps_what_is_not_typed_yet_and_can_write_it_as_json() -> None:
    from datetime import date

    fields: dict[Any, Any] = {
        "color": "red",
        "since": date(2026, 1, 2),
        "raw": b"\xff",
        "some": {"b", "a"},
        7: [float("inf"), 10**5000],
    }
    agent = definition_from(NAMED | fields, "")

    assert agent.extra["color"] == "red"
    assert agent.extra["since"] == "2026-01-02"
    assert agent.extra["some"] == ["a", "b"]
    assert agent.extra["7"][0] == "inf"
    assert AgentDefinition.from_json(agent.to_json()) == agent


def test_reading_the_json_of_a_fresh_definition_keeps_its_digest() -> None:
    agent = read(limits={"max_turns": "7", "max_cost_usd": 1}, temperature=1, handoffs=["x"], tools="ls")

    assert AgentDefinition.from_json(agent.to_json()).digest == agent.digest
    assert AgentDefinition.from_json(read().to_json()).digest == read().digest


def test_refuses_front_matter_that_nests_too_deep() -> None:
    deep: list[Any] = []
    for _ in range(300):
        deep = [deep]

    with pytest.raises(AgentFileError, match="more than 64 levels"):
        definition_from(NAMED | {"deep": deep}, "")


def test_refuses_front_matter_that_contains_itself() -> None:
    knot: list[Any] = []
    knot.append(knot)

    with pytest.raises(AgentFileError, match="contains itself"):
        definition_from(NAMED | {"knot": knot}, "")


@pytest.mark.parametrize(
    ("fields", "turns", "seconds"),
    [
        ({"max_turns": 7, "timeout_mins": 5}, 7, 300.0),
        ({"maxTurns": "7"}, 7, 600.0),
        ({"maxTurns": 7, "limits": {"max_turns": 3, "max_seconds": 60}}, 3, 60.0),
        ({"max_turns": None, "timeoutMins": 0.5}, 30, 30.0),
        ({"max-turns": 2, "Timeout-Mins": 1}, 2, 60.0),
        ({"MaxTurns": 2}, 2, 600.0),
        ({"Limits": {"maxTurns": 2, "Max-Seconds": 5}}, 2, 5.0),
        ({"max_turns": 2, "limits": {"max_turns": 3}, "maxturns": "4"}, 2, 600.0),
    ],
)
def test_limits_may_stand_on_the_top_level(fields: dict[str, Any], turns: int, seconds: float) -> None:
    agent = read(**fields)

    assert (agent.limits.max_turns, agent.limits.max_seconds) == (turns, seconds)
    assert agent.extra == {}


@pytest.mark.parametrize(
    "fields",
    [
        {"maxTokens": 500, "maxCost": 0.5},
        {"max_tokens": "500", "max-cost": "0.5", "limits": {"max_tokens": 900}},
        {"limits": {"maxTokens": 500, "maxCost": 0.5}},
    ],
)
def test_what_an_agent_spends_may_be_limited_on_the_top_level(fields: dict[str, Any]) -> None:
    agent = read(**fields)
    assert (agent.limits.max_tokens, agent.limits.max_cost_usd, agent.extra) == (500, 0.5, {})


def test_what_a_job_may_use_up_is_the_lowest_that_any_spelling_says() -> None:
    agent = read(limits={"job": {"maxTurns": "9", "max-legs": 4, "maxCost": 2}}, Limits={"job": {"max_turns": 7}})
    assert agent.limits.job == JobLimits(max_turns=7, max_legs=4, max_cost_usd=2)
    assert read(limits={"max_turns": 3}).limits.job is None


def test_a_job_may_use_up_what_its_first_agents_leg_may_unless_its_file_says_more() -> None:
    limits = {"max_tokens": 10, "max_cost_usd": 1}
    assert read(limits=limits).limits.of_job == JobLimits(max_tokens=10, max_cost_usd=1)
    wider = read(limits={**limits, "job": {"max_tokens": 50, "max_legs": 3}}).limits.of_job
    assert wider == JobLimits(max_tokens=50, max_legs=3, max_cost_usd=1)


@pytest.mark.parametrize("job", [3, ["max_turns"], {"max_turns": 0}, {"max_legs": True}, {"max_seconds": "soon"}])
def test_a_limit_of_jobs_that_cannot_be_read_is_refused(job: Any) -> None:
    error = refused(limits={"job": job})
    assert (error.field, "job" in str(error)) == ("limits", True)


@pytest.mark.parametrize("turns", ["many", True, float("nan"), 0])
def test_a_limit_that_is_no_number_is_refused_where_another_field_has_one_too(turns: Any) -> None:
    assert refused(limits={"max_turns": 3}, maxTurns=turns).field == "maxTurns"


@pytest.mark.parametrize("field", ["maxTurns", "timeout_mins", "maxTokens"])
def test_a_bad_limit_is_told_by_the_field_that_the_file_has(field: str) -> None:
    assert refused(**{field: 0}).field == field


@pytest.mark.parametrize("key", ["mcp_servers", "mcpServers", "mcp-servers", "permissionMode", "foo"])
def test_keeps_what_belongs_to_others_raw(key: str) -> None:
    assert read(**{key: {"a": None}}).extra == {key: {"a": None}}
    assert read(**{key: None}).extra == {key: None}


@pytest.mark.parametrize(
    ("model", "kept"),
    [("sonnet", "sonnet"), ("claude-opus-4-1", "claude-opus-4-1"), (["gpt-5", "sonnet"], "gpt-5")],
)
def test_foreign_models_are_kept(model: Any, kept: str) -> None:
    assert read(model=model).model == kept


def test_a_handoff_may_name_its_agent() -> None:
    assert read(handoffs=[{"label": "Go", "agent": "reviewer"}]).targets == ("reviewer",)


def test_the_files_name_stands_in_for_a_missing_name_with_a_warning() -> None:
    reading = read_definition({"title": "Fixer"}, "You repair.", file_name="code-fixer.agent")

    assert reading.definition.name == "code-fixer.agent"
    [(_, text)] = reading.notes
    assert "'name' is missing: the agent is named 'code-fixer.agent'" in text


def test_a_long_description_loads() -> None:
    assert len(read(description="x" * 5000).description) == 5000
