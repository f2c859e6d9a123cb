"""Settings. Precedence: command line > environment > project ``.gemini/settings.json`` > the user's one > defaults.

A project's file counts as far as its user trusts the project (``shared.trust``); of one that is not trusted, what is
``HARMLESS`` counts, and what else it says is ignored and told.

A field is ``EKIDEN_<NAME>`` in the environment and, in the files, the dotted key that ``key_of`` tells:
``agents.routing.…`` as in gemini-cli's files, ``ekiden.…`` for what is ours alone.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import unquote, urlsplit

from pydantic import AfterValidator, Field, SecretStr, TypeAdapter, ValidationError, ValidationInfo, field_validator

from ekiden.shared.errors import ConfigurationError
from ekiden.shared.faults import fault_in
from ekiden.shared.project_folders import data_folder, project_of
from ekiden.shared.settings.fallbacks import ModelNames
from ekiden.shared.settings.files import Change, global_file, place_in, project_file, read_settings, value_at
from ekiden.shared.settings.groups import GROUP_KEYS, SettingGroups
from ekiden.shared.settings.guardrails import with_users_own
from ekiden.shared.settings.names import ABSOLUTE, HARMLESS, KEYS, OTHER_KEYS, OTHER_NAMES, PATHS, PREFIX
from ekiden.shared.settings.packs import narrowed
from ekiden.shared.settings.policy import OF_FOLDERS
from ekiden.shared.settings.values import (
    JOB_DEADLINE_S,
    LONGEST_DEADLINE_S,
    AlwaysKept,
    Command,
    PriceValues,
    SandboxSetting,
    as_words,
    checked_address,
    checked_endpoints,
    checked_folders,
    checked_globs,
    checked_places,
    checked_variables,
    checked_web_address,
    json_of,
)
from ekiden.shared.signing import Signing, secrets_in, signing_of
from ekiden.shared.trust.grants import grants_of, stands_by
from ekiden.shared.trust.notices import tell
from ekiden.shared.trust.rights import Right, setting_rights

__all__ = [
    "HARMLESS",
    "Settings",
    "key_of",
    "load_settings",
    "origin_of",
    "origins",
    "require_absolute",
    "settings_wanted",
    "values_in_force",
]

_KEYS = KEYS | GROUP_KEYS


class Settings(SettingGroups):
    """Everything that can be set, with its default. Durations end in ``_s`` (seconds). Made by ``load_settings``."""

    redis_url: Annotated[str, AfterValidator(checked_address)] | None = None
    """``redis://``, ``rediss://`` or ``unix://``; None: the embedded server of ``data_dir``."""
    wait_replicas: int = Field(0, ge=0)
    """Replicas of the server that must have a submission or a commit before it counts as done; 0: none."""
    signing_key: SecretStr | None = None
    """Signs what is stored; what is not signed is refused. ``ID:SECRET``, the first signs, all check; or ``@FILE``."""
    data_dir: Path = Field(default_factory=lambda: data_folder(Path.cwd()))
    """Where the embedded server keeps its data; by itself in the user's state folder, one for each project."""
    user: str | None = None
    """Whose sessions the command line continues and begins; None: the login name."""
    agents_dir: list[Path] = Field(default_factory=list)
    """Further folders of agent files; in the environment joined as in ``PATH``, or a JSON list."""
    publish: bool = False
    """Whether a dispatcher that starts puts its agent files in force, instead of the catalog that is."""
    project: Path | None = None
    """Another project whose agents are read, too, as far as it is trusted: where the jobs of ``run --cwd`` work."""
    scripts_dir: Path | None = None
    """Scripts for the scripted model, before those that ship with the agents; None: these alone."""
    workspace_root: Path | None = None
    """File and shell tools act under it only; None: no such tools."""
    tools_read_only: Annotated[list[str], AfterValidator(checked_globs)] = Field(default_factory=list)
    """What agents may not change, beside what is built in: globs of relative paths, a JSON list or a single one."""
    tools_writable: Annotated[list[str], AfterValidator(checked_places)] = Field(default_factory=list)
    """Built-in read-only places that agents may write, by name: a JSON list or a single one."""
    tools_sandbox: SandboxSetting = "auto"
    """What confines commands: ``auto`` the strongest that works, ``required`` the same, and no commands without any."""
    tools_readable: Annotated[list[Path], AfterValidator(checked_folders)] = Field(default_factory=list)
    """What else commands in a sandbox may read and execute; in the environment joined as in ``PATH``, or a JSON list.
    """
    tools_max_processes: int = Field(512, ge=0)
    """Processes and threads of a command at a time; 0: any number."""
    tools_max_memory_mib: int = Field(4_096, ge=0)
    """Memory of a command with all that it started, and data of each process of it; 0: what there is."""
    tools_max_file_mib: int = Field(1_024, ge=0)
    """Size of a file that a command writes; 0: any."""
    model: str | None = None
    """The model of agents that name none, or ``inherit``; None: Gemini where there is a key, else the stand-in."""
    model_aliases: dict[str, ModelNames] = Field(default_factory=dict)
    """Names that agent files use -> the model that serves them here (``default``: the one above), or several."""
    model_timeout_s: float = Field(120.0, gt=0)
    model_attempts: int = Field(5, ge=1)
    gemini_base_url: Annotated[str, AfterValidator(checked_web_address)] | None = None
    """Another server that speaks Gemini's protocol."""

    concurrency: int = Field(50, ge=1, le=100_000)
    tool_threads: int = Field(8, ge=1, le=1_000)
    lease_s: float = Field(5.0, gt=0)
    drain_s: float | None = Field(None, ge=0)
    """How long a pool that is told to stop lets its legs go on before it gives them back.

    None: 10 s; the pools of ``run`` and ``up`` not at all.
    """
    sweep_s: float = Field(1.0, gt=0)
    queued_grace_s: float = Field(2.0, ge=0)
    """How long a message may be under way before the sweeper looks for it."""
    job_deadline_s: float = Field(JOB_DEADLINE_S, gt=0, le=LONGEST_DEADLINE_S)
    """A job that has not ended by then ends as failed, whoever runs it or not."""
    quarantine_from: int = Field(2, ge=1)
    """Claims of a leg without any progress from which on it runs in a process of its own."""
    max_attempts: int = Field(5, ge=1)
    """Claims of a leg without any progress before the job is declared dead."""
    handoff_cycles: str = Field("parent", pattern=r"^(deny|parent|limit:[1-9][0-9]*)$")
    """``deny``, ``parent`` or ``limit:<n>``."""
    default_scope: Literal["project", "global"] = "project"
    """Where ``agents create`` puts agents."""
    context_persistence: AlwaysKept = True
    """Contexts of handoffs are always kept: a file that says so is right, and one that forbids it is refused."""

    tools_after_untrusted: Literal["allow", "deny"] = "allow"
    """``deny``: every agent gets only harmless tools once its job has read text whose author nobody vouches for."""
    tools_timeout_s: float = Field(600.0, gt=0, le=86_400)
    """Seconds until a tool's call is given up, where the tool says nothing of it."""
    tools_web_fetch_allow_private: Annotated[list[str], AfterValidator(checked_endpoints)] = Field(default_factory=list)
    """Addresses of private networks that ``web_fetch`` may ask all the same: ``HOST:PORT``; a list, or commas."""
    tools_env: Annotated[list[str], AfterValidator(checked_variables)] = Field(default_factory=list)
    """What else commands of tools get of a worker's environment: ``NAME`` or ``PREFIX_*``; a list, or joined by commas.

    What a pattern lets through must look harmless; what is named in full is meant, a key too.
    """

    notify_command: Command = Field(default_factory=list)
    """Told of each approval that waits, as JSON on its standard input, by the worker; a list, or one line."""

    redact: list[str] = Field(default_factory=list)
    """What else is masked in traces, logs and exported journals: expressions of RE2, as a JSON list or a single one."""
    prices: dict[str, PriceValues] = Field(default_factory=dict)
    """Beginnings of models' names -> US dollars for a million tokens: input, output."""

    @property
    def signing(self) -> Signing:
        """What signs and checks. Raises ``ConfigurationError`` for a key that is none."""
        return signing_of(self.signing_key.get_secret_value() if self.signing_key else None)

    @property
    def notes_folder(self) -> Path:
        """Where notes lie that are kept in files."""
        return self.memory_folder or self.data_dir.absolute() / "memory"

    @property
    def secrets(self) -> list[str]:
        """What is masked wherever it is said: secrets of signing keys, the server's password, keys of ``providers``.

        Raises ``ConfigurationError`` as ``signing`` does.
        """
        password = urlsplit(self.redis_url or "").password
        keys = secrets_in(self.signing_key.get_secret_value() if self.signing_key else None)
        keys += [key for one in self.providers.values() if (key := os.environ.get(one.api_key_env or ""))]
        return [*keys, unquote(password)] if password else keys

    @field_validator("tools_after_untrusted", mode="before")
    @classmethod
    def _not_yet(cls, value: Any) -> Any:
        if value == "ask":
            raise ValueError("'ask' does not work yet: use 'deny', or 'allow'")
        return value

    @field_validator("max_attempts")
    @classmethod
    def _more_than_quarantine_from(cls, value: int, info: ValidationInfo) -> int:
        if value <= (quarantine_from := info.data.get("quarantine_from", 0)):
            raise ValueError(
                f"{value} must be more than {key_of('quarantine_from')} ({quarantine_from}): "
                "a job is declared dead only after its leg has run alone"
            )
        return value

    @field_validator("tools_env", "tools_web_fetch_allow_private", mode="before")
    @classmethod
    def _as_words(cls, value: Any) -> Any:
        return as_words(value)

    @field_validator("redact", "tools_read_only", "tools_writable", mode="before")
    @classmethod
    def _as_patterns(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        return (
            json_of(value, "a pattern, or a JSON list of patterns")
            if value.lstrip().startswith(('["', "[]"))
            else [value]
        )

    @field_validator("agents_dir", "tools_readable", mode="before")
    @classmethod
    def _as_folders(cls, value: Any) -> Any:
        """Take one folder, several joined as in ``PATH``, or a JSON list."""
        return _folders_in(value)

    @field_validator("model_aliases", "prices", mode="before")
    @classmethod
    def _as_object(cls, value: Any) -> Any:
        return json_of(value, 'a JSON object such as {"fast": "gemini-2.5-flash"}') if isinstance(value, str) else value


def load_settings(changes: Sequence[Change] = (), /, **options: Any) -> Settings:
    """Return the settings in force; ``options`` come from the command line, None where nothing was given.

    With ``changes`` of files: as they will be. Raises ``ConfigurationError``: setting, fault, and origin.
    """
    given = {name: value for name, value in options.items() if value is not None}
    try:
        settings = Settings(**values_in_force(given, changes))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = str(first["loc"][0])
        inside = "".join(f"{part}: " for part in first["loc"][1:] if isinstance(part, str))
        problem = inside + fault_in(first)
        place = _place_of(name, given, first["loc"][1:])
        raise ConfigurationError(f"setting {key_of(name)!r} ({place}): {problem}") from error
    for name in ABSOLUTE:
        if name not in given and name not in (change.name for change in changes):
            require_absolute(name, getattr(settings, name))
    return settings


def values_in_force(given: Mapping[str, Any], changes: Sequence[Change] = ()) -> dict[str, Any]:
    """Return what is set anywhere, by field, as it was written; ``given`` counts most.

    With ``changes``: what will be, where no variable hides it. Raises ``ConfigurationError``: a file cannot be read.
    """
    values: dict[str, Any] = {}
    changed = [change.name for change in changes]
    environment = {name: value for name, value in _environment().items() if name not in changed}
    for source in (*(values for _, values in reversed(_files(changes))), environment, given):
        for name, value in source.items():
            known = values.get(name)  # objects are joined, all else is replaced
            values[name] = {**known, **value} if isinstance(known, dict) and isinstance(value, dict) else value
    return values


def _environment() -> dict[str, str]:
    """Return what the environment says, by field; of two names of one setting, ours counts."""
    theirs = {name: os.environ[variable] for name, variable in OTHER_NAMES.items() if variable in os.environ}
    said = {variable.upper(): value for variable, value in os.environ.items()}
    ours = {name: said[variable] for name in Settings.model_fields if (variable := _variable_of(name)) in said}
    return theirs | ours


def _variable_of(name: str) -> str:
    """Return the environment variable of the field ``name``."""
    return f"{PREFIX}{name.upper()}"


def key_of(name: str) -> str:
    """Return the dotted key of field ``name`` in the settings files."""
    return _KEYS.get(name, f"ekiden.{name}")


def origins() -> dict[str, str]:
    """Return where each field's value comes from: ``environment EKIDEN_…``, a file's path, or ``default``."""
    files = _files()
    return {name: _origin(name, {}, files) for name in Settings.model_fields}


def origin_of(name: str) -> str:
    """Return where the value of the field ``name`` comes from, as ``origins`` does."""
    return _origin(name, {})


def settings_wanted(project: Path, values: Mapping[str, Any]) -> dict[str, list[Right]]:
    """Return what a project's settings file asks for, by field. ``values``: as ``read_settings`` reads it."""
    found = {name: value_at(values, key_of(name)) for name in sorted(Settings.model_fields.keys() - HARMLESS)}
    return {name: setting_rights(project, key_of(name), value) for name, value in found.items() if value is not None}


def require_absolute(name: str, value: Path | list[Path] | None) -> None:
    """Raise ``ConfigurationError`` where the user's setting ``name`` holds a path that is none everywhere."""
    for path in value if isinstance(value, list) else [value]:
        if path is not None and not path.is_absolute():
            raise ConfigurationError(
                f"setting {key_of(name)!r} ({origin_of(name)}): {str(path)!r} would be another folder in each project, "
                "with whatever its author put there: give an absolute path, or a project's in its own settings file"
            )


def _origin(name: str, given: Mapping[str, Any], files: Sequence[tuple[Path, Mapping[str, Any]]] = ()) -> str:
    """Return what ``origin_of`` does; ``files``: what ``_files`` says, where that is known."""
    variable = _variable_of(name)
    if name in given:
        return "command line"
    for known in (variable, OTHER_NAMES.get(name, variable)):
        if known in os.environ:
            return f"environment {known}"
    return next((str(path) for path, values in files or _files() if name in values), "default")


def place_of(name: str, inside: Sequence[str | int]) -> str:
    """Return where what is ``inside`` the value of the field ``name`` stands: as ``origins`` does, with its line."""
    return _place_of(name, {}, inside)


def _place_of(name: str, given: dict[str, Any], inside: Sequence[str | int]) -> str:
    """Return where a wrong value comes from, with the line that it stands in."""
    origin = _origin(name, given)
    if (path := Path(origin)) not in (project_file(), global_file()):
        return origin
    is_ours = value_at(read_settings(path), key_of(name)) is not None
    key = key_of(name) if is_ours else OTHER_KEYS.get(name, key_of(name))
    return place_in(path, [*key.split("."), *inside])


def _files(changes: Sequence[Change] = ()) -> list[tuple[Path, dict[str, Any]]]:
    """Return the settings files, the one that counts more first, each with the values that it may set, by field."""
    here = project_of(Path.cwd())
    project, users = project_file(here), global_file()
    own = _fields(read_settings(users))
    theirs = _allowed(here, read_settings(project))
    theirs = theirs if stands_by(here) else narrowed(theirs, own)
    for change in changes:
        own, theirs = change.made_in(users, own), change.made_in(project, theirs)
    return [(project, with_users_own(theirs, own)), (users, own)]


def _fields(values: Mapping[str, Any]) -> dict[str, Any]:
    if not values:  # there is no such file
        return {}
    found = {name: value_at(values, key_of(name)) for name in Settings.model_fields}
    found |= {name: value_at(values, key) for name, key in OTHER_KEYS.items() if found[name] is None}
    return {name: value for name, value in found.items() if value is not None}


def _allowed(project: Path, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a project's file says, without what nobody granted it; its paths begin at the project."""
    if not values:
        return {}
    wanted = {name: rights for name, rights in settings_wanted(project, values).items() if name not in OF_FOLDERS}
    said = {name: value for name, value in _fields(values).items() if name not in OF_FOLDERS}
    grants = grants_of(project) if wanted else None
    ignored = [name for name, rights in wanted.items() if grants and grants.lacking(rights)]
    if grants and ignored:
        because = grants.because(right for name in ignored for right in grants.lacking(wanted[name]))
        tell(project, f"ignored settings {', '.join(map(key_of, ignored))}{because}")
    wrong = [name for name in sorted(said.keys() & HARMLESS) if not _is_valid(name, said[name])]
    if wrong and not stands_by(project):
        tell(project, f"ignored settings {', '.join(map(key_of, wrong))}, whose values are wrong")
        ignored += wrong
    return {name: _based(project, name, value) for name, value in said.items() if name not in ignored}


def _is_valid(name: str, value: Any) -> bool:
    try:
        _adapter_of(name).validate_python(value)
    except ValidationError:
        return False
    return True


@cache
def _adapter_of(name: str) -> TypeAdapter[Any]:
    field = Settings.model_fields[name]
    kind: Any = Annotated[field.annotation, field]
    return TypeAdapter(kind)


def _based(project: Path, name: str, value: Any) -> Any:
    if name in PATHS and isinstance(value, str):
        return str(project / value)
    if name != "agents_dir":
        return value
    with suppress(ValueError):  # which the field itself tells of
        value = _folders_in(value)
    return [str(project / one) if isinstance(one, str) else one for one in value] if isinstance(value, list) else value


def _folders_in(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        return json_of(value, f"a folder, several joined by {os.pathsep!r}, or a JSON list")
    return [part for part in value.split(os.pathsep) if part]
