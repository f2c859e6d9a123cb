"""Suites: recorded with what answers, played without."""

import json
import re
import shutil

import pytest

from ekiden.shared.packs import pack_names, shipped_agents_dir
from tests.doubles.openai_server import OpenAIServer
from tests.e2e.program import ANSWER_SCRIPT, Program

SUITE = """\
cases:
  - {name: named, request: look at this, agent: reviewer, expect: {chain: [reviewer], pattern: forty-two}}
  - {name: 没人, request: what is the capital of Peru, expect: {status: failed, pattern: no such words}}
"""


@pytest.mark.parametrize("pack", pack_names())
def test_the_suite_of_each_pack_holds_without_a_key_and_tells_of_other_prompts(ekiden: Program, pack: str) -> None:
    folder = ekiden.folder / "evals"
    shutil.copytree(shipped_agents_dir() / "_evals", folder)
    recordings = sorted((folder / f"{pack}.recordings").iterdir())
    recording = next(path for path in recordings if "fingerprint:" in path.read_text("utf-8"))
    recording.write_text(re.sub(r"tools: [0-9a-f]{32}", "tools: others", recording.read_text("utf-8")), "utf-8")
    done = ekiden.run("eval", "run", folder / f"{pack}.yaml", "--junit", "out.xml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(rf"✅ {recording.stem}: .* \((\d+) of \1 prompts are others than the recorded ones\)", done.stdout)
    assert (ekiden.folder / "out.xml").read_text("utf-8").count("<testcase ") == len(recordings) >= 3


def test_what_answers_is_recorded_and_what_is_not_as_expected_is_told(ekiden: Program) -> None:
    (ekiden.folder / "suite.yaml").write_text(SUITE, "utf-8")
    done = ekiden.run("eval", "run", "suite.yaml", "--record", env=ekiden.scripts(ANSWER_SCRIPT))
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.match(r"✅ named: reviewer\n❌ 没人: nobody\n   pattern: 'no such words' is not in .*\n", done.stdout)
    assert done.stdout.endswith("suite: 2 cases, 1 failed\n")
    recordings = sorted((ekiden.folder / "suite.recordings").iterdir())
    assert [path.name for path in recordings] == ["named.yaml", "没人.yaml"]
    assert "forty-two" in recordings[0].read_text("utf-8")


KEEPER = """\
---
name: keeper
description: Keeps what it is told.
tools: [set_state]
---
Kept: ${state.colour}.
"""
CONVERSATION = """\
packs: []
cases:
  - name: colours
    turns:
      - {request: keep the colour, agent: keeper, expect: {tools: [set_state]}}
      - request: which was it
        state: {asked: true}
        expect: {chain: [keeper], answer: "青, says local", judge: It names a colour.}
"""


def test_turns_of_a_session_and_what_a_model_finds_of_them_are_recorded_and_played_without_it(ekiden: Program) -> None:
    agents = ekiden.folder / ".gemini" / "agents"
    agents.mkdir(parents=True)
    (agents / "keeper.md").write_text(KEEPER, "utf-8")
    (ekiden.folder / "suite.yaml").write_text(CONVERSATION, "utf-8")
    keeps = {"calls": [{"name": "set_state", "args": {"values": {"colour": "青"}}, "id": "call_0"}]}
    finds = {"calls": [{"name": "report_verdict", "args": {"why": "青 is one.", "passed": True}, "id": "call_1"}]}
    with OpenAIServer(
        {"when": {"answered": "set_state"}, "reply": {"text": "I keep it."}},
        {"when": {"last": "^keep"}, "reply": keeps},
        {"when": {"last": "What must be true"}, "reply": finds},
        {"when": {"last": "which was it"}, "reply": {"text": "青, says local"}},
    ) as server:
        ekiden.env["EKIDEN_PROVIDERS"] = json.dumps({"local": {"type": "openai", "base_url": server.url}})
        ekiden.env["EKIDEN_MODEL"] = "local/qwen3"
        done = ekiden.run("eval", "run", "suite.yaml", "--record", "--approve", "safe,low")
        assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
        *_, second, judged = [str(request.body["messages"]) for request in server.requests]
        assert "Kept: 青." in second, "the second turn has what the first one left"
        assert "which was it" in judged
        asked = len(server.requests)
        played = ekiden.run("eval", "run", "suite.yaml", "--strict", "--json")
        assert len(server.requests) == asked
    assert played.returncode == 0, played.stdout + played.stderr
    found = json.loads(played.stdout)
    assert (found["passed"], found["chain"], found["prompts"]) == (True, ["keeper", "keeper"], 3)

    (ekiden.folder / "suite.yaml").write_text(CONVERSATION.replace("a colour", "a shape"), "utf-8")
    other = ekiden.run("eval", "run", "suite.yaml")
    assert "   turn 2: judge: no model has judged this answer: `--record` asks one\n" in other.stdout
