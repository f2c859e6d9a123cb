"""Real commands in the sandboxes that this machine has."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from ekiden.shared.environments import for_tools
from ekiden.shared.errors import ConfigurationError
from ekiden.shared.processes.confinement import Limits
from ekiden.shared.settings.model import Settings
from ekiden.workers.sandbox.choice import choose
from ekiden.workers.sandbox.sandbox import Sandbox
from ekiden.workers.tools.base import ToolContext
from ekiden.workers.tools.builtin.shell import Bash, bash

_found: dict[str, Sandbox | str] = {}


def sandbox_named(name: str) -> Sandbox:
    """Return a sandbox of this machine, tried once; skip the test where there is none of that name."""
    if name not in _found:
        try:
            _found[name] = asyncio.run(choose(Settings(tools_sandbox=name), for_tools(os.environ)))
        except ConfigurationError as error:
            _found[name] = str(error)
    found = _found[name]
    if isinstance(found, str):
        pytest.skip(found)
    return found


@dataclass
class Workshop:
    """A workspace, what lies beside it, and a shell in a sandbox there."""

    folder: Path
    context: ToolContext

    @property
    def root(self) -> Path:
        """The workspace root."""
        return self.context.root

    def run(self, command: str, timeout_s: float = 60, **changes: object) -> str:
        """Return what the tool ``bash`` says of a command; ``changes`` are of its context."""
        context = replace(self.context, **changes)  # type: ignore[arg-type] # whatever the test changes
        return asyncio.run(bash.function(Bash(command=command, timeout_s=timeout_s), context))  # type: ignore[arg-type]

    def limited(self, **limits: int) -> Sandbox:
        """Return the same sandbox with these limits."""
        return replace(self.context.sandbox, limits=Limits(**limits))


@pytest.fixture(params=["bubblewrap", "landlock"])
def mechanism(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def shop(mechanism: str, make_shop: Callable[[str], Workshop]) -> Workshop:
    """One workshop in each sandbox."""
    return make_shop(mechanism)


@pytest.fixture
def make_shop(tmp_path: Path) -> Callable[[str], Workshop]:
    def make(name: str) -> Workshop:
        job = tmp_path / "root" / "job"
        job.mkdir(parents=True)
        (tmp_path / "outside").mkdir()
        (tmp_path / "outside" / "secret.txt").write_text("s3cret")
        context = ToolContext(
            *("a" * 16 + ".1", 1, "fixer", "c1", job, job.parent),
            env=for_tools(os.environ),
            sandbox=sandbox_named(name),
        )
        return Workshop(tmp_path, context)

    return make
