"""A node that is mapped over a list: a job of its own, which does the items as child jobs, a hundred at a time."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from ekiden.shared.definitions.graph import Node
from ekiden.shared.definitions.model import MOST_CHILDREN, AgentDefinition
from ekiden.shared.outcomes import Answer, ChildJob, Failed, Outcome, Suspended
from ekiden.shared.records import Delegated, Ended, NodeFinished, Record, Retried
from ekiden.shared.relay.leg import Leg
from ekiden.workers.graphs.branches import error_of
from ekiden.workers.graphs.children import ITEMS, Children
from ekiden.workers.graphs.steps import used_up
from ekiden.workers.graphs.tries import NextTry, Recorded, behind, next_try, since_retry, still_stopping, why_not_again

__all__ = ["Items"]


class Items:
    """Does the list of one leg: what each item is given stands in its job's request."""

    def __init__(self, leg: Leg, agent: AgentDefinition, node: Node, children: Children) -> None:
        self._leg = leg
        self._agent = agent
        self._node = node
        self._children = children
        self._items: list[dict[str, Any]] = (leg.request.inputs or {})[ITEMS]
        self._tries: dict[int, list[Delegated]] = defaultdict(list)
        """The child jobs of each item, by its number: one for each try."""
        self._begun: Counter[int] = Counter()
        """How often each item has begun."""
        self._running: dict[int, Delegated] = {}
        """The items whose ends are not noted yet."""
        self._failed: dict[int, str] = {}
        """Those that have failed for good, and why."""
        self._before: dict[int, str] = {}
        """Items that begin anew, since the job was retried, and the child jobs that did them."""
        self._again: dict[int, str] = {}
        """The items that are to be tried again, and the idempotency keys of the calls that they repeat."""
        self._retried: set[int] = set()
        """Those that had not ended well when the job was retried, and of which nothing has come since."""
        for record in leg.records:
            self._take_in(record)

    def _take_in(self, record: Record) -> None:
        match record:
            case Delegated():
                self._begin(_number(record), record)
            case NodeFinished(again=again, error=error, key=key):
                self._end(_number(record), key if again else None, error=error)
            case Retried():
                self._retried |= self._running.keys() | self._failed.keys()
            case _:
                pass

    async def go_on(self) -> Outcome:
        """Wait for the items that run, then begin the next ones; return the list of what all have given."""
        if (pause := await self._take_up()) is not None:
            return pause
        views = {view.id: view for view in await self._leg.children([one.child for one in self._running.values()])}
        running = list(self._running.values())
        if not all(views[one.child].is_over for one in running):
            return self._waiting([self._child(_number(one), one.call_id, one.child) for one in running])
        await self._note(running)
        if next_ones := self._next():
            if (end := used_up(self._leg)) is not None:
                return end
            return self._waiting(self._children.numbered([await self._beginning(one) for one in next_ones]))
        return await self._gathered()

    async def _take_up(self) -> Suspended | None:
        """Let items that had not ended well when the job was retried begin once more, if they may."""
        tries = {number: self._tries[number][-1].child for number in sorted(self._retried)}
        views = await self._leg.children(list(tries.values()))
        if (pause := still_stopping(self._leg, views)) is not None:
            return pause
        done = {view.id for view in views if view.status == "done"}
        for number, child in tries.items():
            if child in done:
                continue
            came = await since_retry(self._leg, self._node, child)
            if isinstance(came, NextTry):
                self._take_back(number)
                self._again[number] = came.key
            elif isinstance(came, Recorded):
                self._say_ended(number, untrusted=came.untrusted)
            else:
                self._say_ended(number, error=why_not_again(self._leg, self._node, child))
        return None

    def _say_ended(self, number: int, **how: Any) -> None:
        about: dict[str, Any] = {"leg": self._leg.number, "graph": self._agent.name, "run": self._leg.number}
        about |= {"node": self._node.name, "channel": self._node.name, "call_id": self._tries[number][-1].call_id}
        record = NodeFinished(**about, **how)
        self._leg.hold(record)
        self._take_in(record)

    async def _beginning(self, number: int) -> ChildJob:
        child = self._child(number, self._call_id(number), key=self._again.get(number, ""))
        return await behind(self._leg, child, self._before.get(number, "") if self._node.runner else "")

    def _begin(self, number: int, record: Delegated) -> None:
        if number in self._retried:
            self._take_back(number)
        self._tries[number].append(record)
        self._begun[number] += 1
        self._running[number] = record
        self._again.pop(number, None)

    def _end(self, number: int, again: str | None, *, error: str) -> None:
        self._running.pop(number, None)
        self._retried.discard(number)
        self._failed.pop(number, None)
        if again is not None:
            self._again[number] = again
        elif error:
            self._failed[number] = error

    def _take_back(self, number: int) -> None:
        """Let an item begin anew that did not come to a good end before the job was retried."""
        self._running.pop(number, None)
        self._failed.pop(number, None)
        self._retried.discard(number)
        self._before[number] = self._tries.pop(number)[-1].child

    async def _note(self, ended: Sequence[Delegated]) -> None:
        """Note how items have ended: what they gave is in their own journals."""
        ends = await self._leg.ends([record.child for record in ended])
        for record in ended:
            number, end, how = _number(record), ends[record.child], dict[str, Any]()
            if end.status != "done":
                again = await self._next_try(number, end)
                how = {"error": error_of(end), "again": again is not None, "key": again.key if again else ""}
            self._say_ended(number, **how)

    async def _next_try(self, number: int, end: Ended) -> NextTry | None:
        """Return the try of an item that failed which may follow."""
        tries = self._tries[number]
        if len(tries) > self._node.retry:
            return None
        return await next_try(self._leg, self._node, tries[-1].child, end)

    def _next(self) -> list[int]:
        """Return the items that are to begin: those that have not yet, then those that failed and may once more."""
        if new := [number for number in range(len(self._items)) if number not in self._tries][:MOST_CHILDREN]:
            return new
        return sorted(self._again)[:MOST_CHILDREN]

    async def _gathered(self) -> Answer | Failed:
        """Return the list: items without a result say why. The node has failed if all have."""
        ends = await self._leg.ends([tries[-1].child for tries in self._tries.values()])
        if self._failed and len(self._failed) == len(self._items):
            return Failed("ERROR", f"all {len(self._failed)} items have failed, the first by: {self._failed[0]}")
        output: list[Any] = []
        for number in range(len(self._items)):
            end = ends[child := self._tries[number][-1].child]
            if number in self._failed:
                output.append({"error": self._failed[number]})
            elif end.status == "done":
                output.append(end.answer if end.output is None else end.output)
            else:
                recorded = await since_retry(self._leg, self._node, child)
                assert isinstance(recorded, Recorded), "nothing else has counted"
                output.append(recorded.output)
        return Answer(json.dumps(output, ensure_ascii=False), output=output)

    def _child(self, number: int, call_id: str, job: str = "", key: str = "") -> ChildJob:
        return self._children.child(self._node, call_id, self._items[number], "item", job, key)

    def _call_id(self, number: int) -> str:
        begun = self._begun[number]
        return f"{self._node.name}[{number}]{f'/{begun + 1}' if begun else ''}"

    def _waiting(self, children: Iterable[ChildJob]) -> Suspended:
        children = tuple(children)
        return Suspended("children", 0.0, f"{self._node.name}: {len(children)} items", children)


def _number(record: Delegated | NodeFinished) -> int:
    """Return which item a child job does, by its call: ``node[7]``, or ``node[7]/2``."""
    return int(record.call_id.rpartition("[")[2].partition("]")[0])
