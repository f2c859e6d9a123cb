"""Behind text of unknown authors an agent is kept from risky tools, where its file or the settings say so."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ekiden.shared.definitions.catalog import Catalog, build_catalog
from ekiden.shared.definitions.model import AfterUntrusted, AgentDefinition
from ekiden.shared.definitions.parsing import definition_from
from ekiden.shared.errors import ConfigurationError, DefinitionError
from ekiden.shared.messages import ToolCall
from ekiden.shared.records import JobRequested, ToolFinished, ToolStarted
from ekiden.shared.settings.model import load_settings
from ekiden.shared.stores.opening import Stores
from ekiden.shared.trust.grants import stands_by, vouches_for
from ekiden.shared.trust.rights import Right
from ekiden.shared.trust.store import remember
from ekiden.workers.untrusted import Untrusted
from tests.scenarios.relay import Relay, Story, on_server, team
from tests.unit.workers.journal import Job
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

    return on_server(scenario)


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
        remember(tmp_path, vouched=True)
    replies: list[Said] = [calls(call("l1", "look")), calls(RISKY), said("done")]
    story = told({"lead": replies}, {"name": "lead", "tools": CAREFUL}, root=tmp_path)
    assert is_denied(story) is not says_yes


def test_a_folder_of_which_something_was_refused_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EKIDEN_TRUST")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    remember(tmp_path, granted=[Right("agent a", "tool bash")])
    assert (stands_by(tmp_path), vouches_for(tmp_path)) == (True, False), "to grant a right is to vouch for no text"
    remember(tmp_path, vouched=True)
    assert vouches_for(tmp_path)
    remember(tmp_path, refused=[Right("agent b", "tool bash")])
    assert (stands_by(tmp_path), vouches_for(tmp_path)) == (False, False)


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

    records = on_server(scenario)
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


def test_a_file_of_another_folder_counts_as_that_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EKIDEN_TRUST")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("mine", "evil", "mine/vendored"):
        (tmp_path / name / ".git").mkdir(parents=True)
    remember(tmp_path / "mine", vouched=True)
    leg = Job("lead").leg_now
    untrusted = Untrusted(leg, tmp_path / "mine", denies=True)
    look = tool_named("look", read_only=True, needs_workspace=True)
    (tmp_path / "mine" / "link").symlink_to("../evil")
    for path in ("../evil", "../evil/README.md", "link/README.md", str(tmp_path / "evil")):
        assert "evil" in untrusted.brought_by(call("c", "look", path=path), look), path
    for inside in (".", "README.md", "vendored/README.md", "\0", 7, None):
        assert not untrusted.brought_by(call("c", "look", path=inside), look), inside


def test_what_an_untrusted_folders_agent_says_counts_for_who_called_it_and_who_takes_over() -> None:
    scout = definition_from({"name": "scout", "description": "d", "tools": ["look"]}, "p")
    strange = AgentDefinition(**{**dict(scout), "untrusted": True})
    for way, first in (
        ({"subagents": ["scout"]}, call("d1", "delegate_to_scout", objective="read")),
        ({"handoffs": [{"to": "scout", "return": True}]}, handing_over("h1", "scout")),
    ):
        lead = definition_from({"name": "lead", "description": "d", "tools": CAREFUL, **way}, "p")
        catalog = build_catalog([lead, strange])[0]

        async def scenario(stores: Stores, catalog: Catalog = catalog, first: ToolCall = first) -> Story:
            replies: dict[str, list[Said]] = {
                "lead": [calls(first), calls(RISKY), said("done")],
                "scout": [said("do it")],
            }
            tools = [tool_named("web", untrusted=True), tool_named("risky"), tool_named("look", read_only=True)]
            return await Relay(stores, catalog, Replies(replies), tools=tools).told("do it", agent="lead")

        assert is_denied(on_server(scenario)), way


def test_the_sessions_next_job_knows_of_it_until_the_session_is_cleared() -> None:
    async def scenario(stores: Stores) -> list[bool]:
        agents = team({"name": "lead", "tools": CAREFUL})
        tools = [tool_named("web", read_only=True, untrusted=True), tool_named("risky"), tool_named("look")]

        async def told(session: str | None, *replies: Said) -> Story:
            relay = Relay(stores, agents, Replies({"lead": replies}), tools=tools)
            job = await relay.submit(f"{session}: {len(denied)}", agent="lead", session=session)
            await relay.drain()
            return await relay.story(job)

        denied: list[bool] = []
        session = (await told(None, calls(call("w1", "web")), said("read it"))).view.id.partition(".")[0]
        denied.append(is_denied(await told(session, said("as before"), calls(RISKY), said("done"))))
        await stores.sessions.clear(session)
        denied.append(is_denied(await told(session, calls(RISKY), said("done"))))
        return denied

    assert on_server(scenario) == [True, False]


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
