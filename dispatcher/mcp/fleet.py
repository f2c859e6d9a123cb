"""Answers calls: submits a job, waits a while for it, and asks the client's user what the job waits for.

Nothing is kept here between two requests: whichever replica gets the next one goes on from what the server knows.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

import mcp_types as types

from ekiden.dispatcher.client import Client
from ekiden.dispatcher.mcp.agent_tools import JOB_TOOLS, AgentTool, agent_tools, prompt_of
from ekiden.dispatcher.mcp.questions import answer_of, form_of, told
from ekiden.shared.approvals import ApprovalView
from ekiden.shared.errors import AlreadyDecided, ApprovalGone, EkidenError, InvalidRequest
from ekiden.shared.ids import is_job_id
from ekiden.shared.risk import Risk
from ekiden.shared.schemas import problems
from ekiden.shared.step_limits import run_limited
from ekiden.shared.stores.views import JobView

__all__ = ["REQUEST_ID", "Fleet", "Result"]

NOBODY_SERVES = "No worker runs: jobs wait until one is started (`ekiden up`, `ekiden worker`)"
REQUEST_ID = "ekiden/requestId"
"""The field of ``_meta`` that makes a call that is sent twice one job."""
LOOK_S = 1.0
"""How often it is looked whether the job waits for somebody."""

Result = types.CallToolResult | types.InputRequiredResult
Progress = Callable[[float, str], Awaitable[None]]


class Fleet:
    """The agents of the catalog in force, as one client of the server."""

    def __init__(self, client: Client, *, answer_within_s: float, user: str, approve: tuple[Risk, ...] = ()) -> None:
        """``answer_within_s``: after which a call is answered with its job's id, and the job goes on."""
        self._client = client
        self._within_s = answer_within_s
        self._user = user
        self._approve = approve

    async def tools(self) -> list[types.Tool]:
        """Return what can be called now."""
        return [*(one.tool for one in (await self._agents()).values()), *JOB_TOOLS]

    async def call(
        self,
        name: str,
        args: Mapping[str, Any],
        progress: Progress,
        *,
        request_id: str | None = None,
        answers: Mapping[str, Any] | None = None,
        state: str | None = None,
        may_ask: bool = True,
    ) -> Result:
        """Answer one call of a tool, or go on with the one whose ``state`` and ``answers`` these are."""
        try:
            if state is not None:
                carried = json.loads(state)
                job = str(carried["job"])
                await self._answer(job, carried.get("asked", {}), answers or {})
                return await self._awaited(job, progress, may_ask=may_ask)
            if name in {tool.name for tool in JOB_TOOLS}:
                return await self._of_job(name, args, progress, may_ask=may_ask)
            agents = await self._agents()
            if name not in agents:
                return _failed(f"there is no agent {name!r}: {', '.join(agents)}")
            job = await self._submit(agents[name], args, request_id)
            return await self._awaited(job, progress, may_ask=may_ask)
        except EkidenError as error:
            return _failed(str(error))

    async def _agents(self) -> dict[str, AgentTool]:
        return agent_tools((await self._client.definitions()).values())

    async def _submit(self, tool: AgentTool, args: Mapping[str, Any], request_id: str | None) -> str:
        wrong = await run_limited(lambda: problems(dict(args), tool.agent.inputs_schema))
        if wrong:
            raise EkidenError("\n".join([f"the arguments of {tool.tool.name!r} are not valid:", *wrong]))
        return await self._client.submit(
            prompt_of(args),
            agent=tool.agent.name,
            inputs=dict(args) if tool.agent.inputs else None,
            user=self._user,
            request_id=request_id,
            approve=self._approve,
        )

    async def _of_job(self, name: str, args: Mapping[str, Any], progress: Progress, *, may_ask: bool) -> Result:
        job = str(args.get("job", ""))
        if not is_job_id(job):  # of a beginning, somebody else's job could be meant
            raise InvalidRequest(f"{job[:80]!r} is no job's id: give it as the call has returned it, in full")
        if name == "job_result":
            return await self._awaited(job, progress, may_ask=may_ask)
        if name == "job_cancel":
            await self._client.cancel(job)
        return await self._standing(await self._client.job(job), await self._client.approvals(job=job))

    async def _standing(self, view: JobView, waiting: list[ApprovalView]) -> types.CallToolResult:
        """Return how a job stands, and what its caller can do; where nobody serves it, that."""
        serves = view.is_over or any(pool.kind == "worker" for pool in await self._client.pools())
        return _standing(view, waiting, "" if serves else NOBODY_SERVES)

    async def _answer(self, job: str, asked: Mapping[str, str], answers: Mapping[str, Any]) -> None:
        """Pass on what the client's user said; what was answered elsewhere meanwhile is answered.

        ``asked``: the digests of what was shown. After the loss of a server, the same id can be of another call.
        """
        for view in await self._client.approvals(job=job):
            given = answers.get(view.id) if asked.get(view.id) == view.digest else None
            answer = answer_of(view, given, self._user) if isinstance(given, types.ElicitResult) else None
            if answer is not None:
                with suppress(AlreadyDecided, ApprovalGone):
                    await self._client.answer(view.id, answer)

    async def _awaited(self, job: str, progress: Progress, *, may_ask: bool) -> Result:
        """Return the job's answer, a question of it, or how it stands when the time is up."""
        ends = asyncio.get_running_loop().time() + self._within_s
        ending = asyncio.create_task(self._client.wait(job))
        try:
            while True:
                left = ends - asyncio.get_running_loop().time()
                done, _ = await asyncio.wait([ending], timeout=max(0.0, min(LOOK_S, left)))
                if done:
                    return _ended(ending.result())
                waiting = await self._client.approvals(job=job)
                if waiting and may_ask:
                    forms = {view.id: form_of(view) for view in waiting}
                    state = {"job": job, "asked": {view.id: view.digest for view in waiting}}
                    return types.InputRequiredResult(input_requests=forms, request_state=json.dumps(state))
                view = await self._client.job(job)
                if waiting or left <= 0:
                    return await self._standing(view, waiting)
                await progress(self._within_s - left, f"{view.agent}: {view.status}")
        finally:
            ending.cancel()


def _ended(view: JobView) -> types.CallToolResult:
    data = {"job": view.id, "status": view.status, "reason": view.reason}
    return types.CallToolResult(
        content=[types.TextContent(text=view.result or "")], structured_content=data, is_error=view.status != "done"
    )


def _standing(view: JobView, waiting: list[ApprovalView], problem: str) -> types.CallToolResult:
    if view.is_over:
        return _ended(view)
    lines = [f"job {view.id} is {view.status} (agent {view.agent})"]
    if waiting:
        lines += [f"It waits for a person:\n{told(waiting)}", *map(_how, waiting)]
        lines.append("Once somebody has, call job_result with the job's id for its answer.")
    else:
        lines.append(f"{problem or 'It goes on'}. Call job_result with this id for its answer, job_cancel to stop it.")
    data = {"job": view.id, "status": view.status, "waits_for": [one.id for one in waiting]}
    return types.CallToolResult(content=[types.TextContent(text="\n".join(lines))], structured_content=data)


def _how(view: ApprovalView) -> str:
    """Say how somebody answers whose client cannot."""
    if view.kind == "question":
        return f"Answer with: ekiden approvals answer {view.id} TEXT"
    return f"Decide with: ekiden approvals approve {view.id} (or deny)"


def _failed(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)
