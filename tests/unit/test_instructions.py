"""System prompts: what the agent's file says, filled, and the parts that apply."""

from typing import Any

import pytest

from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.instruction_parts import Place, Situation, is_repository, speaks_of_files
from ekiden.shared.instructions import MAX_FILLED, instructions_for
from tests.scenarios.relay import team


def agent(prompt: str, **fields: object) -> AgentDefinition:
    return team({"name": "lead", "prompt": prompt, **fields}).definition("lead")


def text_for(lead: AgentDefinition, *args: Any, **more: Any) -> str:
    return instructions_for(lead, *args, **more)


TEAM = "You are one agent of a team"


INPUTS = {
    "objective": {"type": "string", "required": True},
    "depth": {"type": "integer", "default": 3},
    "files": {"type": "array"},
}


@pytest.mark.parametrize(
    ("prompt", "filled"),
    [
        ("Do ${objective} now.", "Do it now."),
        ("${depth} and ${files}", '3 and ["a", "文"]'),
        ("${unknown} ${other.name} $objective ${} $${objective}", "${unknown} ${other.name} $objective ${} $it"),
    ],
)
def test_declared_inputs_take_the_place_of_their_names_and_nothing_else_does(prompt: str, filled: str) -> None:
    given = {"objective": "it", "files": ["a", "文"], "unknown": "never", "other.name": "never"}
    assert text_for(agent(prompt, inputs=INPUTS), given).startswith(f"{filled}\n\n{TEAM}")


def test_an_input_that_was_not_given_and_has_no_default_leaves_its_place_as_it_is() -> None:
    text = text_for(agent("${objective} ${depth}", inputs=INPUTS))
    assert text.startswith("${objective} 3\n")


def test_the_objective_is_an_input_of_every_agent_that_declares_none() -> None:
    assert text_for(agent("Now ${objective}."), {"objective": "count", "x": 1}).startswith("Now count.\n")


def test_what_looks_like_a_place_in_an_input_is_none() -> None:
    given = {"objective": r"${files} \1 \g<0>", "files": ["secret"]}
    text = text_for(agent("${objective}", inputs=INPUTS), given)
    assert text.startswith("${files} \\1 \\g<0>\n")


def test_an_input_that_stands_in_very_many_places_fills_the_first_of_them() -> None:
    lead = agent("${text} " * 10_000 + "end", inputs={"text": {"type": "string"}})
    filled = text_for(lead, {"text": "x" * 90_000})

    assert filled.startswith("x" * 90_000 + " ")
    assert "[cut: the first 40,000 of 90,000 characters] [cut] [cut]" in filled
    assert len(filled) < MAX_FILLED + 100_000
    assert "[cut] end" in filled


def test_variables_of_the_session_stand_in_their_places_also_what_lies_within_them() -> None:
    state = {"reader": {"name": "艾达", "langs": ["de", "zh"]}, "a.b-c": 1}
    text = text_for(agent("${state.reader.name} ${state.reader.langs.1} ${state.a.b-c} ${state.none}"), state=state)
    assert text.startswith("艾达 zh 1 (not set)\n")


def test_what_looks_like_a_place_in_a_variable_is_none() -> None:
    assert text_for(agent("${state.x}"), state={"x": "${state.y} ${objective}"}).startswith("${state.y} ${objective}\n")


def test_inputs_without_a_place_are_listed_unless_the_agent_reads_them_elsewhere() -> None:
    lead = agent("${objective}", inputs=INPUTS)
    given = {"objective": "it", "files": ["a"]}
    assert text_for(lead, given, listed=list(INPUTS)).startswith(
        'it\n\nYou were called with these inputs:\nfiles: ["a"]\n\n'
    )
    assert text_for(lead, given).startswith(f"it\n\n{TEAM}")


def headings(text: str) -> list[str]:
    return [line.removeprefix("# ") for line in text.splitlines() if line.startswith("# ")]


EVERYTHING = frozenset({"edit_file", "bash", "write_todos", "delegate_to_scout", "transfer_to_fixer", "complete_task"})
REPOSITORY = Place(sandbox="bubblewrap", has_network=False, is_repository=True)


def test_the_parts_have_their_order_and_the_agents_file_comes_first() -> None:
    text = text_for(agent("You lead."), {}, Situation(EVERYTHING, "# Agents\nAvailable: fixer.", REPOSITORY))
    assert text.startswith("You lead.\n\n# Core mandates\n")
    assert headings(text) == [
        "Core mandates", "Sub-agents", "Workflow", "Agents", "Guidelines", "Environment", "Sandbox", "Git",
    ]  # fmt: skip
    assert TEAM in text.rpartition("\n\n")[2]


@pytest.mark.parametrize(
    ("tools", "place", "applies"),
    [
        ([], REPOSITORY, []),
        (["transfer_to_fixer", "complete_task", "exit"], REPOSITORY, []),
        (["order_status"], REPOSITORY, ["Guidelines"]),
        (["read_file", "grep"], REPOSITORY, ["Guidelines", "Environment"]),
        (["bash"], Place(), ["Guidelines", "Environment"]),
        (["bash"], Place(is_repository=True), ["Guidelines", "Environment", "Git"]),
        (["bash"], Place(sandbox="landlock"), ["Guidelines", "Environment", "Sandbox"]),
        (["edit_file"], Place(), ["Core mandates", "Workflow", "Guidelines", "Environment"]),
        (["delegate_to_agent"], Place(), ["Sub-agents"]),
    ],
)
def test_a_part_stands_only_where_it_applies(tools: list[str], place: Place, applies: list[str]) -> None:
    text = text_for(agent("You lead."), {}, Situation(frozenset(tools), "", place))
    assert headings(text) == applies
    assert speaks_of_files(text) == ("Environment" in applies)


def test_an_agent_whose_file_has_steps_of_its_own_is_given_no_others() -> None:
    assert "Workflow" not in headings(
        text_for(agent("You fix.\n\n1. **Look.** …\n2. Mend."), {}, Situation(frozenset({"edit_file"})))
    )


def test_the_workflow_has_the_steps_that_there_are_tools_for() -> None:
    short = text_for(agent("You."), {}, Situation(frozenset({"write_file"})))
    assert "write_todos" not in short
    assert "Verify" not in short
    assert "3. Finish" in short
    assert "by sub-agents" in text_for(agent("You."), {}, Situation(EVERYTHING))


def test_only_an_agent_that_may_hand_over_is_told_how() -> None:
    assert "transfer tool" not in text_for(agent("You."), {}, Situation(frozenset({"read_file"})))
    assert "transfer tool" in text_for(agent("You."), {}, Situation(frozenset({"transfer_to_agent"})))


def test_the_sandbox_says_whether_there_is_a_network() -> None:
    assert "and reach no network" in text_for(agent("You."), {}, Situation(frozenset({"bash"}), "", REPOSITORY))
    assert "network" not in text_for(agent("You."), {}, Situation(frozenset({"bash"}), "", Place(sandbox="bubblewrap")))


def test_an_agent_without_a_text_is_introduced_by_its_title_and_description() -> None:
    lead = agent("", title="Lead", description="Leads the others.")
    assert text_for(lead).startswith(f"You are Lead. Leads the others.\n\n{TEAM}")


def test_a_folder_below_a_repository_lies_in_it(tmp_path: Any) -> None:
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert not is_repository(below)
    (tmp_path / ".git").mkdir()
    assert is_repository(below)
