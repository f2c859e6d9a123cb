"""``ekiden agents …``: agent files, made, looked at, changed and checked; no server is needed."""

import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from ekiden.dispatcher.cli.agents.checks import Checker, Finding, script_reports
from ekiden.dispatcher.cli.agents.create import Draft, ask, ask_name
from ekiden.dispatcher.cli.agents.create import create as create_agent
from ekiden.dispatcher.cli.agents.discovery import AgentFile, Agents, files_at, open_agents
from ekiden.dispatcher.cli.agents.edit import edit as edit_file
from ekiden.dispatcher.cli.agents.edit import rejected_copy
from ekiden.dispatcher.cli.agents.extended import Extended
from ekiden.dispatcher.cli.agents.extended_questions import ask_extended
from ekiden.dispatcher.cli.agents.files import delete_file
from ekiden.dispatcher.cli.agents.grants import grant_agents
from ekiden.dispatcher.cli.agents.prompts import prompt_here, say_prompt, show_prompt_of_job
from ekiden.dispatcher.cli.agents.show import (
    print_agent,
    print_consequences,
    print_findings,
    print_levels,
    print_problems,
    print_reports,
    row_of,
    shown_path,
)
from ekiden.dispatcher.cli.agents.team_fields import TeamFields
from ekiden.dispatcher.cli.agents.tools import known_tools
from ekiden.dispatcher.cli.options import AgentsDir, AsJson, DataDir, Redis
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.llm.models import learn_providers
from ekiden.shared.mcp.configured import configured_servers
from ekiden.shared.project_folders import project_of
from ekiden.shared.project_tools import allowed_tool_files
from ekiden.shared.settings.model import load_settings
from ekiden.shared.terminal_text import note, say_json
from ekiden.shared.trust.notices import take_over

__all__ = ["create", "delete", "edit", "list_", "show", "validate"]


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


def create(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="kebab-case; without it, you are asked.")] = None,
    template: Annotated[
        str | None,
        typer.Option(
            metavar="TYPE",
            help="What it starts from: debugging, code-review, documentation, testing, security, or one of your own in "
            "~/.gemini/agents/templates.",
        ),
    ] = None,
    title: Annotated[str | None, typer.Option(help="The name for people. [made of NAME]")] = None,
    description: Annotated[str | None, typer.Option(help="What it is for: routers and other agents read it.")] = None,
    model: Annotated[str | None, typer.Option(help="The model. [that of the settings]")] = None,
    tools: Annotated[str | None, typer.Option(metavar="A,B", help="The tools it gets; '' for none.")] = None,
    mcp: Annotated[str | None, typer.Option(metavar="A,B", help="The MCP servers it uses.")] = None,
    scope: Annotated[
        Scope | None, typer.Option(help="For this project, or all of yours. [agents.defaultScope]")
    ] = None,
    globally: Annotated[bool, typer.Option("--global", help="As --scope global.")] = False,
    keywords: Annotated[
        str | None, typer.Option(metavar="A,B", help="Words in requests that speak for it; '' for none.")
    ] = None,
    example: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="A request that it takes; several times.")
    ] = None,
    pattern: Annotated[
        list[str] | None, typer.Option(metavar="RE2", help="Found in requests for it; several times.")
    ] = None,
    priority: Annotated[
        int | None, typer.Option(min=0, max=100, help="The higher comes first of several. [50]")
    ] = None,
    handoff: Annotated[
        list[str] | None, typer.Option(metavar="NAME[=WHEN]", help="Whom it may hand over to; several times.")
    ] = None,
    subagent: Annotated[
        list[str] | None, typer.Option(metavar="NAME[=WHAT]", help="Whom it may delegate to; several times.")
    ] = None,
    when: Annotated[
        list[str] | None, typer.Option(metavar="NAME=CEL", help="When that handoff is offered; several times.")
    ] = None,
    payload: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=JSON", help="What it carries: a JSON Schema, or an example; several times."),
    ] = None,
    schema: Annotated[str | None, typer.Option(metavar="JSON", help="The JSON Schema of its answers.")] = None,
    on_violation: Annotated[
        str | None, typer.Option(metavar="POLICY", help="With --schema: reject, repair or warn. [reject]")
    ] = None,
    session_keys: Annotated[
        str | None, typer.Option(metavar="A,B", help="Variables of the session that it remembers.")
    ] = None,
    notes: Annotated[
        str | None, typer.Option(metavar="WHOSE", help="Its notes for later jobs: agent, user, team, shared:NAME.")
    ] = None,
    trace: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="What is traced: route, llm, tool, handoff, guardrail; '': nothing."),
    ] = None,
    trace_backend: Annotated[str | None, typer.Option(metavar="WHERE", help="console, or none.")] = None,
    node: Annotated[
        list[str] | None, typer.Option(metavar="NAME=AGENT", help="A node of its graph; several times.")
    ] = None,
    edge: Annotated[
        list[str] | None, typer.Option(metavar="FROM=TO[:CEL]", help="An edge, also to END; several times.")
    ] = None,
    entry: Annotated[str | None, typer.Option(metavar="NODE", help="Where its graph begins. [the first node]")] = None,
    extended: Annotated[bool, typer.Option("--extended", help="On a terminal: ask for all of these, too.")] = False,
    agents_dir: AgentsDir = None,
) -> None:
    """Make a new agent."""
    is_asking = _is_asking(name, extended=extended)
    if globally and scope is Scope.project:
        raise InvalidRequest("--global and --scope project exclude each other: leave one out")
    agents = _agents(ctx, agents_dir, as_files=True)
    level = (Scope.everywhere if globally else scope or Scope(load_settings().default_scope)).value
    team = TeamFields(keywords, example or (), pattern or (), priority, handoff or (), subagent or ())
    more = Extended(
        *(when or (), payload or (), schema, on_violation, session_keys, notes, trace, trace_backend),
        *(entry, node or (), edge or ()),
    )
    draft = Draft(ask_name() if name is None else name, title, description, model, tools, mcp, template, level)
    if is_asking:
        ask(draft, may_choose_scope=scope is None and not globally)
        team = team.asked(agents.in_force, briefly=extended)
    if extended:
        team, more = ask_extended(team, more, agents.in_force)
    draft.team, draft.more = team, more
    path = create_agent(draft, agents)
    out = Output()
    out.line(f"{out.symbols['ok']} {'Extended agent' if extended else 'Agent'} created: {shown_path(path)}")
    take_over(project_of(Path.cwd()))  # what was just written is the user's own, and granted below
    grant_agents({path})
    made = _agents(ctx, agents_dir, as_files=True)
    print_findings(_checker(made).report(made.get(draft.name, draft.scope)))
    if shadowed := agents.in_force.get(draft.name):
        out.line(
            f"It counts instead of the agent {shadowed.name!r} in {shown_path(Path(agents.sources[shadowed.name]))}"
        )
    out.line("Next steps:")
    out.line(f"  edit its instructions:  ekiden agents edit {draft.name}")
    out.line(f'  run it:                 ekiden agents run {draft.name} -p "…"')


