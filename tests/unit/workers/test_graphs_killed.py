"""Graphs whose worker dies just before or just behind any write: another one goes on, and nothing is done twice."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from ekiden.shared.approvals import Answer
from ekiden.shared.errors import AlreadyDecided
from ekiden.shared.records import ApprovalAsked, Decided, Delegated, NodeFinished
from ekiden.shared.relay.leg import journal_of
from ekiden.shared.stores.jobs import RedisJobStore
from ekiden.shared.stores.opening import Stores
from ekiden.workers.tools.builtin.asking import ask_user
from tests.contract.test_approvals import Inbox
from tests.scenarios.relay import Relay, Story, on_server, team
from tests.unit.relay.legs import expire
from tests.unit.workers.test_graphs import ByLeg, agent, edge, graph
from tests.unit.workers.world import said, tool_named

WRITES = ("claim", "append", "suspend", "transfer", "finish")


class Died(BaseException):
    """The worker was killed."""


class Mortal:
    """A store whose worker dies at one of its writes: what it does from then on reaches nobody."""

    def __init__(self, store: RedisJobStore, at: int, *, behind: bool) -> None:
        """``behind``: the server has done the write, and the worker has not heard of it."""
        self._store = store
        self._left, self._behind = at, behind
        self.is_dead = False

    def __getattr__(self, name: str) -> Any:
        if self.is_dead:
            raise Died
        return self._counted(name) if name in WRITES else getattr(self._store, name)

    def _counted(self, name: str) -> Any:
        async def write(*args: Any, **options: Any) -> Any:
            self._left -= 1
            if self._left >= 0 and not self.is_dead:
                return await getattr(self._store, name)(*args, **options)
            if self._behind and not self.is_dead:
                self.is_dead = True
                await getattr(self._store, name)(*args, **options)
            self.is_dead = True
            raise Died

        return write


class Killed:
    """A job that is run by a worker which dies at a write, and then by others."""

    def __init__(self, stores: Stores, agents: Sequence[Mapping[str, Any]], at: int, *, behind: bool) -> None:
        self.mortal = Mortal(stores.jobs, at, behind=behind)
        self.ran = Counter[str]()
        self._stores, self._agents = stores, agents
        self._relay = self._worker(replace(stores, jobs=cast(RedisJobStore, self.mortal)))

    def _worker(self, stores: Stores) -> Relay:
        async def look(args: Any, context: Any) -> str:
            self.ran[context.idempotency_key] += 1
            return f"look({args.what})"

        tools = [ask_user, tool_named("look", look, idempotent=True)]
        model = ByLeg({name: [said(f"{name} said")] * 9 for name in "ab"})
        return Relay(stores, team(*self._agents), model, tools=tools)

    async def run(self) -> str:
        """Run the job until all that is left waits for persons, or nothing."""
        job = await self._worker(self._stores).submit("go", agent="flow")
        await self.go_on()
        return job

    async def go_on(self) -> None:
        """Run what there is to run; once the worker is dead, others do, when its lease is over."""
        try:
            await self._relay.drain()
        except Died:
            self._relay = self._worker(self._stores)
            for one in await self._stores.jobs.unfinished():
                await expire(self._stores, one.id)
                await self._stores.jobs.requeue(one.id, 0.0, 9)
            await self._relay.drain()

    async def answer(self, job: str, text: str) -> int:
        """Answer all that waits, each twice; return how much that was."""
        waiting = await self._stores.jobs.waiting(job)
        for view in waiting:
            answer = Answer("answered", view.digest, answer=text, by="anna")
            await Inbox(self._stores).answer(view.id, answer)
            with pytest.raises(AlreadyDecided, match="anna"):
                await Inbox(self._stores).answer(view.id, replace(answer, answer="another", by="ben"))
        return len(waiting)

    async def story(self, job: str) -> Story:
        return await self._worker(self._stores).story(job)


ASK = {"name": "ask", "ask_user": "Which one of ${task.prompt}?"}
LOOK = {"name": "look", "tool": "look", "args": {"what": "${ask}"}, "retry": 1}
ASKING = (
    graph(ASK, "a", LOOK, edges=[edge("ask", "look"), edge("a", "look")], entry=["ask", "a"]) | {"tools": ["look"]},
    agent("a"),
)


@pytest.mark.parametrize("behind", [False, True])
def test_a_question_of_a_graph_is_asked_once_and_answered_once_wherever_a_worker_dies(behind: bool) -> None:
    async def scenario(stores: Stores, at: int) -> bool:
        """Tell whether the worker has died at all."""
        killed = Killed(stores, ASKING, at, behind=behind)
        job = await killed.run()
        assert await killed.answer(job, "it") == 1
        await killed.go_on()
        story = await killed.story(job)
        assert (story.view.status, story.view.result) == ("done", "look(it)"), at
        assert [(one.node, one.again) for one in story.of(NodeFinished)][-1] == ("look", False)
        assert set(killed.ran.values()) <= {1, 2}, "the worker may have died behind it"
        assert len(killed.ran) == 1
        await check_family(stores, job)
        return killed.mortal.is_dead

    at = 0
    while on_server(lambda stores: scenario(stores, at)):  # noqa: B023  # run at once
        at += 1
    assert at > 10, "that is how many writes there are"


async def check_family(stores: Stores, job: str) -> None:
    """Check what a job and those below it have asked, and that nothing was begun twice."""
    found, left = [], [job]
    while left:
        records = [entry.record for entry in await journal_of(stores.jobs, left.pop())]
        found += records
        begun = [record.child for record in records if isinstance(record, Delegated)]
        assert len(begun) == len(set(begun))
        left += begun
    for kind in (ApprovalAsked, Decided):
        assert sum(isinstance(record, kind) for record in found) == 1
