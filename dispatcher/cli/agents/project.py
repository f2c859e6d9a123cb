"""The teams that ``ekiden init`` makes: their files, shipped as data (``agents/_projects``), written where none is."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ekiden.dispatcher.cli.agents.discovery import open_agents
from ekiden.dispatcher.cli.agents.files import create_file
from ekiden.dispatcher.cli.agents.grants import grant_agents, grant_file_rights
from ekiden.shared.definitions.loader import AGENTS_FOLDER
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.packs import shipped_agents_dir
from ekiden.shared.settings.files import change_setting, project_file, read_settings, value_at
from ekiden.shared.yaml_places import SafeYamlLoader

__all__ = ["Made", "Team", "make", "team", "teams"]

_FOLDER = "_projects"
_EVERY = "_every"
_SETTINGS = ".gemini/settings.json"
_SCRIPTS = "ekiden.scripts_dir"
_PACKS = "agents.packs"
_PACKS_PLACE = "PACKS"
"""What stands in the settings' text for the list of packs."""


@dataclass(frozen=True)
class Team:
    """What a project begins with."""

    name: str
    about: str
    """In a few words."""
    requests: tuple[str, ...]
    """Such as its agents take."""
    files: Mapping[str, str]
    """Path in the project -> content."""
    packs: tuple[str, ...]
    """Which teams that come with Ekiden are there beside it."""


@dataclass(frozen=True)
class Made:
    """What was written, and what was there already, by paths in the project."""

    written: tuple[str, ...]
    kept: tuple[str, ...]
    note: str = ""
    """What the user must do that nothing else does; empty: nothing."""


def teams() -> list[str]:
    """Return the names of the teams."""
    return sorted(path.stem for path in (shipped_agents_dir() / _FOLDER).glob("[!_]*.yaml"))


def team(name: str) -> Team:
    """Return a team by its name."""
    own, every = _read(name), _read(_EVERY)
    files = {**own["files"], **every["files"]}
    files[_SETTINGS] = files[_SETTINGS].replace(_PACKS_PLACE, json.dumps(own["packs"]))
    return Team(name, own["about"], tuple(own["try"]), files, tuple(own["packs"]))


def make(wanted: Team) -> Made:
    """Write the team's files into the current folder, and grant it what they ask for: no more than that.

    Settings that are there stay, and are completed. All other files that are there must be what would be written.

    Raises:
        InvalidRequest: one is another, leads out of the folder, or its agent has another file. Nothing is written.
        ConfigurationError: one cannot be written.
    """
    files = {name: text for name, text in wanted.files.items() if name != _SETTINGS}
    _refuse_clashes(files)
    kept = tuple(name for name in files if Path(name).exists())
    written = [name for name in files if name not in kept]
    for name in written:
        create_file(Path.cwd() / name, files[name])
    is_new = not project_file(Path.cwd()).exists()
    note = "" if is_new else _completed(wanted)
    if is_new:
        create_file(Path.cwd() / _SETTINGS, wanted.files[_SETTINGS])
    _grant(written)
    return Made((*written, *([_SETTINGS] if is_new else [])), (*kept, *([] if is_new else [_SETTINGS])), note)


def _read(name: str) -> Any:
    text = (shipped_agents_dir() / _FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
    return yaml.load(text, SafeYamlLoader)  # noqa: S506  # safe, as its name says


def _refuse_clashes(files: Mapping[str, str]) -> None:
    clashes = [*_others(files), *_names_taken(files)]
    if clashes:
        more = f" and {len(clashes) - 3} more" if len(clashes) > 3 else ""
        raise InvalidRequest(
            f"nothing was written: {', '.join(clashes[:3])}{more}: choose another folder, or move what is there away"
        )


def _others(files: Mapping[str, str]) -> Iterator[str]:
    here = Path.cwd().resolve()
    for name, text in (*files.items(), (_SETTINGS, None)):
        path = Path(name)
        if not path.resolve().is_relative_to(here):
            yield f"{name!r} leads out of the folder by a link"
        elif text is not None and path.exists() and not _holds(path, text):
            yield f"{name!r} exists already and is another"


def _holds(path: Path, text: str) -> bool:
    return path.is_file() and path.stat().st_size < 1_000_000 and path.read_bytes() == text.encode()


def _names_taken(files: Iterable[str]) -> Iterator[str]:
    """Yield which agents of the project have other files."""
    ours = {
        Path(name).stem: (Path.cwd() / name).resolve() for name in files if Path(name).is_relative_to(AGENTS_FOLDER)
    }
    for file in open_agents((), as_files=True).on("project"):
        if file.name in ours and file.path.resolve() != ours[file.name]:
            yield f"the agent {file.name!r} is in {str(file.path)!r} already"


def _completed(wanted: Team) -> str:
    """Add what the team needs to the settings that are there; say what stands in its way."""
    path = project_file(Path.cwd())
    values, scripts = read_settings(path), _scripts_of(wanted.files[_SETTINGS])
    if value_at(values, _PACKS) is None:
        change_setting(path, _PACKS, list(wanted.packs))
    said = value_at(values, _SCRIPTS)
    if said is None:
        change_setting(path, _SCRIPTS, scripts)
    elif said != scripts:
        return f"{path} names other scripts, {said!r}: copy those of {scripts!r} there"
    return ""


def _scripts_of(settings: str) -> str:
    from ekiden.shared.jsonc import without_comments
    from ekiden.shared.storable import read_json

    return str(value_at(read_json(without_comments(settings)), _SCRIPTS))


def _grant(written: Iterable[str]) -> None:
    paths = {Path.cwd() / name for name in written}
    grant_file_rights(paths)
    grant_agents(paths)
