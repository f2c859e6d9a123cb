"""Which plug-ins may be loaded: for each group the packages whose entry points count, and attributes of modules.

Code that an installed package offers runs only if its name stands here, or the attribute's. One vocabulary for all
groups: ``tools.packages``, ``tools.modules``, ``models.packages``, and so on.
"""

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from ekiden.shared.settings.values import as_words, json_of

__all__ = ["GROUPS", "KEYS", "Allowed", "Group", "PluginSettings"]

Group = Literal["tools", "models", "routers", "hooks", "guardrails", "outputs", "commands"]
GROUPS: tuple[Group, ...] = ("tools", "models", "routers", "hooks", "guardrails", "outputs", "commands")
KEYS = {f"{group}_{kind}": f"{group}.{kind}" for group in GROUPS for kind in ("packages", "modules")}
"""The dotted key of each field."""

_PACKAGE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


@dataclass(frozen=True)
class Allowed:
    """What of one group may be loaded."""

    packages: tuple[str, ...] = ()
    """Distributions, by the name that they are installed under: all their entry points of the group count."""
    modules: tuple[str, ...] = ()
    """``module:attribute``."""


def _as_words(value: Any) -> Any:
    is_json = isinstance(value, str) and value.lstrip().startswith("[")
    return json_of(value, "names joined by commas, or a JSON list") if is_json else as_words(value)


def _checked_packages(names: list[str]) -> list[str]:
    for name in names:
        if not _PACKAGE.fullmatch(name):
            raise ValueError(f"{name!r} is no package's name: give the name that it is installed under")
    return names


def _checked_modules(targets: list[str]) -> list[str]:
    for target in targets:
        if not _MODULE.fullmatch(target):
            raise ValueError(f"{target!r} is no module:attribute, such as 'my_tools.text:count_words'")
    return targets


_Packages = Annotated[list[str], BeforeValidator(_as_words), AfterValidator(_checked_packages)]
_Modules = Annotated[list[str], BeforeValidator(_as_words), AfterValidator(_checked_modules)]
_NOBODY = Field(default_factory=list[str])


class PluginSettings(BaseModel):
    """The part of the settings that allows plug-ins; a list, or joined by commas."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_default=True, hide_input_in_errors=True, defer_build=True
    )

    tools_packages: _Packages = _NOBODY
    tools_modules: _Modules = _NOBODY
    models_packages: _Packages = _NOBODY
    models_modules: _Modules = _NOBODY
    routers_packages: _Packages = _NOBODY
    routers_modules: _Modules = _NOBODY
    hooks_packages: _Packages = _NOBODY
    hooks_modules: _Modules = _NOBODY
    guardrails_packages: _Packages = _NOBODY
    guardrails_modules: _Modules = _NOBODY
    outputs_packages: _Packages = _NOBODY
    outputs_modules: _Modules = _NOBODY
    commands_packages: _Packages = _NOBODY
    commands_modules: _Modules = _NOBODY

    def allowed(self, group: Group) -> Allowed:
        """Return what of ``group`` may be loaded."""
        return Allowed(tuple(getattr(self, f"{group}_packages")), tuple(getattr(self, f"{group}_modules")))
