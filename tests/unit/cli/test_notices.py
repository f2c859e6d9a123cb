"""What people are told while a job is handed over, delegated, given back."""

import io
from typing import Any, Literal

import pytest

from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.cli.views.notices import head_of
from ekiden.dispatcher.cli.views.terminal_view import TerminalView
from ekiden.dispatcher.journal.follower import show_job_tree
from ekiden.dispatcher.journal.story_reader import job_tree_story
from ekiden.dispatcher.journal.tree import in_order
from ekiden.shared.handoff import Frame, first_context
from ekiden.shared.messages import Message, TextPart, ToolResult
from ekiden.shared.records import (
    ApprovalAsked,
    Decided,
    Delegated,
    Ended,
    Entry,
    Forked,
    Guarded,
    HandedOff,
    Hooked,
    LastTurn,
    LegStarted,
    LegSuspended,
    LoopDetected,
    ModelReplied,
    Record,
    Refused,
    Repairing,
    Summarised,
    ToolFinished,
)
from tests.unit.cli.families import BEGIN_MS, DIGGER, ROOT, SCOUT, TESTER, family


def shown(journals: dict[str, list[Entry]], *, verbose: bool = False, tail: int | None = None) -> list[str]:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    show_job_tree(ROOT, in_order(journals), TerminalView(ROOT, Output(stream), verbose=verbose), tail)
    stream.seek(0)
    return stream.read().splitlines()


def lines(*records: Record) -> list[str]:
    return shown({ROOT: [Entry(seq=seq, at_ms=1_000 * seq, record=record) for seq, record in enumerate(records, 1)]})


def test_a_family_reads_like_a_story() -> None:
    assert shown(family()) == [
        "🎯 Routing via rule-match to: lead (27% confidence)",
        "💡 Model: scripted stand-in for a model: no key is needed",
        "⛔ lead: transfer_to_x refused (UNKNOWN_AGENT): Not executed.",
        "advice",
        "🧩 lead ⇒ scout, tester (2 child jobs)",
        f"  🧩 scout: look at the logs · job {SCOUT}",
        f"  🧩 tester: run the tests · job {TESTER}",
        "  🔀 scout → helper: bug identified at line 42",
        "  🧩 helper ⇒ digger (1 child job)",
        f"    🧩 digger: dig · job {DIGGER}",
        "    ✅ digger: dug",
        "  ✅ scout: found it",
        "  ❌ tester failed (TIMEOUT): too slow",
        "🔀 lead → checker: bug identified at line 42",
        "💡 checker gets a summary of what came before (4 words)",
        "checker: checker says so",
        "↩ checker returned to lead: looks fine",
        "💡 lead is told: you only wrote it",
        "🔧 set_state (0 ms)",
        "🔀 lead → reviewer (on completion): after the fix",
        "reviewer: reviewer says so",
        "",
        "✅ reviewer: All is well.",
        f"user → lead → reviewer · 7.0 s · 1040 tokens · $0.0115 · 2 child jobs · job {ROOT}",
    ]


def test_a_first_line_that_only_announces_the_next_ones_is_told_with_them() -> None:
    why = "agent 'printer' cannot be called so:\n- the input 'text' is missing\n- so is another"
    assert head_of(why) == "agent 'printer' cannot be called so: - the input 'text' is missing - so is another"
    assert head_of("\n It is cart.py.\nLine 3.") == "It is cart.py."
    assert head_of(" \n") == ""


def test_state_is_shown_to_those_who_ask_for_it() -> None:
    quiet, verbose = shown(family()), shown(family(), verbose=True)
    states = ("validating", "scheduled", "executing")  # of calls, which are told as well
    assert [line for line in verbose if line not in quiet and not line.endswith(states)] == [
        '💡 state: ticket taken away, done = [1, "zwei"] (set_state)'
    ]


def test_a_child_that_nobody_followed_is_told_of_by_its_result() -> None:
    found = shown({ROOT: family()[ROOT]})
    assert [line for line in found if line.startswith("  ")] == [
        "  ✅ scout: found it",
        "  ❌ tester: ended without a result",
    ]


def test_an_end_is_told_once_whoever_tells_it_first() -> None:
    journals = family()
    late = [
        entry._replace(at_ms=BEGIN_MS + 9_000) if isinstance(entry.record, Ended) else entry
        for entry in journals[TESTER]
    ]
    found = shown(journals | {TESTER: late})
    assert [line for line in found if "❌ tester" in line] == ["  ❌ tester: ended without a result"]


@pytest.mark.parametrize("tail", [1, 5, 20, 30])
def test_a_tail_tells_the_same_end(tail: int) -> None:
    assert shown(family(), tail=tail)[-2:] == shown(family())[-2:]


