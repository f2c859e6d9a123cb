"""A job's story, read with the user's settings, and drawn on standard output."""

from collections.abc import Mapping, Sequence

from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.cli.views.waterfall import ASCII, UNICODE, waterfall
from ekiden.dispatcher.journal.story import Story
from ekiden.dispatcher.journal.story_reader import job_tree_story
from ekiden.shared.llm.models import learn_providers
from ekiden.shared.prices import Prices
from ekiden.shared.records import Entry
from ekiden.shared.redaction import configure_redaction
from ekiden.shared.settings.model import load_settings

__all__ = ["draw_story", "read_story"]

_COLUMNS = 110
"""How wide the waterfall is where there is no terminal."""


def read_story(job: str, journals: Mapping[str, Sequence[Entry]], now_ms: int | None = None) -> Story:
    """Read journals with the prices of the settings, and let their patterns mask what is shown of them."""
    settings = load_settings()
    configure_redaction(settings.redact, settings.secrets)
    learn_providers(settings)  # what their models cost, and what exports call them
    return job_tree_story(job, journals, now_ms, Prices(settings.prices))


def draw_story(story: Story, width: int | None = None) -> None:
    """Write the waterfall to standard output, as wide as the terminal."""
    out = Output()
    for line in waterfall(story, width or out.width(_COLUMNS), UNICODE if out.is_unicode else ASCII):
        out.line(line.text, line.style)
