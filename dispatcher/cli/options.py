"""Options that several commands share."""

from pathlib import Path
from typing import Annotated, Literal

import typer

__all__ = ["Abandoned", "AsJson", "DataDir", "LogLevel", "Redis"]

Abandoned = Literal["resume", "cancel"]
"""What becomes of jobs that an earlier command left unfinished."""
Redis = Annotated[
    str | None,
    typer.Option("--redis", envvar="EKIDEN_REDIS_URL", metavar="URL", help="The Redis or Valkey server to use."),
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        envvar="EKIDEN_DATA_DIR",
        metavar="DIR",
        help="Where the embedded server keeps its data. [.ekiden]",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="JSON on standard output, and nothing else.")]
LogLevel = Annotated[
    Literal["debug", "info", "warning", "error"], typer.Option("--log-level", help="The least that is logged.")
]
