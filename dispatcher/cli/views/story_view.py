"""A job's story, read with the user's settings, and drawn on standard output."""

import os
from collections.abc import Mapping, Sequence
from shutil import get_terminal_size

from ekiden.dispatcher.cli.terminal.output import Output, speaks_unicode
from ekiden.dispatcher.cli.views.waterfall import ASCII, UNICODE, waterfall
from ekiden.dispatcher.journal.story import Story
from ekiden.dispatcher.journal.story_reader import job_tree_story
from ekiden.shared.prices import Prices
from ekiden.shared.records import Entry
from ekiden.shared.redaction import configure_redaction
from ekiden.shared.settings import load_settings

__all__ = ["draw_story", "read_story"]

_COLUMNS = 110
"""How wide the waterfall is where there is no terminal."""


def read_story(job: str, journals: Mapping[str, Sequence[Entry]], now_ms: int | None = None) -> Story:
    """Read journals with the prices of the settings, and let their patterns mask what is shown of them."""
    settings = load_settings()
    configure_redaction(settings.redact, settings.secrets)
    return job_tree_story(job, journals, now_ms, Prices(settings.prices))


def draw_story(story: Story, width: int | None = None) -> None:
    """Write the waterfall to standard output, as wide as the terminal."""
    out = Output()
    columns = get_terminal_size((_COLUMNS, 0)).columns if out.is_terminal else _COLUMNS
    is_plain = not (out.is_terminal and speaks_unicode(out.stream, os.environ))
    for line in waterfall(story, width or columns, ASCII if is_plain else UNICODE):
        out.line(line.text, line.style)
