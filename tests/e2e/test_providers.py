"""A team on a server of Chat Completions that the settings name, in the real program."""

import json

from tests.doubles.gemini.server import GeminiServer
from tests.doubles.openai_server import OpenAIServer
from tests.e2e.program import Program


def test_a_team_on_a_local_server_calls_tools_and_hands_over_and_stands_in_for_gemini(ekiden: Program) -> None:
    agents = ekiden.folder / ".gemini" / "agents"
    agents.mkdir(parents=True)
    for name, head in {"triage": "tools: [read_file]\nhandoffs: [{to: fixer}]", "fixer": "tools: []"}.items():
        models = "[gemini-2.5-pro, local/qwen3]" if name == "fixer" else "local/qwen3"
        text = f"---\nname: {name}\ndescription: The {name}.\nmodels: {models}\n{head}\n---\nYou are {name}.\n"
        (agents / f"{name}.md").write_text(text)
    (ekiden.folder / "a.py").write_text("x = 1\n")
    reads = {"calls": [{"name": "read_file", "args": {"path": "a.py"}, "id": "call_0"}]}
    hands_over = {"calls": [{"name": "transfer_to_fixer", "args": {"reason": "x 是 1"}, "id": "call_0"}]}
    with (
        GeminiServer() as gemini,
        OpenAIServer(
            {"times": 1, "reply": {"error": 503, "retry_after": 0.1}},
            {"when": {"answered": "read_file"}, "reply": hands_over},
            {"times": 1, "reply": reads},
            {"reply": {"thought": "Let me see.", "text": ["All ", "is well."]}},
        ) as server,
    ):
        gemini.add({"reply": {"error": 429, "per_day": True}})
        ekiden.env |= {"GEMINI_API_KEY": "k", "EKIDEN_GEMINI_BASE_URL": gemini.url}
        ekiden.env["EKIDEN_PROVIDERS"] = json.dumps({"local": {"type": "openai", "base_url": server.url}})
        done = ekiden.run("run", "--agent", "triage", "what is x in a.py?")
    assert done.returncode == 0, done.stderr
    assert "All is well." in done.stdout
    assert "gemini-2.5-pro has no quota left, local/qwen3 is asked" in done.stdout
    assert "You are fixer." in str(gemini.requests[-1].body)
    first, *_, last = [request.body["messages"][0]["content"] for request in server.requests]
    assert "You are triage." in first
    assert "You are fixer." in last
    assert any("x = 1" in str(request.body["messages"]) for request in server.requests)
