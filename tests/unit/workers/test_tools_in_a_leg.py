"""Tools in a leg: which an agent has, in whose names it calls them, what is kept of their results."""

import pytest

from ekiden.shared.definitions.model import AgentDefinition, ToolRules
from ekiden.shared.messages import ToolCall
from ekiden.shared.records import ModelReplied, ToolFinished
from ekiden.shared.stores.opening import Stores
from ekiden.workers.own_names import own_call
from ekiden.workers.tools.base import ToolContext
from tests.scenarios.relay import Relay, Story, on_server, team
from tests.unit.workers.world import Replies, What, call, calls, handing_over, said, tool_named

NAMES = ("bash", "grep", "ls", "mcp.github.list", "mcp.github.merge", "mcp.other.x", "write_file")


@pytest.mark.parametrize(
    ("tools", "names"),
    [
        (None, ["grep", "ls"]),
        ([], []),
        (["*"], list(NAMES)),
        (["b*", "mcp.github.*"], ["bash", "mcp.github.list", "mcp.github.merge"]),
        (["mcp.github.list"], ["mcp.github.list"]),
        (
            {"allow": ["*"], "deny": ["mcp.github.merge", "b*"]},
            ["grep", "ls", "mcp.github.list", "mcp.other.x", "write_file"],
        ),
        ({"allow": ["bash"], "deny": ["*"]}, []),
        ({"deny": ["ls"]}, ["grep"]),
        ({"allow": ["mcp.*"], "deny": ["mcp.github.*"]}, ["mcp.other.x"]),
    ],
)
def test_which_tools_an_agent_has(tools: object, names: list[str]) -> None:
    rules = ToolRules.model_validate(tools if isinstance(tools, dict) else {"allow": tools})
    agent = AgentDefinition(name="x", title="x", description="x", tools=rules)
    assert [name for name in NAMES if agent.permits(name)] == names


def test_a_handoffs_target_has_the_tools_of_its_own_file_and_a_call_of_anothers_is_not_run() -> None:
    ran: list[str] = []

    async def scenario(stores: Stores) -> Story:
        first = {"name": "first", "tools": ["bash"], "handoffs": [{"to": "second"}]}
        model = Replies(
            {
                "first": [calls(handing_over("c1", "second"))],
                "second": [calls(call("c2", "bash"), call("c3", "ls"), call("c4", "lss")), said("ok")],
            }
        )
        tools = [tool_named("bash", ran=ran), tool_named("ls", ran=ran)]
        relay = Relay(stores, team(first, {"name": "second", "tools": ["ls"]}), model, tools=tools)
        return await relay.told("do it", agent="first")

    story = on_server(scenario)
    assert story.results["c2"] == "Unauthorized tool call. Tool not allowed for this agent: 'bash'; offered are ls"
    assert story.results["c3"] == "ls()"
    assert story.results["c4"].startswith("Unauthorized tool call: there is no tool 'lss': did you mean 'ls'?")
    assert ran == ["c3"]


@pytest.mark.parametrize(
    ("name", "args", "own", "named"),
    [
        (
            "replace",
            {"filePath": "a", "old_string": "b", "new_str": "c"},
            "edit_file",
            {"path": "a", "old": "b", "new": "c"},
        ),
        ("Write", {"file_path": "a", "content": "b"}, "write_file", {"path": "a", "content": "b"}),
        ("run_shell_command", {"command": "ls"}, "bash", {"command": "ls"}),
        ("read_file", {"absolute_path": "a", "offset": 2}, "read_file", {"path": "a", "offset": 2}),
        ("Grep", {"pattern": "x", "glob": "*.py"}, "grep", {"pattern": "x", "include": "*.py"}),
        ("read_file", {"path": "a", "file_path": "b"}, "read_file", {"path": "a", "file_path": "b"}),
        ("lookup_order", {"file_path": "a"}, "lookup_order", {"file_path": "a"}),
        ("transfer_to_x", {"directory": "a"}, "transfer_to_x", {"directory": "a"}),
        ("patch", {"file_path": "a"}, "patch", {"file_path": "a"}),
    ],
)
def test_calls_in_other_programs_names_become_ours(
    name: str, args: dict[str, object], own: str, named: dict[str, object]
) -> None:
    made = own_call(ToolCall(id="c", name=name, args=args), {"read_file", "patch"})
    assert (made.name, made.args) == (own, named)


def test_the_journal_and_the_rules_know_our_names_only() -> None:
    async def scenario(stores: Stores) -> Story:
        model = Replies({"solo": [calls(call("c1", "run_shell_command", command="x")), said("ok")]})
        tools = [tool_named("ls"), tool_named("bash")]
        relay = Relay(stores, team({"name": "solo", "tools": ["ls"]}), model, tools=tools)
        return await relay.told("do it", agent="solo")

    story = on_server(scenario)
    assert [one.name for reply in story.of(ModelReplied) for one in reply.message.calls] == ["bash"]
    assert story.results["c1"].startswith("Unauthorized tool call. Tool not allowed for this agent: 'bash'")


def test_what_was_cut_is_read_on_by_an_agent_that_has_no_other_tool_of_that_kind() -> None:
    async def long(args: What, context: ToolContext) -> str:
        context.artifact("a.txt", "in full")
        return "".join(f"{number:07}\n" for number in range(20_000))

    async def scenario(stores: Stores) -> tuple[Story, Replies]:
        def page() -> object:
            [result] = [message for message in model.requests[-1].messages if message.results][-1].results
            ref = result.content.partition('ref="')[2].partition('"')[0]

            async def read() -> object:
                return calls(call("c2", "read_output", ref=ref, offset=80_000, limit=16))

            return read()

        model = Replies({"solo": [calls(call("c1", "look")), page, said("ok")]})
        relay = Relay(stores, team({"name": "solo", "tools": ["look"]}), model, tools=[tool_named("look", long)])
        return await relay.told("do it", agent="solo"), model

    story, model = on_server(scenario)
    assert [[spec.name for spec in request.tools] for request in model.requests] == [
        ["look"], ["look", "read_output"], ["look", "read_output"]
    ]  # fmt: skip
    assert story.results["c2"].startswith("0010000\n0010001\n\n(characters 80,000 to 80,016 of 160,000;")
    first = story.of(ToolFinished)[0].result
    assert [one.name for one in first.artifacts] == ["a.txt"]
    assert first.whole
