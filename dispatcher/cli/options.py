"""Options that several commands share."""

import re
from pathlib import Path
from typing import Annotated, Literal

import typer

from ekiden.shared.errors import InvalidRequest

__all__ = [
    "AgentsDir",
    "Approve",
    "AsJson",
    "Continue",
    "DataDir",
    "Deadline",
    "Input",
    "LogLevel",
    "NonInteractive",
    "OnBusy",
    "Outage",
    "Redis",
    "Session",
    "SessionPolicy",
    "State",
    "Strategy",
    "Tail",
    "Thoughts",
    "Trace",
    "Trust",
    "User",
    "Verbose",
    "seconds_of",
]

_UNITS_S = {"m": 60, "h": 3_600, "d": 86_400, "w": 604_800}

AgentsDir = Annotated[
    list[Path] | None,
    typer.Option("--agents-dir", metavar="DIR", help="A further folder of agent files (may be repeated)."),
]
Redis = Annotated[
    str | None,
    typer.Option("--redis", metavar="URL", help="The Redis or Valkey server to use. [$EKIDEN_REDIS_URL]"),
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        help="Where the embedded server keeps its data. [$EKIDEN_DATA_DIR, else your state folder, by project]",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object a line on standard output, and nothing else.")]
LogLevel = Annotated[
    Literal["debug", "info", "warning", "error"], typer.Option("--log-level", help="The least that is logged.")
]
Session = Annotated[
    str | None, typer.Option("--session", metavar="ID", help="The session to continue, or a beginning of its id.")
]
SessionPolicy = Annotated[
    Literal["route", "sticky", "entry"] | None,
    typer.Option(
        "--session-policy",
        help="Of a new session: later messages are routed, or go to who spoke last, or to who got the first one. "
        "[that of the settings]",
    ),
]
State = Annotated[
    list[str] | None,
    typer.Option(
        "--state",
        metavar="NAME=VALUE",
        help="A session variable to set; the value is JSON, or else text. May be repeated.",
    ),
]
Input = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="NAME=VALUE",
        help="An input that the named agent's file declares; JSON where it declares no text. May be repeated.",
    ),
]
Strategy = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="How to route: rule, semantic, llm, hybrid, or a plug-in's. [that of the settings]"
    ),
]
Continue = Annotated[
    bool,
    typer.Option(
        "--continue", "-c", help="Continue your newest session; with an agent, the newest that began with that agent."
    ),
]
User = Annotated[
    str | None, typer.Option("--user", metavar="NAME", help="Whose sessions. [$EKIDEN_USER, else the login name]")
]
Approve = Annotated[
    str | None,
    typer.Option(
        "--approve",
        metavar="RISKS",
        help="Approve all calls of these risks in advance: some of safe, low, medium, high, joined by commas, or all. "
        "[you are asked]",
    ),
]
NonInteractive = Annotated[
    Literal["park", "deny"] | None,
    typer.Option(
        "--non-interactive",
        help="Ask nobody here: what must be approved waits in the inbox (`ekiden approvals`), or is denied. "
        "[you are asked on a terminal, elsewhere it waits]",
    ),
]
OnBusy = Annotated[
    Literal["queue", "reject", "interrupt"],
    typer.Option("--on-busy", help="While another job of the session runs: wait, be refused, or cancel that one."),
]
Deadline = Annotated[
    str | None,
    typer.Option("--deadline", metavar="DURATION", help="A job that has not ended by then fails, as in 30m. [7d]"),
]
Thoughts = Annotated[bool, typer.Option("--thoughts", help="Show what the models think, not only how much.")]
Outage = Annotated[
    float, typer.Option("--timeout", metavar="S", min=0, help="How long to wait for a server that does not answer.")
]
Tail = Annotated[
    int | None, typer.Option("--tail", metavar="N", min=0, help="Of what happened before, show the last N events only.")
]
Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose", "-v", help="Show also what session variables are set to, and calls with all their arguments."
    ),
]
Trace = Annotated[bool, typer.Option("--trace", help="Tell what took how long, and draw it at the end: `trace show`.")]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Let the folder's agents and settings do what they ask for, this time. `ekiden trust` remembers it.",
    ),
]


def seconds_of(since: str) -> float:
    """Return the seconds of ``--since``."""
    found = re.fullmatch(r"(\d{1,5})([mhdw])", since.strip())
    if found is None:
        raise InvalidRequest(f"--since {since!r}: expected a number and one of m, h, d, w, such as 30d")
    return float(found[1]) * _UNITS_S[found[2]]
