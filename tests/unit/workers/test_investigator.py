"""The shipped codebase-investigator: what it is told and may do, and its reports on real folders."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ekiden.shared.definitions.catalog import Catalog, build_catalog
from ekiden.shared.definitions.loader import load_folder
from ekiden.shared.llm.base import ChatModel, ModelReply, ModelRequest, OnDelta
from ekiden.shared.llm.gemini import GeminiModel
from ekiden.shared.llm.genai.access import GeminiAccess
from ekiden.shared.llm.scripted import ScriptedModel
from ekiden.shared.llm.scripting.searches import OUTLINE, locations, search_pattern, search_words
from ekiden.shared.packs import shipped_agents_dir
from ekiden.shared.records import ModelReplied, ToolFinished
from ekiden.shared.stores.opening import Stores
from ekiden.workers.processors import as_markdown
from ekiden.workers.tools.registry import BUILTIN
from tests.doubles.gemini.server import GeminiServer
from tests.scenarios.relay import Listener, Relay, Story, on_server

REPOSITORY = Path(__file__).parents[3]
NAME = "codebase-investigator"


@pytest.fixture(scope="module")
def pack() -> Catalog:
    catalog, _ = build_catalog(load_folder(shipped_agents_dir() / "software", "global").definitions)
    return catalog


def stand_in() -> ScriptedModel:
    return ScriptedModel.from_folders(shipped_agents_dir() / "_scripts")


def asked(
    pack: Catalog, model: Callable[[], tuple[ChatModel, Callable[[], Awaitable[None]]]], folder: Path, prompt: str
) -> Story:
    async def scenario(stores: Stores) -> Story:
        made, close = model()
        try:
            relay = Relay(stores, pack, made, tools=BUILTIN, root=folder)
            return await relay.told(prompt, agent=NAME, cwd=folder)
        finally:
            await close()

    return on_server(scenario)


async def nothing_to_close() -> None:
    pass


def test_it_reads_only_and_must_end_with_its_report(pack: Catalog) -> None:
    agent = pack.definition(NAME)
    assert agent.tools is not None
    assert set(agent.tools.allow or ()) == {"ls", "read_file", "glob", "grep"}
    assert (agent.temperature, agent.limits.max_turns, agent.limits.max_seconds) == (0.1, 15, 300)
    assert agent.inputs["objective"].required
    assert agent.complete_task
    assert agent.output is not None
    fields = agent.output.schema_["properties"]
    assert agent.output.name == "report"
    assert list(fields) == ["SummaryOfFindings", "ExplorationTrace", "RelevantLocations"]
    assert list(fields["RelevantLocations"]["items"]["properties"]) == ["FilePath", "Reasoning", "KeySymbols"]


def test_who_finds_faults_and_who_changes_code_may_let_it_look(pack: Catalog) -> None:
    for name in ("debugger", "code-fixer"):
        assert NAME in [rule.agent for rule in pack.definition(name).subagents]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "shop").mkdir()
    (tmp_path / "tests").mkdir()
    (tmp_path / "shop" / "retrying.py").write_text("def retry_order(order):\n    return order\n")
    (tmp_path / "tests" / "test_retrying.py").write_text("from shop.retrying import retry_order\n")
    (tmp_path / "README.md").write_text("A shop.\n")
    return tmp_path


def test_without_a_key_it_searches_a_real_folder_and_reports_the_places(pack: Catalog, shop: Path) -> None:
    story = asked(pack, lambda: (stand_in(), nothing_to_close), shop, "where are the retries implemented?")
    assert (story.view.status, story.view.reason) == ("done", "GOAL")
    report = story.end.output
    assert [one["FilePath"] for one in report["RelevantLocations"]] == ["shop/retrying.py", "tests/test_retrying.py"]
    assert report["RelevantLocations"][0]["KeySymbols"] == ["retry_order"]
    assert "scripted stand-in" in report["SummaryOfFindings"]
    assert story.view.result == as_markdown(report)
    first = story.of(ModelReplied)[0].message.text
    for heading in ("<scratchpad>", "Checklist", "Questions to Resolve", "Key Findings", "Irrelevant Paths to Ignore"):
        assert heading in first


def test_what_the_stand_in_does_not_find_is_no_success(pack: Catalog, shop: Path) -> None:
    story = asked(pack, lambda: (stand_in(), nothing_to_close), shop, "explain the `HyperDrive`")
    assert story.view.status == "unfinished"
    assert "No line of the project matches (?i)(HyperDrive)" in str(story.view.result)


SCRATCHPAD = (
    "<scratchpad>\nChecklist\n- [ ] find advance\nQuestions to Resolve\n- who counts the depth?\n"
    "Key Findings\n- none yet\nIrrelevant Paths to Ignore\n- docs\n</scratchpad>"
)
REPORT = {
    "SummaryOfFindings": "`HandoffContext.advance` 增加链的深度。",
    "ExplorationTrace": ["grep 'def advance'", "read shared/handoff.py"],
    "RelevantLocations": [
        {"FilePath": "shared/handoff.py", "Reasoning": "advance 在这里", "KeySymbols": ["HandoffContext", "advance"]}
    ],
}


def rule(when: dict[str, str], *calls: tuple[str, dict[str, Any]], text: str = "") -> dict[str, Any]:
    made = [{"name": name, "args": args} for name, args in calls]
    return {"when": when, "reply": {"calls": made} | ({"text": text} if text else {})}


RULES = [
    rule({"last": "depth"}, ("grep", {"pattern": "def advance", "include": "*.py"}), text=SCRATCHPAD),
    rule({"answered": "grep"}, ("read_file", {"path": "shared/handoff.py"}), ("bash", {})),
    rule({"answered": "bash"}, ("complete_task", {"report": {"SummaryOfFindings": "half"}})),
    rule({"answered": "complete_task"}, ("complete_task", {"report": REPORT})),
]


class OnGemini(GeminiModel):
    """Asks the double for a model that it has, whatever the request calls it."""

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        return await super().reply(replace(request, model="gemini-2.5-flash"), on_delta)


def test_its_report_on_this_repository_comes_over_the_wire_and_is_held_to_its_schema(pack: Catalog) -> None:
    with GeminiServer() as server:
        for one in RULES:
            server.add(one)

        def model() -> tuple[ChatModel, Callable[[], Awaitable[None]]]:
            gemini = OnGemini(GeminiAccess(api_key="test", base_url=server.url))
            return Listener(gemini), gemini.aclose

        story = asked(pack, model, REPOSITORY, "where is the depth of a chain counted?")
    assert (story.view.status, story.end.output) == ("done", REPORT)
    assert story.view.result == as_markdown(REPORT)
    grep, read, bash, half, _ = [one.result for one in story.of(ToolFinished)]
    assert "shared/handoff.py:" in grep.content
    assert "class HandoffContext" in read.content
    assert bash.content.startswith("Unauthorized tool call")
    assert "'ExplorationTrace' is a required property" in half.content
    body = server.requests[0].body
    assert body["generationConfig"]["temperature"] == 0.1
    names = {tool["name"] for tools in body["tools"] for tool in tools["functionDeclarations"]}
    assert {"ls", "read_file", "glob", "grep", "complete_task"} <= names
    assert "bash" not in names
    assert "<scratchpad>" in json.dumps(body["systemInstruction"], ensure_ascii=False)


@pytest.mark.parametrize(
    ("request_", "words", "pattern"),
    [
        ("where are the retries handled?", ["retries"], "(?i)(retr)"),
        ("who calls require_agent and why", ["require_agent"], "(?i)(require_agent)"),
        ("explain `a.b(c)` please", ["a.b(c)"], r"(?i)(a\.b\(c\))"),
        ("登录流程是怎么实现的", [], OUTLINE),
        (None, [], OUTLINE),
    ],
)
def test_the_stand_in_searches_for_the_words_that_code_could_have(
    request_: str | None, words: list[str], pattern: str
) -> None:
    assert search_words(request_) == words
    assert search_pattern(words) == pattern


def test_places_that_define_go_before_places_that_use_and_before_tests() -> None:
    found = "tests/test_a.py:1:def test_total(): ...\nb.py:3:x = total()\na.py:9:def total():\n(cut: the first …)"
    assert [one["FilePath"] for one in locations(found, ["total"])] == ["a.py", "b.py", "tests/test_a.py"]
    assert locations("no line matches", ["total"]) == []
