"""``ekiden acl``: the rules that a server's access control list needs for each kind of client."""

import re
from typing import Annotated

import typer

from ekiden.shared.errors import InvalidRequest
from ekiden.shared.stores.acl import ROLES
from ekiden.shared.terminal_text import say

__all__ = ["acl"]

_HASH = re.compile(r"[0-9a-f]{64}")


def acl(
    roles: Annotated[
        list[str] | None, typer.Argument(metavar="[ROLE]...", help="submitter, observer, pool or admin. [all]")
    ] = None,
    hashes: Annotated[
        list[str] | None,
        typer.Option(
            "--password-hash", metavar="ROLE=SHA256", help="Its password: printf %s PASSWORD | sha256sum. Repeatable."
        ),
    ] = None,
    is_file: Annotated[bool, typer.Option("--file", help="As lines of an aclfile (users.acl).")] = False,
) -> None:
    """Print the users that a Redis or Valkey server needs for Ekiden, each with its rights.

    Commands by default: `ekiden acl | valkey-cli` (or redis-cli). They take every other right of these users away, and
    leave passwords alone: a user without one cannot log in.

    Ekiden never sees a password: give one with `ACL SETUSER ekiden-pool '>PASSWORD'`, or its hash here. The address is
    redis://ekiden-pool:PASSWORD@HOST then.

    Nothing is sent to a server. Its user `default`, which may do everything, stays as it is: switch it off.
    """
    wanted = list(dict.fromkeys(roles or ROLES))
    given = dict(map(_role_and_hash, hashes or ()))
    for role in (*wanted, *given):
        if role not in ROLES:
            raise InvalidRequest(f"there is no role {role!r}: there are {', '.join(ROLES)}")
    if unused := given.keys() - set(wanted):
        raise InvalidRequest(
            f"--password-hash for {', '.join(sorted(unused))}, which is not printed: name that role, too"
        )
    for role in wanted:
        password = f"#{given[role]} " if role in given else ""
        command = "user" if is_file else "ACL SETUSER"
        say(f"{command} ekiden-{role} on {password}{ROLES[role].rules}")


def _role_and_hash(text: str) -> tuple[str, str]:
    role, _, digest = text.partition("=")
    if not _HASH.fullmatch(digest):  # never repeated: it may be the password itself
        raise InvalidRequest(
            "--password-hash is ROLE=SHA256, 64 lower-case hexadecimal digits as of: printf %s PASSWORD | sha256sum"
        )
    return role, digest