def list_(
    ctx: typer.Context,
    scope: Annotated[Where, typer.Option(help="One level only.")] = Where.all,
    as_json: AsJson = False,
    form: Annotated[Format, typer.Option("--format", help="json: as --json.")] = Format.table,
    agents_dir: AgentsDir = None,
) -> None:
    """List the agents of every level, the nearest first."""
    files = _agents(ctx, agents_dir).on(scope.value)
    if as_json or form is Format.json:
        for file in files:
            if file.definition:
                say_json(row_of(file))
    else:
        print_levels(files, scope.value)
    if broken := [file for file in files if file.definition is None]:
        names = ", ".join(shown_path(file.path) for file in broken[:3]) + (" and others" if len(broken) > 3 else "")
        note(f"{len(broken)} file(s) cannot be used: {names}; see `ekiden agents validate`")


def show(
    ctx: typer.Context,
    name: Name,
    prompt: Annotated[bool, typer.Option("--prompt", help="The system prompt that its model gets.")] = False,
    job: Annotated[
        str | None, typer.Option("--job", metavar="ID", help="With --prompt: the one that it got in this job.")
    ] = None,
    as_json: AsJson = False,
    agents_dir: AgentsDir = None,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Show one agent as Ekiden reads it."""
    if job is None and (redis or data_dir):
        raise InvalidRequest("--redis and --data-dir say where --job is: name one, or leave them out")
    if job is not None:
        if not prompt:
            raise InvalidRequest("--job is for --prompt: give that, too, or look at `ekiden job show`")
        show_prompt_of_job(name, job, redis, data_dir, as_json=as_json)
        return
    agents = _agents(ctx, agents_dir)
    file = _usable(agents.get(name))
    agent = file.definition
    assert agent is not None
    if prompt and agent.graph is not None:
        raise InvalidRequest(f"agent {name!r} has a graph, which runs in its place, and no prompt: look at its nodes")
    if as_json:
        fields = {"file": str(file.path), "level": file.level, "digest": agent.digest, **agent.model_dump(mode="json")}
        say_json(fields | {"prompt": prompt_here(agent, agents.in_force)} if prompt else fields)
    elif prompt:
        say_prompt(prompt_here(agent, agents.in_force))
    else:
        own = allowed_tool_files(project_of(Path.cwd()))
        print_agent(file, {tool for one in own for tool in one.tools})


def edit(ctx: typer.Context, name: Name, agents_dir: AgentsDir = None) -> None:
    """Edit an agent with $VISUAL or $EDITOR; what would not load is refused and kept beside."""
    agents = _agents(ctx, agents_dir, as_files=True)
    file = agents.get(name)
    out = Output()
    if file.is_shipped:
        out.line(f"{name!r} comes with Ekiden: your version will be an agent of this project, which counts instead")
    if rejected_copy(file.path).exists():
        out.line(f"An earlier text that was refused is in {shown_path(rejected_copy(file.path))}")
    edited = edit_file(file, agents)
    if edited.rejected is not None:
        note(f"Not saved, {shown_path(edited.path)} stays as it was:")
        print_problems(edited.problems)
        note(f"Your text is in {shown_path(edited.rejected)}")
        raise typer.Exit(1)
    if not edited.is_saved:
        out.line("Nothing was changed")
        return
    grant_agents({edited.path})
    print_problems(edited.problems)
    out.line(f"{out.symbols['ok']} Saved: {shown_path(edited.path)}")


def delete(
    ctx: typer.Context,
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    scope: Annotated[Where, typer.Option(help="Of which level. [the nearest]")] = Where.all,
    agents_dir: AgentsDir = None,
) -> None:
    """Delete an agent's file."""
    agents = _agents(ctx, agents_dir, as_files=True)
    file = agents.get(name, scope.value)
    if file.is_shipped:
        raise InvalidRequest(
            f"agent {name!r} comes with Ekiden and belongs to the installation, so it cannot be deleted. "
            f"An agent of yours with this name counts instead: `ekiden agents edit {quote(name)}`"
        )
    if not yes:
        if not sys.stdin.isatty():
            raise InvalidRequest(f"nobody is there to be asked: give --yes to delete {shown_path(file.path)}")
        typer.confirm(f"Delete {shown_path(file.path)}?", abort=True)

    delete_file(file.path)
    out = Output()
    out.line(f"{out.symbols['ok']} Deleted: {shown_path(file.path)}")
    print_consequences(_agents(ctx, agents_dir, as_files=True), name, out)


def validate(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Argument(metavar="[NAME|FILE]", help="An agent, a file or a folder.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every agent of every level; so it is without NAME.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings count as errors.")] = False,
    as_json: AsJson = False,
    agents_dir: AgentsDir = None,
) -> None:
    """Check agent files. Exit codes: 0 all is well, 1 there are errors, 2 there is no such agent or file.

    Of all agents, it is looked at, too, whether requests find them, which two are confused, and whether the scripts
    of the stand-in model can be read.
    """
    if name is not None and every:
        raise InvalidRequest(f"either {name!r} or --all: both were given")
    agents = _agents(ctx, agents_dir, as_files=True)
    files = agents.files if name is None else _files_named(name, agents)
    checker = _checker(agents, files)
    if name is None:
        checker.findability = _findability(checker)
    reports = [checker.report(file) for file in files]
    scripts = [] if name is not None else script_reports(load_settings().scripts_dir)
    errors, warnings = (
        sum(report.count(severity) for report in (*reports, *scripts)) for severity in ("error", "warning")
    )
    is_ok = not errors and not (strict and warnings)
    if as_json:
        found = [report.as_json() for report in reports]
        broken = [report.as_json() for report in scripts]
        say_json({"ok": is_ok, "errors": errors, "warnings": warnings, "agents": found, "scripts": broken})
    else:
        in_full = name is not None and len(reports) == 1
        print_reports(reports, scripts, in_full=in_full, shipped=sum(file.is_shipped for file in files))
    raise typer.Exit(0 if is_ok else 1)


