"""Behind text of unknown authors an agent is kept from risky tools, where its file or the settings say so."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ekiden.shared.definitions.forms import definition_from
from ekiden.shared.definitions.model import AfterUntrusted
from ekiden.shared.errors import ConfigurationError, DefinitionError
from ekiden.shared.records import JobRequested, ToolFinished, ToolStarted
from ekiden.shared.settings import load_settings
from ekiden.shared.stores.opening import Stores
from ekiden.shared.trust.grants import is_trusted
from ekiden.shared.trust.rights import Right
from ekiden.shared.trust.store import remember
from tests.scenarios.relay import Relay, Story, on_fakeredis, team
from tests.unit.workers.world import Replies, Said, call, calls, handing_over, said, tool_named

CAREFUL = {"allow": ["look", "web", "risky"], "after_untrusted": "deny"}
RISKY = call("r1", "risky", what="rm")


def told(
    replies: Mapping[str, Sequence[Said]],
    *agents: Mapping[str, Any],
    root: Path | None = None,
    settings: AfterUntrusted = "allow",
) -> Story:
    """Run a job of a team that has a harmless tool, one that reads the web, one that reads files, and a risky one."""
    tools = [
        tool_named("look", read_only=True, needs_workspace=True),
        tool_named("web", read_only=True, untrusted=True),
        tool_named("risky"),
    ]

    async def scenario(stores: Stores) -> Story:
        relay = Relay(stores, team(*agents), Replies(replies), tools=tools, root=root, after_untrusted=settings)
        return await relay.told("do it", agent="lead")

    return on_fakeredis(scenario)


def is_denied(story: Story, call_id: str = "r1") -> bool:
    """Whether the call was answered without being run."""
    answer = next(one for one in story.of(ToolFinished) if one.result.call_id == call_id)
    ran = call_id in {one.call_id for one in story.of(ToolStarted)}
    assert answer.result.is_error is not ran
    assert ran or "tools.after_untrusted: deny" in answer.result.content
    return not ran


def reading_then_risking(*between: Said) -> list[Said]:
    return [calls(call("w1", "web", what="page")), *between, calls(RISKY), said("done")]


@pytest.mark.parametrize(("settings", "file"), [("deny", None), ("allow", "deny"), ("deny", "allow")])
def test_a_risky_tool_is_denied_behind_the_web_and_the_journal_says_why(
    settings: AfterUntrusted, file: str | None
) -> None:
    rules = {"allow": ["web", "risky"]} | ({"after_untrusted": file} if file else {})
    story = told({"lead": reading_then_risking()}, {"name": "lead", "tools": rules}, settings=settings)
    assert is_denied(story)
    assert [one.untrusted for one in story.of(ToolFinished)] == ["what web returns", ""]
    assert story.view.untrusted
    assert story.end.status == "done"


def test_what_was_not_asked_to_be_denied_runs_but_the_journal_knows() -> None:
    story = told({"lead": reading_then_risking()}, {"name": "lead", "tools": ["web", "risky"]})
    assert not is_denied(story)
    assert story.view.untrusted


def test_before_any_such_text_everything_runs() -> None:
    story = told({"lead": [calls(RISKY), said("done")]}, {"name": "lead", "tools": CAREFUL})
    assert not is_denied(story)
    assert not story.view.untrusted


def test_a_harmless_tool_runs_behind_it() -> None:
    story = told(
        {"lead": [calls(call("w1", "web")), calls(call("w2", "web")), said("done")]}, {"name": "lead", "tools": CAREFUL}
    )
    assert story.results == {"w1": "web()", "w2": "web()"}


def test_the_text_counts_for_the_call_that_stands_behind_it_in_one_turn() -> None:
    story = told({"lead": [calls(call("w1", "web"), RISKY), said("done")]}, {"name": "lead", "tools": CAREFUL})
    assert is_denied(story)


@pytest.mark.parametrize("says_yes", [False, True])
def test_files_count_where_nobody_trusts_their_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, says_yes: bool
) -> None:
    monkeypatch.delenv("EKIDEN_TRUST")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / ".git").mkdir()
    if says_yes:
        remember(tmp_path)
    replies: list[Said] = [calls(call("l1", "look")), calls(RISKY), said("done")]
    story = told({"lead": replies}, {"name": "lead", "tools": CAREFUL}, root=tmp_path)
    assert is_denied(story) is not says_yes


def test_a_folder_of_which_something_was_refused_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EKIDEN_TRUST")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    remember(tmp_path, granted=[Right("agent a", "tool bash")], refused=[Right("agent b", "tool bash")])
    assert not is_trusted(tmp_path)


def test_whoever_takes_over_is_kept_from_it_too() -> None:
    story = told(
        {
            "lead": [calls(call("w1", "web")), calls(handing_over("h1", "mate"))],
            "mate": [calls(RISKY), said("done")],
        },
        {"name": "lead", "tools": ["web"], "handoffs": ["mate"]},
        {"name": "mate", "tools": CAREFUL},
    )
    assert is_denied(story)


def test_a_child_is_told_of_it_and_bound_by_the_rule_of_who_called_it() -> None:
    async def scenario(stores: Stores) -> list[Any]:
        replies: dict[str, list[Said]] = {
            "lead": [calls(call("w1", "web")), calls(call("d1", "delegate_to_mate", objective="risk")), said("done")],
            "mate": [calls(RISKY), said("child done")],
        }
        agents = team(
            {"name": "lead", "tools": CAREFUL, "subagents": ["mate"]}, {"name": "mate", "tools": ["risky", "look"]}
        )
        tools = [tool_named("web", read_only=True, untrusted=True), tool_named("risky"), tool_named("look")]
        story = await Relay(stores, agents, Replies(replies), tools=tools).told("do it", agent="lead")
        assert story.end.status == "done"
        return [entry.record for entry in await stores.jobs.journal(f"{story.view.id}.1")]

    records = on_fakeredis(scenario)
    assert isinstance(records[0], JobRequested)
    assert records[0].untrusted == "what web returns"
    [answer] = [one for one in records if isinstance(one, ToolFinished)]
    assert "tools.after_untrusted: deny" in answer.result.content


def test_what_a_child_has_read_counts_for_who_called_it() -> None:
    story = told(
        {
            "lead": [calls(call("d1", "delegate_to_scout", objective="read")), calls(RISKY), said("done")],
            "scout": [calls(call("w1", "web")), said("read it")],
        },
        {"name": "lead", "tools": CAREFUL, "subagents": ["scout"]},
        {"name": "scout", "tools": ["web"]},
    )
    assert is_denied(story)
    assert story.of(ToolFinished)[0].untrusted == "agent scout, which read such text"


@pytest.mark.parametrize("value", ["ask", "Deny", True, ["deny"]])
def test_an_agent_file_with_another_word_is_refused(value: object) -> None:
    with pytest.raises(DefinitionError, match="expected deny or allow"):
        definition_from({"name": "a", "description": "d", "tools": {"allow": ["bash"], "after_untrusted": value}}, "p")


def test_a_file_may_say_nothing_else_of_tools() -> None:
    made = definition_from({"name": "a", "description": "d", "tools": {"after_untrusted": "deny"}}, "p")
    assert made.tools is not None
    assert made.tools.after_untrusted == "deny"
    assert made.tools.allow is None


def test_the_settings_say_that_ask_does_not_work_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EKIDEN_TOOLS_AFTER_UNTRUSTED", "ask")
    with pytest.raises(ConfigurationError, match=r"'tools.after_untrusted'.*'ask' does not work yet"):
        load_settings()
