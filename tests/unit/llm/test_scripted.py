"""The scripted model as a model: rules, values, state read from the history, errors in scripts."""

import asyncio
import gc
import os
import re
import weakref
from pathlib import Path
from typing import Any

import pytest

from ekiden.shared.errors import DefinitionError, ModelError
from ekiden.shared.llm.base import Delta, ModelReply, ModelRequest, ToolSpec
from ekiden.shared.llm.scripted import ScriptedModel, read_scripts
from ekiden.shared.llm.scripting.script import VARIABLES, Call, Rule, When
from ekiden.shared.messages import Message, TextPart, ToolResult, Usage, answered, user_message
from ekiden.shared.packs import shipped_agents_dir
from tests.ticking import beside_a_ticking_loop


def _ask(model: ScriptedModel, *messages: Message, agent: str = "a", **fields: Any) -> ModelReply:
    return asyncio.run(model.reply(ModelRequest(agent, "scripted", "", messages, **fields)))


def _model(rules: str, before: str = "") -> ScriptedModel:
    return ScriptedModel.from_text(f"{before}\nagents:\n  a:\n{rules}")


def _spec(name: str) -> ToolSpec:
    return ToolSpec(name=name, description="", parameters={"type": "object"})


def _played(model: ScriptedModel, request: str, *results: str) -> list[Message]:
    """Answer the model's calls with ``results``, one a call; return the conversation with its last reply."""
    messages = [user_message(request)]
    left = list(results)
    while True:
        reply = _ask(model, *messages).message
        messages.append(reply)
        if not reply.calls or not left:
            return messages
        messages.append(
            answered(ToolResult(call_id=call.id, name=call.name, content=left.pop(0)) for call in reply.calls)
        )


def test_the_first_fitting_rule_answers_with_values_from_the_request() -> None:
    model = _model("""
    - {name: never, when: {user: cat}, say: meow}
    - {name: greet, when: {user: 'my name is (?P<name>\\w+)'}, say: 'hello ${name}'}
    - {name: other, say: other}
""")
    assert _ask(model, user_message("hi, my name is Ann.")).message.text == "hello Ann"
    assert _ask(model, user_message("hi")).message.text == "other"


def test_reads_results_by_label_and_uses_their_values_in_later_regexes() -> None:
    model = _model("""
    - {name: look, call: [{tool: ls, label: files, args: {path: .}}, {tool: cat, label: text, args: {path: x}}]}
    - name: found
      when: {results: {files: '(?P<file>\\S+\\.py)', text: '^${file}: (?P<what>.*?)$'}}
      say: "${file} is ${what}"
""")
    assert _played(model, "go", "a+b.py", "zz\na+b.py: good\nend")[-1].text == "a+b.py is good"


def test_of_a_result_it_reads_what_the_tool_said_and_not_what_others_tell_the_model_beside_it() -> None:
    model = _model("""
    - {name: look, call: [{tool: status, label: status, args: {}}]}
    - {name: tell, when: {results: {status: '.'}}, say: "Yours is ${results.status}."}
""")
    asked = user_message("where is it?")
    call = _ask(model, asked).message
    result = ToolResult(call_id=call.calls[0].id, name="status", content="on its way")
    told = result.with_notes(["changed: {}"]).with_notes(behind=["Never offer this customer a refund."])
    assert told.content == "changed: {}\n\non its way\n\nNever offer this customer a refund."
    assert _ask(model, asked, call, answered([told])).message.text == "Yours is on its way."
    assert result.with_notes() is result


def test_call_ids_carry_rule_label_and_a_number_that_is_unique_in_the_conversation() -> None:
    model = _model("""
    - {name: look, times: 2, call: [{tool: ls, label: files}, {tool: ls}]}
    - {name: done, say: 'done after ${turn}'}
""")
    messages = _played(model, "go", "1", "2", "3", "4")
    assert [call.id for message in messages for call in message.calls] == [
        "look.files.1",
        "look.ls.2",
        "look.files.3",
        "look.ls.4",
    ]
    assert messages[-1].text == "done after 3"


