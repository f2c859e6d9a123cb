"""``ekiden policy …``: what holds of a call, whether a policy does what it should, what it would have decided."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from ekiden.dispatcher.cli.agents.discovery import open_agents
from ekiden.dispatcher.cli.connection import connected
from ekiden.dispatcher.cli.given_text import given_text
from ekiden.dispatcher.cli.options import AsJson, DataDir, Redis, seconds_of
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.journal.policy_replay import ChangedCall, Replay, replayed
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.definitions.tool_names import BUILTIN_TOOLS, is_known
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.policy.cases import Case, CaseResult, read_cases, tool_use
from ekiden.shared.policy.engine import Judgement, Policy
from ekiden.shared.policy.folder_rules import read_policy_file
from ekiden.shared.policy.policies import agents_policy, operators_policy, policy_in, with_sources
from ekiden.shared.policy.tool_use import SHELL
from ekiden.shared.redaction import preview
from ekiden.shared.risk import Risk
from ekiden.shared.settings.model import load_settings
from ekiden.shared.storable import read_json
from ekiden.shared.suggestions import nearest
from ekiden.shared.terminal_text import note, say
from ekiden.shared.yaml_places import LONGEST

__all__ = ["app"]

app = typer.Typer(
    help="See what holds of a call, test a policy, and replay it against what your agents did.", no_args_is_help=True
)

Agent = Annotated[str | None, typer.Option("--agent", metavar="NAME", help="The agent that calls: its file counts.")]
User = Annotated[str | None, typer.Option("--user", metavar="NAME", help="Who asked for the job.")]
File = Annotated[
    Path | None, typer.Option("--file", metavar="FILE", help="A TOML file of rules that counts beside the others.")
]

_MOST_BYTES = 4 * LONGEST


@app.command()
def check(
    tool: Annotated[str, typer.Argument(help="The tool: bash, edit_file, mcp.<server>.<tool>, delegate_to_<agent>.")],
    args: Annotated[str, typer.Argument(help="Its arguments as JSON; for bash, the command; else a path.")] = "{}",
    agent: Agent = None,
    user: User = None,
    risk: Annotated[
        Risk | None, typer.Option("--risk", help="That of the tool. [the built-in one's, or medium]")
    ] = None,
    file: File = None,
    as_json: AsJson = False,
) -> None:
    """Say what holds of a call here: the verdict, the rule that wins, and those that it beats."""
    policy = _policy(file)
    if agent is not None:
        policy = agents_policy(policy, open_agents(()).in_force[_known(agent)])
    use = tool_use(tool, _args_of(tool, args), cwd=Path.cwd(), agent=agent or "", user=user, risk=risk)
    if near := _misspelt(use.tool):
        note(f"ekiden: workers ship with no tool {use.tool!r}: is {near!r} meant?")
    judgement = policy.judge(use)
    if as_json:
        say(json.dumps({**asdict(judgement.decision), "won": judgement.won, "beaten": judgement.beaten}))
        return
    _show(judgement, f"{use.tool} {preview(json.dumps(dict(use.args), ensure_ascii=False), 100)}")


@app.command("test")
def hold_against(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="YAML or JSON: a list of {tool, args, expect}.")],
    rules: File = None,
    as_json: AsJson = False,
) -> None:
    """Hold the policy against a table of calls. Exit code 1: one is decided otherwise than it says."""
    cases = read_cases(given_text(file, _MOST_BYTES), str(file))
    policy, agents = _policy(rules), open_agents(()).in_force
    results = [CaseResult(place, case, _judged(policy, agents, case)) for place, case in enumerate(cases, 1)]
    wrong = [result for result in results if not result.is_right]
    if as_json:
        rows = [{"case": one.place, "ok": one.is_right, **asdict(one.judgement.decision)} for one in results]
        say(json.dumps({"ok": not wrong, "cases": rows}))
    else:
        _show_results(results, wrong)
    raise typer.Exit(1 if wrong else 0)


@app.command()
def replay(
    since: Annotated[str, typer.Option("--since", metavar="TIME", help="How far back: 12h, 30d, 4w.")] = "30d",
    file: File = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="The newest jobs at most.")] = 10_000,
    shown: Annotated[int, typer.Option("--show", metavar="N", min=0, help="Changed calls that are listed.")] = 50,
    as_json: AsJson = False,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Say what the policy of here and now would have decided about the calls in the journals."""
    settings = load_settings()
    policy = _with_file(operators_policy(settings), file)
    found = asyncio.run(_replayed(policy, seconds_of(since), limit, shown, redis, data_dir))
    if as_json:
        say(json.dumps(found.as_json(), ensure_ascii=False))
        return
    out = Output()
    jobs = f"{found.jobs} jobs" + (" (the newest; --limit reads more)" if found.is_cut else "")
    out.line(f"{found.calls} calls of {jobs}: {found.changed} would be decided otherwise")
    rows = [(before, after, str(count)) for (before, after), count in sorted(found.counts.items())]
    out.table(("WAS", "WOULD BE", "CALLS"), rows)
    listed = [
        (one.job, one.agent, one.tool, one.was, one.verdict, preview(one.call, 50), one.rule) for one in found.examples
    ]
    if listed:
        out.line()
        out.table(("JOB", "AGENT", "TOOL", "WAS", "WOULD BE", "CALL", "RULE"), listed)


