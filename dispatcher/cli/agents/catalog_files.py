"""The catalog that agent files would make, whoever wants it: to be put in force, or for one job alone."""

from collections.abc import Sequence
from pathlib import Path

from ekiden.dispatcher.cli.agents.checks import Checker
from ekiden.dispatcher.cli.agents.discovery import open_agents
from ekiden.shared.definitions.catalog import Catalog, build_catalog
from ekiden.shared.errors import DefinitionError, InvalidRequest
from ekiden.shared.terminal_text import note

__all__ = ["catalog_in", "catalog_of_files"]


def catalog_of_files(agents_dir: Sequence[Path] | None, otherwise: str) -> Catalog:
    """Return the catalog of the agent files that count here, those of ``agents_dir`` before all others.

    ``otherwise``: what is not done where a file has an error, which is told then. Raises ``DefinitionError``.
    """
    agents = open_agents(agents_dir or ())
    checker = Checker(agents.in_force, broken=agents.broken)
    errors = [error for file in agents.files if not file.is_shadowed for error in checker.report(file).errors]
    for error in errors:
        note(error)
    if errors:
        raise DefinitionError(f"{len(errors)} error(s) in the agent files: {otherwise}")
    return build_catalog(agents.in_force.values(), agents.sources)[0]


def catalog_in(folder: Path, otherwise: str) -> Catalog:
    """Return the same with the files of ``folder``. Raises ``InvalidRequest`` where there is no such folder."""
    if not folder.is_dir():
        raise InvalidRequest(f"--catalog {str(folder)!r}: there is no such folder; name one with agent files")
    return catalog_of_files([folder], otherwise)
