"""Settings of the fleet as an MCP server. Which servers agents use stands in ``mcpServers``: see ``shared/mcp``."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr

from ekiden.shared.settings.values import as_words

__all__ = ["McpSettings"]

_SHORTEST_KEY = 32


def _long_enough(keys: list[SecretStr]) -> list[SecretStr]:
    if any(len(key.get_secret_value()) < _SHORTEST_KEY for key in keys):
        raise ValueError(f"a key has {_SHORTEST_KEY} characters at least")
    return keys


class McpSettings(BaseModel):
    """The part of the settings that is about ``ekiden mcp serve``."""

    model_config = ConfigDict(defer_build=True)  # all settings are checked as one, and by few programs

    mcp_token: SecretStr | None = None
    """What clients of `ekiden mcp serve --http` must send as a bearer token."""
    mcp_keys: Annotated[list[SecretStr], BeforeValidator(as_words), AfterValidator(_long_enough)] = Field(
        default_factory=list
    )
    """What seals the questions that `ekiden mcp serve` leaves with clients: the first one seals, all of them open."""
