"""``ekiden agents create``: a new agent file, from options, from answers, from a template."""

from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer
import yaml

from ekiden.dispatcher.cli.agents.checks import is_kebab
from ekiden.dispatcher.cli.agents.discovery import Agents, folder_of
from ekiden.dispatcher.cli.agents.extended import Extended
from ekiden.dispatcher.cli.agents.files import create_file
from ekiden.dispatcher.cli.agents.team_fields import TeamFields
from ekiden.dispatcher.cli.agents.tools import known_tools
from ekiden.shared.definitions.catalog import build_catalog
from ekiden.shared.definitions.encoding import decode
from ekiden.shared.definitions.frontmatter import read_front_matter
from ekiden.shared.definitions.parsing import read_definition
from ekiden.shared.errors import DefinitionError, InvalidRequest
from ekiden.shared.mcp.configured import configured_servers
from ekiden.shared.packs import shipped_agents_dir
from ekiden.shared.project_folders import project_of
from ekiden.shared.settings.model import load_settings
from ekiden.shared.terminal_text import one_line, visible

__all__ = ["Draft", "ask", "ask_name", "create", "one_of", "path_for", "rendered", "templates"]

MAX_NAME = 64
_TEMPLATES = "_templates"
_OWN_TEMPLATES = "templates"
"""The user's, beside the global agents."""
_OTHER_NAMES = {"test-generator": "testing"}
_INSTRUCTIONS = """\
You are {title}.

## What you do

Describe the task here: what the agent is given, what it does step by step, and what it must never do.

## How you end

Say what a good answer holds.
"""


@dataclass
class Draft:
    """What is known of an agent that is about to be made; None: nothing was said about it."""

    name: str
    title: str | None = None
    description: str | None = None
    model: str | None = None
    tools: str | None = None
    mcp: str | None = None
    template: str | None = None
    scope: str = "project"
    team: TeamFields = field(default_factory=TeamFields)
    more: Extended = field(default_factory=Extended)


def templates() -> dict[str, Path]:
    """Return the templates by name, the user's own instead of those that came with the installation."""
    folders = shipped_agents_dir() / _TEMPLATES, folder_of("global") / _OWN_TEMPLATES
    found = {path.stem: path for folder in folders for path in sorted(folder.glob("*.md"))}
    return dict(sorted(found.items()))


def ask_name() -> str:
    """Ask a person on a terminal for the agent's name."""
    return str(typer.prompt("Name (kebab-case)", value_proc=_asked_name))


def ask(draft: Draft, *, may_choose_scope: bool) -> None:
    """Ask a person on a terminal for what nothing was said about."""
    _named(draft.name)
    names = ["none", *templates()]
    if draft.template is None:
        chosen = typer.prompt(f"Template ({', '.join(names)})", default="none", value_proc=one_of(names))
        draft.template = None if chosen == "none" else chosen
    fields, _ = _start(draft)
    if draft.title is None:
        draft.title = typer.prompt("Title", default=_titled(draft.name)).strip()
    if draft.description is None:
        about = fields.get("description", "")
        draft.description = typer.prompt("Description (what it is for)", default=about).strip()
    if draft.model is None:
        draft.model = typer.prompt("Model", default="inherit").strip()
    scopes = ["project", "global"]
    if may_choose_scope:
        draft.scope = typer.prompt("Scope (project, global)", default=draft.scope, value_proc=one_of(scopes))
    known = ", ".join(sorted(known_tools(load_settings()).names))
    tools = ", ".join(fields.get("tools") or ["ls", "read_file", "grep", "glob"])
    if draft.tools is None:
        draft.tools = typer.prompt(f"Tools (of {known})", default=tools).strip()
    if draft.mcp is None and (servers := configured_servers(project_of(Path.cwd())).servers):
        answer = typer.prompt(f"MCP servers (of {', '.join(servers)}, or none)", default="none").strip()
        draft.mcp = None if answer == "none" else answer


def create(draft: Draft, agents: Agents) -> Path:
    """Write the agent's file and return where it is.

    Raises:
        InvalidRequest: the name will not do, or is taken; another agent would have the same transfer tool.
        AgentFileError: the result would be no agent file.
    """
    path = path_for(draft.name, draft.scope, agents)
    fields, body = _start(draft)
    _fill(fields, draft)
    draft.team.put_into(fields)
    draft.more.put_into(fields)
    definition = read_definition(fields, body, draft.scope).definition
    _, problems = build_catalog({**agents.in_force, draft.name: definition}.values())
    said = draft.team.edges_said | ({"graph"} if draft.more.has_graph else set())
    lost = [one.message for one in problems if one.file == draft.name and one.aspect in said]
    if lost:
        raise InvalidRequest(f"{lost[0]}. Make that agent first, or add this line to its file afterwards")
    collisions = [problem.message for problem in problems if problem.aspect == "name"]
    if any(repr(draft.name) in message for message in collisions):
        raise InvalidRequest(f"{collisions[0]}")
    create_file(path, rendered(fields, body))
    return path