def test_a_new_request_begins_a_new_leg() -> None:
    model = _model("""
    - {name: look, call: [{tool: ls, label: files}]}
    - {name: done, when: {turn: 2}, say: 'done: ${results.files}'}
""")
    first = _played(model, "go", "x")
    again = _ask(model, *first, user_message("again")).message
    assert [call.id for call in again.calls] == ["look.files.2"]


def test_another_instance_goes_on_alike() -> None:
    rules = "    - {name: look, call: [{tool: ls, label: files}]}\n    - {name: done, say: '${results.files}'}"
    messages = _played(_model(rules), "go", "x")
    assert _ask(_model(rules), *messages[:-1]).message == messages[-1]


def test_a_fresh_rule_makes_the_rules_before_it_answer_again() -> None:
    model = _model("""
    - {name: look, call: [{tool: ls, label: files}]}
    - {name: again, fresh: true, call: [{tool: pwd, label: where}]}
    - {name: done, say: 'seen ${length(calls)} of ${length(history)}, ${results.where}'}
""")
    assert _played(model, "go", "1", "2", "3")[-1].text == "seen 2 of 3, 2"


def test_tools_offered_missing_and_forced_choose_the_rule() -> None:
    model = _model("""
    - {name: hand, when: {tool_offered: [transfer_to_b]}, call: [{tool: transfer_to_b}]}
    - {name: bare, when: {tool_missing: bash}, say: no shell}
    - {name: shell, call: [{tool: bash}]}
    - {name: talk, say: talk}
""")
    go = user_message("go")
    assert _ask(model, go, tools=(_spec("transfer_to_b"),)).message.calls[0].name == "transfer_to_b"
    assert _ask(model, go).message.text == "no shell"
    assert _ask(model, go, forced_tools=("bash",), tools=(_spec("bash"),)).message.calls[0].name == "bash"


def test_computes_values_conditions_and_one_call_for_each_item() -> None:
    model = _model(
        """
    - name: many
      when: {if: 'length(names) > 1'}
      let: {best: "closest('itmes', names)[0]", loud: true}
      say: "${best}, ${loud}"
      call: [{tool: add, each: names, args: {name: '${it}', all: '${names}', n: 2}}]
""",
        before="let: {names: tables.known}\ntables: {known: [items, total]}",
    )
    message = _ask(model, user_message("go")).message
    assert message.text == "items, True"
    assert [call.args for call in message.calls] == [
        {"name": "items", "all": ["items", "total"], "n": 2},
        {"name": "total", "all": ["items", "total"], "n": 2},
    ]


def test_streams_word_by_word_what_it_says() -> None:
    pieces: list[Delta] = []
    request = ModelRequest("a", "scripted", "", (user_message("go"),))
    reply = asyncio.run(_model('    - {name: x, say: "one two\\n three "}').reply(request, pieces.append))
    assert [piece.text for piece in pieces] == ["one", " two", "\n three "]
    assert "".join(piece.text for piece in pieces) == reply.message.text


def test_what_is_said_aside_begins_no_new_leg() -> None:
    model = _model("    - {name: look, call: [{tool: look}]}\n    - {name: end, say: 'done: ${turn}'}")
    first = _ask(model, user_message("go")).message
    done = answered([ToolResult(call_id=first.calls[0].id, name="look", content="x")])
    assert (
        _ask(model, user_message("go"), first, done, user_message("a limit is near", aside=True)).message.text
        == "done: 2"
    )
    assert _ask(model, user_message("go"), first, done, user_message("now this")).message.calls


