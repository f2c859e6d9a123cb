"""``ekiden trace …``: what happened in a job and when, from its journal alone: no collector is needed."""

import asyncio
import contextlib
import json
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import typer

from ekiden.dispatcher.cli.connection import connected, job_named
from ekiden.dispatcher.cli.options import AsJson, DataDir, Redis, Thoughts
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.cli.views.gemini_files import trace_file, write_json
from ekiden.dispatcher.cli.views.select import view_for
from ekiden.dispatcher.cli.views.story_view import draw_story, read_story
from ekiden.dispatcher.client import Client
from ekiden.dispatcher.journal.exports.events import trace_events
from ekiden.dispatcher.journal.exports.openai import openai_trace
from ekiden.dispatcher.journal.exports.otlp import otlp_trace
from ekiden.dispatcher.journal.exports.summary import story_json
from ekiden.dispatcher.journal.exports.turns import turn_events
from ekiden.dispatcher.journal.replay import duration_s, totals
from ekiden.dispatcher.journal.replay import replay as play
from ekiden.dispatcher.journal.story import Story
from ekiden.dispatcher.journal.tree import in_order
from ekiden.shared.errors import InvalidRequest, UnknownJob
from ekiden.shared.ids import session_of
from ekiden.shared.prices import Prices
from ekiden.shared.records import Entry
from ekiden.shared.settings.model import load_settings
from ekiden.shared.terminal_text import say

__all__ = ["app"]

app = typer.Typer(help="See where a job's time and tokens went; export it, play it again.", no_args_is_help=True)

Id = Annotated[
    str | None,
    typer.Argument(metavar="[JOB]", help="The job's id, or a beginning of it that no other job has. [the newest job]"),
]
T = TypeVar("T")
_ONE_OF_BOTH = "JOB and --session exclude each other: give one of them"
_Traced = tuple[Story, dict[str, list[Entry]]]
"""A job's story, and the journals of it and of those below."""


@app.command()
def show(
    job: Id = None,
    width: Annotated[int | None, typer.Option(metavar="N", min=40, help="Columns to use. [the terminal's]")] = None,
    as_json: AsJson = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Draw a job as a waterfall: agents, model calls, tools, handoffs, each with what it took.

    A job that still runs is drawn up to now.
    """
    [(story, _)] = _run(_read_one(job, redis, data_dir))
    if as_json:
        say(json.dumps(story_json(story), ensure_ascii=False))
    else:
        draw_story(story, width)


@app.command()
def export(
    job: Id = None,
    form: Annotated[
        Literal["json", "otlp", "openai", "turns"],
        typer.Option(
            "--format",
            help="json: a list of events; otlp: for a collector; openai: as the Agents SDK; turns: as gemini-cli's.",
        ),
    ] = "json",
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write there. [stdout]")] = None,
    content: Annotated[
        bool, typer.Option("--content", help="With prompts, answers, arguments and results; secrets are masked.")
    ] = False,
    session: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="All jobs of this session, instead of one.")
    ] = None,
    gemini: Annotated[
        bool,
        typer.Option("--gemini", help="Write the whole session to ~/.gemini/traces/DATE/session-ID.json, as json."),
    ] = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Write a job's trace for other tools. Without --content, no word of a prompt or an answer is in it."""
    if job is not None and session is not None:
        raise InvalidRequest(_ONE_OF_BOTH)
    if gemini and (output is not None or form != "json"):
        raise InvalidRequest("--gemini says where to and how: leave out --output and --format")
    if gemini or session is not None:
        traced = _run(_read_session(job, session, redis, data_dir))
    else:
        traced = _run(_read_one(job, redis, data_dir))
    found = _exported(traced, form, content=content)
    if gemini:
        story = traced[0][0]
        path = trace_file(story.session, story.start_ms)
        write_json(path, found)
        Output().line(f"The trace of session {story.session}, {len(traced)} job(s), is in {path}")
        return
    text = json.dumps(found, ensure_ascii=False, indent=2)
    if output is None or str(output) == "-":
        say(text)
        return
    try:
        output.write_text(text + "\n", "utf-8")
    except OSError as error:
        reason = error.strerror or error
        raise InvalidRequest(f"cannot write {str(output)!r} ({reason}): name a file that can be written") from error


@app.command()
def replay(
    job: Id = None,
    session: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="All jobs of this session, instead of one.")
    ] = None,
    speed: Annotated[float, typer.Option(metavar="X", min=0.01, help="How many times as fast as it was.")] = 1.0,
    max_pause: Annotated[float, typer.Option(metavar="S", min=0, help="No pause is longer.")] = 3.0,
    thoughts: Thoughts = False,
    as_json: AsJson = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Play a job again as it was seen when it ran, or all jobs of a session."""
    if job is not None and session is not None:
        raise InvalidRequest(_ONE_OF_BOTH)
    traced = _run(_read_session(None, session, redis, data_dir) if session else _read_one(job, redis, data_dir))
    out = Output()
    if not as_json:
        of = f"session {traced[0][0].session}" if session else f"job {traced[0][0].job}"
        out.line(f"{out.symbols['again']} Replaying {of}")
    for story, journals in traced:
        view = view_for(story.job, as_json=as_json, thoughts=thoughts)
        play(story.job, in_order(journals), view, speed=speed, longest_s=max_pause)
    if not as_json:
        stories = [story for story, _ in traced]
        out.line(f"\nTotal: {totals(stories)}\nDuration: {duration_s(stories)}")


def _exported(traced: Sequence[_Traced], form: str, *, content: bool) -> Any:
    if form == "otlp":
        journals = {job: entries for _, found in traced for job, entries in found.items()}
        return otlp_trace(journals, traced[-1][0].now_ms, Prices(load_settings().prices), content=content)
    if form == "turns":
        return turn_events({job: entries for _, found in traced for job, entries in found.items()}, content=content)
    if form == "openai":
        if len(traced) > 1:
            raise InvalidRequest(
                f"openai is the form of one job: name one, of {traced[0][0].job} to {traced[-1][0].job}"
            )
        return openai_trace(traced[0][0], content=content)
    return [event for story, _ in traced for event in trace_events(story, content=content)]


def _run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


async def _read_one(prefix: str | None, redis: str | None, data_dir: Path | None) -> list[_Traced]:
    async with connected(redis, data_dir) as client:
        return [await _traced(client, await job_named(client, prefix))]


async def _read_session(job: str | None, prefix: str | None, redis: str | None, data_dir: Path | None) -> list[_Traced]:
    """Return the jobs of a session, or of the one that ``job`` is of, oldest first, as far as they are still kept."""
    async with connected(redis, data_dir) as client:
        named = session_of(await job_named(client, job)) if prefix is None else await client.resolve_session(prefix)
        found: list[_Traced] = []
        for number in range(1, (await client.session(named)).jobs + 1):
            with contextlib.suppress(UnknownJob):
                found.append(await _traced(client, f"{named}.{number}"))
        if not found:
            raise UnknownJob(
                f"session {named!r} has no job any more: what it said is in `ekiden sessions export {named}`"
            )
        return found


async def _traced(client: Client, job: str) -> _Traced:
    journals = await client.journals(job)
    return read_story(job, journals, await client.now_ms()), journals
