"""Which plug-ins may be loaded: for each group the packages whose entry points count, and attributes of modules.

Code that an installed package offers runs only if its name stands here, or the attribute's. One vocabulary for all
groups: ``tools.packages``, ``tools.modules``, ``models.packages``, and so on.
"""

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator

from ekiden.shared.storable import read_json

__all__ = ["GROUPS", "KEYS", "NOT_YET", "Allowed", "Group", "PluginSettings"]

Group = Literal["tools", "models", "routers", "hooks", "guardrails", "commands"]
GROUPS: tuple[Group, ...] = ("tools", "models", "routers", "hooks", "guardrails", "commands")
KEYS = {f"{group}_{kind}": f"{group}.{kind}" for group in GROUPS for kind in ("packages", "modules")}
"""The dotted key of each field."""
NOT_YET: tuple[Group, ...] = ("guardrails",)
"""Groups that nothing asks for so far."""

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
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        try:
            return read_json(value)
        except ValueError as error:
            raise ValueError(f"no valid JSON ({error}): give names joined by commas, or a JSON list") from None
    return [word.strip() for word in value.split(",") if word.strip()]


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
    commands_packages: _Packages = _NOBODY
    commands_modules: _Modules = _NOBODY

    def allowed(self, group: Group) -> Allowed:
        """Return what of ``group`` may be loaded."""
        return Allowed(tuple(getattr(self, f"{group}_packages")), tuple(getattr(self, f"{group}_modules")))

    @field_validator(*(f"{group}_{kind}" for group in NOT_YET for kind in ("packages", "modules")))
    @classmethod
    def _no_consumer(cls, value: list[str], info: ValidationInfo) -> list[str]:
        if value:
            group = str(info.field_name).partition("_")[0]
            raise ValueError(f"{group} of plug-ins are not enforced yet: leave this out, or nothing would come of it")
        return value
