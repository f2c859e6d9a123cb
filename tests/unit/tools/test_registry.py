import pytest
from pydantic import BaseModel

from ekiden.shared.errors import ConfigurationError
from ekiden.workers.tools.base import ToolContext, tool
from ekiden.workers.tools.registry import Registry, builtin_registry


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
    assert registry.names() == ("bash", "edit_file", "glob", "grep", "ls", "read_file", "set_state")
    assert {tool.name for tool in registry if tool.may_repeat} == {"glob", "grep", "ls", "read_file", "set_state"}
    assert {tool.name for tool in registry if not tool.needs_workspace} == {"set_state"}


def test_without_a_workspace_no_file_tool_is_there() -> None:
    assert builtin_registry(workspace=False).names() == ("set_state",)


def test_every_builtin_tool_tells_a_model_what_it_and_its_arguments_are_for() -> None:
    for spec in builtin_registry(workspace=True).specs():
        assert spec.description
        assert spec.parameters["type"] == "object"
        assert all(field["description"] for field in spec.parameters["properties"].values())
