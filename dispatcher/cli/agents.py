"""``ekiden agents …``: agent files, made, looked at, changed and checked; no server is needed."""

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dispatcher.cli.options import AsJson
from dispatcher.cli.output import Output, one_line, printable
from shared.errors import InvalidRequest

if TYPE_CHECKING:
    from dispatcher.cli.agents_checks import Checker, Report
    from dispatcher.cli.agents_found import AgentFile, Agents

__all__ = ["app"]

app = typer.Typer(help="Make, show, change and check agents.", no_args_is_help=True)


class Template(StrEnum):
    """What a new agent starts from."""

    debugging = "debugging"
    code_review = "code-review"
    documentation = "documentation"
    testing = "testing"
    security = "security"


class Scope(StrEnum):
    """Whose agent it is: this folder's or the user's."""

    project = "project"
    everywhere = "global"


class Where(StrEnum):
    """The levels of agent files, the nearest first."""

    project = "project"
    everywhere = "global"
    extra = "extra"
    shipped = "shipped"
    all = "all"


class Format(StrEnum):
    """How a list is printed."""

    table = "table"
    json = "json"


Name = Annotated[str, typer.Argument(metavar="NAME", help="The agent's name.")]
AgentsDir = Annotated[
    list[Path] | None,
    typer.Option("--agents-dir", metavar="DIR", help="A further folder of agent files (may be repeated)."),
]


@app.callback()
def _shared(ctx: typer.Context, agents_dir: AgentsDir = None) -> None:
    """Make, show, change and check agents. No server is needed."""
    ctx.obj = agents_dir or []


@app.command()
def create(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="kebab-case; without it, you are asked.")] = None,
    template: Annotated[Template | None, typer.Option(help="What it starts from.")] = None,
    title: Annotated[str | None, typer.Option(help="The name for people. [made of NAME]")] = None,
    description: Annotated[str | None, typer.Option(help="What it is for: routers and other agents read it.")] = None,
    model: Annotated[str | None, typer.Option(help="The model. [that of the settings]")] = None,
    tools: Annotated[str | None, typer.Option(metavar="A,B", help="The tools it gets; '' for none.")] = None,
    mcp: Annotated[str | None, typer.Option(metavar="A,B", help="The MCP servers it uses.")] = None,
    scope: Annotated[Scope, typer.Option(help="For this project, or for all of yours.")] = Scope.project,
    agents_dir: AgentsDir = None,
) -> None:
    """Make a new agent."""
    from dispatcher.cli.agents_create import Draft, ask
    from dispatcher.cli.agents_create import create as create_agent

    if name is None and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InvalidRequest("NAME is missing: give the new agent one, such as `ekiden agents create code-fixer`")
    agents = _agents(ctx, agents_dir)
    if name is None:
        draft = ask(template, scope)
    else:
        draft = Draft(name, title, description, model, tools, mcp, template, scope)
    path = create_agent(draft, agents)
    out = Output()
    out.line(f"{out.symbols['ok']} Agent created: {_shown(path)}")
    _warn(_checker(_agents(ctx, agents_dir)).report(_agents(ctx, agents_dir).get(draft.name, draft.scope)))
    if shadowed := agents.in_force.get(draft.name):
        out.line(f"It counts instead of the agent {shadowed.name!r} in {_shown(Path(agents.sources[shadowed.name]))}")
    out.line("Next steps:")
    out.line(f"  edit its instructions:  ekiden agents edit {draft.name}")
    out.line(f'  run it:                 ekiden run --agent {draft.name} "…"')


@app.command("list")
def list_(
    ctx: typer.Context,
    scope: Annotated[Where, typer.Option(help="One level only.")] = Where.all,
    form: Annotated[Format, typer.Option("--format", help="For people or for programs.")] = Format.table,
    agents_dir: AgentsDir = None,
) -> None:
    """List the agents of every level, the nearest first."""
    files = _agents(ctx, agents_dir).on(scope)
    if form is Format.json:
        typer.echo(json.dumps([_row(file) for file in files if file.definition], ensure_ascii=False, indent=2))
    else:
        _print_levels(files, scope)
    if broken := [file for file in files if file.definition is None]:
        names = ", ".join(_shown(file.path) for file in broken[:3]) + (" and others" if len(broken) > 3 else "")
        typer.echo(f"{len(broken)} file(s) cannot be used: {names}; see `ekiden agents validate`", err=True)


