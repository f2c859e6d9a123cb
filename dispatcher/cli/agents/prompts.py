"""The system prompt of an agent: as its model would get it here, and as it got it in a job."""

import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ekiden.dispatcher.cli.agents.tools import known_tools
from ekiden.dispatcher.cli.connection import connected, job_named
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.definitions.transfer_names import delegation_tool_name, transfer_tool_name
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.instruction_parts import Place, Situation, is_repository
from ekiden.shared.instructions import instructions_for
from ekiden.shared.records import GRAPH, Entry, HandedOff, ModelReplied
from ekiden.shared.records.turns import Prompt, digest_of
from ekiden.shared.settings.model import load_settings
from ekiden.shared.terminal_text import note, say, say_json, visible

__all__ = ["AskedPrompt", "prompt_here", "prompts_in", "say_prompt", "show_prompt_of_job"]


class AskedPrompt(NamedTuple):
    """A system prompt that a model got."""

    leg: int
    turn: int
    """The first one with it."""
    text: str


def prompt_here(agent: AgentDefinition, others: Mapping[str, AgentDefinition]) -> str:
    """Return what the agent's model gets in this folder, from a worker without a sandbox, as long as no input is given.

    ``others``: the agents in force.
    """
    offered = {name for name in known_tools(load_settings()).names if agent.permits(name)}
    offered |= {delegation_tool_name(rule.agent) for rule in agent.subagents if rule.agent in others}
    manual = [rule.to for rule in agent.handoffs if rule.when == "manual" and rule.to in others]
    offered |= {transfer_tool_name(name) for name in manual}
    situation = Situation(frozenset(offered), place=Place(is_repository=is_repository(Path.cwd())))
    return instructions_for(agent, {}, situation)


def show_prompt_of_job(agent: str, job: str, redis: str | None, data_dir: Path | None, *, as_json: bool) -> None:
    """Print the last system prompt that the agent got in a job; as JSON all that were different."""

    async def read() -> tuple[str, list[AskedPrompt]]:
        async with connected(redis, data_dir) as client:
            view = await client.job(await job_named(client, job))
            entries = await client.entries(view.id)
            _require_turn(agent, entries, view.id)
            return view.id, prompts_in(entries, await client.definition(agent, view.catalog))

    job_id, found = asyncio.run(read())
    if as_json:
        for one in found:
            say_json({"job": job_id, "agent": agent, **one._asdict()})
        return
    if len(found) > 1:
        note(f"ekiden: the last of {len(found)} in job {job_id}, from leg {found[-1].leg}, turn {found[-1].turn} on")
    say_prompt(found[-1].text)


def say_prompt(text: str) -> None:
    """Print it: byte by byte where no terminal reads it."""
    say(visible(text) if sys.stdout.isatty() else text)


def prompts_in(entries: Sequence[Entry], agent: AgentDefinition) -> list[AskedPrompt]:
    """Return the system prompts that the agent got in a job, each where it is not the one before.

    Raises ``InvalidRequest`` where the journal does not say, or says otherwise than the fingerprint of a reply.
    """
    found: list[AskedPrompt] = []
    last: dict[int, Prompt | None] = {}
    for reply in _replies_of(agent.name, entries):
        prompt = last[reply.leg] = reply.prompt or last.get(reply.leg)
        if prompt is None:
            raise InvalidRequest("an older version of Ekiden ran the job, which did not keep what its agents were told")
        text = prompt.whole(agent.instructions)
        if reply.fingerprint is not None and reply.fingerprint.instructions != digest_of(text):
            where = f"leg {reply.leg}, turn {reply.turn}"
            raise InvalidRequest(f"{where}: the journal is not what the reply's fingerprint says")
        if not found or found[-1].text != text:
            found.append(AskedPrompt(reply.leg, reply.turn, text))
    return found


def _require_turn(agent: str, entries: Sequence[Entry], job: str) -> None:
    if not any(_replies_of(agent, entries)):
        others = [name for name in set(_agents_by_leg(entries).values()) if any(_replies_of(name, entries))]
        raise InvalidRequest(
            f"agent {agent!r} has had no turn in job {job}: {', '.join(sorted(others)) or 'nobody'} had"
        )


def _replies_of(agent: str, entries: Sequence[Entry]) -> Iterator[ModelReplied]:
    legs = {leg for leg, name in _agents_by_leg(entries).items() if name == agent}
    for entry in entries:
        record = entry.record
        if isinstance(record, ModelReplied) and record.leg in legs and record.model != GRAPH:
            yield record


def _agents_by_leg(entries: Sequence[Entry]) -> dict[int, str]:
    moves = (entry.record for entry in entries if isinstance(entry.record, HandedOff))
    return {move.leg + 1: move.context.to_agent for move in moves}
