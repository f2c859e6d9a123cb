"""Settings of what agents remember; see docs/memory.md."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from ekiden.shared.embedding_models import MAX_DIMENSION, MIN_DIMENSION, OWN_ENCODER, read_model

__all__ = ["KEYS", "MemorySettings"]

KEYS = {
    "memory_folder": "memory.folder",
    "memory_embedding_model": "memory.embedding_model",
    "memory_dimension": "memory.dimension",
}
"""The dotted key of each field."""


def _as_model(value: Any) -> Any:
    return read_model(value) if isinstance(value, str) else value


class MemorySettings(BaseModel):
    """The part of the settings that is about notes for later jobs."""

    model_config = ConfigDict(defer_build=True)  # all settings are checked as one, and by few programs

    memory_folder: Path | None = None
    """Where agents with ``backend: filesystem`` have their notes; None: the folder ``memory`` in ``data_dir``."""
    memory_embedding_model: Annotated[str, BeforeValidator(_as_model)] = OWN_ENCODER
    """Who makes vectors of notes where an agent's file does not say it; a provider's model reads all of them."""
    memory_dimension: int | None = Field(None, ge=MIN_DIMENSION, le=MAX_DIMENSION)
    """How many numbers a vector of that model has; None: as many as it gives by itself."""