def _findability(checker: Checker) -> Mapping[str, tuple[Finding, ...]]:
    from ekiden.dispatcher.cli.agents.findability import findability
    from ekiden.dispatcher.routing.confusions import MOST_AGENTS

    if len(checker.agents) > MOST_AGENTS:
        note(f"ekiden: which agents are confused is not looked at: there are more than {MOST_AGENTS}")
    return findability(checker.agents)


def _agents(ctx: typer.Context, agents_dir: list[Path] | None, *, as_files: bool = False) -> Agents:
    return open_agents([*(ctx.obj or []), *(agents_dir or [])], as_files=as_files)


def _is_asking(name: str | None, *, extended: bool) -> bool:
    """Tell whether a person is asked. Raises ``InvalidRequest`` where one must be, and is not there."""
    is_there = sys.stdin.isatty() and sys.stdout.isatty()
    if name is None and not is_there:
        raise InvalidRequest("NAME is missing: give the new agent one, such as `ekiden agents create code-fixer`")
    if extended and not is_there:
        raise InvalidRequest("--extended asks, and nobody is there to be asked: say it by options, see --help")
    return name is None or extended


def _checker(agents: Agents, files: Sequence[AgentFile] = ()) -> Checker:
    """Return a checker that knows the agents in force and those of ``files``, wherever they are."""
    settings = load_settings()
    given = {file.name: file.definition for file in files if file.definition and not file.is_shadowed}
    servers = configured_servers(project_of(Path.cwd()))
    tools = known_tools(settings, servers.servers)
    for problem in (*learn_providers(settings), *tools.problems, *servers.problems):
        note(f"ekiden: {problem}")
    default = settings.model or ""
    return Checker({**agents.in_force, **given}, servers.servers, settings.model_aliases, default, tools, agents.broken)


def _files_named(name: str, agents: Agents) -> list[AgentFile]:
    """Return the agent of this name, or the file or the files of the folder that ``name`` is the path of."""
    path = Path(name)
    if not ("/" in name or path.suffix == ".md" or path.is_dir()) or any(file.name == name for file in agents.files):
        return [agents.get(name)]

    return files_at(path)


def _usable(file: AgentFile) -> AgentFile:
    if file.definition is None:
        raise InvalidRequest("; ".join(str(problem) for problem in file.problems))
    return file
