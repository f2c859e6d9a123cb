"""The child jobs that nodes of a graph run as."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from ekiden.shared.definitions.agent_inputs import OBJECTIVE
from ekiden.shared.definitions.graph import Node
from ekiden.shared.handoff import GraphPosition, HandoffContext
from ekiden.shared.outcomes import ChildJob
from ekiden.shared.records import Delegated
from ekiden.shared.relay.leg import Leg
from ekiden.workers.graphs.values import GraphInForce
from ekiden.workers.untrusted import Untrusted

__all__ = ["ITEMS", "Children"]

Part = Literal["node", "item"]

ITEMS = "items"
"""The input of a child job that maps a node over a list: what each of them is given."""
LONGEST_S = 604_800.0
"""What a list, and a question, may take: their items have limits of their own, and persons are not there at night."""


class Children:
    """Makes the child jobs of one leg of a graph's agent."""

    def __init__(self, leg: Leg, force: GraphInForce, at: GraphPosition, timeout_s: float) -> None:
        """``timeout_s``: what a node may take whose file does not say it."""
        self._leg = leg
        self._force = force
        self._at = at
        self._timeout_s = timeout_s
        self._untrusted = Untrusted(leg, Path(leg.cwd or "/nonexistent"), denies=False).source

    def child(
        self, node: Node, call_id: str, inputs: Mapping[str, Any], part: Part = "node", job: str = "", key: str = ""
    ) -> ChildJob:
        """Return a child job that does a node, or one item of its list; ``numbered`` says which job that is.

        ``key``: see ``NextTry``.
        """
        is_list = bool(node.for_each) and part == "node"
        own = "" if is_list else node.runner  # else the graph's agent does it
        timeout_s = LONGEST_S if is_list or node.ask_user else self._timeout_s
        return ChildJob(
            job=job,
            call_id=call_id,
            agent=own or self._force.name,
            objective=str(inputs.get(OBJECTIVE) or self._leg.asked),
            context=self._context(node, own, call_id, part, key),
            inputs={OBJECTIVE: self._leg.asked, **inputs} if own else inputs,
            bounds=self._leg.request.bounds,
            max_depth=self._leg.request.max_depth,
            timeout_s=timeout_s if is_list else node.timeout or timeout_s,
            untrusted=self._untrusted,
        )

    def known(self, node: Node, call_id: str, job: str, part: Part = "node") -> ChildJob:
        """Return a child job that has begun already: the store looks at nothing but its id."""
        return self.child(node, call_id, {}, part, job)

    def numbered(self, children: Sequence[ChildJob]) -> list[ChildJob]:
        """Return the next children of this job: none is left out, or another would get its id."""
        begun = sum(isinstance(entry.record, Delegated) for entry in self._leg.entries)
        return [replace(child, job=f"{self._leg.job}.{number}") for number, child in enumerate(children, begun + 1)]

    def _context(self, node: Node, own: str, call_id: str, part: Part, key: str) -> HandoffContext:
        at = self._at.model_copy(update={"node": ""})
        said = self._leg.context.step(own or self._force.name, f"{self._force.name}: {call_id}", (at,))
        within = (*self._leg.context.all_graphs, self._force.name)
        said = said.model_copy(update={"within": tuple(dict.fromkeys(within))})
        if not own:
            at = at.model_copy(update={"node": node.name, "part": part, "key": key, "calls": 0})
            return said.model_copy(update={"calls": (), "graphs": (at,)})
        chain = (*said.metadata.handoff_chain, own)
        metadata = said.metadata.model_copy(update={"handoff_chain": chain})
        return said.model_copy(update={"calls": (), "graphs": (), "metadata": metadata, "node": node.name})
