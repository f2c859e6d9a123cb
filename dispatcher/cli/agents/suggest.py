"""``ekiden agents suggest``: keywords and examples that an agent could be found by."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Annotated, NamedTuple

import typer

from ekiden.dispatcher.cli.agents.discovery import AgentFile, folder_of, open_agents
from ekiden.dispatcher.cli.agents.files import replace_file
from ekiden.dispatcher.cli.agents.model_suggestions import from_model
from ekiden.dispatcher.cli.agents.show import shown_path
from ekiden.dispatcher.cli.agents.suggestions import Suggestion, from_words, usable
from ekiden.dispatcher.cli.agents.trigger_edit import as_yaml, with_triggers
from ekiden.dispatcher.cli.connection import connected
from ekiden.dispatcher.cli.options import AgentsDir, AsJson, DataDir, Redis
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.errors import ConfigurationError, EkidenError, InvalidRequest
from ekiden.shared.llm.making import Models
from ekiden.shared.llm.models import SCRIPTED, ModelValues, choose, learn_providers
from ekiden.shared.settings.model import load_settings
from ekiden.shared.terminal_text import note, say, say_json

__all__ = ["suggest"]

_WORDS = "the file's own words"


class _Made(NamedTuple):
    suggestion: Suggestion
    by: str


def suggest(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The agent's name.")],
    is_written: Annotated[bool, typer.Option("--write", help="Put it into the agent's file.")] = False,
    learned: Annotated[
        bool, typer.Option("--learned", help="What was learned from requests and is not refused, instead.")
    ] = False,
    without_model: Annotated[bool, typer.Option("--no-model", help="Ask no model, also where one is usable.")] = False,
    as_json: AsJson = False,
    agents_dir: AgentsDir = None,
    redis: Redis = None,
    data_dir: DataDir = None,
) -> None:
    """Suggest keywords and examples that an agent can be found by.

    By the agent's model where that is usable, else by the words of its file.
    """
    agents = open_agents([*(ctx.obj or []), *(agents_dir or [])], as_files=True)
    file = agents.get(name)
    if (agent := file.definition) is None:
        raise InvalidRequest("; ".join(str(problem) for problem in file.problems))
    others = [other for other in agents.in_force.values() if other.name != agent.name]
    if learned:
        made = _Made(asyncio.run(_learned(agent, others, redis, data_dir)), "what was learned from requests")
    else:
        made = asyncio.run(_made(agent, others, asks_model=not without_model))
    path = _write(file, made.suggestion.lists) if is_written and made.suggestion else None
    if as_json:
        fields = {"agent": name, "by": made.by, **made.suggestion.lists, "written": path and str(path)}
        say_json(fields)
        return
    _print(name, made, path)


async def _learned(
    agent: AgentDefinition, others: Sequence[AgentDefinition], redis: str | None, data_dir: Path | None
) -> Suggestion:
    async with connected(redis, data_dir) as client:
        lessons = await client.lessons()
    texts = [one.text for one in lessons if one.agent == agent.name and one.state != "refused"]
    return usable((), texts, agent, others)


async def _made(agent: AgentDefinition, others: Sequence[AgentDefinition], *, asks_model: bool) -> _Made:
    """Let the agent's model suggest, or go by the words where there is none, or it fails."""
    settings = load_settings()
    for problem in learn_providers(settings):
        note(f"ekiden: {problem}")
    try:
        values = ModelValues.of(settings)
        choice = choose(agent.model, values, os.environ)
        if asks_model and choice.provider is not SCRIPTED:
            model = Models(values, os.environ).model(choice)
            return _Made(await from_model(model, choice.name, agent, others), choice.name)
    except EkidenError as error:
        note(f"ekiden: no model is asked: {error}")
    return _Made(await asyncio.to_thread(from_words, agent, others), _WORDS)


def _write(file: AgentFile, lists: Mapping[str, Sequence[str]]) -> Path:
    """Put ``lists`` into the file; of a shipped one, into a file of the project. Return which."""
    target = folder_of("project") / file.path.name if file.is_shipped else file.path
    if file.is_shipped and target.exists():
        raise InvalidRequest(f"{str(target)!r} exists already, and is no file of {file.name!r}: choose another name")
    try:
        text = file.path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{str(file.path)!r} cannot be changed: it must be UTF-8 ({error})") from error
    ends = "\r\n" if "\r\n" in text else "\n"
    written = with_triggers(text.replace("\r\n", "\n"), lists)
    target.parent.mkdir(parents=True, exist_ok=True)
    replace_file(target, written.replace("\n", ends).encode())
    return target


def _print(name: str, made: _Made, path: Path | None) -> None:
    out = Output()
    if not made.suggestion:
        out.line(f"Nothing new for {name!r} (by {made.by})")
        return
    if path is None:
        say(f"# for {name}, by {made.by}")
        say(as_yaml(made.suggestion.lists).rstrip())
        out.line(f"Paste it into the file, or let `ekiden agents suggest {quote(name)} --write` do it", "dim")
    else:
        count = len(made.suggestion.keywords) + len(made.suggestion.examples)
        out.line(f"{out.symbols['ok']} {count} added, by {made.by}: {shown_path(path)}")
    if made.by == _WORDS:
        out.line("They are the file's words: put your users' into them")
