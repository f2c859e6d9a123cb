"""``ekiden eval …``: regression suites of teams."""

import asyncio
import json
from pathlib import Path
from typing import Annotated

import typer

from ekiden.dispatcher.cli.options import Approve, AsJson, Trust
from ekiden.dispatcher.cli.running.preapproval import Preapproval
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.evals.junit import write_junit
from ekiden.dispatcher.evals.running import CaseResult, play_suite, record_suite, strictly
from ekiden.dispatcher.evals.suite import Suite, read_suite
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.redaction import redact_all
from ekiden.shared.terminal_text import say
from ekiden.shared.trust_prompts import settle_trust

__all__ = ["app"]

app = typer.Typer(help="Hold what a team does against a suite of requests.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Keep the name of the one command."""


@app.command()
def run(
    suites: Annotated[list[Path], typer.Argument(metavar="SUITE.yaml…", help="The files with the requests.")],
    record: Annotated[
        bool, typer.Option("--record", help="Ask models and run tools, and keep what they give beside the suite.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="A case whose prompts are not those that were recorded fails, too.")
    ] = False,
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Write the results there, as JUnit does.")
    ] = None,
    approve: Approve = None,
    as_json: AsJson = False,
    trust: Trust = False,
) -> None:
    """Run the requests of suites from what was recorded, and hold the jobs against what is expected of them.

    No model is asked and no tool runs, but with --record. Exit codes: 0 all is as expected, 1 something is not, 2 a
    suite cannot be run.
    """
    if approve is not None and not record:
        raise InvalidRequest("--approve is for --record: recordings say themselves what was approved")
    risks = Preapproval.of(approve, "deny").risks
    read = [read_suite(path, for_recording=record) for path in suites]
    names = [suite.title for suite in read]
    if twice := [name for name in names if names.count(name) > 1]:
        raise InvalidRequest(f"two suites are named {twice[0]!r}: give one of them another 'name'")
    settle_trust(trust)
    results: dict[str, list[CaseResult]] = {}
    for suite in read:
        found = asyncio.run(record_suite(suite, risks) if record else play_suite(suite))
        results[suite.title] = [strictly(one) for one in found] if strict else found
        _show(suite, results[suite.title], as_json=as_json)
    if junit is not None:
        write_junit(junit, results)
    raise typer.Exit(1 if any(one.faults for cases in results.values() for one in cases) else 0)


def _show(suite: Suite, results: list[CaseResult], *, as_json: bool) -> None:
    out = Output()
    for one in results:
        if as_json:
            say(json.dumps(redact_all({"suite": suite.title, **one.as_json()}), ensure_ascii=False))
            continue
        way = f" {out.symbols['arrow']} ".join(one.way) or "nobody"
        stale = f" ({one.stale} of {one.prompts} prompts are others than the recorded ones)" if one.stale else ""
        out.line(f"{out.symbols['failed' if one.faults else 'ok']} {one.case.name}: {way}{stale}")
        for fault in one.faults:
            out.line(f"   {fault}", hang=3)
    if not as_json:
        failed = sum(bool(one.faults) for one in results)
        out.line(f"{suite.title}: {len(results)} case{'s' * (len(results) != 1)}, {failed} failed")
