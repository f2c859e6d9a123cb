"""Hooks that are commands: what they read, what they mean, and how nobody waits for one for ever."""

import asyncio
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ekiden.shared.definitions.parsing import read_definition
from ekiden.shared.definitions.problems import AgentFileError
from ekiden.shared.errors import DefinitionError, HookFailed
from ekiden.shared.hook_entries import HOOK_EVENTS, HookEntry, entries_in
from ekiden.shared.hooks.answers import UnreadableReply, said
from ekiden.shared.hooks.asking import HookAsking, Said
from ekiden.shared.hooks.commands import command_hooks
from ekiden.shared.hooks.events import AfterModel, AfterTool, BeforeModel, BeforeTool, BeforeToolSelection, Event, Place
from ekiden.shared.hooks.intervening import EVENTS
from ekiden.shared.hooks.occasions import (
    AfterAgent,
    AfterHandoff,
    BeforeAgent,
    BeforeHandoff,
    BeforeRoute,
    Notification,
    PreCompress,
    SessionEnd,
    SessionStart,
)
from ekiden.shared.hooks.questions import asked
from ekiden.shared.hooks.replies import ToolChoice
from ekiden.shared.llm.base import ModelReply, ModelRequest, ToolSpec
from ekiden.shared.messages import Message, TextPart, ToolCall, ToolResult, user_message

PLACE = Place("s", "s.1", 1, "fixer", 2, "/work")
CALL = ToolCall(id="c1", name="bash", args={"command": "rm -rf 修"})
REPLY = ModelReply(message=Message(role="model", parts=(TextPart(text="I will"), CALL)))
REQUEST = ModelRequest(
    "fixer", "m", "Be good.", (user_message("do it"),), (ToolSpec(name="bash", description="", parameters={}),)
)
ONE_OF_EACH: dict[str, Event] = {
    "BeforeTool": BeforeTool(PLACE, CALL),
    "AfterTool": AfterTool(PLACE, CALL, ToolResult(call_id="c1", name="bash", content="gone")),
    "BeforeToolSelection": BeforeToolSelection(PLACE, REQUEST),
    "BeforeModel": BeforeModel(PLACE, REQUEST),
    "AfterModel": AfterModel(PLACE, REQUEST, REPLY),
    "SessionStart": SessionStart(PLACE, "startup"),
    "SessionEnd": SessionEnd(PLACE, "done", "修好了"),
    "BeforeRoute": BeforeRoute(PLACE, "do it", ("fixer", "writer")),
    "BeforeAgent": BeforeAgent(PLACE, "do it"),
    "AfterAgent": AfterAgent(PLACE, "do it", "修好了"),
    "BeforeHandoff": BeforeHandoff(PLACE, ToolCall(id="t", name="transfer_to_writer", args={"reason": "x"}), "writer"),
    "AfterHandoff": AfterHandoff(PLACE, "writer", "x"),
    "PreCompress": PreCompress(PLACE, tokens=100_000),
    "Notification": Notification(PLACE, "ToolPermission", "fixer waits", {"id": "s.1:1"}),
}
SAYS = {
    "BeforeTool": "tool_input",
    "AfterTool": "tool_response",
    "BeforeToolSelection": "llm_request",
    "BeforeModel": "llm_request",
    "AfterModel": "llm_response",
    "SessionStart": "source",
    "SessionEnd": "reason",
    "BeforeRoute": "agents",
    "BeforeAgent": "prompt",
    "AfterAgent": "stop_hook_active",
    "BeforeHandoff": "to_agent",
    "AfterHandoff": "from_agent",
    "PreCompress": "trigger",
    "Notification": "notification_type",
}
"""A word of each event's own."""


def at(event: str, command: str, **more: Any) -> HookEntry:
    return HookEntry(at=event, command=command, **more)


def ask(event: Event, *entries: HookEntry, cwd: Path = Path("/")) -> Said[Event]:
    hooks = command_hooks(entries, {"PATH": os.environ["PATH"]}, cwd)
    return asyncio.run(HookAsking(hooks).ask(event))


