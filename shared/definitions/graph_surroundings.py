"""What an agent file with a graph says beside it to no effect, since the graph runs in the agent's place."""

from collections.abc import Iterator

from ekiden.shared.definitions.memory import Memory
from ekiden.shared.definitions.model import AgentDefinition, Compression
from ekiden.shared.definitions.problems import AgentFileError

__all__ = ["check_beside_a_graph", "idle_beside_a_graph"]

_IDLE = "has no effect in an agent with a graph, which runs in the agent's place"


def check_beside_a_graph(agent: AgentDefinition) -> None:
    """Refuse what guards or decides who goes on and would not be heeded. Raises ``AgentFileError``."""
    said = "of an agent with a graph would not be heeded"
    for number, rail in enumerate(agent.guardrails):
        if "delegation" in rail.on:
            text = f"the guardrail {rail.name!r} on 'delegation' {said}: write 'handoff', which is at each of its edges"
            raise AgentFileError(text, field="guardrails", within=(number, "on"))
        if rail.policy == "ask" and set(rail.on) & {"output", "handoff"}:
            text = (
                f"the policy 'ask' of the guardrail {rail.name!r} {said}, but on 'tool_input': write 'reject', or add "
            )
            text += "a node with 'ask_user'"
            raise AgentFileError(text, field="guardrails", within=(number, "policy"))
    if agent.handoffs:
        text = f"'handoffs' {said}: the edges say who goes on, and END who answers. To hand over after that answer, "
        text += f"add a node for {agent.handoffs[0].to!r}, and an edge to it in the place of END"
        raise AgentFileError(text, field="handoffs")
    for key in ("state", "process"):
        if agent.output is not None and getattr(agent.output, key):
            text = f"{key!r} of 'output' {said}: write it into the agent that answers"
            raise AgentFileError(text, field="output", within=(key,))


def idle_beside_a_graph(agent: AgentDefinition) -> Iterator[tuple[str, str]]:
    """Yield a warning for each field that does nothing: its name, and what to do."""
    if agent.instructions.strip():
        yield "graph", f"the body {_IDLE}. Write it into the agents that are its nodes"
    if agent.subagents:
        yield "subagents", f"'subagents' {_IDLE}. Write a node for each"
    asks_model = any(rail.prompt or rail.policy == "repair" for rail in agent.guardrails)
    idle = {
        "model": agent.model is not None and not asks_model,
        "temperature": agent.temperature is not None,
        "memory": agent.memory != Memory(),
        "compression": agent.compression != Compression(),
        "complete_task": agent.complete_task,
    }
    yield from (
        (field, f"{field!r} {_IDLE}. Write it into its nodes' files") for field, is_there in idle.items() if is_there
    )
