"""What becomes of a call that hands over, in both styles; how refusals go on is tested within legs."""

import json
from typing import Any

import pytest
from structlog.testing import capture_logs

from ekiden.shared.definitions.catalog import Catalog
from ekiden.shared.errors import HandoffRefused
from ekiden.shared.handoff import Frame, History
from ekiden.shared.messages import ToolCall
from ekiden.shared.outcomes import Transfer
from ekiden.workers.handoffs import MAX_ARGUMENT, Transfers
from tests.scenarios.relay import team
from tests.unit.workers.offered import STYLES, asking, leg_of, transfers_of
from tests.unit.workers.world import call

FILES = {
    "type": "object",
    "properties": {"files": {"type": "array", "items": {"type": "string"}}, "urgent": {"type": "boolean"}},
    "required": ["files"],
}

pytestmark = pytest.mark.parametrize("style", STYLES)


def led_by(style: str, *handoffs: Any, strangers: tuple[str, ...] = (), **lead: Any) -> Catalog:
    """A team whose lead may hand over to ``handoffs``, and not to ``strangers``."""
    names = [one if isinstance(one, str) else one["to"] for one in handoffs]
    head = {"name": "lead", "handoffs": list(handoffs), "transfer": style, **lead}
    return team(head, *({"name": name} for name in (*names, *strangers)))


def lead(style: str, *handoffs: Any, **more: Any) -> Transfers:
    """What the lead of such a team is offered."""
    return transfers_of(led_by(style, *handoffs, **more), leg_of("lead"))


def refusal(transfers: Transfers, made: ToolCall) -> HandoffRefused:
    with pytest.raises(HandoffRefused) as caught:
        transfers.transfer(made, upto=3)
    return caught.value


def test_a_call_as_it_is_offered_needs_no_note(style: str) -> None:
    made = asking(style, {"tools": "code_fixer", "single": "code-fixer"}[style])
    transfer = lead(style, "code-fixer").transfer(made, upto=3)
    assert (transfer.context.to_agent, transfer.note) == ("code-fixer", "")


def test_a_transfer_holds_what_the_commit_decides_by(style: str) -> None:
    catalog = led_by(style, "helper", transfer_to_parent=True, limits={"max_handoff_depth": 2})
    made = asking(style, "helper", "c9")
    transfer = transfers_of(catalog, leg_of("lead")).transfer(made, upto=7)
    assert transfer == Transfer(
        transfer.context,
        call_id="c9",
        tool_name=made.name,
        max_depth=2,
        may_return=True,
        definition=catalog.definition("helper").digest,
    )
    assert transfer.context.metadata.handoff_chain == ("user", "lead", "helper")


@pytest.mark.parametrize(("above", "depth"), [(None, 4), (2, 2), (9, 4)])
def test_the_agents_above_a_delegated_job_bound_its_depth(style: str, above: int | None, depth: int) -> None:
    catalog = led_by(style, "helper", limits={"max_handoff_depth": 4})
    transfers = transfers_of(catalog, leg_of("lead", max_depth=above))
    assert transfers.transfer(asking(style, "helper"), upto=3).max_depth == depth


NEAR = {
    "a namespace": {"tools": "default_api:transfer_to_code_fixer", "single": "default_api:transfer_to_agent"},
    "another namespace": {"tools": "functions.transfer_to_code_fixer", "single": "functions.transfer_to_agent"},
    "dashes": {"tools": "transfer_to_code-fixer", "single": "transfer-to-agent"},
    "capitals and spaces": {"tools": "Transfer_To_Code Fixer", "single": "Transfer_To_Agent"},
    "a doubled beginning": {"tools": "transfer_to_transfer_to_code_fixer", "single": "transfer_to_transfer_to_agent"},
    "a doubled name": {"tools": "transfer_to_code_fixer_code_fixer", "single": "transfer_to_agent_agent"},
    "another word": {"tools": "handoff_to_code_fixer", "single": "hand_off_to_agent"},
    "a word of return": {"tools": "transfer_back_to_code_fixer", "single": "transfer_back_to_agent"},
    "both": {"tools": "ns.handoff-back-to-code-fixer", "single": "Hand_Back_To_Agent"},
    "a doubled suffix": {"tools": "transfer_to_code_fixer_fixer", "single": "transfer_to_agent_agent"},
}


