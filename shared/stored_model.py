"""What pydantic models have in common that are stored, and of which a leg in flight holds dozens."""

from pydantic import BaseModel, ConfigDict

__all__ = ["StoredModel"]


class StoredModel(BaseModel):
    """A frozen model that ignores what a later version added, and does not remember which fields it was given.

    pydantic keeps a set of their names beside each model's values, for callers that ask which those were. Nobody asks
    here, and the sets take as much memory as the values. What is asked all the same counts every field as given.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    @property
    def __pydantic_fields_set__(self) -> set[str]:
        return set(self.__dict__)

    @__pydantic_fields_set__.setter
    def __pydantic_fields_set__(self, given: set[str]) -> None:
        """Keep nothing."""
