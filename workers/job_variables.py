"""What conditions and expressions of agent files can know of the job."""

from typing import Any

from ekiden.shared.current_task import last_action_of, task_of
from ekiden.shared.relay.leg import Leg

__all__ = ["task_variables"]


def task_variables(leg: Leg) -> dict[str, Any]:
    """Return the variable ``task``: what the job is about, and how far it is."""
    state, request, metadata = leg.state, leg.request, leg.context.metadata
    done = last_action_of(entry.record for entry in reversed(leg.entries))
    known = task_of(leg.asked, "running", leg.agent, done)
    return {
        **(known | {name: state[name] for name in known if name in state}),  # who writes one of these means it
        "prompt": leg.asked,
        "inputs": request.inputs or {},
        "status": state.get("task_status", known["task_status"]),
        "agent": leg.agent,
        "chain": list(metadata.handoff_chain),
        "depth": metadata.chain_depth,
    }