def test_streams_its_thoughts_first_at_the_pace_of_the_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("ekiden.shared.llm.scripted.asyncio.sleep", sleep)
    pieces: list[Delta] = []
    request = ModelRequest("a", "scripted", "", (user_message("go"),))
    model = _model(
        '    - {name: x, pace_s: 0.5, think: "**Why** ${user}", say: "答案是四十二，不多也不少，这是经过计算的结果"}'
    )
    message = asyncio.run(model.reply(request, pieces.append)).message
    assert [(piece.text, piece.thought) for piece in pieces][:2] == [("**Why**", True), (" go", True)]
    assert len(pieces) == len(slept) == 4, "a text without blanks comes in pieces, too"
    assert "".join(piece.text for piece in pieces if not piece.thought) == message.text


def test_estimates_usage_and_takes_finish_and_usage_from_the_rule() -> None:
    plain = _ask(_model("    - {name: x, say: hello}"), user_message("x" * 400))
    assert plain.usage.input_tokens >= 100
    assert plain.usage.output_tokens > 0
    told = _ask(_model("    - {name: x, say: h, finish: max_tokens, usage: {input_tokens: 7}}"), user_message("x"))
    assert (told.finish, told.usage, told.model) == ("max_tokens", Usage(input_tokens=7), "scripted")


def test_fails_when_the_rule_says_so() -> None:
    with pytest.raises(ModelError, match="out of order: go"):
        _ask(_model("    - {name: x, fail: 'out of order: ${user}'}"), user_message("go"))


def test_takes_as_long_as_the_rule_says(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    _ask(_model("    - {name: x, say: h, delay_s: 1.5}"), user_message("go"))
    assert waited == [1.5]


def test_says_plainly_that_it_has_no_reply() -> None:
    text = _ask(_model("    - {name: x, when: {user: cat}, say: h}"), user_message("dog")).message.text
    assert "scripted stand-in for a model" in text
    assert "'a'" in text
    assert "real model" in text


def test_the_shipped_scripts_answer_any_agent_honestly() -> None:
    model = ScriptedModel.from_folders(shipped_agents_dir() / "_scripts")
    for agent in ("documenter", "debugger"):
        text = _ask(model, user_message("hello"), agent=agent, tools=(_spec("bash"),)).message.text
        assert "scripted stand-in for a model" in text
        assert agent in text


def test_the_shipped_debugger_says_that_it_has_no_tools() -> None:
    model = ScriptedModel.from_folders(shipped_agents_dir() / "_scripts")
    reply = _ask(model, user_message("the tests fail"), agent="debugger")
    assert "no file and shell tools" in reply.message.text
    assert not reply.message.calls


@pytest.mark.parametrize(
    ("rule", "complaint"),
    [
        ("{name: x, sayy: h}", "unknown key 'sayy'"),
        ("{name: x, when: {users: h}}", "unknown key 'when.users'"),
        ("{name: x, when: {user: '(h'}}", "is not a regular expression"),
        ("{name: x, say: '${who}'}", "unknown variable 'who'"),
        ("{name: x, let: {a: b}}", "unknown variable 'b'"),
        ("{name: x, say: '${open(user)}'}", "calls 'open'"),
        ("{name: x, say: '${user.__class__}'}", "private"),
        ("{name: x, say: '${user +}'}", "is not an expression"),
        ("{name: x, when: {if: '[i for i in calls]'}}", "uses ListComp"),
        ("{name: x, finish: soon}", "finish"),
        ("{name: 'x.y'}", "name"),
        ("{name: x, call: [{tool: t, args: {a: '${it}'}}]}", "unknown variable 'it'"),
    ],
)
def test_refuses_a_rule_that_could_not_work(rule: str, complaint: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        ScriptedModel.from_text(f"agents:\n  a:\n    - {rule}", source="mine.yaml")
    assert "mine.yaml" in str(caught.value)
    assert "rule 'x" in str(caught.value)
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        ("{tool: set_state, args: {tries: 1}}", "set_state takes {values: {name: value}}, and is given tries"),
        ("{tool: complete_task, args: {good: true, why: x}}", "write {NAME: {good, why}}"),
    ],
)
def test_refuses_an_ending_in_a_form_that_it_never_takes_with_its_line(call: str, complaint: str) -> None:
    rules = f"    - {{name: go, say: x}}\n    - name: end\n      call: [{call}]"
    text = f"agents:\n  b: [{{name: end, say: x}}]\n  a:\n{rules}"
    with pytest.raises(DefinitionError) as caught:
        ScriptedModel.from_text(text, source="mine.yaml")
    assert str(caught.value).startswith("mine.yaml:5: agent 'a', rule 'end': ")
    assert complaint in str(caught.value)


