"""A node that is mapped over a list: a job of its own, which does the items as child jobs, a hundred at a time."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Any

from ekiden.shared.definitions.graph import Node
from ekiden.shared.definitions.model import MOST_CHILDREN, AgentDefinition
from ekiden.shared.outcomes import Answer, ChildJob, Failed, Outcome, Suspended
from ekiden.shared.records import Delegated, LegSuspended, NodeFinished
from ekiden.shared.relay.leg import Leg
from ekiden.workers.graphs.branches import error_of
from ekiden.workers.graphs.children import ITEMS, Children
from ekiden.workers.graphs.steps import used_up
from ekiden.workers.graphs.tries import NextTry, next_try

__all__ = ["Items"]


class Items:
    """Does the list of one leg: what each item is given stands in its job's request."""

    def __init__(self, leg: Leg, agent: AgentDefinition, node: Node, children: Children) -> None:
        self._leg = leg
        self._agent = agent
        self._node = node
        self._children = children
        self._items: list[dict[str, Any]] = (leg.request.inputs or {})[ITEMS]
        self._tries: dict[int, list[str]] = defaultdict(list)
        """The child jobs of each item, by its number: one for each try."""
        self._keys: dict[int, str] = {}
        """The idempotency keys of the calls that their last tries repeat."""
        self._again: dict[int, str] = {}
        """The items that are to be tried again, and the idempotency keys of the calls that they repeat."""
        for record in leg.records:
            if isinstance(record, Delegated):
                self._tries[_number(record)].append(record.child)
                self._keys[_number(record)] = self._again.pop(_number(record), "")
            elif isinstance(record, NodeFinished) and record.again:
                self._again[_number(record)] = record.key

    async def go_on(self) -> Outcome:
        """Wait for the items that run, then begin the next ones; return the list of what all have given."""
        running = self._running()
        views = await self._leg.children([record.child for record in running])
        if not all(view.is_over for view in views):
            return self._waiting([self._child(_number(one), one.call_id, one.child) for one in running])
        await self._note(running)
        if next_ones := self._next():
            if (end := used_up(self._leg)) is not None:
                return end
            calls = [self._child(one, self._call_id(one), key=self._again.get(one, "")) for one in next_ones]
            return self._waiting(self._children.numbered(calls))
        return await self._gathered()

    async def _note(self, ended: Sequence[Delegated]) -> None:
        """Note how items have ended: what they gave is in their own journals."""
        ends = await self._leg.ends([record.child for record in ended])
        about: dict[str, Any] = {"leg": self._leg.number, "graph": self._agent.name, "run": self._leg.number}
        for record in ended:
            end = ends[record.child]
            how: dict[str, Any] = {"call_id": record.call_id}
            if end.status != "done":
                again = await self._next_try(_number(record))
                how |= {"error": error_of(end), "again": again is not None, "key": again.key if again else ""}
            self._leg.hold(NodeFinished(**about, node=self._node.name, channel=self._node.name, **how))

    def _running(self) -> list[Delegated]:
        """Return what was begun last: all that may run yet."""
        newest_first = reversed(self._leg.records)
        behind = list(takewhile(lambda record: not isinstance(record, Delegated), newest_first))
        newest_first = reversed(self._leg.records[: len(self._leg.records) - len(behind)])
        begun = takewhile(lambda record: not isinstance(record, LegSuspended), newest_first)
        return [record for record in begun if isinstance(record, Delegated)][::-1]

    async def _next_try(self, number: int) -> NextTry | None:
        """Return the try of an item that failed which may follow, and remember it."""
        tries = self._tries[number]
        if len(tries) > self._node.retry:
            return None
        if again := await next_try(self._leg, self._node, tries[-1], self._keys[number]):
            self._again[number] = again.key
        return again

    def _next(self) -> list[int]:
        """Return the items that are to begin: those that have not yet, then those that failed and may once more."""
        if new := [number for number in range(len(self._items)) if number not in self._tries][:MOST_CHILDREN]:
            return new
        return sorted(self._again)[:MOST_CHILDREN]

    async def _gathered(self) -> Answer | Failed:
        """Return the list: items without a result say why. The node has failed if all have."""
        ends = await self._leg.ends([tries[-1] for tries in self._tries.values()])
        output: list[Any] = []
        errors: list[str] = []
        for number in range(len(self._items)):
            end = ends[self._tries[number][-1]]
            if end.status == "done":
                output.append(end.answer if end.output is None else end.output)
            else:
                errors.append(error_of(end))
                output.append({"error": errors[-1]})
        if errors and len(errors) == len(output):
            return Failed("ERROR", f"all {len(errors)} items have failed, the first by: {errors[0]}")
        return Answer(json.dumps(output, ensure_ascii=False), output=output)

    def _child(self, number: int, call_id: str, job: str = "", key: str = "") -> ChildJob:
        return self._children.child(self._node, call_id, self._items[number], "item", job, key)

    def _call_id(self, number: int) -> str:
        tries = len(self._tries.get(number, ()))
        return f"{self._node.name}[{number}]{f'/{tries + 1}' if tries else ''}"

    def _waiting(self, children: Iterable[ChildJob]) -> Suspended:
        children = tuple(children)
        return Suspended("children", 0.0, f"{self._node.name}: {len(children)} items", children)


def _number(record: Delegated | NodeFinished) -> int:
    """Return which item a child job does, by its call: ``node[7]``, or ``node[7]/2``."""
    return int(record.call_id.rpartition("[")[2].partition("]")[0])