async def _replayed(
    policy: Policy, since_s: float, limit: int, shown: int, redis: str | None, data_dir: Path | None
) -> Replay:
    async with connected(redis, data_dir) as client:
        return await replayed(client, policy, since_s=since_s, limit=limit, shown=shown)


def _policy(file: Path | None) -> Policy:
    settings = load_settings()
    user = urlsplit(settings.redis_url or "").username or "default"
    tells_apart = settings.signing_key is not None or user != "default"
    policy = replace(_with_file(policy_in(settings, Path.cwd()), file), tells_people_apart=tells_apart)
    for problem in policy.problems:
        note(f"ekiden: {problem}")
    return policy


def _with_file(policy: Policy, file: Path | None) -> Policy:
    if file is None:
        return policy
    if not file.exists():
        raise InvalidRequest(f"--file {str(file)!r}: there is no such file")
    return with_sources(policy, [read_policy_file(file)])


def _known(agent: str) -> str:
    return open_agents(()).get(agent).name


def _judged(policy: Policy, agents: Mapping[str, AgentDefinition], case: Case) -> Judgement:
    if case.agent in agents:
        policy = agents_policy(policy, agents[case.agent])
    return policy.judge(case.use(Path.cwd()))


def _misspelt(tool: str) -> str | None:
    """Return the built-in tool that is nearly called so: one of a plug-in may have any name."""
    return None if is_known(tool) else next(iter(nearest(tool, BUILTIN_TOOLS, 1)), None)


def _args_of(tool: str, text: str) -> Mapping[str, Any]:
    if not text.lstrip().startswith("{"):
        return {"command" if tool.casefold() in (SHELL, "run_shell_command") else "path": text}
    try:
        args = read_json(text)
    except ValueError as error:
        raise InvalidRequest(f"the arguments {text!r:.60} are no valid JSON: {error}") from None
    if not isinstance(args, dict):
        raise InvalidRequest(f"the arguments {text!r:.60} are no JSON object: name each one")
    return args


def _row(one: ChangedCall) -> tuple[str, ...]:
    return one.job, one.agent, one.tool, one.was, one.verdict, preview(one.call, 50), one.rule


def _show(judgement: Judgement, call: str) -> None:
    out, decision = Output(), judgement.decision
    out.line(f"{call} {out.symbols['arrow']} {decision.verdict}")
    out.line(f"  rule: {decision.rule}" + (f", and {', '.join(judgement.won[1:])}" if judgement.won[1:] else ""))
    if decision.reason:
        out.line(f"  {decision.reason}")
    if decision.risk is not None:
        out.line(f"  risk: {decision.risk}")
    if decision.approvers or decision.separate:
        out.line(f"  approvers: {', '.join(decision.approvers) or 'anybody'}{', not the author' * decision.separate}")
    for name, verdict, why in judgement.beaten:
        out.line(f"  not {verdict}, by {name}: {why}")


def _show_results(results: list[CaseResult], wrong: list[CaseResult]) -> None:
    out = Output()
    for one in wrong:
        decision, case = one.judgement.decision, one.case
        expected = case.expect + (f" by {case.rule!r}" if case.rule else "")
        what = case.command or json.dumps(case.args, ensure_ascii=False)
        out.line(
            f"case {one.place}: {case.tool} {preview(what, 60)}: expected {expected}, is {decision.verdict}", "red"
        )
        out.line(f"  by {decision.rule}: {decision.reason}")
    out.line(f"{len(results) - len(wrong)} of {len(results)} cases are decided as expected")
