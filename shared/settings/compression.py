"""Settings of how long conversations are compressed; see docs/limits.md."""

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["KEYS", "CompressionSettings"]

KEYS = {
    "compression_threshold": "compression.threshold",
    "compression_keep": "compression.keep",
    "compression_model": "compression.model",
}
"""The dotted key of each field."""


class CompressionSettings(BaseModel):
    """The part of the settings that is about conversations which outgrow their model."""

    model_config = ConfigDict(defer_build=True)  # all settings are checked as one, and by few programs

    compression_threshold: float = Field(0.5, ge=0.01, le=1)
    """The share of its model's window from which on a conversation is compressed; 1: never."""
    compression_keep: float = Field(0.3, ge=0, le=0.9)
    """The share of it, the newest, that stays word for word."""
    compression_model: str | None = None
    """Who writes the snapshot that stands for the rest; None: the agent's own model."""
