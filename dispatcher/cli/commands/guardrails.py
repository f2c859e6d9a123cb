"""``ekiden guardrails …``: what guardrails would have said."""

import asyncio
import json
from pathlib import Path
from typing import Annotated

import typer

from ekiden.dispatcher.cli.connection import connected
from ekiden.dispatcher.cli.options import AsJson, DataDir, Redis, seconds_of
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.journal.rails_replay import RailsReplay, rails_replayed
from ekiden.shared.definitions.loader import load_file
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.redaction import preview, redact_all
from ekiden.shared.terminal_text import note, say

__all__ = ["app"]

app = typer.Typer(help="See what an agent's guardrails would have said of what it did.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Keep the name of the one command."""


@app.command("test")
def hold_against(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An agent's file, with its guardrails.")],
    since: Annotated[str, typer.Option("--since", metavar="TIME", help="How far back: 12h, 30d, 4w.")] = "30d",
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="The newest jobs at most.")] = 10_000,
    shown: Annotated[int, typer.Option("--show", metavar="N", min=0, help="Violations that are listed.")] = 50,
    as_json: AsJson = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Say what the guardrails of FILE would have said of what its agent was asked, said, called and got."""
    agent = _agent_in(file)
    found = asyncio.run(_replayed(agent, seconds_of(since), limit, shown, redis, data_dir))
    if as_json:
        say(json.dumps(redact_all(found.as_json()), ensure_ascii=False))
        return
    _show(found, agent)


def _agent_in(file: Path) -> AgentDefinition:
    if not file.is_file():
        raise InvalidRequest(f"{str(file)!r}: there is no such file")
    agent, problems = load_file(file, "project")
    if agent is None:
        raise InvalidRequest("; ".join(str(problem) for problem in problems))
    if not agent.guardrails:
        raise InvalidRequest(f"{str(file)!r}: agent {agent.name!r} has no guardrails: write 'guardrails' in its file")
    for rail in agent.guardrails:
        if rail.is_foreign:
            note(f"ekiden: the validator {rail.validator!r} of {rail.name!r} is not asked here: workers have its code")
        if rail.prompt:
            note(f"ekiden: no model is asked here about the prompt of {rail.name!r}")
    return agent


async def _replayed(
    agent: AgentDefinition, since_s: float, limit: int, shown: int, redis: str | None, data_dir: Path | None
) -> RailsReplay:
    async with connected(redis, data_dir) as client:
        return await rails_replayed(client, agent, since_s=since_s, limit=limit, shown=shown)


def _show(found: RailsReplay, agent: AgentDefinition) -> None:
    out = Output()
    jobs = f"{found.jobs} jobs" + (" (the newest; --limit reads more)" if found.is_cut else "")
    if found.not_asked:
        out.line(f"Not asked here at all: {', '.join(found.not_asked)}")
    failed = sum(count for (_, _, passed), count in found.counts.items() if not passed)
    out.line(f"{found.counts.total()} judgements of agent {agent.name!r} in {jobs}: {failed} would not have passed")
    keys = sorted({(rail, at) for rail, at, _ in found.counts})
    counted = [(rail, at, *(str(found.counts[rail, at, passed]) for passed in (True, False))) for rail, at in keys]
    if counted:
        out.table(("GUARDRAIL", "AT", "PASSED", "NOT"), counted)
    if found.violations:
        out.line()
        rows = [(one.job, one.rail, one.at, preview("; ".join(one.errors), 70)) for one in found.violations]
        out.table(("JOB", "GUARDRAIL", "AT", "WHAT IS WRONG"), rows)
