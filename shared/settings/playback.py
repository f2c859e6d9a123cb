"""The setting of pools that play recorded jobs again."""

from pathlib import Path

from pydantic import BaseModel

__all__ = ["PlaybackSettings"]


class PlaybackSettings(BaseModel):
    """The part of the settings that is about playing jobs again."""

    playback: Path | None = None
    """A folder of recordings: this pool asks no model, runs no tool and no hook, and gives what is recorded there."""