@app.command()
def show(
    ctx: typer.Context,
    name: Name,
    prompt: Annotated[bool, typer.Option("--prompt", help="The instructions alone.")] = False,
    as_json: AsJson = False,
    agents_dir: AgentsDir = None,
) -> None:
    """Show one agent as Ekiden reads it."""
    file = _usable(_agents(ctx, agents_dir).get(name))
    agent = file.definition
    assert agent is not None
    if as_json:
        fields = {"file": str(file.path), "level": file.level, "digest": agent.digest, **agent.model_dump(mode="json")}
        typer.echo(json.dumps(fields, ensure_ascii=False, indent=2))
    elif prompt:
        typer.echo(printable(agent.instructions))
    else:
        _print_agent(file)


@app.command()
def edit(ctx: typer.Context, name: Name, agents_dir: AgentsDir = None) -> None:
    """Edit an agent with $VISUAL or $EDITOR; what would not load is refused and kept beside."""
    from dispatcher.cli.agents_edit import edit as edit_file
    from dispatcher.cli.agents_edit import rejected_copy

    agents = _agents(ctx, agents_dir)
    file = agents.get(name)
    out = Output()
    if file.is_shipped:
        out.line(f"{name!r} comes with Ekiden: your version will be an agent of this project, which counts instead")
    if rejected_copy(file.path).exists():
        out.line(f"An earlier text that was refused is in {_shown(rejected_copy(file.path))}")
    edited = edit_file(file, agents)
    if edited.rejected is not None:
        typer.echo(f"Not saved, {_shown(edited.path)} stays as it was:", err=True)
        _print_problems(edited.problems)
        typer.echo(f"Your text is in {_shown(edited.rejected)}", err=True)
        raise typer.Exit(1)
    if not edited.is_saved:
        out.line("Nothing was changed")
        return
    _print_problems(edited.problems)
    out.line(f"{out.symbols['ok']} Saved: {_shown(edited.path)}")


@app.command()
def delete(
    ctx: typer.Context,
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    scope: Annotated[Where, typer.Option(help="Of which level. [the nearest]")] = Where.all,
    agents_dir: AgentsDir = None,
) -> None:
    """Delete an agent's file."""
    agents = _agents(ctx, agents_dir)
    file = agents.get(name, scope)
    if file.is_shipped:
        raise InvalidRequest(
            f"agent {name!r} comes with Ekiden and belongs to the installation, so it cannot be deleted. "
            f"An agent of yours with this name counts instead: `ekiden agents edit {name}`"
        )
    if not yes:
        if not sys.stdin.isatty():
            raise InvalidRequest(f"nobody is there to be asked: give --yes to delete {_shown(file.path)}")
        typer.confirm(f"Delete {_shown(file.path)}?", abort=True)
    file.path.unlink(missing_ok=True)
    out = Output()
    out.line(f"{out.symbols['ok']} Deleted: {_shown(file.path)}")
    _print_consequences(_agents(ctx, agents_dir), name, out)


@app.command()
def validate(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Argument(metavar="[NAME|FILE]", help="An agent, a file or a folder.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every agent of every level; so it is without NAME.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings count as errors.")] = False,
    as_json: AsJson = False,
    agents_dir: AgentsDir = None,
) -> None:
    """Check agent files. Exit codes: 0 all is well, 1 there are errors, 2 there is no such agent or file."""
    if name is not None and every:
        raise InvalidRequest(f"either {name!r} or --all: both were given")
    agents = _agents(ctx, agents_dir)
    files = agents.files if name is None else _files_named(name, agents)
    checker = _checker(agents)
    reports = [checker.report(file) for file in files]
    errors, warnings = (sum(report.count(severity) for report in reports) for severity in ("error", "warning"))
    is_ok = not errors and not (strict and warnings)
    if as_json:
        found = [report.as_json() for report in reports]
        totals = {"ok": is_ok, "errors": errors, "warnings": warnings, "agents": found}
        typer.echo(json.dumps(totals, ensure_ascii=False, indent=2))
    else:
        _print_reports(reports, in_full=name is not None and len(reports) == 1)
    raise typer.Exit(0 if is_ok else 1)


def _agents(ctx: typer.Context, agents_dir: list[Path] | None) -> "Agents":
    from dispatcher.cli.agents_found import open_agents

    return open_agents([*(ctx.obj or []), *(agents_dir or [])])


def _checker(agents: "Agents") -> "Checker":
    from dispatcher.cli.agents_checks import Checker
    from dispatcher.cli.agents_found import configured_servers
    from shared.settings import load_settings

    settings = load_settings()
    aliases = getattr(settings, "model_aliases", {})
    return Checker(agents.in_force, configured_servers(), aliases, settings.model)


