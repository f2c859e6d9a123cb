"""``ekiden memory …``: what agents remember from job to job, to look at and to change."""

import asyncio  # 30 ms that `ekiden --help` does without
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from ekiden.dispatcher.cli.connection import connected
from ekiden.dispatcher.cli.options import AsJson, DataDir, Redis
from ekiden.dispatcher.cli.running.request import user_name
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.cli.views.jobs import local_time
from ekiden.dispatcher.client import Client
from ekiden.shared.definitions.memory import Backend
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.memory.base import MOST_CHARS, MOST_NOTES, Namespace, Note
from ekiden.shared.redaction import preview
from ekiden.shared.terminal_text import note as tell
from ekiden.shared.terminal_text import say

if TYPE_CHECKING:  # numpy, of which other commands need nothing
    from ekiden.shared.memory.memories import Found

__all__ = ["app"]

app = typer.Typer(help="Look at what agents remember from job to job, add to it, forget.", no_args_is_help=True)

Agent = Annotated[
    str | None, typer.Option("--agent", metavar="NAME", help="An agent's own notes, about you or about --user.")
]
User = Annotated[str | None, typer.Option("--user", metavar="NAME", help="All agents' notes about this user.")]
Team = Annotated[bool, typer.Option("--team", help="The notes of all agents about everything.")]
Shared = Annotated[str | None, typer.Option("--shared", metavar="NAME", help="The notes of agents that share them.")]
Files = Annotated[bool, typer.Option("--files", help="Those in files: of agents with `backend: filesystem`.")]
T = TypeVar("T")
_MOST_READ = 500
"""Notes that are written at a time."""


@app.command("list")
def list_(
    agent: Agent = None,
    user: User = None,
    team: Team = False,
    shared: Shared = None,
    files: Files = False,
    as_json: AsJson = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """List notes, the newest first; without a choice, where there are any."""
    chosen = _chosen(agent, user, team, shared, files=files)

    async def read(client: Client) -> list[tuple[Namespace, list[Note]]]:
        wanted = [chosen] if chosen else await _all(client, files=files)
        return [(one, await client.notes(one)) for one in wanted]

    found = _with_client(redis, data_dir, read)
    if as_json:
        for namespace, notes in found:
            for note in notes:
                say(_line(namespace, note))
        return
    out = Output()
    if chosen is None:
        out.table(["WHOSE", "NOTES", "OPTIONS"], [[str(one), str(len(notes)), _options(one)] for one, notes in found])
        return
    rows = [[n.id, n.key, local_time(n.changed_ms), str(n.origin), preview(n.content, 60)] for n in found[0][1]]
    out.table(["NOTE", "KEY", "WRITTEN", "BY", "BEGINS"], rows)


@app.command()
def search(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What the notes are to be about.")],
    agent: Agent = None,
    user: User = None,
    team: Team = False,
    shared: Shared = None,
    files: Files = False,
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=50, help="How many.")] = 5,
    words: Annotated[bool, typer.Option("--words", help="By words, not by meaning.")] = False,
    as_json: AsJson = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Find notes as agents do, the nearest first."""
    namespace = _required(agent, user, team, shared, files=files)

    async def find(client: Client) -> "list[Found]":
        found = await client.find_notes(namespace, query, most=limit, by_words=words)
        if not words and client.why_by_words:
            tell(f"ekiden: found by words: {client.why_by_words}")
        return found

    found = _with_client(redis, data_dir, find)
    if as_json:
        for one in found:
            say(_line(namespace, one.note, score=round(one.score, 4)))
        return
    rows = [[f"{one.score:.2f}", one.note.id, str(one.note.origin), preview(one.note.content, 80)] for one in found]
    Output().table(["NEAR", "NOTE", "BY", "BEGINS"], rows)


@app.command()
def show(
    note: Annotated[str, typer.Argument(metavar="NOTE", help="Its id, or its key.")],
    agent: Agent = None,
    user: User = None,
    team: Team = False,
    shared: Shared = None,
    files: Files = False,
    as_json: AsJson = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Show a note whole, with where it comes from."""
    namespace = _required(agent, user, team, shared, files=files)
    notes = _with_client(redis, data_dir, lambda client: client.notes(namespace))
    found = next((one for one in notes if note in (one.id, one.key)), None)
    if found is None:
        raise InvalidRequest(f"there is no note {note!r} in {namespace}: `ekiden memory list {_options(namespace)}`")
    if as_json:
        say(_line(namespace, found))
        return
    out = Output()
    out.line(f"note {found.id} {found.key and f'({found.key}) '}of {namespace}", "bold")
    out.line(f"by {found.origin}, {local_time(found.changed_ms)}; last of use {local_time(found.used_ms)}", "dim")
    if found.origin.untrusted:
        out.line(f"written after reading {found.origin.untrusted}, which nobody vouches for", "yellow")
    if found.expires_ms:
        out.line(f"until {local_time(found.expires_ms)}", "dim")
    if found.tags:
        out.line(f"tags {', '.join(found.tags)}", "dim")
    out.line()
    out.line(found.content)


