"""Hooks that the settings name: the user's, and those of a project as far as it is trusted."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ekiden.shared.errors import ConfigurationError
from ekiden.shared.hook_entries import FaultyHook, HookEntry, Refused, entries_in
from ekiden.shared.project_folders import project_of
from ekiden.shared.settings.files import global_file, place_in, project_file, read_settings
from ekiden.shared.settings.model import Settings, load_settings
from ekiden.shared.trust.grants import grants_of
from ekiden.shared.trust.notices import tell
from ekiden.shared.trust.rights import section_rights

__all__ = ["ConfiguredHooks", "configured_hooks", "hooks_in_force", "require_hooks"]

_SECTION = "hooks"
_SETTINGS = frozenset({"packages", "modules", "disabled"})
"""What stands in the section beside events."""


@dataclass(frozen=True)
class ConfiguredHooks:
    """The commands that are asked, by the folder that they start in, and what is wrong with the rest."""

    entries: tuple[tuple[Path, tuple[HookEntry, ...]], ...] = ()
    refused: tuple[Refused, ...] = ()
    """Those that cannot run here."""
    problems: tuple[str, ...] = ()
    """The same for people."""
    held: tuple[str, ...] = ()
    """The events of the project's hooks that its user has not let count."""


def hooks_in_force(settings: Settings) -> ConfiguredHooks:
    """Return the hooks of a pool that starts here with these settings, as ``configured_hooks`` reads them."""
    return configured_hooks(settings.project or project_of(Path.cwd()))


def require_hooks() -> None:
    """Raise ``ConfigurationError`` where no pool would start here because of a hook: before there is a job for it."""
    hooks_in_force(load_settings())


def configured_hooks(project: Path) -> ConfiguredHooks:
    """Read the settings files: the project's hooks come first, the user's have the last word.

    Raises:
        ConfigurationError: a file, or a hook in it, cannot be read: it may have been to forbid something.
    """
    users, theirs = read_settings(global_file()), read_settings(project_file(project))
    found: list[tuple[Path, tuple[HookEntry, ...]]] = []
    refused: list[Refused] = []
    problems: list[str] = []
    held: list[str] = []
    for path, folder, values in ((project_file(project), project, theirs), (global_file(), Path.home(), users)):
        if not isinstance(values.get(_SECTION, {}), Mapping):
            place = place_in(path, [_SECTION])
            raise ConfigurationError(f"{place}: 'hooks' must be an object of events, not {values[_SECTION]!r:.60}")
        block = _block(values)
        if path != global_file():
            held = _held(project, values, block)
            block = {name: entries for name, entries in block.items() if name not in held}
        try:
            entries, unable = entries_in(block)
        except FaultyHook as error:
            place = place_in(path, [_SECTION, *error.path])
            raise ConfigurationError(f"{place}: 'hooks': {error}; mend the file") from None
        if not _are_all_off(users, values):
            refused += unable
            problems += [
                f"{place_in(path, [_SECTION, *one.path])}: 'hooks': {one.why}; {_without(one)}" for one in unable
            ]
        if on := tuple(one for one in entries if not _is_off(one, users, values)):
            found.append((folder, on))
    return ConfiguredHooks(tuple(found), tuple(refused), tuple(problems), tuple(held))


def _block(values: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: entries for name, entries in _section(values, _SECTION).items() if name not in _SETTINGS}


def _held(project: Path, values: Mapping[str, Any], block: Mapping[str, Any]) -> list[str]:
    """Return and tell the events of a project's block that its user has not let count."""
    asked = {name: right for section, name, right in section_rights(values) if section == _SECTION and name in block}
    held = sorted(name for name, right in asked.items() if grants_of(project).lacking([right]))
    if held:
        tell(project, f"ignored hooks at {', '.join(held)}")
    return held


def _without(hook: Refused) -> str:
    return "calls that it would look at are denied" if hook.at == "BeforeTool" else "it is not asked"


def _are_all_off(*files: Mapping[str, Any]) -> bool:
    """Tell whether the user, or the file that has them, switches all hooks off."""
    return any(
        values.get("disableAllHooks") is True or _section(values, "hooksConfig").get("enabled") is False
        for values in files
    )


def _is_off(entry: HookEntry, *files: Mapping[str, Any]) -> bool:
    """Tell the same of one hook."""
    named = [
        name
        for values in files
        for section in ("hooksConfig", _SECTION)
        if isinstance(names := _section(values, section).get("disabled"), list)
        for name in names
    ]
    return _are_all_off(*files) or entry.name in named or entry.command in named


def _section(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = values.get(name)
    return section if isinstance(section, Mapping) else {}
