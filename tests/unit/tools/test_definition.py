"""``@tool`` on a typed function: what a model is told of it, and what is an error where it is loaded."""

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

import ekiden
from ekiden.shared.errors import DefinitionError, ToolError
from ekiden.workers.tools.base import Tool, ToolContext, tool
from tests.unit.tools.conftest import Use


@tool
def word_count(text: str, context: ToolContext, least: int = 1, copy: bool = False) -> str:
    """Count the words of a text.

    Words are separated by white space.

    Args:
        text: The text,
            of any length.
        least: How long a word must be.

    Returns:
        The number.
    """
    return f"{context.agent}: {sum(len(word) >= least for word in text.split())}{' copied' if copy else ''}"


def test_a_typed_function_is_told_by_its_signature_and_its_docstring() -> None:
    assert (word_count.name, word_count.risk, word_count.spec.parameters["required"]) == (
        "word_count",
        "medium",
        ["text"],
    )
    assert word_count.spec.description == "Count the words of a text.\n\nWords are separated by white space."
    properties = word_count.spec.parameters["properties"]
    assert list(properties) == ["text", "least", "copy"]
    assert properties["text"] == {"description": "The text,\nof any length.", "title": "Text", "type": "string"}
    assert properties["least"]["default"] == 1
    assert properties["least"]["description"] == "How long a word must be."


def test_it_gets_its_arguments_by_name_and_the_context(use: Use) -> None:
    assert use(word_count, text="a bb ccc", least=2, copy=True) == "code-fixer: 2 copied"


def test_it_needs_no_context_and_may_be_a_coroutine_function(context: ToolContext) -> None:
    @ekiden.tool(risk="low", idempotent=True, timeout_s=5, needs_workspace=True, untrusted=True)
    async def join(words: list[str], by: Literal[" ", ","] = " ") -> str:
        """Join words."""
        return by.join(words)

    assert isinstance(join, Tool)
    assert (join.is_async, join.risk, join.idempotent, join.timeout_s) == (True, "low", True, 5)
    assert (join.needs_workspace, join.untrusted) == (True, True)
    given: Any = join.function(join.parse({"words": ["a", "b"], "by": ","}), context)
    assert asyncio.run(given) == "a,b"


def test_a_model_that_gives_wrong_arguments_is_told_their_names() -> None:
    with pytest.raises(ToolError) as told:
        word_count.parse({"text": 1, "lest": 2})
    assert str(told.value).splitlines() == [
        "the arguments of 'word_count' are not valid:",
        "- text: Input should be a valid string, got 1",
        "- lest: not an argument of this tool",
        "expected: text, least (optional), copy (optional)",
    ]


def test_pydantic_may_say_more_of_a_parameter() -> None:
    class Place(BaseModel):
        name: str

    @tool
    def go(to: Place, times: Annotated[int, Field(ge=1)] = 1, how: str = Field("fast", description="How.")) -> str:
        """Go there."""
        return f"{to.name} {times} {how}"

    assert go.spec.parameters["properties"]["how"] == {
        "default": "fast", "description": "How.", "title": "How", "type": "string"
    }  # fmt: skip
    with pytest.raises(ToolError, match="times: Input should be greater"):
        go.parse({"to": {"name": "x"}, "times": 0})
    assert go.function(go.parse({"to": {"name": "x"}}), None) == "x 1 fast"  # type: ignore[arg-type] # it takes none


def several(*texts: str) -> str:
    """Join."""
    return ""


def anything(**texts: str) -> str:
    """Join."""
    return ""


def untyped(text) -> str:  # type: ignore[no-untyped-def] # the mistake under test
    """Say."""
    return ""


def by_place(text: str, /) -> str:
    """Say."""
    return ""


def unsayable(text: Callable[[], str]) -> str:
    """Say."""
    return ""


def strange(text: str) -> str:
    """Say.

    Args:
        txt: The text.
    """
    return ""


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (several, r"tool 'several': .* parameter '\*texts': name each argument, or take one list"),
        (anything, r"tool 'anything': .* parameter '\*\*texts': name each argument, or take one dict"),
        (untyped, r"tool 'untyped': its parameter 'text' has no type: write `text: str`"),
        (by_place, r"tool 'by_place': .* parameter 'text': leave out the '/'"),
        (unsayable, r"tool 'unsayable': a parameter has a type that JSON cannot say"),
        (strange, r"tool 'strange': its docstring describes 'txt'"),
    ],
)
def test_what_no_model_can_call_is_an_error_that_names_tool_parameter_and_remedy(
    function: Callable[..., str], said: str
) -> None:
    with pytest.raises(DefinitionError, match=said):
        tool(function)


def listing(text: str) -> list[str]:
    """Give back a list."""
    return [text]


def silent(text: str) -> None:
    """Give back nothing."""


def perhaps(text: str) -> str | dict[str, Any]:
    """Give back text, or not."""
    return text


@pytest.mark.parametrize(("function", "gives"), [(listing, "list"), (silent, "None"), (perhaps, "dict")])
def test_what_gives_back_neither_text_nor_a_tool_output_is_an_error_with_the_remedy(
    function: Callable[..., Any], gives: str
) -> None:
    with pytest.raises(DefinitionError, match=rf"gives back {gives}: .*ToolOutput\(text, data=…\)"):
        tool(function)


def test_text_data_both_and_what_cannot_be_told_may_be_given_back() -> None:
    def both(text: str) -> str | ekiden.ToolOutput:
        return ekiden.ToolOutput(text, data=[text])

    def anything(text: str) -> Any:
        return text

    assert [tool(both).name, tool(anything).name] == ["both", "anything"]


def test_an_option_without_such_a_value_is_an_error() -> None:
    with pytest.raises(DefinitionError, match=r"tool 'say': its risk is 'none', expected one of safe, low, medium"):
        tool(risk="none")(say)  # type: ignore[call-overload] # the mistake under test
    with pytest.raises(DefinitionError, match="tool 'say': its timeout_s is 0"):
        tool(timeout_s=0)(say)
    with pytest.raises(TypeError, match="readonly"):
        tool(readonly=True)(say)  # type: ignore[call-overload] # the mistake under test
    nothing: Any = "say"
    with pytest.raises(DefinitionError, match="takes a function, or a model"):
        tool(nothing)


def say(text: str) -> str:
    """Say."""
    return text


def test_what_only_reads_is_safe_unless_its_words_are_anybodys() -> None:
    assert tool(read_only=True)(say).risk == "safe"
    assert tool(read_only=True, untrusted=True)(say).risk == "medium"
    assert tool(say).risk == "medium"
