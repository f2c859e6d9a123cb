"""``ekiden config``: read and change settings, and see where each value comes from."""

import json
import sys
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import SecretStr, ValidationError

from ekiden.dispatcher.cli.given_text import piped_text
from ekiden.dispatcher.cli.options import AsJson
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.shared.errors import ConfigurationError, InvalidRequest
from ekiden.shared.faults import fault_in
from ekiden.shared.redaction import MASK, Redactor, redact, redact_all
from ekiden.shared.settings.files import Change, change_setting, global_file, project_file, read_settings, value_at
from ekiden.shared.settings.model import (
    Settings,
    key_of,
    load_settings,
    origin_of,
    origins,
    require_absolute,
    values_in_force,
)
from ekiden.shared.settings.names import ABSOLUTE, OTHER_KEYS
from ekiden.shared.storable import read_json
from ekiden.shared.terminal_text import note, say, say_json

__all__ = ["app", "of_agents"]

_LONGEST_VALUE = 1_000_000
"""Characters of a value that is piped."""

_STRATEGIES = ("routing_strategy", "routing_llm_enabled")
_MODELS = ("model", "model_aliases", "routing_llm_model", "compression_model")

app = typer.Typer(help="Read and change settings.", no_args_is_help=True)

Key = Annotated[str, typer.Argument(help="A dotted key, or its end where only one setting ends so.")]
Global = Annotated[bool, typer.Option("--global", help="The user's file instead of the project's.")]


