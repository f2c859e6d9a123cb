"""What was learned from requests, as people and programs read it."""

from typing import Any

from ekiden.dispatcher.cli.views.jobs import local_time
from ekiden.shared.lessons import Lesson
from ekiden.shared.redaction import redact
from ekiden.shared.terminal_text import one_line

__all__ = ["LESSON_COLUMNS", "fields_of_lesson", "row_of_lesson"]

LESSON_COLUMNS = ("ID", "STATE", "AGENT", "REQUEST", "WHY", "USER", "JOB", "ASKED")
_WHY = {
    "answered": "the router was not sure, and it answered",
    "passed_on": "it was handed on to it, untouched",
    "named": "the user asked again, and named it",
    "chosen": "nobody was found, and the user named it",
}
_REQUEST = 60


def fields_of_lesson(lesson: Lesson) -> dict[str, Any]:
    """Return a lesson as programs read it."""
    return {"id": lesson.id, **lesson.model_dump(mode="json"), "text": redact(lesson.text)}


def row_of_lesson(lesson: Lesson) -> list[str]:
    """Return the cells of a list's line."""
    text = one_line(redact(lesson.text), _REQUEST)
    state = f"{lesson.state} by {lesson.by}" if lesson.by and lesson.state != "new" else lesson.state
    return [
        lesson.id,
        state,
        lesson.agent,
        text,
        _WHY[lesson.evidence],
        lesson.user,
        lesson.job,
        local_time(lesson.at_ms),
    ]