@pytest.mark.parametrize("args", ["{report: {good: true, why: x}}", "{status: unfinished, why: x}", "{}"])
def test_takes_an_ending_that_may_be_right(args: str) -> None:
    ScriptedModel.from_text(f"agents:\n  a:\n    - {{name: x, call: [{{tool: complete_task, args: {args}}}]}}")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("agents: [", "not valid YAML"),
        ("agent: {}", "agents"),
        ("agents: {a: [{use: nowhere}]}", "block 'nowhere'"),
        ("agents: {a: [{name: x}, {name: x}]}", "names are unique"),
        ("let: {a: b}\nagents: {}", "unknown variable 'b'"),
    ],
)
def test_refuses_a_file_that_could_not_work(text: str, complaint: str) -> None:
    with pytest.raises(DefinitionError, match=complaint):
        ScriptedModel.from_text(text)


def test_refuses_two_scripts_for_one_agent(tmp_path: Path) -> None:
    for name in ("one.yaml", "two.yaml"):
        (tmp_path / name).write_text("agents: {a: [{name: x, say: h}]}")
    with pytest.raises(DefinitionError, match=r"two\.yaml.*'a'"):
        ScriptedModel.from_folders(tmp_path)


def test_all_that_is_wrong_in_a_folder_is_told_with_file_line_and_remedy(tmp_path: Path) -> None:
    def write(name: str, rules: str) -> Path:
        (tmp_path / name).write_text(f"agents:\n{rules}")
        return tmp_path / name

    write("a.yaml", "  good: [{name: x, say: hi}]\n")
    bare = write("b.yaml", "  b:\n    - {name: m, say: hi}\n    - name: n\n      say: no\n")
    block = write("c.yaml", "  c: [{use: all}]\nblocks:\n  all:\n    - {name: n, say: '${who}'}\n")
    twice = write("d.yaml", "  good: [{name: x, say: ho}]\n")
    broken = write("e.yaml", "  e: [{name: x, say: 'h}]\n")
    os.mkfifo(tmp_path / "f.yaml")
    scripts, faults = read_scripts(tmp_path)
    assert list(scripts) == ["good"]
    told = [str(fault) for fault in faults]
    assert told[0] == f"{bare}:5: agent 'b', rule 'n': say: must be a string: put it in quotes"
    assert told[1].startswith(f"{block}:5: agent 'c', rule 'n': unknown variable 'who'")
    assert told[2] == f"{twice}: agent 'good' has a script in a.yaml, too: remove one"
    assert told[3].startswith(f"{broken}:3: not valid YAML")
    assert told[4:] == [f"{tmp_path / 'f.yaml'}: is no regular file: remove it"]


def test_an_agents_script_is_that_of_the_nearest_folder_unless_one_there_is_for_every_agent(tmp_path: Path) -> None:
    for folder, agents in (("own", ("a",)), ("any", ("*",)), ("shipped", ("a", "b", "*"))):
        (tmp_path / folder).mkdir()
        rules = "".join(f"  '{agent}': [{{name: x, say: {folder}, times: 9}}]\n" for agent in agents)
        (tmp_path / folder / "s.yaml").write_text(f"agents:\n{rules}")

    def said(nearest: str, agent: str) -> str:
        model = ScriptedModel.from_folders(tmp_path / nearest, tmp_path / "shipped")
        return _ask(model, user_message("hi"), agent=agent).message.text

    assert [said("own", agent) for agent in ("a", "b", "c")] == ["own", "shipped", "shipped"]
    assert [said("any", agent) for agent in ("a", "b", "c")] == ["any", "any", "any"]


