"""``ekiden trace …``: what happened in a job and when, from its journal alone: no collector is needed."""

import asyncio
import json
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import typer

from ekiden.dispatcher.cli.connection import connected, job_named
from ekiden.dispatcher.cli.options import AsJson, DataDir, Redis, Thoughts
from ekiden.dispatcher.cli.views.select import view_for
from ekiden.dispatcher.cli.views.story_view import draw_story, read_story
from ekiden.dispatcher.journal.exports.events import trace_events
from ekiden.dispatcher.journal.exports.openai import openai_trace
from ekiden.dispatcher.journal.exports.otlp import otlp_trace
from ekiden.dispatcher.journal.exports.summary import story_json
from ekiden.dispatcher.journal.replay import replay as play
from ekiden.dispatcher.journal.replay import totals
from ekiden.dispatcher.journal.story import Story
from ekiden.dispatcher.journal.tree import in_order
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.prices import Prices
from ekiden.shared.records import Entry
from ekiden.shared.settings import load_settings
from ekiden.shared.terminal_text import say

__all__ = ["app"]

app = typer.Typer(help="See where a job's time and tokens went; export it, play it again.", no_args_is_help=True)

Id = Annotated[
    str | None,
    typer.Argument(metavar="[JOB]", help="The job's id, or a beginning of it that no other job has. [the newest job]"),
]
T = TypeVar("T")


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
    story, _ = _run(_read(job, redis, data_dir))
    if as_json:
        say(json.dumps(story_json(story), ensure_ascii=False))
    else:
        draw_story(story, width)


@app.command()
def export(
    job: Id = None,
    form: Annotated[
        Literal["json", "otlp", "openai"],
        typer.Option("--format", help="json: a list of events; otlp: for a collector; openai: as the Agents SDK."),
    ] = "json",
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write there. [stdout]")] = None,
    content: Annotated[
        bool, typer.Option("--content", help="With prompts, answers, arguments and results; secrets are masked.")
    ] = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Write a job's trace for other tools. Without --content, no word of a prompt or an answer is in it."""
    story, journals = _run(_read(job, redis, data_dir))
    text = json.dumps(_exported(story, journals, form, content=content), ensure_ascii=False, indent=2)
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
    speed: Annotated[float, typer.Option(metavar="X", min=0.01, help="How many times as fast as it was.")] = 1.0,
    max_pause: Annotated[float, typer.Option(metavar="S", min=0, help="No pause is longer.")] = 3.0,
    thoughts: Thoughts = False,
    as_json: AsJson = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Play a job again as it was seen when it ran."""
    story, journals = _run(_read(job, redis, data_dir))

    view = view_for(story.job, as_json=as_json, thoughts=thoughts)
    play(story.job, in_order(journals), view, speed=speed, longest_s=max_pause)
    if not as_json:
        view.note(f"Total: {totals(story)}")


def _exported(story: Story, journals: dict[str, list[Entry]], form: str, *, content: bool) -> Any:
    if form == "otlp":
        return otlp_trace(journals, story.now_ms, Prices(load_settings().prices), content=content)
    if form == "openai":
        return openai_trace(story, content=content)
    return trace_events(story, content=content)


def _run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


async def _read(prefix: str | None, redis: str | None, data_dir: Path | None) -> tuple[Story, dict[str, list[Entry]]]:
    async with connected(redis, data_dir) as client:
        job = await job_named(client, prefix)
        journals = await client.journals(job)
        return read_story(job, journals, await client.now_ms()), journals