@pytest.mark.parametrize("names", NEAR.values(), ids=NEAR.keys())
def test_a_tools_name_that_is_nearly_right_is_mended_and_noted(style: str, names: dict[str, str]) -> None:
    transfers = lead(style, "code-fixer", "writer")
    made = call("c1", names[style], reason="go", agent_name="code-fixer")
    assert transfers.is_transfer(made)
    transfer = transfers.transfer(made, upto=3)
    assert transfer.context.to_agent == "code-fixer"
    assert transfer.tool_name == names[style]
    assert transfer.note == f"lead called {names[style]!r}{for_whom(style)}: read as a handoff to 'code-fixer'"


def for_whom(style: str) -> str:
    return " for 'code-fixer'" if style == "single" else ""


@pytest.mark.parametrize("named", ["Code_Fixer", "code fixer", "transfer_to_code_fixer", " code-fixer ", "code_fixer"])
def test_an_agents_name_that_is_nearly_right_is_mended_in_the_single_tool(style: str, named: str) -> None:
    transfer = lead(style, "code-fixer", "writer").transfer(asking("single", named), upto=3)
    assert transfer.context.to_agent == "code-fixer"


def test_the_other_style_is_understood(style: str) -> None:
    other, to = {"tools": ("single", "code-fixer"), "single": ("tools", "code_fixer")}[style]
    transfer = lead(style, "code-fixer").transfer(asking(other, to), upto=3)
    assert transfer.context.to_agent == "code-fixer"
    assert transfer.note


@pytest.mark.parametrize("name", ["代码修复", "翻译助手"])
def test_agents_with_chinese_names_are_told_apart(style: str, name: str) -> None:
    transfers = lead(style, "代码修复", "翻译助手")
    tools = {target: spec.name for target, spec in zip(transfers.names, transfers.specs, strict=False)}
    made = asking(style, name if style == "single" else tools[name].removeprefix("transfer_to_"), reason="请继续")
    transfer = transfers.transfer(made, upto=3)
    assert (transfer.context.to_agent, transfer.note) == (name, "")


def test_a_chinese_name_in_place_of_its_opaque_tool_is_mended(style: str) -> None:
    transfer = lead(style, "代码修复", "翻译助手").transfer(asking("tools", "翻译助手"), upto=3)
    assert transfer.context.to_agent == "翻译助手"
    assert transfer.note


def test_what_could_mean_two_agents_means_none(style: str) -> None:
    refused = refusal(lead(style, "代码-修复", "代码 修复"), asking(style, "代码_修复"))
    assert refused.code == "UNKNOWN_AGENT"


def test_an_agent_that_is_allowed_is_meant_before_one_that_is_not(style: str) -> None:
    transfers = lead(style, "代码-修复", strangers=("代码 修复",))
    assert transfers.transfer(asking(style, "代码_修复"), upto=3).context.to_agent == "代码-修复"


def test_an_agent_that_is_not_allowed_is_recognised_all_the_same(style: str) -> None:
    refused = refusal(lead(style, "helper", strangers=("code-fixer",)), asking(style, "Code Fixer"))
    assert (refused.code, "may not hand over to 'code-fixer'" in str(refused)) == ("PERMISSION_DENIED", True)


def test_of_two_agents_with_the_same_tool_the_one_that_has_it_is_meant(style: str) -> None:
    """The other is left out of the catalog, with an error that names both."""
    transfer = lead(style, "billing-agent").transfer(asking("tools", "billing_agent"), upto=3)
    assert transfer.context.to_agent == "billing-agent"


@pytest.mark.parametrize("name", ["search", "transfer", "transfer_money", "delegate_to_helper", "to_helper"])
def test_other_tools_are_no_transfers(style: str, name: str) -> None:
    assert not lead(style, "helper").is_transfer(call("c1", name))


def test_the_parent_is_meant_by_its_name_and_by_what_it_is(style: str) -> None:
    catalog = team(
        {"name": "boss", "handoffs": ["lead"]}, {"name": "lead", "transfer_to_parent": True, "transfer": style}
    )
    transfers = transfers_of(catalog, leg_of("boss", "lead"))
    reached = [transfers.transfer(asking(style, name), upto=3).context.to_agent for name in ("boss", "parent")]
    assert reached == ["boss", "boss"]