@app.command()
def add(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What is to be remembered; - reads standard input.")],
    agent: Agent = None,
    user: User = None,
    team: Team = False,
    shared: Shared = None,
    files: Files = False,
    key: Annotated[str, typer.Option(metavar="KEY", help="Its name: it takes the place of the note that has it.")] = "",
    tag: Annotated[list[str] | None, typer.Option(metavar="WORD", help="A further word to find it by.")] = None,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Keep a note in your name."""
    namespace = _required(agent, user, team, shared, files=files)
    content = sys.stdin.read(MOST_CHARS + 1) if text == "-" else text
    note = _with_client(
        redis, data_dir, lambda client: client.add_note(namespace, content, key=key.strip(), tags=tag or ())
    )
    Output().line(f"note {note.id} of {namespace}")


@app.command()
def forget(
    notes: Annotated[list[str] | None, typer.Argument(metavar="[NOTE]...", help="Ids or keys.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All notes of the namespace.")] = False,
    agent: Agent = None,
    user: User = None,
    team: Team = False,
    shared: Shared = None,
    files: Files = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Take notes away."""
    namespace, named = _required(agent, user, team, shared, files=files), set(notes or ())
    if every == bool(named):
        raise InvalidRequest("name the notes to forget, or say --all")

    def is_meant(note: Note) -> bool:
        return every or bool(named & {note.id, note.key})

    gone = _with_client(redis, data_dir, lambda client: client.forget_notes(namespace, is_meant))
    if missing := sorted(named - {one.id for one in gone} - {one.key for one in gone}):
        raise InvalidRequest(f"there is no note {missing[0]!r} in {namespace}; {len(gone)} forgotten")
    Output().line(f"{len(gone)} note(s) of {namespace} forgotten")


@app.command()
def export(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to. [standard output]")
    ] = None,
    agent: Agent = None,
    user: User = None,
    team: Team = False,
    shared: Shared = None,
    files: Files = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Write notes as JSON, one a line, for `import`; without a choice, all there are."""
    chosen = _chosen(agent, user, team, shared, files=files)

    async def read(client: Client) -> list[str]:
        wanted = [chosen] if chosen else await _all(client, files=files)
        return [_line(one, note) for one in wanted for note in await client.notes(one)]

    lines = _with_client(redis, data_dir, read)
    if output is None:
        for line in lines:
            say(line)
        return
    try:
        output.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    except OSError as error:
        raise InvalidRequest(f"-o {str(output)!r} cannot be written: {error.strerror}") from error
    Output().line(f"{len(lines)} note(s) are in {output}")


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `export` wrote; - reads standard input.")],
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Keep the notes of a file, each where it was; one with the id of another takes its place."""
    from ekiden.dispatcher.cli.running.note_file import read_notes

    found = read_notes(file)

    async def write(client: Client) -> None:
        for namespace, notes in found.items():
            there = {note.id for note in await client.notes(namespace)}
            if len(there.union(note.id for note in notes)) > MOST_NOTES:
                raise InvalidRequest(
                    f"with these, {namespace} would have more than {MOST_NOTES:,} notes. Nothing was kept"
                )
        for namespace, notes in found.items():
            for first in range(0, len(notes), _MOST_READ):
                await client.put_notes(namespace, notes[first : first + _MOST_READ])

    _with_client(redis, data_dir, write)
    Output().line(f"{sum(map(len, found.values()))} note(s) in {len(found)} namespace(s)")


def _chosen(agent: str | None, user: str | None, team: bool, shared: str | None, *, files: bool) -> Namespace | None:
    """Return the namespace that options name; None: they name none. Raises ``InvalidRequest`` for several."""
    said = [name for name, value in (("--agent", agent), ("--team", team), ("--shared", shared)) if value]
    if len(said) > 1 or (user and said and not agent):
        raise InvalidRequest(f"choose one of {' and '.join([*said, *(['--user'] if user else [])])}")
    backend: Backend = "filesystem" if files else "redis"
    if agent:
        return Namespace("agent", agent, user_name(None) if user is None else user, backend)
    if user is not None:
        return Namespace("user", user=user, backend=backend)
    if shared:
        return Namespace("shared", shared, backend=backend)
    return Namespace("team", backend=backend) if team else None


async def _all(client: Client, *, files: bool) -> list[Namespace]:
    """Return where there are notes; ``files``: those in files alone."""
    return [one for one in await client.memory_namespaces() if one.backend == "filesystem" or not files]


def _required(agent: str | None, user: str | None, team: bool, shared: str | None, *, files: bool) -> Namespace:
    if (namespace := _chosen(agent, user, team, shared, files=files)) is None:
        where = " in files" if files else ""
        raise InvalidRequest(f"whose notes{where}? Say --agent NAME, --user NAME, --team or --shared NAME")
    return namespace


def _options(namespace: Namespace) -> str:
    """Return the options that name a namespace."""
    names = {"agent": namespace.name, "user": namespace.user, "shared": namespace.name}
    about = f" --user {quote(namespace.user)}" if namespace.kind == "agent" else ""
    where = " --files" if namespace.backend == "filesystem" else ""
    if namespace.kind == "team":
        return f"--team{where}"
    return f"--{namespace.kind} {quote(names[namespace.kind])}{about}{where}"


def _line(namespace: Namespace, note: Note, **more: Any) -> str:
    fields = {"namespace": namespace.id, **note.model_dump(mode="json"), **more}
    return json.dumps(fields, ensure_ascii=False)


def _with_client(redis: str | None, data_dir: Path | None, work: Callable[[Client], Awaitable[T]]) -> T:
    async def whole() -> T:
        async with connected(redis, data_dir) as client:
            return await work(client)

    return asyncio.run(whole())