@app.command("get")
def get(
    key: Key,
    show_secrets: Annotated[bool, typer.Option("--show-secrets", help="Passwords and keys, too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print the value in force; passwords and keys in it are masked, and standard error says so."""
    name = _field(key)
    value = getattr(load_settings(), name)
    if isinstance(value, SecretStr) and show_secrets:
        value = value.get_secret_value()
    if as_json:
        say_json(_row(name, value, origin_of(name), show_secrets=show_secrets))
    else:
        say(_shown(value) if show_secrets else redact(_shown(value)))
    if not show_secrets and MASK in redact(_shown(value)):
        note("ekiden: a part is masked, --show-secrets prints it")


@app.command("set", context_settings={"ignore_unknown_options": True})  # a value such as -1 is none
def set_(
    key: Key,
    value: Annotated[str, typer.Argument(help="JSON, or plain text; - reads it from standard input.")],
    globally: Global = False,
) -> None:
    """Write a value into the project's settings file."""
    from ekiden.dispatcher.cli.agents.grants import grant_setting  # loads all that reads agent files

    name = _field(key)
    path = _file(globally)
    text = _read(name) if value == "-" else value
    parsed = _checked(name, text, path)
    _require_usable(name, parsed, path)
    change_setting(path, key_of(name), parsed)
    if not globally:
        grant_setting(key_of(name))
    Output().line(f"{key_of(name)} = {redact_all({name: text})[name]} ({path})")


@app.command("unset")
def unset(key: Key, globally: Global = False) -> None:
    """Remove a value from the project's settings file."""
    name = _field(key)
    path = _file(globally)
    if value_at(read_settings(path), key_of(name)) is None:
        raise InvalidRequest(f"{key_of(name)!r} is not set in {path}")
    _require_removable(name, path)
    change_setting(path, key_of(name), None)
    Output().line(f"{key_of(name)} removed ({path})")


@app.command("list")
def list_(
    globally: Annotated[bool, typer.Option("--global", help="What the user's file sets, and nothing else.")] = False,
    origin: Annotated[bool, typer.Option("--origin", help="Say where each value comes from.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print every setting with the value in force; passwords in it are masked."""
    found = origins()
    if globally:
        found = {name: where for name, where in found.items() if where == str(global_file())}
    _print(found, origin=origin, as_json=as_json)


@app.command("env")
def env(as_json: AsJson = False) -> None:
    """List the variables that commands of tools get, and those that a worker started here would keep to itself.

    Names only. `ekiden config set --global tools.env '["NAME", "PREFIX_*"]'` adds some.
    """
    import os

    from ekiden.shared.environments import for_tools
    from ekiden.shared.settings.model import load_settings

    passed = for_tools(os.environ, load_settings().tools_env)
    rows = [(name, "passed" if name in passed else "kept back") for name in sorted(os.environ)]
    if as_json:
        for name in sorted(os.environ):
            say_json({"name": name, "passed": name in passed})
        return
    Output().table(("variable", "commands"), rows)


def of_agents(
    key: Annotated[
        str | None, typer.Argument(metavar="[KEY]", help="Such as routing, or routing.strategy. [all of agents.…]")
    ] = None,
    value: Annotated[str | None, typer.Argument(metavar="[VALUE]", help="What to set it to, in the project.")] = None,
    globally: Global = False,
    as_json: AsJson = False,
) -> None:
    """Show the settings of agents, or change one: as `ekiden config` with keys that begin with `agents.`."""
    dotted = ".".join(filter(None, ("agents", (key or "").removeprefix("agents").removeprefix("."))))
    if value is not None:
        set_(dotted, value, globally)
        return
    found = {name: where for name, where in origins().items() if f"{key_of(name)}.".startswith(f"{dotted}.")}
    _print(found or {_field(dotted): ""}, origin=False, as_json=as_json)


def _print(found: Mapping[str, str], *, origin: bool, as_json: bool) -> None:
    """Print settings with their values; ``found``: where each comes from."""
    settings = load_settings()
    names = sorted(found, key=key_of)
    if as_json:
        for name in names:
            say_json(_row(name, getattr(settings, name), found[name]))
        return
    rows = [(key_of(name), redact(_shown(getattr(settings, name))), found[name]) for name in names]
    columns = ("key", "value", "origin") if origin else ("key", "value")
    Output().table(columns, [row[: len(columns)] for row in rows])


def _file(globally: bool) -> Path:
    return global_file() if globally else project_file()


def _read(name: str) -> str:
    """Return a value that stands in no command line: typed unseen, or piped."""
    if sys.stdin.isatty():
        return str(typer.prompt(key_of(name), hide_input=True))
    if not (text := piped_text(_LONGEST_VALUE).strip()):
        raise InvalidRequest(f"standard input holds no value for {key_of(name)!r}")
    return text


def _field(key: str) -> str:
    """Return the field that ``key`` means: its dotted key, its name, or an end that is unique."""
    keys = {key_of(name): name for name in Settings.model_fields} | {other: name for name, other in OTHER_KEYS.items()}
    exact = [name for dotted, name in keys.items() if key in (dotted, name)]
    found = exact or [name for dotted, name in keys.items() if dotted.endswith(f".{key}")]
    if len(found) == 1:
        return found[0]
    near = get_close_matches(key, [*keys, *keys.values()], n=3, cutoff=0.5)
    hint = f"did you mean {', '.join(map(repr, near))}?" if near else "`ekiden config list` names them all"
    raise InvalidRequest(f"there is no setting {key!r}: {hint}")


def _changes(name: str, value: Any, path: Path) -> Iterator[list[Change]]:
    """Yield what is to be judged before a file says ``value``: with what the other file says of it, and without.

    The user's holds in other projects as well; of a project's, an object may need what it is joined with.
    """
    change = Change(path, name, value)
    yield [change]
    if path == global_file():
        yield [change, Change(project_file(), name, None)]
    elif value is not None and not isinstance(value, dict):
        yield [change, Change(global_file(), name, None)]


def _checked(name: str, value: str, path: Path) -> Any:
    """Return ``value`` as JSON would hold it. Raises ``InvalidRequest`` naming what is allowed."""
    try:
        parsed = read_json(value)
    except ValueError:
        parsed = value
    judged = (values_in_force({}, changes) for changes in _changes(name, parsed, path))
    for values in judged if parsed is not None else [values_in_force({name: None})]:
        try:
            Settings(**values)
        except ValidationError as error:  # of this setting, or of others that are wrong already
            _refuse(name, error)
    return parsed


def _refuse(name: str, error: ValidationError) -> None:
    for problem in error.errors(include_url=False):
        if problem["loc"][0] == name:
            inside = "".join(f"{part}: " for part in problem["loc"][1:] if isinstance(part, str))
            raise InvalidRequest(f"that is no value of {key_of(name)!r}: {inside}{fault_in(problem)}") from None


def _is_usable() -> bool:
    try:
        load_settings()
    except ConfigurationError:
        return False  # there is something else to mend first, perhaps by the very change
    return True


def _require_removable(name: str, path: Path) -> None:
    """Refuse to take away a value without which the others would not be read any more."""
    try:
        for changes in _changes(name, None, path) if _is_usable() else ():
            load_settings(changes)
    except ConfigurationError as error:
        raise InvalidRequest(f"{key_of(name)!r} cannot be removed: without it, {error}") from None


def _require_usable(name: str, value: Any, path: Path) -> None:
    """Refuse a value of which nothing could be made, the other settings being what they are."""
    for changes in _changes(name, value, path) if _is_usable() else ():
        settings = load_settings(changes)
        if path == global_file() and name in ABSOLUTE:
            require_absolute(name, getattr(settings, name))
        _require_used(name, settings)


def _require_used(name: str, settings: Settings) -> None:
    """Refuse settings with a value of ``name`` that nobody could use."""
    from ekiden.dispatcher.routing.overrides import no_strategy
    from ekiden.dispatcher.routing_bootstrap import strategies_of  # what reading a setting does without
    from ekiden.shared.llm.models import learn_providers, unserved_model
    from ekiden.shared.model_limits import unknown_in
    from ekiden.shared.plugins import why_nowhere
    from ekiden.shared.request_rails import request_rails_of

    learn_providers(settings)
    Redactor(settings.redact, secrets=settings.secrets)  # which reads patterns and signing keys
    if name in _MODELS and (problem := unserved_model(settings)) is not None:
        raise InvalidRequest(f"that cannot be used as {key_of(name)!r}: {problem}")
    request_rails_of(settings)
    nowhere = [why_nowhere(target) for target in getattr(settings, name)] if name.endswith("_modules") else []
    if problem := next(filter(None, nowhere), ""):
        raise InvalidRequest(f"that cannot be used as {key_of(name)!r}: {problem}")
    if name == "model_limits" and (unknown := unknown_in(settings.model_limits)):
        raise InvalidRequest(f"that cannot be used: {unknown[0]} (`ekiden models` lists them)")
    strategy = settings.routing_strategy
    if name in _STRATEGIES and strategy not in (known := strategies_of(settings)):
        raise InvalidRequest(f"that cannot be used as {key_of(name)!r}: {no_strategy(strategy, known)}")


def _row(name: str, value: Any, origin: str, *, show_secrets: bool = False) -> dict[str, Any]:
    """Return a setting for programs: its value as JSON has it, unless something of it is masked."""
    shown = _shown(value)
    masked = shown if show_secrets else redact(shown)
    plain = masked if masked != shown or isinstance(value, SecretStr) else json.loads(json.dumps(value, default=str))
    return {"key": key_of(name), "value": plain, "origin": origin}


def _shown(value: Any) -> str:
    if isinstance(value, SecretStr):
        return MASK
    if isinstance(value, str | Path):
        return str(value)
    return json.dumps(value, default=str, ensure_ascii=False)