def _files_named(name: str, agents: "Agents") -> "list[AgentFile]":
    """Return the agent of this name, or the file or the files of the folder that ``name`` is the path of."""
    path = Path(name)
    if not (path.exists() and ("/" in name or path.suffix == ".md" or path.is_dir())):
        return [agents.get(name)]
    from dispatcher.cli.agents_found import Agents as Files
    from dispatcher.cli.agents_found import AgentFile as File
    from shared.definitions.loader import Level, load_file, load_folder

    if path.is_dir():
        return Files([Level("extra", path, load_folder(path, "project"))]).files
    definition, problems = load_file(path, "project")
    return [File(definition.name if definition else path.stem, path, "", definition, tuple(problems))]


def _usable(file: "AgentFile") -> "AgentFile":
    if file.definition is None:
        raise InvalidRequest("; ".join(str(problem) for problem in file.problems))
    return file


def _row(file: "AgentFile") -> dict[str, Any]:
    agent = file.definition
    assert agent is not None
    return {
        "name": agent.name,
        "title": agent.title,
        "description": agent.description,
        "model": agent.model,
        "tools": list(agent.tools.allow) if agent.tools and agent.tools.allow is not None else None,
        "handoffs": list(agent.targets),
        "level": file.level,
        "file": str(file.path),
        "shadowed": file.is_shadowed,
    }


def _print_levels(files: "list[AgentFile]", scope: Where) -> None:
    out = Output()
    usable = [file for file in files if file.definition]
    for level in dict.fromkeys(file.level for file in usable):
        out.line(f"{level.capitalize()} agents")
        rows = [
            [
                file.name,
                one_line(file.definition.title, 40),
                file.definition.model or "inherit",
                "another counts" if file.is_shadowed else "",
            ]
            for file in usable
            if file.level == level and file.definition
        ]
        out.table(["name", "title", "model", ""], rows)
        out.line()
    if usable:
        out.line("`ekiden run --agent NAME` gives a request to one of them")
    else:
        out.line(f"No agents ({scope}). `ekiden agents create` makes one")


def _print_agent(file: "AgentFile") -> None:
    agent = file.definition
    assert agent is not None
    tools = agent.tools
    fields = {
        "name": agent.name,
        "title": agent.title,
        "description": agent.description,
        "file": f"{_shown(file.path)} ({file.level})",
        "model": agent.model or "inherit",
        "tools": "all" if tools is None or tools.allow is None else ", ".join(tools.allow) or "none",
        "forbidden": ", ".join(tools.deny) if tools else "",
        "not here": ", ".join(tools.unknown) if tools else "",
        "keywords": ", ".join(agent.triggers.keywords),
        "hands over to": ", ".join(agent.targets),
        "limits": f"{agent.limits.max_turns} turns, {agent.limits.max_seconds:g} s",
        "other fields": ", ".join(agent.extra),
        "instructions": f"{len(agent.instructions):,} characters (--prompt shows them)",
        "digest": agent.digest[:12],
    }
    out = Output()
    for name, value in fields.items():
        if value:
            out.line(f"{name + ':':15}{one_line(value, 400)}")


def _print_consequences(agents: "Agents", name: str, out: Output) -> None:
    if name in agents.in_force:
        out.line(f"Agent {name!r} in {_shown(Path(agents.sources[name]))} counts now")
        return
    for agent in agents.in_force.values():
        if name in agent.targets:
            out.line(
                f"Agent {agent.name!r} still hands over to {name!r}: mend it with `ekiden agents edit {agent.name}`"
            )


def _print_reports(reports: "list[Report]", *, in_full: bool) -> None:
    out = Output()
    for report in reports:
        if in_full or report.passed < len(report.checks):
            _print_report(report, out)
    if in_full:
        out.line(f"Validation: {reports[0].passed}/{len(reports[0].checks)} passed")
        return
    errors, warnings = (sum(report.count(severity) for report in reports) for severity in ("error", "warning"))
    out.line(f"{len(reports)} agent file(s): {errors} error(s), {warnings} warning(s)")


def _print_report(report: "Report", out: Output) -> None:
    marks = {"ok": "✓", "warning": "!", "error": "✗"} if "→" in out.symbols.values() else {"ok": "+", "error": "x"}
    out.line(f"{report.name} ({_shown(report.file)})")
    for check in report.checks:
        out.line(f"  {marks.get(check.status, '!')} {check.title}")
        for finding in check.findings:
            where = f"line {finding.line}: " if finding.line else ""
            out.line(f"      {finding.severity}: {where}{one_line(finding.message, 500)}")


def _print_problems(problems: Any) -> None:
    for problem in problems:
        where = f"line {problem.line}: " if problem.line else ""
        typer.echo(f"  {problem.severity}: {where}{printable(problem.message)}", err=True)


def _warn(report: "Report") -> None:
    for check in report.checks:
        for finding in check.findings:
            typer.echo(f"  {finding.severity}: {printable(finding.message)}", err=True)


def _shown(path: Path) -> str:
    """Return the path, short where it lies in this folder."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