@pytest.mark.parametrize("chain", [("lead",), ("boss", "lead")], ids=["to the user", "to an agent"])
def test_who_may_not_hand_back_is_told_so(style: str, chain: tuple[str, ...]) -> None:
    catalog = team({"name": "boss", "handoffs": ["lead"]}, {"name": "lead", "transfer": style})
    assert refusal(transfers_of(catalog, leg_of(*chain)), asking(style, "parent")).code == "PERMISSION_DENIED"


BAD: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "a stranger": ("stranger", {}, "PERMISSION_DENIED", "agent 'lead' may not hand over to 'stranger'"),
    "nobody": ("wizard", {}, "UNKNOWN_AGENT", "wizard'"),
    "itself": ("lead", {}, "SELF_HANDOFF", "you are 'lead' yourself"),
    "no reason": ("helper", {"reason": None}, "BAD_ARGUMENTS", "needs a text as 'reason'"),
    "an empty reason": ("helper", {"reason": " "}, "BAD_ARGUMENTS", "needs a text as 'reason'"),
    "a reason that is no text": ("helper", {"reason": ["x"]}, "BAD_ARGUMENTS", "needs a text as 'reason'"),
    "no payload": ("writer", {}, "BAD_PAYLOAD", "- the whole: 'files' is a required property"),
    "a payload of another type": ("writer", {"payload": "a.py"}, "BAD_PAYLOAD", "- the whole: 'a.py' is not of type"),
    "a field of another type": ("writer", {"files": ["a", 7]}, "BAD_PAYLOAD", "- files[1]: 7 is not of type 'string'"),
    "a null field": ("writer", {"files": None}, "BAD_PAYLOAD", "- files: None is not of type 'array'"),
    "a gate that is shut": ("closed", {}, "CONDITION_FALSE", "only while this is true, and now it is not: state.n > 1"),
}  # fmt: skip


@pytest.mark.parametrize(("to", "args", "code", "words"), BAD.values(), ids=BAD.keys())
def test_a_refusal_says_what_is_wrong_and_who_is_allowed(
    style: str, to: str, args: dict[str, Any], code: str, words: str
) -> None:
    catalog = led_by(style, "helper", {"to": "writer", "payload": FILES}, {"to": "closed", "when": "state.n > 1"},
                     strangers=("stranger",))  # fmt: skip
    transfers = transfers_of(catalog, leg_of("lead", state={"n": 1}))
    refused = refusal(transfers, asking(style, to, **args))
    assert (refused.code, words in str(refused)) == (code, True), str(refused)
    allowed = {
        "tools": "Allowed: transfer_to_helper (agent 'helper'), transfer_to_writer (agent 'writer').",
        "single": "Allowed as 'agent_name': 'helper', 'writer'.",
    }
    assert str(refused).endswith(f"\nCorrect it and call again. {allowed[style]}")
    assert transfers.transfer(asking(style, "helper"), upto=3).context.to_agent == "helper"


@pytest.mark.parametrize("named", [None, "", " ", 7, ["helper"], {"name": "helper"}])
def test_the_single_tool_demands_a_name(style: str, named: Any) -> None:
    refused = refusal(lead(style, "helper"), call("c1", "transfer_to_agent", reason="x", agent_name=named))
    assert refused.code == "BAD_ARGUMENTS"
    assert "transfer_to_agent needs the name of an agent as 'agent_name'" in str(refused)


def test_a_refusal_says_which_opaque_tool_is_whose(style: str) -> None:
    transfers = lead(style, "代码修复")
    text = str(refusal(transfers, asking(style, "nobody")))
    assert {"tools": f"{transfers.specs[0].name} (agent '代码修复')", "single": "'代码修复'"}[style] in text


def test_a_name_that_is_a_book_is_cut_in_the_refusal(style: str) -> None:
    assert len(str(refusal(lead(style, "helper"), asking(style, "x" * 100_000)))) < 400


def test_who_may_hand_over_to_nobody_is_told_to_finish(style: str) -> None:
    refused = refusal(lead(style, strangers=("helper",)), asking(style, "helper"))
    assert str(refused).endswith("You may hand over to nobody now: finish the task and answer the user.")


def test_who_is_waited_for_is_told_so(style: str) -> None:
    frame = Frame(agent="boss", leg=1, call_id="c1", from_agent="user", chain_length=2)
    transfers = transfers_of(led_by(style, strangers=("boss",)), leg_of("boss", "lead", frames=(frame,)))
    text = str(refusal(transfers, asking(style, "boss")))
    assert text.endswith("finish the task and answer agent 'boss', which waits for it.")


