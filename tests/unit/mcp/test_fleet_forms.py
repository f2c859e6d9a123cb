"""Agents as tools of a server, and what waits for a person as a client's form."""

import asyncio
import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from mcp import types

from ekiden.dispatcher.mcp import fleet
from ekiden.dispatcher.mcp.agent_tools import agent_tools, prompt_of
from ekiden.dispatcher.mcp.fleet import NOBODY_SERVES, Fleet
from ekiden.dispatcher.mcp.questions import answer_of, form_of
from ekiden.shared.approvals import Answer, ApprovalView, digest_of
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.definitions.parsing import definition_from
from ekiden.shared.stores.views import PoolView

CALL = ApprovalView(
    "s.1:1",
    "s.1",
    1,
    "fixer",
    "d",
    "c",
    "bash",
    {"command": "rm x"},
    digest_of("bash", {"command": "rm x"}),
    reason="r",
)
QUESTION = ApprovalView(
    "s.1:2",
    "s.1",
    1,
    "asker",
    "d",
    "c",
    "ask_user",
    {},
    digest_of("ask_user", {}),
    "question",
    text="Which?",
    choices=("a", "b"),
)


def agent(name: str, **fields: Any) -> AgentDefinition:
    return definition_from({"name": name, "description": "d", **fields}, "You.")


def test_each_agent_is_a_tool_with_its_inputs_and_a_name_of_its_own() -> None:
    inputs = {"depth": {"type": "integer", "required": True}}
    tools = agent_tools(
        [agent("code-fixer"), agent("code_fixer"), agent("修复"), agent("job-status"), agent("deep", inputs=inputs)]
    )
    assert len(tools) == 5
    assert all(name.isascii() and name.isidentifier() and len(name) <= 64 for name in tools)
    assert "job_status" not in tools
    assert tools["deep"].tool.input_schema["required"] == ["depth"]


def test_a_job_is_asked_for_the_objective_or_for_each_input_on_a_line() -> None:
    assert prompt_of({"objective": "修复测试"}) == "修复测试"
    assert prompt_of({"depth": 3, "files": ["a"]}) == 'depth: 3\nfiles: ["a"]'


def test_the_form_of_a_call_shows_what_would_run_and_asks_for_a_yes() -> None:
    params = form_of(CALL).params
    assert isinstance(params, types.ElicitRequestFormParams)
    assert "⚠️ Agent fixer wants to execute bash (Risk: medium)" in params.message
    assert '"command": "rm x"' in params.message
    assert params.requested_schema["required"] == ["approve"]


def test_the_form_of_a_question_has_its_choices() -> None:
    params = form_of(QUESTION).params
    assert isinstance(params, types.ElicitRequestFormParams)
    assert params.message == "Which?"
    assert params.requested_schema["properties"]["answer"]["enum"] == ["a", "b"]


@pytest.mark.parametrize(
    ("view", "action", "content", "status"),
    [
        (CALL, "accept", {"approve": True}, "approved"),
        (CALL, "accept", {"approve": False, "reason": "no"}, "denied"),
        (CALL, "decline", None, "denied"),
        (CALL, "cancel", None, None),
        (CALL, "accept", {"approve": "yes"}, None),
        (CALL, "accept", {}, None),
        (QUESTION, "accept", {"answer": "a"}, "answered"),
        (QUESTION, "accept", {}, None),
        (QUESTION, "cancel", {"answer": "a"}, None),
    ],
)
def test_only_a_clear_yes_is_one(view: ApprovalView, action: Any, content: Any, status: str | None) -> None:
    answer = answer_of(view, types.ElicitResult(action=action, content=content), "me")
    assert (answer.status if answer else None) == status
    assert answer is None or answer.digest == view.digest


def test_schemas_are_json() -> None:
    for tool in agent_tools([agent("a")]).values():
        json.dumps(tool.tool.model_dump(mode="json"))


class Waiting:
    """A client of a server on which one job waits for one approval."""

    def __init__(self, view: ApprovalView) -> None:
        self.view = view
        self.answered: list[Answer] = []

    async def approvals(self, *, job: str) -> list[ApprovalView]:
        return [self.view]

    async def answer(self, _: str, answer: Answer) -> None:
        self.answered.append(answer)

    async def wait(self, _: str) -> None:
        await asyncio.Event().wait()

    async def job(self, _: str) -> None:
        return None


async def nothing(*_: Any) -> None:
    """Take a report of progress."""


def test_an_answer_counts_for_the_call_that_was_shown_and_no_other_of_its_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "LOOK_S", 0.001)
    job = "a" * 16 + ".1"
    view = replace(CALL, id=f"{job}:1", job=job)
    client = Waiting(view)
    served = Fleet(client, answer_within_s=5, user="ann")  # type: ignore[arg-type] # as much of one as is needed

    async def asked_and_answered(meanwhile: ApprovalView) -> None:
        client.view = view
        shown = await served.call("job_result", {"job": job}, nothing)
        assert isinstance(shown, types.InputRequiredResult)
        client.view = meanwhile
        said = {view.id: types.ElicitResult(action="accept", content={"approve": True})}
        await served.call("job_result", {"job": job}, nothing, answers=said, state=shown.request_state)

    asyncio.run(
        asked_and_answered(replace(view, args={"command": "rm -r /"}, digest=digest_of("bash", {"command": "rm -r /"})))
    )
    assert client.answered == [], "as after the loss of a server, which says the same number again"
    asyncio.run(asked_and_answered(view))
    assert [answer.status for answer in client.answered] == ["approved"]


@pytest.mark.parametrize("job", ["", "a", "a" * 16, "a" * 16 + ".", "*"])
@pytest.mark.parametrize("tool", ["job_status", "job_result", "job_cancel"])
def test_a_job_is_named_in_full_so_that_nobody_meets_anothers(tool: str, job: str) -> None:
    served = Fleet(Waiting(CALL), answer_within_s=5, user="ann")  # type: ignore[arg-type] # it is not asked
    result = asyncio.run(served.call(tool, {"job": job}, nothing))
    assert isinstance(result, types.CallToolResult)
    assert result.is_error
    assert "in full" in str(result.content)


@pytest.mark.parametrize(("pools", "told"), [([], NOBODY_SERVES), ([PoolView("p", "worker", ())], "It goes on")])
def test_a_job_that_nobody_serves_does_not_go_on_by_itself(pools: list[PoolView], told: str) -> None:
    job = "a" * 16 + ".1"

    class Queued(Waiting):
        async def approvals(self, *, job: str) -> list[ApprovalView]:
            return []

        async def job(self, _: str) -> Any:
            return SimpleNamespace(id=job, status="queued", agent="solo", is_over=False)

        async def pools(self) -> list[PoolView]:
            return pools

    served = Fleet(Queued(CALL), answer_within_s=0, user="ann")  # type: ignore[arg-type] # as much of one as is needed
    result = asyncio.run(served.call("job_status", {"job": job}, nothing))
    assert isinstance(result, types.CallToolResult)
    assert told in str(result.content)
