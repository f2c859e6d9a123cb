"""``ekiden doctor``: what is well, what is not, and what to do about it."""

import asyncio
import dataclasses
import json
from pathlib import Path

import typer

from ekiden.dispatcher.cli.connection import configured
from ekiden.dispatcher.cli.doctor.findings import Finding, error
from ekiden.dispatcher.cli.doctor.local_checks import examine_here
from ekiden.dispatcher.cli.doctor.server_checks import examine_server
from ekiden.dispatcher.cli.options import AsJson, DataDir, Redis
from ekiden.dispatcher.cli.terminal.output import MARKS, Output
from ekiden.shared.errors import ConfigurationError
from ekiden.shared.terminal_text import say

__all__ = ["doctor"]

_STYLES = {"ok": "", "warning": "yellow", "error": "red"}


def doctor(as_json: AsJson = False, redis: Redis = None, data_dir: DataDir = None) -> None:
    """Check the server, the pools, the agents, the models and the collector; say what to do where something is wrong.

    Exit code 0: nothing is wrong (there may be warnings); 1: something is; 2: the settings are, by which all else goes.
    """
    found = asyncio.run(_examine(redis, data_dir))
    is_well = all(one.status != "error" for one in found)
    if as_json:
        say(json.dumps({"ok": is_well, "checks": list(map(dataclasses.asdict, found))}, ensure_ascii=False))
    else:
        _show(found)
    raise typer.Exit(0 if is_well else 2 if found[0].check == "settings" else 1)


async def _examine(redis: str | None, data_dir: Path | None) -> list[Finding]:
    try:
        configured(redis, data_dir)
    except ConfigurationError as fault:
        return [error("settings", str(fault))]
    return [*await examine_server(redis, data_dir), *await examine_here()]


def _show(found: list[Finding]) -> None:
    out = Output()
    for one in found:
        out.line(f"{out.symbols[MARKS[one.status]]} {one.check}: {one.text}", _STYLES[one.status], hang=2)
        if one.remedy:
            out.line(f"    {out.symbols['arrow']} {one.remedy}", _STYLES[one.status], hang=6)