def test_arguments_reach_the_target_and_others_are_ignored(style: str) -> None:
    made = asking(style, "helper", context={"文件": ["cart.py"]}, summary=[], mood="good", priority=None)
    context = lead(style, "helper").transfer(made, upto=3).context
    assert json.loads(str(context.context)) == {"文件": ["cart.py"]}
    assert (context.reason, context.summary, context.payload) == ("it should go on", None, None)


def test_arguments_are_kept_up_to_a_limit(style: str) -> None:
    long = "x" * (MAX_ARGUMENT + 1)
    made = asking(style, "helper", reason=long, context=long, summary=long)
    context = lead(style, "helper").transfer(made, upto=1).context
    assert [len(str(text)) for text in (context.reason, context.context, context.summary)] == [MAX_ARGUMENT] * 3


@pytest.mark.parametrize("nested", [True, False])
def test_a_payload_that_fits_goes_to_the_target(style: str, nested: bool) -> None:
    fields = {"files": ["cart.py"], "urgent": True}
    made = asking(style, "helper", **({"payload": fields} if nested else fields))
    context = lead(style, {"to": "helper", "payload": FILES}).transfer(made, upto=3).context
    assert context.payload == fields
    assert context.context is None


def test_a_payload_that_nobody_declared_becomes_context_rather_than_to_be_lost(style: str) -> None:
    made = asking(style, "helper", payload={"files": ["cart.py"]})
    context = lead(style, "helper").transfer(made, upto=3).context
    assert (context.payload, context.context) == (None, '{"files": ["cart.py"]}')


@pytest.mark.parametrize(
    ("include", "history"),
    [
        (True, History(mode="all", upto=7)),
        (False, History(mode="none", upto=7)),
        ({"last": 2}, History(mode="last", last=2, upto=7)),
        ("summary", History(mode="summary", upto=7)),
    ],
)
@pytest.mark.parametrize("when", ["manual", "auto"])
def test_the_edge_says_how_much_history_the_target_sees(style: str, when: str, include: Any, history: History) -> None:
    transfers = lead(style, {"to": "helper", "include_context": include, "when": when})
    [transfer] = (
        transfers.automatic("done", upto=7) if when == "auto" else [transfers.transfer(asking(style, "helper"), upto=7)]
    )
    assert transfer.context.history == history


def test_an_edge_that_returns_leaves_the_caller_on_the_stack(style: str) -> None:
    outer = Frame(agent="boss", leg=1, call_id="c0", from_agent="user", chain_length=2)
    leg = leg_of("boss", "lead", frames=(outer,))
    catalog = led_by(style, {"to": "helper", "return": True}, strangers=("boss",))
    context = transfers_of(catalog, leg).transfer(asking(style, "helper", "c9"), upto=3).context
    assert context.calls == (
        outer,
        Frame(agent="lead", leg=2, call_id="c9", from_agent="boss", chain_length=3),
    )
    back = context.come_back("done", is_error=False, upto=9)
    assert (back.to_agent, back.from_agent, back.calls) == ("lead", "boss", (outer,))
    assert back.metadata.handoff_chain == ("user", "boss", "lead")


def test_an_edge_that_does_not_return_keeps_who_waits_already(style: str) -> None:
    outer = Frame(agent="boss", leg=1, call_id="c0", from_agent="user", chain_length=2)
    leg = leg_of("boss", "lead", frames=(outer,))
    catalog = led_by(style, "helper", {"to": "writer", "when": "auto"}, strangers=("boss",))
    transfers = transfers_of(catalog, leg)
    assert transfers.transfer(asking(style, "helper"), upto=3).context.calls == (outer,)
    assert [one.context.calls for one in transfers.automatic("x", upto=3)] == [(outer,)]


