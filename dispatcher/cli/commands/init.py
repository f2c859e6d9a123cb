"""``ekiden init``: a team of one's own, which works at once."""

import shlex
import sys
from contextlib import chdir
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ekiden.dispatcher.cli.agents.create import one_of
from ekiden.dispatcher.cli.agents.project import Made, Team, make, team, teams
from ekiden.dispatcher.cli.options import AsJson
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.project_folders import project_of
from ekiden.shared.terminal_text import say, say_json
from ekiden.shared.trust.notices import take_over

__all__ = ["init"]


class Template(StrEnum):
    """What a project begins with."""

    editorial = "editorial"
    empty = "empty"
    software = "software"
    support = "support"
    travel = "travel"


def init(
    template: Annotated[
        Template | None, typer.Argument(help="What it begins with; without it, you are asked. [empty]")
    ] = None,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where; made if it is not there.")] = Path(),
    as_json: AsJson = False,
) -> None:
    """Make a team of your own: agents, a tool, settings, and a script by which it works without a key.

    What is there already is never changed.
    """
    here = _made_folder(folder)
    if here == Path.home().resolve():
        raise InvalidRequest("your home folder holds what all your projects share: give a folder of its own")
    chosen = team(template.value if template else _asked(as_json=as_json))
    with chdir(here):
        take_over(project_of(here))  # what is written is the user's own
        made = make(chosen)
        _tell(here, chosen, made, folder, as_json=as_json)


def _made_folder(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidRequest(f"{str(folder)!r} cannot be made: {error.strerror or error}") from None
    return folder.resolve()


def _asked(*, as_json: bool) -> str:
    """Return the template that the user chooses; the least one where nobody can be asked."""
    if as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return Template.empty.value
    for name in teams():
        say(f"  {name}: {team(name).about}")
    return str(typer.prompt("Template", default=Template.empty.value, value_proc=one_of(teams())))


def _tell(here: Path, chosen: Team, made: Made, folder: Path, *, as_json: bool) -> None:
    commands = [*(f'ekiden run "{request}"' for request in chosen.requests), *_further(chosen)]
    if folder != Path():
        commands.insert(0, f"cd {shlex.quote(str(folder))}")
    if as_json:
        fields = {"template": chosen.name, "folder": str(here), "made": made.written, "kept": made.kept}
        say_json({**fields, "note": made.note, "next": commands})
        return
    out = Output()
    what = "Made" if made.written else "There already:"
    out.line(f"{out.symbols['ok']} {what} {chosen.about}, in {here}")
    for name in made.written:
        out.line(f"  {name}")
    for name in made.kept if made.written else ():
        out.line(f"  {name} (as it was)")
    if made.note:
        out.line(f"! {made.note}", "yellow")
    out.line("Next:")
    for command in commands:
        out.line(f"  {command}")
    out.line("Without a key the stand-in plays .ekiden/scripts; `ekiden models` says what a key would give")


def _further(chosen: Team) -> list[str]:
    requests = next(name for name in chosen.files if name.endswith(".jsonl"))
    first = next(Path(name).stem for name in chosen.files if name.endswith(".md"))
    suite = f".ekiden/evals/{chosen.name}.yaml"
    held = [f"ekiden eval run {suite}"] if suite in chosen.files else []
    return [f"ekiden route eval {requests}", *held, f"ekiden agents edit {first}", "ekiden agents validate --all"]
