import json
from importlib.metadata import version
from typing import Any

import pytest
from pydantic import BaseModel

from ekiden.shared.definitions.tool_arguments import BUILTIN_SCHEMAS
from ekiden.shared.definitions.tool_names import BUILTIN_TOOLS, MEMORY_TOOLS, SAFE_TOOLS
from ekiden.shared.errors import ConfigurationError
from ekiden.shared.settings.plugins import Allowed
from ekiden.shared.stores.views import ToolView
from ekiden.workers.tools.base import Tool, ToolContext, tool
from ekiden.workers.tools.registry import BUILTIN, Registry, builtin_registry, plugin_tools
from tests.unit.conftest import Install


class Nothing(BaseModel):
    """Do nothing."""


@tool(Nothing)
def zebra(args: Nothing, context: ToolContext) -> str:
    return ""


@tool(Nothing)
def ant(args: Nothing, context: ToolContext) -> str:
    return ""


def test_orders_tools_by_name_whatever_the_order_of_registration() -> None:
    registry = Registry([zebra, ant])
    assert registry.names() == ("ant", "zebra")
    assert [spec.name for spec in registry.specs()] == ["ant", "zebra"]
    assert list(registry) == [ant, zebra]
    assert len(registry) == 2


def test_refuses_two_tools_of_one_name() -> None:
    registry = Registry([ant])
    with pytest.raises(ConfigurationError, match="two tools are named 'ant'"):
        registry.add(ant)


def test_gets_tools_by_name() -> None:
    registry = Registry([ant])
    assert registry.get("ant") is ant
    assert registry.get("bee") is None


def test_offers_what_the_definition_permits() -> None:
    assert Registry([zebra, ant]).offered_to(lambda name: name != "ant") == (zebra,)


def test_names_the_tools_that_are_missing_once_and_in_order() -> None:
    registry = builtin_registry(workspace=True)
    assert registry.missing(["bash", "fly", "mcp.github.*", "*", "read_*", "fly"]) == ("fly", "mcp.github.*")


def test_a_workspace_brings_the_file_and_shell_tools() -> None:
    registry = builtin_registry(workspace=True)
    assert set(registry.names()) == BUILTIN_TOOLS
    assert {tool.name for tool in registry if tool.may_repeat} == SAFE_TOOLS | MEMORY_TOOLS | {
        "web_fetch",
        "write_todos",
    }
    assert {tool.name for tool in registry if not tool.needs_workspace} == {
        "ask_user",
        "set_state",
        "web_fetch",
        "write_todos",
        *MEMORY_TOOLS,
    }


def test_each_builtin_tool_has_its_risk() -> None:
    risks = {tool.name: tool.risk for tool in builtin_registry(workspace=True)}
    assert {name for name, risk in risks.items() if risk == "safe"} == SAFE_TOOLS | {
        "ask_user",
        "recall_memory",
        "write_todos",
    }
    assert {name: risk for name, risk in risks.items() if risk != "safe"} == {
        "write_file": "low",
        "edit_file": "low",
        "bash": "medium",
        "forget_memory": "medium",
        "git_commit": "medium",
        "save_memory": "medium",
        "web_fetch": "medium",
        "delete_file": "high",
    }


def test_without_a_workspace_no_file_tool_is_there() -> None:
    others = {"ask_user", "set_state", "web_fetch", "write_todos"}
    assert set(builtin_registry(workspace=False).names()) == others | MEMORY_TOOLS


def test_every_builtin_tool_tells_a_model_what_it_and_its_arguments_are_for() -> None:
    for spec in builtin_registry(workspace=True).specs():
        assert spec.description
        assert spec.parameters["type"] == "object"
        assert all(field["description"] for field in spec.parameters["properties"].values())


TOOLS = """
from pydantic import BaseModel, Field

from ekiden import tool


class CountWords(BaseModel):
    \'\'\'Count the words of a text.\'\'\'

    text: str = Field(description="The text.")


@tool(CountWords, read_only=True)
def count_words(args, context):
    return str(len(args.text.split()))


@tool(CountWords)
def bash(args, context):
    return "mine"


@tool(CountWords)
def transfer_to_me(args, context):
    return "mine"


@tool(CountWords)
def CamelCase(args, context):
    return ""


@tool(CountWords)
def no_context(args):
    return ""


several = [count_words, bash]
"""


def test_tools_of_an_allowed_package_are_announced_with_package_version_and_digest(install: Install) -> None:
    install("my-tools", TOOLS, "2.0", tools={"count_words": "count_words"})
    tools, problems = plugin_tools(Allowed(packages=("my-tools",)), ())
    assert problems == ()
    registry = builtin_registry(workspace=False)
    for one in tools:
        registry.add(one)
    views = {view.name: view for view in registry.views()}
    mine, ours = views["count_words"], views["set_state"]
    takes = registry.specs()[registry.names().index("count_words")].parameters
    named = ToolView("count_words", mine.digest, "my-tools", "2.0", read_only=True, risk="safe", parameters=takes)
    assert mine == named
    assert not ours.parameters, "whoever checks files knows them"
    assert (ours.name, ours.package, ours.version) == ("set_state", "ekiden", version("ekiden"))
    assert len({mine.digest, ours.digest, ""}) == 3


def test_a_tool_that_the_settings_name_by_its_attribute_has_no_package(install: Install) -> None:
    install("my-tools", TOOLS)
    ((mine,), _) = plugin_tools(Allowed(modules=("my_tools:count_words",)), ())
    assert (mine.name, mine.package) == ("count_words", "")


def test_a_builtin_tools_name_stays_ours(install: Install) -> None:
    install("my-tools", TOOLS, tools={"all": "several"})
    tools, (problem,) = plugin_tools(Allowed(packages=("my-tools",)), (one.name for one in BUILTIN))
    assert [one.name for one in tools] == ["count_words"]
    assert "'bash' of my-tools 1.2 (my_tools:several) is a name of Ekiden's own" in problem


@pytest.mark.parametrize(
    ("attribute", "said"),
    [
        ("transfer_to_me", "is no name for a tool"),
        ("CamelCase", "is no name for a tool"),
        ("no_context", "does not take what a tool is called with"),
    ],
)
def test_a_tool_that_nobody_could_call_is_told_and_left_out(install: Install, attribute: str, said: str) -> None:
    install("my-tools", TOOLS, tools={"x": attribute})
    tools, (problem,) = plugin_tools(Allowed(packages=("my-tools",)), ())
    assert tools == []
    assert said in problem
    assert "my-tools 1.2 (my_tools:" in problem


@pytest.mark.parametrize("tool", BUILTIN, ids=lambda tool: tool.name)
def test_who_checks_files_without_a_worker_knows_the_arguments_of_each_tool(tool: Tool) -> None:
    def bare(schema: Any) -> Any:
        """A schema without what is said of it to models."""
        if isinstance(schema, dict):
            about = {key for key in ("description", "title", "default") if not isinstance(schema.get(key), dict)}
            return {key: bare(one) for key, one in schema.items() if key not in (*about, "$defs")}
        return [bare(one) for one in schema] if isinstance(schema, list) else schema

    text = json.dumps(tool.spec.parameters)
    for name, one in tool.spec.parameters.get("$defs", {}).items():
        text = text.replace(json.dumps({"$ref": f"#/$defs/{name}"}), json.dumps(one))
    assert bare(json.loads(text)) == BUILTIN_SCHEMAS[tool.name]
