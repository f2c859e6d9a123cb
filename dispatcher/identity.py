"""Who a client acts for: as the server knows them, or by their own word."""

import getpass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # half a second, of which a name needs nothing
    from ekiden.shared.stores.opening import Stores

__all__ = ["Person", "login_name", "person_at"]


class Person(NamedTuple):
    """Somebody who asks for a job, or answers."""

    name: str
    is_claimed: bool
    """Whether the name is the client's word: the server knows no users, or one for all."""


def login_name() -> str:
    """Return the user of the operating system; empty in a container whose user has no entry."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""


async def person_at(stores: "Stores", claimed: str = "") -> Person:
    """Return whom the server knows this connection as; where it does not, who it says it is."""
    if user := await stores.user():
        return Person(user, is_claimed=False)
    return Person(claimed or login_name(), is_claimed=True)
