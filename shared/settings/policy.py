"""Settings that say which calls run, are asked about, or are denied. Their rules are read by ``shared/policy``."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from ekiden.shared.risk import Risk
from ekiden.shared.storable import read_json

__all__ = ["KEYS", "OF_FOLDERS", "PolicySettings"]

KEYS = {
    "policy_rules": "policy.rules",
    "policy_files": "policy.files",
    "permissions": "permissions",
    "auto_approve": "autoApprove",
}
"""The dotted key of each field."""
OF_FOLDERS = frozenset(KEYS)
"""Where a project says these they are added to the user's own by ``shared/policy``, and never stand in their place."""


def _as_json(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return read_json(value)
    except ValueError as error:
        raise ValueError(f"no valid JSON ({error}): give what would stand in the settings file") from None


def _as_words(value: Any) -> Any:
    if isinstance(value, str) and not value.lstrip().startswith("["):
        return [word.strip() for word in value.split(",") if word.strip()]
    return _as_json(value)


def _never_critical(levels: list[Risk]) -> list[Risk]:
    if "critical" in levels:
        raise ValueError("'critical' cannot be approved as a level: name the tool or the command in a rule")
    return levels


class PolicySettings(BaseModel):
    """The part of the settings that says what runs without asking."""

    model_config = ConfigDict(defer_build=True)  # all settings are checked as one, and by few programs

    policy_rules: Annotated[list[Any], BeforeValidator(_as_json)] = Field(default_factory=list)
    """Rules: objects with ``decision`` and what they are about; see docs/policy.md."""
    policy_files: Annotated[list[Path], BeforeValidator(_as_words)] = Field(default_factory=list)
    """TOML files of rules as gemini-cli has them, or folders of such; none: ``~/.gemini/policies``."""
    permissions: Annotated[dict[str, Any], BeforeValidator(_as_json)] = Field(default_factory=dict)
    """``allow``, ``ask`` and ``deny``: entries as in Claude Code's settings."""
    auto_approve: Annotated[list[Risk], BeforeValidator(_as_words), AfterValidator(_never_critical)] = Field(
        default=["safe", "low"]
    )
    """The levels of risk that run where no rule says anything; a list, or joined by commas."""
