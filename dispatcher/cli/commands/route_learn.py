"""``ekiden route learn``: what was learned from how requests went, and what people think of it."""

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from ekiden.dispatcher.cli.connection import connected
from ekiden.dispatcher.cli.options import AsJson, DataDir, Redis
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.cli.views.lessons import LESSON_COLUMNS, fields_of_lesson, row_of_lesson
from ekiden.dispatcher.client import Client
from ekiden.shared.errors import AmbiguousId, InvalidRequest, NotPermitted
from ekiden.shared.lessons import Lesson, State
from ekiden.shared.settings.model import load_settings
from ekiden.shared.terminal_text import note, say_json

__all__ = ["learn", "lessons_not_refused", "lessons_that_count"]

_ALL = "all"
_COUNTS = {
    "on": "They count at once, unless they are refused",
    "suggest": "They count once they are accepted: `ekiden route learn --accept ID`, or `--accept all`",
    "off": "None of them counts, and nothing is learned",
}

Ids = list[str] | None


def learn(
    accept: Annotated[
        Ids, typer.Option("--accept", metavar="ID", help="Route by it; all: by all that are new. May be repeated.")
    ] = None,
    refuse: Annotated[
        Ids,
        typer.Option("--refuse", metavar="ID", help="Never route by it; all: by none that is new. May be repeated."),
    ] = None,
    forget: Annotated[Ids, typer.Option("--forget", metavar="ID", help="Forget it. May be repeated.")] = None,
    forget_user: Annotated[
        str | None, typer.Option("--forget-user", metavar="NAME", help="Forget all that was learned from this user.")
    ] = None,
    newest: Annotated[
        int, typer.Option("--jobs", metavar="N", min=0, max=100_000, help="How many of the newest jobs to learn from.")
    ] = 1_000,
    as_json: AsJson = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Show what ended jobs teach about whose a request is; accept, refuse or forget it."""
    if sum((bool(accept), bool(refuse), bool(forget), forget_user is not None)) > 1:
        raise InvalidRequest(
            "--accept, --refuse, --forget and --forget-user exclude each other: give one after another"
        )
    mode = load_settings().routing_learn

    async def work() -> list[Lesson]:
        async with connected(redis, data_dir) as client:
            if accept or refuse:
                return await _judged(client, accept or refuse or [], "accepted" if accept else "refused")
            if forget or forget_user is not None:
                ids = _ids(forget or (), await client.lessons())
                return await client.forget_lessons(ids, user=forget_user)
            if mode != "off":
                await _look(client, newest)
            return await client.lessons()

    lessons = asyncio.run(work())
    if as_json:
        for lesson in lessons:
            say_json(fields_of_lesson(lesson))
        return
    out = Output()
    if lessons:
        out.table(LESSON_COLUMNS, [row_of_lesson(lesson) for lesson in lessons])
    if forget or forget_user is not None:
        out.line(f"{len(lessons)} forgotten")
    else:
        out.line(f"{_COUNTS[mode]} (agents.routing.learn: {mode})" if lessons else "Nothing to show so far")


def lessons_that_count(redis: str | None, data_dir: Path | None) -> list[Lesson]:
    """Return the lessons that a dispatcher with these settings routes by."""
    states = {"on": ("new", "accepted"), "suggest": ("accepted",), "off": ()}[load_settings().routing_learn]
    return [lesson for lesson in asyncio.run(_lessons(redis, data_dir)) if lesson.state in states]


def lessons_not_refused(redis: str | None, data_dir: Path | None) -> list[Lesson]:
    """Return the lessons that count or might."""
    return [lesson for lesson in asyncio.run(_lessons(redis, data_dir)) if lesson.state != "refused"]


async def _lessons(redis: str | None, data_dir: Path | None) -> list[Lesson]:
    async with connected(redis, data_dir) as client:
        return await client.lessons()


async def _look(client: Client, newest: int) -> None:
    try:
        await client.learn(newest)
    except NotPermitted as error:
        note(f"ekiden: new jobs are not looked at: {error}")


async def _judged(client: Client, given: Sequence[str], state: State) -> list[Lesson]:
    known = await client.lessons()
    new = [lesson.id for lesson in known if lesson.state == "new"]
    return await client.judge_lessons(new if _ALL in given else _ids(given, known), state)


def _ids(given: Iterable[str], known: Sequence[Lesson]) -> list[str]:
    """Return the whole ids. Raises ``InvalidRequest``, ``AmbiguousId``."""
    return list(dict.fromkeys(_id(beginning, known) for beginning in given))


def _id(beginning: str, known: Sequence[Lesson]) -> str:
    found = [lesson.id for lesson in known if beginning and lesson.id.startswith(beginning)]
    if not found:
        raise InvalidRequest(
            f"nothing that was learned has an id that begins with {beginning!r}: `ekiden route learn` lists what was"
        )
    if len(found) > 1:
        raise AmbiguousId(f"several ids begin with {beginning!r}, such as {found[0]} and {found[1]}: type more of it")
    return found[0]
