"""A server of a test's own whose users are those that ``ekiden acl`` prints, and nobody else."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

from ekiden.dispatcher.cli.main import app
from ekiden.shared.stores.acl import ROLES
from tests.integration.scratch import scratch_server

ROOT = "root-password"


@dataclass(frozen=True)
class RoleServer:
    """Where it listens; the password of each role is its own name."""

    port: int

    def url(self, role: str) -> str:
        return f"redis://ekiden-{role}:{role}@127.0.0.1:{self.port}/0"

    @property
    def root_url(self) -> str:
        """Whoever runs the server: may do everything."""
        return f"redis://:{ROOT}@127.0.0.1:{self.port}/0"


@contextmanager
def server_with_roles(folder: Path) -> Iterator[RoleServer]:
    """Run a server with these users inside the block."""
    hashes = [f"--password-hash={role}={hashlib.sha256(role.encode()).hexdigest()}" for role in ROLES]
    printed = CliRunner().invoke(app, ["acl", "--file", *hashes], catch_exceptions=False)
    file = folder / "users.acl"
    file.write_text(f"user default on >{ROOT} ~* &* +@all\n{printed.stdout}")
    with scratch_server(folder, aclfile=str(file)) as server:
        yield RoleServer(server.port)