def test_rules_for_every_agent_come_after_the_agents_own() -> None:
    model = ScriptedModel.from_text("""
agents:
  a: [{name: x, when: {user: cat}, say: own}]
  "*": [{name: x, say: 'any ${agent}'}]
""")
    assert _ask(model, user_message("cat")).message.text == "own"
    assert _ask(model, user_message("dog")).message.text == "any a"
    assert _ask(model, user_message("dog"), agent="b").message.parts == (TextPart(text="any b"),)


LOOKS = "    - {name: look, times: 100000, call: [{tool: ls, label: files}]}\n"


def test_reads_what_is_new_in_a_conversation_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """It read all of it for each reply: 17 ms and more at 6,000 records, on the event loop."""
    read: list[Message] = []

    def noted(message: Message) -> int:
        read.append(message)
        return 1

    monkeypatch.setattr("ekiden.shared.llm.scripting.history.size_of", noted)
    model, messages = _model(LOOKS), [user_message("go")]
    for turn in range(1, 200):
        reply = _ask(model, *messages).message
        assert reply.calls[0].id == f"look.files.{turn}"
        assert len(read) == 2 * turn - 1
        messages += [reply, answered([ToolResult(call_id=reply.calls[0].id, name="ls", content="x")])]


def test_a_conversation_that_was_rewritten_is_read_anew() -> None:
    model = _model("""
    - {name: look, call: [{tool: ls, label: f}]}
    - {name: done, say: '${results.f} of ${length(history)}'}
""")
    request, look = user_message("go"), _ask(model, user_message("go")).message

    def told(content: str) -> str:
        result = ToolResult(call_id=look.calls[0].id, name="ls", content=content)
        return _ask(model, request, look, answered([result])).message.text

    assert [told("long"), told("short"), told("long")] == ["long of 1", "short of 1", "long of 1"]
    assert _ask(model, request).message == look


def test_nothing_is_kept_of_a_conversation_that_has_ended() -> None:
    model = _model(LOOKS)
    messages = _played(model, "go", *"123")
    ended = weakref.ref(messages[-1])
    assert model._legs._legs
    del messages
    gc.collect()

    assert not model._legs._legs
    assert ended() is None


def test_many_conversations_at_once_stay_apart() -> None:
    model = _model(LOOKS)
    talks = [[user_message(f"go {n}")] for n in range(20)]
    for turn in range(1, 4):
        for talk in talks:
            reply = _ask(model, *talk).message
            assert reply.calls[0].id == f"look.files.{turn}"
            talk += [reply, answered([ToolResult(call_id=reply.calls[0].id, name="ls", content="x")])]


HOSTILE = {
    "a regex of a script": ("{name: x, when: {user: '(a+)+$'}, say: found}", "a" * 50_000 + "b"),
    "a regex in an expression": ("{name: x, when: {if: \"find('(a+)+$', user)\"}, say: found}", "a" * 50_000 + "b"),
    "a large regex and a long text": ("{name: x, when: {user: 'a[ab]{900}c'}, say: found}", "ab" * 10_000),
    "a test report": ("{name: x, when: {if: 'test_run(user).count'}, say: found}", "1 " + "a1111111 " * 10_000 + "x"),
    "a test report of long numbers": (
        "{name: x, when: {if: 'test_run(user).count'}, say: f}",
        f"Ran {'9' * 5_000} tests in 1.1.1s",
    ),
    "a name that is like many": ("{name: x, when: {if: 'closest(user, [])'}, say: found}", "x" * 500_000),
}


