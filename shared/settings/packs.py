"""The setting of which teams that come with Ekiden are there."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator

from ekiden.shared.packs import pack_names
from ekiden.shared.settings.values import json_of

__all__ = ["PackSettings", "narrowed"]


def _listed(value: Any) -> Any:
    """Take one name, or a JSON list, as the environment has it."""
    if not isinstance(value, str):
        return value
    return json_of(value, "one name, or a JSON list of several") if value.lstrip().startswith("[") else [value]


def _known(names: list[str]) -> list[str]:
    for name in names:
        if name not in (known := pack_names()):
            raise ValueError(f"there is no pack {name!r}: give some of {', '.join(known)}, or [] for none")
    return names


class PackSettings(BaseModel):
    """The part of the settings that is about packs."""

    packs: Annotated[list[str], AfterValidator(_known), BeforeValidator(_listed)] | None = None
    """Which of the teams that come with Ekiden are there beside one's own, by name; None: all."""


def narrowed(theirs: dict[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a project sets that nobody trusts without the packs that its user has turned off."""
    if "packs" not in theirs or "packs" not in own:
        return theirs
    wanted, had = (value if isinstance(value, list) else [value] for value in (theirs["packs"], own["packs"]))
    return {**theirs, "packs": [name for name in wanted if name in had]}
