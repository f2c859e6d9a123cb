"""What an agent saves in one job, another one has before it, in other processes and after the server was stopped."""

import json

from tests.e2e.program import Program

KEEPER = """\
---
name: keeper
description: Keeps notes about the warehouse.
tools: []
memory: {shared: warehouse}
---
You keep notes.
"""
SCRIPT = """
agents:
  keeper:
    - name: keep
      when: {user: remember}
      call: [{tool: save_memory, label: kept, args: {content: Parcels leave the warehouse at noon.}}]
    - {name: noted, when: {results: {kept: kept as note}}, say: noted}
    - {name: answer, say: at noon}
"""


def test_a_note_outlives_the_server_and_a_chinese_question_finds_it(ekiden: Program) -> None:
    ekiden.env |= ekiden.scripts(SCRIPT)
    folder = ekiden.folder / ".gemini" / "agents"
    folder.mkdir(parents=True)
    (folder / "keeper.md").write_text(KEEPER)
    saved = ekiden.run("run", "--agent", "keeper", "remember this")
    assert saved.returncode == 0, saved.stdout + saved.stderr
    ekiden.wait_until_gone()

    told = ekiden.run("run", "--agent", "keeper", "包裹什么时候离开仓库？", "--json")
    events = [json.loads(line) for line in told.stdout.splitlines()]
    (recalled,) = [event for event in events if event.get("type") == "recalled"]
    assert "Parcels leave the warehouse at noon." in recalled["notes"][0]
    assert "by agent keeper in job" in recalled["notes"][0]
    (reply,) = [event for event in events if event.get("type") == "model_reply"]
    assert "Parcels leave the warehouse at noon." in reply["prompt"]["text"]