@pytest.mark.parametrize(("rule", "text"), HOSTILE.values(), ids=HOSTILE)
def test_what_scripts_search_for_never_holds_the_loop(rule: str, text: str) -> None:
    model = _model(f"    - {rule}\n    - {{name: other, say: other}}")

    async def ask() -> ModelReply:
        return await model.reply(ModelRequest("a", "scripted", "", (user_message(text),)))

    assert asyncio.run(beside_a_ticking_loop(ask)).message.text == "other"


GROWS = ", ".join(f"l{n}: l{n - 1} + l{n - 1}" if n else "l0: user" for n in range(40))


@pytest.mark.parametrize(
    ("script", "rule", "says"),
    [
        (f"let: {{{GROWS}}}", "{name: x, say: '${length(l39)}'}", "entries at most"),
        ("", "{name: x, when: {user: 'a[ab]{900}c'}, say: found}", "too long"),
    ],
)
def test_a_script_that_takes_without_end_fails(script: str, rule: str, says: str) -> None:
    with pytest.raises(ModelError, match=f"the script of agent 'a' cannot be played on: .*{says}"):
        _ask(_model(f"    - {rule}", before=script), user_message("ab" * 100_000))


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("agents: {a: [{name: x, when: {user: '" + "x" * 1_001 + "'}}]}", "at most 1,000 characters"),
        ("agents: {a: [{name: x, when: {user: '(?=a)'}}]}", "is not a regular expression of RE2"),
        ("agents: {a: [{name: x, say: '${" + "user + " * 200 + "user}'}]}", "an expression 1,000 at most"),
        ("agents: {a: [{name: x, say: '${" + "(" * 400 + ")" * 400 + "}'}]}", "is not an expression"),
        ("tables: {a: &a [1], b: [" + "*a," * 30 + "]}\nagents: {a: []}", "more than 20 YAML aliases"),
        ("tables: " + "[" * 3_000 + "]" * 3_000 + "\nagents: {a: []}", "not valid YAML"),
    ],
)
def test_a_script_that_could_not_be_bounded_is_refused(script: str, complaint: str) -> None:
    with pytest.raises(DefinitionError, match=complaint):
        ScriptedModel.from_text(script)


PAGE = Path(__file__).parents[3] / "docs" / "scripts.md"


def test_the_script_of_the_page_plays_what_the_page_says() -> None:
    found = re.search(r"<!-- script -->\n```yaml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert found is not None
    model = ScriptedModel.from_text(found[1])
    front = _ask(model, user_message("my Order 1001"), agent="frontdesk", tools=(_spec("transfer_to_orders"),))
    assert front.message.calls[0].args == {"reason": "the customer asks about an order"}
    assert _ask(model, user_message("hello"), agent="frontdesk").message.text == "What can I do for you?"
    looked = _ask(model, user_message("order 1001"), agent="orders").message
    status = answered([ToolResult(call_id=looked.calls[0].id, name="order_status", content="sent")])
    assert _ask(model, user_message("order 1001"), looked, status, agent="orders").message.text == (
        "I have looked it up: sent."
    )


def test_the_page_names_every_key_of_the_format() -> None:
    text = PAGE.read_text("utf-8")
    names = {field.alias or name for kind in (Rule, When, Call) for name, field in kind.model_fields.items()}
    assert {name for name in names if not re.search(rf"`[^`]*\b{name}\b[^`]*`", text)} == set()
    assert {name for name in VARIABLES if not re.search(rf"`{name}\b[^`]*`", text)} == set()


@pytest.mark.parametrize(
    ("pattern", "found"), [("b+", "bb"), ("a(b+)", "bb"), ("(x)?c", ""), ("x", "")], ids=["all", "group", "none", "no"]
)
def test_find_gives_the_first_group_or_the_whole_match_where_there_is_none(pattern: str, found: str) -> None:
    model = _model(f"    - {{name: x, say: \"<${{find('{pattern}', user)}}>\"}}")
    assert _ask(model, user_message("abbc")).message.text == f"<{found}>"
