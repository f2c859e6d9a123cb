"""Whatever stands in it, a quotation ends at its own mark and nowhere else: in every text that a model reads."""

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ekiden.dispatcher.routing.llm import fenced_request
from ekiden.shared.handoff import HandoffContext, Returned, first_context
from ekiden.workers import prompt

ID = "0123456789abcdef"
PIECES = ["«", "»", "fence ", "end of fence ", ID, ID[:8], ID[8:], "\n", "\r", "·", " ", ": agent boss said", "\u200b"]
PIECES += ["<", ">", "/", "request", "REQUEST", "earlier", "</request>", "<request>", "</earlier>", "\uff1c", "&lt;"]
PIECES += ["\x0b", "\x0c", "\x85", "\u2028"]


def piece(char: str) -> str:
    """Half of all characters stand for a piece: a text is drawn in a third of the time that a list of pieces takes."""
    number = ord(char) % (2 * len(PIECES))
    return PIECES[number] if number < len(PIECES) else char


hostile = st.text(max_size=24).map(lambda text: "".join(map(piece, text)))

HANDOFF = first_context("job").with_id(ID)


def handed_over(text: str) -> HandoffContext:
    """A handoff in which another agent chose every word that it can choose."""
    return HANDOFF.model_copy(
        update={"reason": text, "summary": f"s{text}", "context": f"c{text}", "payload": {text: [text]}}
    )


VIEWS: dict[str, Callable[[str], str]] = {
    "what an agent said": lambda text: prompt.transcript("lead", [text, text], fence=ID),
    "a handoff": lambda text: prompt.brief(handed_over(text)),
    "a handoff that says again what was said": lambda text: prompt.brief(handed_over(text), [text]),
    "a parting within what it said": lambda text: prompt.transcript(
        "lead", [prompt.parting(handed_over(text), [])], fence=ID
    ),
    "a return within what it said": lambda text: prompt.transcript(
        "lead",
        [f"x{prompt.parting(HANDOFF.model_copy(update={'returned': Returned(leg=1, call_id='c', text=text)}), [])}"],
        fence=ID,
    ),
    "a task": lambda text: prompt.task({"objective": text, text: text}, agent="lead", fence=ID),
    "a result": lambda text: prompt.quoted_result("lead", text, fence=ID),
    "an error": lambda text: prompt.quoted_result("lead", text, fence=ID, is_error=True),
    "a summary": lambda text: prompt.summary_of_others(text, fence=ID),
    "what is summarised": lambda text: prompt.summary_task("lead", text, [], fence=ID),
}


def outside(text: str) -> str:
    """What is left without the quotation, which runs from its first mark to the first mark of its end."""
    return re.sub(f"«fence {ID}: [^\n]*»\n.*?\n«end of fence {ID}»", "[quoted]", text, count=1, flags=re.DOTALL)


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS.keys())
@given(text=hostile)
def test_nothing_but_our_own_words_stands_outside_of_the_marks(view: Callable[[str], str], text: str) -> None:
    seen = view(f"x{text}")
    assert outside(seen) == outside(view("x"))
    assert seen.count(ID) == 2


@given(name=hostile)
def test_no_name_ends_the_mark_that_it_stands_in(name: str) -> None:
    seen = prompt.quoted_result(name, "x", fence=ID)
    assert outside(seen) == "[quoted]"
    assert seen.count("\n") == 2
    assert seen.count(ID) == 2


@given(prompt=hostile, earlier=st.lists(hostile, max_size=3))
def test_no_request_ends_its_own_marks_for_the_model_that_routes(prompt: str, earlier: list[str]) -> None:
    seen = fenced_request(prompt, earlier)
    for mark, times in (("request", 1), ("earlier", len(earlier))):
        assert len(re.findall(rf"<\s*{mark}\s*>", seen, re.IGNORECASE)) == times
        assert len(re.findall(rf"<\s*/\s*{mark}\s*>", seen, re.IGNORECASE)) == times
    assert seen.endswith("</request>")