@pytest.mark.parametrize(
    ("condition", "is_open"),
    [
        ("state.ready", True),
        ("!state.ready", False),
        ("task.status == 'need-review'", True),
        ("task.depth == 0 && task.agent == 'lead' && task.chain[1] == 'lead'", True),
        ("task.prompt.contains('mend') && size(task.inputs) == 0", True),
        ("state.missing", False),
        ("output.score > 0", False),
        ("state.n", False),
    ],
)
def test_a_gate_opens_while_its_condition_holds(style: str, condition: str, is_open: bool) -> None:
    state = {"ready": True, "task_status": "need-review", "n": 1}
    transfers = transfers_of(led_by(style, {"to": "helper", "when": condition}), leg_of("lead", state=state))
    assert transfers.names == (("helper",) if is_open else ())
    assert len(transfers.specs) == is_open
    if is_open:
        assert transfers.transfer(asking(style, "helper"), upto=3).context.to_agent == "helper"
    else:
        assert refusal(transfers, asking(style, "helper")).code == "CONDITION_FALSE"


def test_a_gate_is_looked_at_in_every_turn(style: str) -> None:
    leg = leg_of("lead", state={"ready": False})
    transfers = transfers_of(led_by(style, {"to": "helper", "when": "state.ready"}, "writer"), leg)
    assert offered(transfers) == ["writer"]
    leg.changes["ready"] = True
    assert offered(transfers) == ["helper", "writer"]


def offered(transfers: Transfers) -> list[str]:
    """The agents that the tools themselves offer."""
    specs = transfers.specs
    names = specs[0].parameters["properties"].get("agent_name", {}).get("enum")
    return list(names or [spec.name.removeprefix("transfer_to_") for spec in specs])


def test_a_condition_that_cannot_be_told_is_warned_of_once(style: str) -> None:
    transfers = lead(style, {"to": "helper", "when": "state.missing"}, {"to": "writer", "when": "state.absent"})
    with capture_logs() as logs:
        for _ in range(3):
            assert transfers.specs == ()
            refusal(transfers, asking(style, "helper"))
    assert [(line["event"], line["to"], line["log_level"]) for line in logs] == [
        ("handoff_condition_failed", "helper", "warning"),
        ("handoff_condition_failed", "writer", "warning"),
    ]


def test_a_condition_of_former_days_that_is_no_cel_shuts_the_gate(style: str) -> None:
    catalog = led_by(style, {"to": "helper", "when": "state.n"})
    head = catalog.definition("lead")
    rule = head.handoffs[0].model_copy(update={"condition": "the cause is known"})
    stored = Catalog({**catalog.agents, "lead": head.model_copy(update={"handoffs": (rule,)})})
    with capture_logs() as logs:
        assert transfers_of(stored, leg_of("lead")).names == ()
    assert len(logs) == 1


def test_automatic_handoffs_come_in_the_order_of_the_file_where_their_conditions_hold(style: str) -> None:
    handoffs = [
        {"to": "low", "when": "auto", "condition": "output.score < 0.5"},
        {"to": "manual"},
        {"to": "high", "when": "auto", "condition": "output.score >= 0.5", "description": "It is good."},
        {"to": "any", "when": "auto"},
        {"to": "broken", "when": "auto", "condition": "output.nothing"},
    ]
    catalog = led_by(style, *handoffs, transfer_to_parent=True, limits={"max_handoff_depth": 3})
    good, any_ = transfers_of(catalog, leg_of("lead")).automatic({"score": 0.9}, upto=4)
    assert (good.context.to_agent, good.context.reason) == ("high", "completed: It is good.")
    assert (any_.context.to_agent, any_.context.reason) == ("any", "completed")
    assert good == Transfer(good.context, max_depth=3, may_return=True, definition=catalog.definition("high").digest)


@pytest.mark.parametrize(
    ("output", "payload", "context"),
    [
        ({"files": ["a.py"]}, {"files": ["a.py"]}, None),
        ({"files": "a.py"}, None, '{"files": "a.py"}'),  # not what the target takes
        ("All is mended.", None, "All is mended."),
        ("", None, None),
        (["a.py"], None, '["a.py"]'),
    ],
)
def test_the_output_goes_with_an_automatic_handoff(
    style: str, output: Any, payload: dict[str, Any] | None, context: str | None
) -> None:
    [transfer] = lead(style, {"to": "helper", "when": "auto", "payload": FILES}).automatic(output, upto=4)
    assert (transfer.context.payload, transfer.context.context) == (payload, context)


def test_an_automatic_handoff_is_not_the_models_to_make(style: str) -> None:
    refused = refusal(lead(style, {"to": "helper", "when": "auto"}, "writer"), asking(style, "helper"))
    assert refused.code == "PERMISSION_DENIED"
    assert "control goes to agent 'helper' by itself once you have finished" in str(refused)
