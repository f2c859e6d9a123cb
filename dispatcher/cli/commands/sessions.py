"""``ekiden sessions …``: conversations, their messages, and how to take them elsewhere."""

import asyncio  # 30 ms that `ekiden --help` does without
import dataclasses
import json
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import typer

from ekiden.dispatcher.cli.commands.sessions_state import state
from ekiden.dispatcher.cli.connection import connected
from ekiden.dispatcher.cli.options import AsJson, DataDir, Redis
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.cli.views.gemini_files import context_file, context_of, write_json
from ekiden.dispatcher.cli.views.jobs import local_time
from ekiden.dispatcher.cli.views.session_context import context_fields
from ekiden.dispatcher.client import Client
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.redaction import preview
from ekiden.shared.stores.sessions import SessionMessage, SessionView
from ekiden.shared.terminal_text import say, visible

__all__ = ["app"]

app = typer.Typer(help="Look at conversations, say who goes on with them, clear or export them.", no_args_is_help=True)

app.command()(state)

Id = Annotated[str, typer.Argument(metavar="ID", help="The session's id, or a unique beginning of it.")]
T = TypeVar("T")


@app.command("list")
def list_(
    user: Annotated[str | None, typer.Option("--user", metavar="NAME", help="Only those of this user.")] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", metavar="NAME", help="Only those that began with this agent.")
    ] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="How many.")] = 20,
    as_json: AsJson = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """List the sessions last used, newest first."""

    async def newest() -> list[SessionView]:
        async with connected(redis, data_dir) as client:
            return await client.sessions(limit, user=user, entry=agent)

    found = _run(newest())
    if as_json:
        for session in found:
            say(json.dumps(_fields(session), ensure_ascii=False))
        return

    columns = ["SESSION", "USER", "AGENT", "POLICY", "JOBS", "USED", "STATE", "FIRST REQUEST"]
    Output().table(columns, list(map(_row, found)))


@app.command()
def show(session: Id, as_json: AsJson = False, redis: Redis = None, data_dir: DataDir = None) -> None:
    """Show a session and what was said in it."""

    async def read() -> tuple[SessionView, list[SessionMessage], dict[str, Any]]:
        async with _session(session, redis, data_dir) as (client, session_id):
            view, said = await client.session(session_id), await client.messages(session_id)
            return view, said, await context_fields(client, view, said) if as_json else {}

    view, said, context = _run(read())
    if as_json:
        say(json.dumps(_exported(view, said) | context, ensure_ascii=False))
        return

    out = Output()
    out.line(f"session {view.id} of {view.user or '(nobody)'}, {_state(view)}", "bold")
    out.line(f"began {local_time(view.created_ms)} with {view.entry or 'the router'}, {view.jobs} job(s)", "dim")
    out.line(f"policy {view.policy}: {_who_goes_on(view, said)}", "dim")
    for one in said:
        out.line()
        out.line(f"{one.agent or 'You'}: {one.message.text}")


@app.command()
def policy(
    session: Id,
    policy: Annotated[
        Literal["route", "sticky", "entry"],
        typer.Argument(
            metavar="POLICY",
            help="route: each message goes where it is routed to; sticky: to the agent that spoke last; entry: to the "
            "agent that got the first one.",
        ),
    ],
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Say who gets the next messages of a session. A message that names its agent goes to that one all the same."""

    async def changed() -> str:
        async with _session(session, redis, data_dir) as (client, session_id):
            await client.set_policy(session_id, policy)
            view, said = await client.session(session_id), await client.messages(session_id)
        return f"session {session_id}: policy {policy}: {_who_goes_on(view, said)}"

    Output().line(_run(changed()))


@app.command()
def clear(session: Id, redis: Redis = None, data_dir: DataDir = None) -> None:
    """Forget what was said in a session, and its variables; its jobs stay."""

    async def cleared() -> str:
        async with _session(session, redis, data_dir) as (client, session_id):
            messages, variables = await client.clear(session_id)
        return f"session {session_id}: {messages} message(s) and {variables} variable(s) forgotten"

    Output().line(_run(cleared()))


@app.command()
def export(
    session: Id,
    form: Annotated[Literal["json", "markdown"], typer.Option("--format", help="For programs or for people.")] = "json",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to. [standard output]")
    ] = None,
    gemini: Annotated[
        bool, typer.Option("--gemini", help="Write it to ~/.gemini/contexts/AGENT.json, as gemini-cli keeps it.")
    ] = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Write a session with all that was said in it; what looks like a secret is masked."""
    from ekiden.shared.redaction import configure_redaction
    from ekiden.shared.settings.model import load_settings

    if gemini and (output is not None or form != "json"):
        raise InvalidRequest("--gemini says where to and how: leave out --output and --format")
    settings = load_settings()
    redactor = configure_redaction(settings.redact, settings.secrets)
    view, said = _run(_whole(session, redis, data_dir))
    if gemini:
        agent = view.entry or view.first_agent
        output = context_file(agent)
        write_json(output, redactor.redact_all(context_of(view, said, agent)))
        Output().line(f"{len(said)} message(s) of session {view.id} are in {output}")
        return
    if form == "json":
        text = json.dumps(redactor.redact_all(_exported(view, said)), ensure_ascii=False, indent=2)
    else:
        text = visible(redactor.redact(_markdown(view, said))).rstrip("\n")
    if output is None:
        say(text)
        return
    try:
        output.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise InvalidRequest(f"-o {str(output)!r} cannot be written: {error.strerror}") from error
    Output().line(f"{len(said)} message(s) of session {view.id} are in {output}")


def _run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


@asynccontextmanager
async def _session(prefix: str, redis: str | None, data_dir: Path | None) -> AsyncIterator[tuple[Client, str]]:
    """Yield a client and the whole id."""
    async with connected(redis, data_dir) as client:
        yield client, await client.resolve_session(prefix)


async def _whole(prefix: str, redis: str | None, data_dir: Path | None) -> tuple[SessionView, list[SessionMessage]]:
    async with _session(prefix, redis, data_dir) as (client, session_id):
        return await client.session(session_id), await client.messages(session_id)


def _fields(view: SessionView) -> dict[str, Any]:
    return dataclasses.asdict(view)


def _exported(view: SessionView, said: list[SessionMessage]) -> dict[str, Any]:
    messages = [
        {"job": one.job, "agent": one.agent, "at_ms": one.at_ms, "text": one.message.text, "role": one.message.role}
        for one in said
    ]
    return {**_fields(view), "messages": messages}


def _markdown(view: SessionView, said: list[SessionMessage]) -> str:
    parts = [f"# {view.title or view.id}", f"Session `{view.id}`, {local_time(view.created_ms)}"]
    for one in said:
        parts += [f"## {one.agent or 'You'}", one.message.text]
    return "\n\n".join(parts) + "\n"


def _state(view: SessionView) -> str:
    if view.active is None:
        return "idle"
    return f"job {view.active} runs" + (f", {view.waiting} wait(s)" if view.waiting else "")


def _who_goes_on(view: SessionView, said: list[SessionMessage]) -> str:
    """Say who gets the next message."""
    last = next((one.agent for one in reversed(said) if one.agent), "")
    heir = {"sticky": last, "entry": view.first_agent}.get(view.policy, "")
    return f"{heir} gets the next message" if heir else "the next message is routed"


def _row(view: SessionView) -> list[str]:
    state = "idle" if view.active is None else f"busy, {view.waiting} waiting" if view.waiting else "busy"
    title, agent = preview(view.title, 50), view.entry or "(routed)"
    return [view.id, view.user, agent, view.policy, str(view.jobs), local_time(view.used_ms), state, title]