def saying(word: Any) -> str:
    """A command that reads its input and writes ``word``."""
    return f"cat > /dev/null; cat <<'EOF'\n{json.dumps(word, ensure_ascii=False)}\nEOF\n"


def test_there_is_a_command_for_every_event_and_an_example_here() -> None:
    assert set(HOOK_EVENTS) == EVENTS.keys() == ONE_OF_EACH.keys()


@pytest.mark.parametrize("event", ONE_OF_EACH)
def test_a_command_reads_where_and_what_happens(event: str, tmp_path: Path) -> None:
    ask(
        ONE_OF_EACH[event],
        at(event, 'cat > read; echo "$EVENT" >> read; pwd >> read', env={"EVENT": "修"}),
        cwd=tmp_path,
    )
    first, *rest = (tmp_path / "read").read_text("utf-8").splitlines()
    read = json.loads(first)
    assert rest == ["修", str(tmp_path)]
    assert (read["hook_event_name"], read["session_id"], read["cwd"]) == (event, "s", "/work")
    assert SAYS[event] in read


FAILING = [
    ("sleep 60", "no answer within 0.05 s"),
    ("trap '' TERM; sleep 60 & sleep 60", "no answer within 0.05 s"),
    ("kill -9 $$", "was ended by signal 9"),
    ("echo why >&2; exit 3", "it ended with 3: why"),
    ("/nonexistent", "it ended with 127"),
    ("head -c 10000000 /dev/zero", "it wrote more than 1,000,000 bytes"),
    ("yes >&2", "it wrote more than 1,000,000 bytes"),
    ("echo '{\"decision\"'", "it wrote no JSON"),
    ("echo no JSON", "it wrote no JSON"),
    ("echo '[1]'", "of the type 'list'"),
]


@pytest.mark.parametrize("event", ONE_OF_EACH)
def test_commands_that_fail_are_reported_and_passed_over_all_at_once(event: str) -> None:
    failing = FAILING if event == "BeforeTool" else FAILING[::3]
    entries = [at(event, text, name=text, timeout_s=0.05 if "sleep" in text else 30) for text, _ in failing]
    found = ask(ONE_OF_EACH[event], *entries)
    for (_, why), note in zip(failing, found.notes, strict=True):
        assert note.startswith("the hook ")
        assert f" failed at {event} (" in note
        assert why in note
    assert (found.block, found.changed, found.event) == ("", [], ONE_OF_EACH[event])


def test_the_leg_fails_with_a_command_that_is_required() -> None:
    with pytest.raises(HookFailed, match=r"ended with 3: why.*it is required"):
        ask(ONE_OF_EACH["BeforeTool"], at("BeforeTool", "echo why >&2; exit 3", required=True))


