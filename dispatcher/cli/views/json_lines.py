"""``--json``: one event per line, and the schema of those events, made of the record types themselves."""

import json
import sys
from collections.abc import Iterable
from functools import cache, reduce
from operator import or_
from typing import Annotated, Any, Literal, TextIO, get_args

from pydantic import BaseModel, Field, TypeAdapter, create_model

from ekiden.dispatcher.journal.activities import Activities, Activity
from ekiden.dispatcher.journal.call_states import CallState, CallStates
from ekiden.dispatcher.journal.run_paths import Path, Paths
from ekiden.shared.ids import parent_of
from ekiden.shared.records import Entry, JobRequested, Record
from ekiden.shared.stores.views import LivePiece
from ekiden.shared.terminal_text import visible

__all__ = ["JsonView", "event_schema", "event_type"]


class LiveEvent(LivePiece):
    """A piece of an answer in the making; void once a ``restart``, another ``fence`` or the turn's record comes."""

    event: Literal["live"] = "live"
    job: str = Field(description="Whose answer it is: the job's, or that of one delegated below it.")


class ActivityEvent(Activity):
    """What an agent of a delegated job does; its records tell the same in other words, and more."""

    event: Literal["activity"] = "activity"


class NoteEvent(BaseModel):
    """Something to know that is not in the journal, such as what the job waits for."""

    event: Literal["note"] = "note"
    text: str


class JsonView:
    """One JSON object per line on standard output: entries, live pieces, activities of delegated jobs, notes."""

    def __init__(
        self,
        job: str,
        stream: TextIO | None = None,
        above: Path | None = None,
        activities: Activities | None = None,
    ) -> None:
        """Show ``job``; ``above`` is the path of who delegated it, where that is known already.

        ``activities``: reads off the job what is told of those below the one that is followed; None: it is that one.
        """
        self._job = job
        self._stream = stream or sys.stdout
        self._knows_above = above is not None or parent_of(job) is None
        self._paths = Paths(above or ("user",))
        self._request: Entry | None = None
        self._calls = CallStates()
        self._changed: dict[str, CallState] = {}
        """Calls that the last entry changed."""
        self._activities = activities

    def show(self, entry: Entry) -> None:
        """See ``View``. A delegated job's request waits for the entry that was written with it and tells its path."""
        self._take_in(entry)
        if isinstance(entry.record, JobRequested) and not self._knows_above:
            self._request = entry
            return
        for one in filter(None, (self._request, entry)):
            fields = one.record.model_dump(mode="json", exclude_none=True)
            place = {"job": self._job, "seq": one.seq, "at_ms": one.at_ms, "run_path": self._paths.of(one.record.leg)}
            states = {"states": self._changed} if one is entry and self._changed else {}
            self._write({"event": "record", **place, **fields, **states})
        self._request = None
        self._tell(self._activities.note(entry) if self._activities else ())

    def learn(self, entry: Entry) -> None:
        """See ``View``."""
        self._take_in(entry)
        if self._activities:
            self._activities.note(entry)

    def _take_in(self, entry: Entry) -> None:
        self._paths.learn(entry)
        self._changed = self._calls.note(entry.record)

    def below(self, job: str) -> "JsonView":
        """See ``View``."""
        return JsonView(job, self._stream, self._paths.above(job), Activities(job))

    def live(self, piece: LivePiece) -> None:
        """See ``View``."""
        self._write({"event": "live", "job": self._job, **piece.model_dump(mode="json")})
        self._tell(self._activities.hear(piece) if self._activities else ())

    def _tell(self, activities: Iterable[Activity]) -> None:
        for one in activities:
            self._write({"event": "activity", **one.model_dump(mode="json")})

    def note(self, text: str) -> None:
        """See ``View``."""
        self._write({"event": "note", "text": text})

    def tick(self) -> None:
        """See ``View``."""

    def _write(self, fields: dict[str, Any]) -> None:
        self._stream.write(visible(json.dumps(fields, ensure_ascii=False)) + "\n")
        self._stream.flush()


def event_schema() -> dict[str, Any]:
    """Return the JSON Schema of one line. Readers must accept fields that a later version adds."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "One line of `ekiden job events --json`",
        **event_type().json_schema(),
    }


@cache
def event_type() -> TypeAdapter[Any]:
    """Return what validates one line."""
    records: Any = reduce(or_, map(_placed, get_args(get_args(Record)[0])))
    placed: Any = Annotated[records, Field(discriminator="type")]
    events: Any = placed | LiveEvent | ActivityEvent | NoteEvent
    return TypeAdapter(Annotated[events, Field(description="Told apart by `event`, records by `type`.")])


def _placed(record: type[BaseModel]) -> type[BaseModel]:
    """Return the model of ``record`` as an event: flat, with its place in the journal."""
    extra: dict[str, Any] = {
        "event": (Literal["record"], "record"),
        "job": (str, Field(description="Whose journal it is of: the job's, or that of one delegated below it.")),
        "seq": (int, Field(description="The place in that journal, from 1.")),
        "run_path": (list[str], Field(description="The agents that led here, from the user; the last one acts.")),
        "at_ms": (int, Field(description="The server's clock, in ms since the epoch.")),
        "states": (dict[str, CallState], Field(default={}, description="Calls that stand differently now, by id.")),
    }
    return create_model(f"{record.__name__}Event", __base__=record, __doc__=record.__doc__, **extra)