def path_for(name: str, scope: str, agents: Agents) -> Path:
    """Return where a new agent's file is to be. Raises ``InvalidRequest``: its name will not do, or is taken."""
    _named(name)
    path = folder_of(scope) / f"{name}.md"
    if scope == "project" and not path.resolve().is_relative_to(project_of(Path.cwd())):
        raise InvalidRequest(f"{str(path.parent)!r} leads out of the project by a link: write the file there yourself")
    taken = [file for file in agents.on(scope) if name == file.name]
    if taken:
        raise InvalidRequest(f"agent {name!r} exists already in {str(taken[0].path)!r}: edit it, or delete it")
    return path


def _named(name: str) -> str:
    name = name.strip()
    if not is_kebab(name) or len(name) > MAX_NAME:
        raise InvalidRequest(
            f"the name is {name!r}: it must be kebab-case, such as 'code-fixer': lower-case letters and digits, "
            f"joined by single hyphens, {MAX_NAME} characters at most"
        )
    return name


def _asked_name(text: str) -> str:
    try:
        return _named(text)
    except InvalidRequest as error:
        raise typer.BadParameter(str(error)) from None  # which asks again


def one_of(allowed: list[str]) -> Callable[[str], str]:
    """Return what takes one of these answers, and has everything else asked again."""

    def check(text: str) -> str:
        if text.strip() not in allowed:
            raise typer.BadParameter(f"{text!r} is none of {', '.join(allowed)}")
        return text.strip()

    return check


def _start(draft: Draft) -> tuple[dict[str, Any], str]:
    """Return the fields and the body to start from."""
    if draft.template is None:
        return {}, "" if draft.more.has_graph else _INSTRUCTIONS.format(title=draft.title or _titled(draft.name))
    found = templates()
    path = found.get(draft.template) or found.get(_OTHER_NAMES.get(draft.template, ""))
    if path is None:
        raise InvalidRequest(f"there is no template {draft.template!r}: it must be one of {', '.join(found)}")
    try:
        parts = read_front_matter(decode(path.read_bytes()).text)
    except OSError as error:
        raise InvalidRequest(f"the template {str(path)!r} cannot be read: {error.strerror}") from error
    return deepcopy(dict(parts.fields)), parts.body


def _fill(fields: dict[str, Any], draft: Draft) -> None:
    """Put what the user said over what the template says; ``fields`` gets the order that people read."""
    said: dict[str, Any] = {
        "kind": "agent",
        "name": draft.name,
        "title": draft.title or _titled(draft.name),
        "description": draft.description or fields.get("description"),
        "model": draft.model or fields.get("model"),
        "scope": draft.scope,
        "tools": fields.get("tools") if draft.tools is None else _listed(draft.tools),
        "mcp": {"servers": _listed(draft.mcp)} if draft.mcp else fields.get("mcp"),
    }
    rest = {key: value for key, value in fields.items() if key not in said}
    fields.clear()
    fields |= {key: value for key, value in said.items() if value is not None} | rest


def rendered(fields: dict[str, Any], body: str = "", remarks: Iterable[str] = ()) -> str:
    """Return an agent file; ``remarks`` are comments in its front matter.

    Raises:
        DefinitionError: its fields cannot be written so that they are read again.
    """
    front = yaml.safe_dump(fields, sort_keys=False, allow_unicode=True, default_flow_style=None, width=110)
    comments = "".join(f"# {one_line(visible(one), 500)}\n" for one in remarks)
    text = f"---\n{comments}{front}---\n" + (f"\n{body.strip()}\n" if body.strip() else "")
    if read_front_matter(text).fields != fields:
        raise DefinitionError(f"agent {fields['name']!r} cannot be written as YAML: use plain text in the options")
    return text


def _listed(text: str) -> list[str]:
    return ["*"] if text.strip() == "*" else [part.strip() for part in text.split(",") if part.strip()]


def _titled(name: str) -> str:
    return " ".join(part.capitalize() for part in name.split("-"))