def test_what_a_command_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    ask(ONE_OF_EACH["BeforeTool"], at("BeforeTool", "sleep 1000 & echo $! > pid", timeout_s=30), cwd=tmp_path)
    pid = int((tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_command_ends_with_the_leg_that_waits_for_it(tmp_path: Path) -> None:
    async def broken_off() -> int:
        hooks = command_hooks([at("BeforeTool", "echo $$ > pid; exec sleep 1000")], {}, tmp_path)
        asking = asyncio.create_task(HookAsking(hooks).ask(ONE_OF_EACH["BeforeTool"]))
        pid = tmp_path / "pid"
        async with asyncio.timeout(30):
            while not (pid.exists() and pid.read_text().strip()):  # noqa: ASYNC110 - a test
                await asyncio.sleep(0.01)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        return int(pid.read_text())

    with pytest.raises(ProcessLookupError):
        os.kill(asyncio.run(broken_off()), 0)


def test_code_2_blocks_with_what_was_written_to_standard_error() -> None:
    found = ask(ONE_OF_EACH["BeforeTool"], at("BeforeTool", "echo '不行' >&2; exit 2"))
    assert (found.block, found.notes) == ("不行", [])
    assert "ended with 2" in ask(ONE_OF_EACH["BeforeTool"], at("BeforeTool", "exit 2")).block


CODE_2: dict[str, Any] = {"command": "exit 2"}


@pytest.mark.parametrize(
    ("event", "group", "is_meant"),
    [
        ("PreToolUse", {"matcher": "Edit | Bash", "hooks": [CODE_2]}, True),
        ("PreToolUse", {"matcher": "Edit|Write", "hooks": [CODE_2]}, False),
        ("BeforeTool", {"matcher": "run_shell", "hooks": [CODE_2]}, True),
        ("BeforeTool", {"matcher": "bash"} | CODE_2, True),
        ("BeforeTool", {"matcher": "^ba"} | CODE_2, True),
        ("BeforeTool", {"matcher": "*"} | CODE_2, True),
        ("BeforeTool", {"matcher": "ash"} | CODE_2, False),
    ],
)
def test_nobody_but_those_whose_matcher_means_the_tool_is_asked(event: str, group: Any, is_meant: bool) -> None:
    entries, _ = entries_in({event: [group]})
    assert bool(ask(ONE_OF_EACH["BeforeTool"], *entries).block) is is_meant


def test_an_environment_is_what_the_worker_lets_commands_have_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EKIDEN_SIGNING_KEY", "s3cr3t")
    assert "s3cr3t" not in ask(ONE_OF_EACH["BeforeTool"], at("BeforeTool", "env >&2; exit 2")).block


def word(specific: Any, **top: Any) -> dict[str, Any]:
    return {**top, **({"hookSpecificOutput": specific} if specific else {})}


def texts(*said: str) -> list[dict[str, str]]:
    return [{"role": role, "content": text} for role, text in zip(("system", "user"), said, strict=True)]


DENY = {"permissionDecision": "deny", "permissionDecisionReason": "no"}
CHOICE = {"toolConfig": {"mode": "ANY", "allowedFunctionNames": ["run_shell_command"]}}
CACHED = {"llm_response": {"candidates": [{"content": {"parts": ["cached"]}}]}}
TOLD = {"llm_request": {"config": {"temperature": 0}, "messages": texts("Be bad.", "stop")}}
CHANGED_REQUEST = replace(REQUEST, instructions="Be bad.", temperature=0, messages=(user_message("stop"),))
MEANINGS: list[tuple[str, str, Any, str, Any]] = [
    ("BeforeTool", "ours", {}, "said", ()),
    ("BeforeTool", "ours", word(None, decision="deny", reason="no"), "block", "no"),
    ("BeforeTool", "ours", word(None, decision="block"), "block", "x decided 'block'"),
    ("BeforeTool", "claude", word(DENY), "block", "no"),
    ("BeforeTool", "claude", word({"permissionDecision": "ask"}), "ask", "x wants a person asked"),
    ("BeforeTool", "claude", word({"permissionDecision": "allow"}), "said", ()),
    ("BeforeTool", "ours", word(None, systemMessage="hello"), "note", "hello"),
    ("BeforeTool", "ours", {"continue": False, "stopReason": "enough"}, "stop", "enough"),
    ("BeforeTool", "gemini", word({"tool_input": {"timeout": 5}}), "args", {**CALL.args, "timeout": 5}),
    ("BeforeTool", "claude", word({"updatedInput": {"command": "ls"}}), "args", {"command": "ls"}),
    ("BeforeTool", "claude", word({"additionalContext": "see docs"}), "context", "see docs"),
    ("AfterTool", "gemini", word(None, decision="deny", reason="secret"), "block", "secret"),
    ("AfterTool", "claude", word(None, decision="block", reason="format it"), "said", ("context",)),
    ("AfterTool", "ours", word({"tool_response": "****"}), "result", "****"),
    ("BeforeToolSelection", "gemini", word(CHOICE), "tools", ToolChoice("ANY", ("bash",))),
    ("BeforeModel", "gemini", word(CACHED), "reply", (TextPart(text="cached"),)),
    ("BeforeModel", "gemini", word(TOLD), "request", CHANGED_REQUEST),
    ("AfterModel", "gemini", word({"llm_response": {"text": "better"}}), "reply", (TextPart(text="better"), CALL)),
    ("AfterModel", "gemini", "plain words", "note", "plain words"),
    ("BeforeAgent", "claude", "plain words", "context", "plain words"),
    ("SessionStart", "gemini", word({"additionalContext": "see docs"}), "context", "see docs"),
    ("AfterAgent", "claude", word(None, decision="block", reason="run the tests"), "block", "run the tests"),
    ("AfterAgent", "ours", word({"answer": "better"}), "answer", "better"),
    ("BeforeHandoff", "ours", word(None, decision="deny", reason="not him"), "block", "not him"),
    ("BeforeRoute", "ours", word({"agent": "writer"}), "agent", "writer"),
    ("PreCompress", "ours", word({"additionalContext": "keep names"}), "context", "keep names"),
    ("BeforeTool", "ours", word({"permissionDecision": None}, decision="block", reason="no"), "block", "no"),
    ("BeforeTool", "ours", word({"permissionDecision": "allow"}, decision="deny", reason="no"), "block", "no"),
    ("BeforeTool", "claude", "\ufeff" + json.dumps(word(None, decision="block", reason="no")), "block", "no"),
]


@pytest.mark.parametrize(("event", "form", "written", "field", "meant"), MEANINGS)
def test_what_is_written_means_what_it_means_there(event: str, form: Any, written: Any, field: str, meant: Any) -> None:
    text = written if isinstance(written, str) else json.dumps(written)
    reply = said(text, ONE_OF_EACH[event], at(event, "x", form=form))
    found = getattr(reply, field)
    assert (found.message.parts if isinstance(found, ModelReply) else found) == meant


@pytest.mark.parametrize(
    ("event", "written"),
    [
        ("BeforeTool", {"decide": "deny"}),
        ("BeforeTool", {"continue": "false"}),
        ("BeforeTool", word({"permissionDecision": "defer"})),
        ("BeforeTool", word({"llm_request": {}})),
        ("BeforeTool", word({"updatedInput": "rm"})),
        ("BeforeTool", word(["x"])),
        ("AfterTool", word({"clearContext": True})),
        ("AfterTool", word({"tailToolCallRequest": {"name": "x"}})),
        ("AfterTool", word({"tool_response": 5})),
        ("BeforeToolSelection", word({"toolConfig": {"mode": "SOME"}})),
        ("BeforeModel", word({"llm_request": {"messages": []}})),
        ("BeforeModel", word({"llm_response": {}})),
        ("AfterModel", word({"llm_response": {"candidates": []}})),
    ],
)
def test_a_word_that_is_not_understood_is_a_fault_and_never_passed_over_in_silence(event: str, written: Any) -> None:
    with pytest.raises(UnreadableReply):
        said(json.dumps(written), ONE_OF_EACH[event], at(event, "x"))


def test_scripts_of_other_programs_find_tools_and_arguments_under_their_names_and_change_them_there() -> None:
    call = ToolCall(id="c", name="edit_file", args={"path": "a", "old": "b", "new": "c"})
    claude = at("BeforeTool", "x", form="claude", written="PreToolUse")
    read = json.loads(asked(BeforeTool(PLACE, call), claude))
    assert (read["tool_name"], read["hook_event_name"]) == ("Edit", "PreToolUse")
    assert read["tool_input"].items() >= {"file_path": "a", "old_string": "b", "path": "a"}.items()
    read["tool_input"]["file_path"] = "z"
    reply = said(json.dumps(word({"updatedInput": read["tool_input"]})), BeforeTool(PLACE, call), claude)
    assert reply is not None
    assert reply.args == {"path": "z", "old": "b", "new": "c"}
    theirs = said(json.dumps(word({"updatedInput": {"file_path": "q"}})), BeforeTool(PLACE, call), claude)
    assert theirs is not None
    assert theirs.args == {"path": "q"}
    served = BeforeTool(PLACE, ToolCall(id="c", name="mcp.github.merge"))
    assert json.loads(asked(served, claude))["tool_name"] == "mcp__github__merge"


CLAUDE_GROUP = {"matcher": "Write|Edit", "hooks": [{"type": "command", "command": "x", "timeout": 30}]}


def test_claude_codes_events_are_about_whom_they_are_there() -> None:
    command = {"hooks": [{"command": "exit 2"}]}
    for event, delegated, is_asked in [("Stop", False, True), ("Stop", True, False), ("SubagentStop", True, True)]:
        entries, _ = entries_in({event: [command]})
        place = replace(PLACE, is_delegated=delegated)
        assert bool(ask(AfterAgent(place, "do it", "done"), *entries).block) is is_asked, event
    of_agent, refused = entries_in({"Stop": [command], "Notification": [command]}, in_agent_file=True)
    assert ask(AfterAgent(replace(PLACE, is_delegated=True), "do it", "done"), *of_agent).block
    assert [one.event for one in refused] == ["Notification"]
    read = json.loads(asked(ONE_OF_EACH["AfterAgent"], of_agent[0]))
    assert read["hook_event_name"] == "Stop"


def test_each_form_has_its_own_unit_of_time() -> None:
    block = {"BeforeTool": [{"matcher": "bash", "command": "x", "timeout": 30}]}
    assert [one.timeout_s for one in entries_in(block)[0]] == [30]
    assert [one.timeout_s for one in entries_in({"PreToolUse": [CLAUDE_GROUP]})[0]] == [30]
    gemini = {"matcher": "x", "hooks": [{"type": "command", "command": "x", "timeout": 30_000}]}
    assert [one.timeout_s for one in entries_in({"BeforeTool": [gemini]})[0]] == [30]
    with pytest.raises(DefinitionError, match=r"is 30 milliseconds, as in gemini-cli: it must be from 0\.1"):
        entries_in({"BeforeTool": [CLAUDE_GROUP]})


@pytest.mark.parametrize(
    ("block", "why"),
    [
        (["./check.sh"], "must be an object such as"),
        ({"BeforeTool": ["./check.sh"]}, "entry 1 of BeforeTool must be an object with a 'command'"),
        ({"BeforeTool": [{"matcher": "bash"}]}, "needs a 'command'"),
        ({"BeforeTool": [{"command": "x", "require": True}]}, "'require' of entry 1 of BeforeTool is not known"),
        ({"BeforeTool": [{"command": "x", "required": "yes"}]}, "must be true or false"),
        ({"BeforeTool": [{"command": "x", "matcher": "("}]}, "'matcher' of entry 1 of BeforeTool"),
        ({"BeforeTool": [{"command": "x", "timeout": "5s"}]}, "must be a number of seconds"),
        ({"BeforeTool": [{"command": "x", "env": {"A": 1}}]}, "must be an object of texts"),
        ({"PreToolUse": [{"hooks": ["x"]}]}, "must be a list of"),
        ({"BeforeTool": [{"command": "x"}] * 101}, "100 are the most"),
    ],
)
def test_what_is_no_hook_is_refused_with_its_place_and_what_is_expected(block: Any, why: str) -> None:
    with pytest.raises(DefinitionError, match=why.replace("(", r"\(")):
        entries_in(block)
    with pytest.raises(AgentFileError, match=r"^'hooks': ") as caught:
        read_definition({"name": "x", "description": "d", "hooks": block}, "You work.")
    assert caught.value.field == "hooks"


def test_one_sequential_command_makes_all_of_its_event_wait_for_each_other(tmp_path: Path) -> None:
    first = at("BeforeTool", saying(word({"tool_input": {"command": "ls"}})), sequential=True)
    second = at("BeforeTool", "cat > read")
    ask(ONE_OF_EACH["BeforeTool"], first, second, cwd=tmp_path)
    assert json.loads((tmp_path / "read").read_text("utf-8"))["tool_input"] == {"command": "ls"}
