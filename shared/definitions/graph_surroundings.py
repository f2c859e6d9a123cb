"""What an agent file with a graph says beside it to no effect, since the graph runs in the agent's place."""

from collections.abc import Iterator

from ekiden.shared.definitions.memory import Memory
from ekiden.shared.definitions.model import AgentDefinition, Compression
from ekiden.shared.definitions.problems import AgentFileError

__all__ = ["check_beside_a_graph", "idle_beside_a_graph"]

_HEEDED = ("tool_input", "tool_output")
"""Where guardrails stand that hold for nodes that are tools."""
_IDLE = "has no effect in an agent with a graph, which runs in the agent's place"


def check_beside_a_graph(agent: AgentDefinition) -> None:
    """Refuse what guards or decides who goes on and would not be heeded. Raises ``AgentFileError``."""
    said = "of an agent with a graph would not be heeded"
    if any(place not in _HEEDED for rail in agent.guardrails for place in rail.on):
        text = f"'guardrails' {said}, but for those of tools: write them into the agents that are its nodes"
        raise AgentFileError(text, field="guardrails")
    if agent.handoffs:
        raise AgentFileError(f"'handoffs' {said}: write 'edges' of the graph", field="handoffs")
    if agent.output is not None and agent.output.schema_:
        text = f"the 'schema' of 'output' {said}: write it into the agent that answers"
        raise AgentFileError(text, field="output", within=("schema",))


def idle_beside_a_graph(agent: AgentDefinition) -> Iterator[tuple[str, str]]:
    """Yield a warning for each field that does nothing: its name, and what to do."""
    if agent.instructions.strip():
        yield "graph", f"the body {_IDLE}. Write it into the agents that are its nodes"
    if agent.subagents:
        yield "subagents", f"'subagents' {_IDLE}. Write a node for each"
    idle = {
        "model": agent.model is not None,
        "temperature": agent.temperature is not None,
        "memory": agent.memory != Memory(),
        "compression": agent.compression != Compression(),
        "complete_task": agent.complete_task,
    }
    yield from (
        (field, f"{field!r} {_IDLE}. Write it into its nodes' files") for field, is_there in idle.items() if is_there
    )