def test_a_return_without_a_result_and_a_refused_automatic_handoff_are_told() -> None:
    route = first_context(ROOT).advance("lead", "routed", is_route=True)
    frame = Frame(agent="lead", leg=1, call_id="c", from_agent="user", chain_length=2)
    back = route.advance("checker", "check", call=frame).come_back("max turns\nreached", is_error=True, upto=1)
    plain = route.advance("writer", "completed")
    found = lines(
        LegStarted(leg=2, agent="checker", attempt=1, worker="w"),
        HandedOff(leg=2, context=back),
        Refused(leg=3, name="writer", code="CIRCULAR_HANDOFF", message="it had it"),
        HandedOff(leg=3, context=plain),
    )
    assert found == [
        "↩ checker returned to lead without a result: max turns",
        "⛔ lead: writer refused (CIRCULAR_HANDOFF): it had it",
        "🔀 lead → writer (on completion)",
    ]


def test_who_waits_again_for_children_does_not_call_them_anew() -> None:
    call = Delegated(leg=1, call_id="c", child=SCOUT, agent="scout", objective="look")
    start = LegStarted(leg=1, agent="lead", attempt=1, worker="w")
    pause = LegSuspended(leg=1, cause="children", delay_s=0)
    done = ToolFinished(leg=1, result=ToolResult(call_id="c", name="delegate_to_scout", content="\n\n found \nmore"))
    assert lines(start, call, pause, start, pause, start, done) == [
        "🧩 lead ⇒ scout (1 child job)",
        "⏳ lead waits for its child jobs",
        "  ✅ scout: found",
    ]


def test_loops_plans_and_last_turns_are_told() -> None:
    todos = [{"description": "look", "status": "completed"}, {"description": "修复", "status": "in_progress"}]
    plan = ToolResult(call_id="p", name="write_todos", content="", data={"todos": todos})
    found = lines(
        LegStarted(leg=1, agent="lead", attempt=1, worker="w"),
        ToolFinished(leg=1, result=plan),
        LoopDetected(leg=1, kind="calls", text="You go round in circles: look\nStop."),
        LastTurn(leg=1, reason="LOOP", error="it goes round in circles", text="Your last turn."),
        Hooked(leg=1, at="BeforeTool", by=("guard",), call_id="c", block="not on Friday"),
        Hooked(leg=1, at="BeforeTool", by=("paths", "修"), call_id="d", changed=("args",), context="see docs"),
        Ended(leg=1, status="done", reason="LOOP", answer="a half", recovered=True),
    )
    assert found[5:7] == [
        "⛔ BeforeTool: the hook 'guard' blocked it: not on Friday",
        "💡 BeforeTool: the hook 'paths', '修' changed args; told the model more",
    ]
    assert found[:5] == [
        "💡 Plan: 1 of 2 done",
        "   1. [completed] look",
        "   2. [in_progress] 修复",
        "⛔ lead is told: You go round in circles: look",
        "⛔ lead has one last turn (LOOP): it goes round in circles",
    ]
    assert "✅ lead (in its last turn: LOOP): a half" in found


def test_a_conversation_that_is_compressed_is_told_or_why_it_is_not() -> None:
    tokens = {"before": 40, "tokens_before": 16_500, "tokens_after": 5_000}
    found = lines(
        LegStarted(leg=1, agent="lead", attempt=1, worker="w"),
        Summarised(leg=1, text="<state_snapshot>", **tokens),
        Summarised(leg=1, text="", why="the model is broken", longest_result=500, **tokens),
        Summarised(leg=1, text="[left out]", why="broken", **tokens),
    )
    assert found == [
        "💡 lead's conversation is compressed: 16,500 → 5,000 tokens",
        "💡 lead's conversation is not compressed (the model is broken): older results are cut, 16,500 → 5,000 tokens",
        "💡 lead's conversation is not compressed (broken): the older part of it is left out, 16,500 → 5,000 tokens",
    ]


def test_a_parent_that_waits_shows_what_its_children_do() -> None:
    view = TerminalView(ROOT, Output(io.StringIO()))
    placed = [one for one in in_order(family()) if one.entry.at_ms <= BEGIN_MS + 2_600]
    show_job_tree(ROOT, placed, view, None)
    assert view.activity == "2 of 2 child jobs go on | 1 of 1 child jobs go on | digger thinks | tester thinks"
    later = TerminalView(ROOT, Output(io.StringIO()))
    show_job_tree(ROOT, [one for one in in_order(family()) if one.entry.at_ms <= BEGIN_MS + 3_000], later, None)
    assert later.activity == "1 of 2 child jobs go on | tester thinks"


REPLY = ModelReplied(leg=1, turn=1, message=Message(role="model", parts=(TextPart(text="the answer"),)), withheld=True)
FAULTS = ("confidence: 'high' is not of type 'number'", "a" * 400)


def judged(status: Literal["passed", "failed", "warned", "asked"], *errors: str) -> Guarded:
    return Guarded(leg=1, at="output", rail="valid-json", policy="reject", status=status, errors=errors, turn=1)


