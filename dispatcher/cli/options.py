"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["AsJson", "DataDir", "LogLevel", "Redis"]

Redis = Annotated[
    str | None,
    typer.Option("--redis", envvar="EKIDEN_REDIS_URL", metavar="URL", help="The Redis or Valkey server to use."),
]
DataDir = Annotated[
    Path,
    typer.Option(
        "--data-dir", envvar="EKIDEN_DATA_DIR", metavar="DIR", help="Where the embedded server keeps its data."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="JSON on standard output, and nothing else.")]
LogLevel = Annotated[str, typer.Option("--log-level", metavar="LEVEL", help="debug, info, warning or error.")]