def test_what_does_not_pass_a_guardrail_is_told_and_the_answer_is_not_shown() -> None:
    ended = Ended(leg=1, status="failed", reason="GUARDRAIL", error="Guardrail violation: valid-json")
    found = lines(LegStarted(leg=1, agent="a", attempt=1, worker="w"), REPLY, judged("failed", *FAULTS), ended)
    assert found[:4] == [
        "✗ Guardrail violation: valid-json (output)",
        "  - confidence: 'high' is not of type 'number'",
        f"  - {'a' * 299}…",
        "  Policy: reject",
    ]
    assert not any("the answer" in line for line in found)


@pytest.mark.parametrize("is_handed_over", [False, True])
def test_an_answer_that_passes_is_shown_as_any_other_is(*, is_handed_over: bool) -> None:
    end = Ended(leg=1, status="done", reason="GOAL", answer="the answer")
    moved = HandedOff(leg=1, context=first_context(ROOT).advance("a", "x", is_route=True).advance("b", "completed"))
    story: list[Record] = [LegStarted(leg=1, agent="a", attempt=1, worker="w"), REPLY, judged("passed")]
    found = lines(*story, moved if is_handed_over else end)
    assert found[0] == "a: the answer"
    assert not any("uardrail" in line for line in found)
    entries = [Entry(seq=seq, at_ms=1_000 * seq, record=record) for seq, record in enumerate(story, 1)]
    assert "✓ Guardrail passed: valid-json (output)" in shown({ROOT: entries}, verbose=True)


@pytest.mark.parametrize("edited", [None, {"answer": "mended"}])
def test_an_answer_that_a_person_lets_pass_is_shown_in_their_words_if_they_gave_any(edited: Any) -> None:
    about = {"leg": 1, "id": f"{ROOT}:1", "call_id": ":answer", "tool": "answer", "digest": "d"}
    asked = ApprovalAsked.model_validate({**about, "agent": "a", "definition": "f", "timeout_s": 60})
    decided = Decided.model_validate({**about, "status": "approved", "by": "ada", "edited": edited})
    end = Ended(leg=1, status="done", reason="GOAL", answer="mended" if edited else "the answer")
    found = lines(LegStarted(leg=1, agent="a", attempt=1, worker="w"), REPLY, judged("asked"), asked, decided, end)
    assert "✗ Guardrail violation: valid-json (output)" in found
    assert any("the answer" in line for line in found) == (edited is None)
    assert any("mended" in line for line in found) == (edited is not None)


def test_a_repair_is_told_step_by_step_and_the_original_is_not_shown() -> None:
    errors = ("confidence: 'high' is not of type 'number'",)
    tried = Repairing(leg=1, at="output", rail="valid-json", turn=1, errors=errors, text="{}")
    said = {"at": "output", "rail": "valid-json", "policy": "repair", "status": "repaired", "errors": errors, "turn": 1}
    repaired = Guarded.model_validate({"leg": 1, **said, "value": "mended"})
    end = Ended(leg=1, status="done", reason="GOAL", answer="mended")
    found = lines(LegStarted(leg=1, agent="a", attempt=1, worker="w"), REPLY, tried, repaired, end)
    assert found[:5] == [
        "✗ Guardrail violation: valid-json (output)",
        f"  - {errors[0]}",
        "  Policy: repair",
        "🔧 Repairing output with LLM…",
        "✓ Repaired output passes validation",
    ]
    assert "✅ a: mended" in found
    assert not any("the answer" in line for line in found)


def test_a_fork_has_used_up_what_it_has_asked_itself() -> None:
    entries = family()[ROOT]
    at = next(number for number, entry in enumerate(entries) if entry.record.leg == 2)
    forked = Entry(seq=0, at_ms=entries[at].at_ms - 500, record=Forked(leg=1, job="origin.1", seq=at))
    own = entries[at:]
    told = [entry._replace(seq=seq) for seq, entry in enumerate([*entries[:at], forked, *own], 1)]
    last = shown({ROOT: told})[-1]

    assert f" · {(own[-1].at_ms - forked.at_ms) / 1000:.1f} s · " in last
    assert "child job" not in last
    whole = job_tree_story(ROOT, {ROOT: told})
    assert f" · {whole.total_usage.input_tokens + whole.total_usage.output_tokens} tokens · " in last
    assert last != shown({ROOT: entries})[-1]


def test_what_does_not_pass_at_the_edge_of_a_graph_is_told_with_that_edge() -> None:
    said = judged("failed", FAULTS[0]).model_copy(update={"at": "handoff", "call_id": "edge:article: draft → facts"})
    tried = Repairing(leg=1, at="output", rail="valid-json", turn=1, errors=FAULTS[:1], call_id="graph:article")
    found = lines(LegStarted(leg=1, agent="a", attempt=1, worker="w"), said, tried)
    assert "✗ Guardrail violation: valid-json (handoff, edge draft → facts, judged by article)" in found
    assert "🔧 Repairing output, graph article with LLM…" in found
