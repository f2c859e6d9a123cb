"""What ``ekiden submit`` prints for scripts: data on standard output, all else on standard error."""

import json

from ekiden.dispatcher.cli.running.submission import CliRequest
from ekiden.dispatcher.client import Client
from ekiden.shared.errors import NotConfirmed
from ekiden.shared.terminal_text import note, say

__all__ = ["print_data", "submit_plainly"]


async def submit_plainly(client: Client, asked: CliRequest, *, as_json: bool) -> str:
    """Submit, and return the job's id; one that replicas do not have is printed as such, where JSON is wanted."""
    try:
        return await asked.submit(client, note)
    except NotConfirmed as error:
        if as_json:
            print_data({"job": error.job, "confirmed": False, "request_id": error.request_id})
        raise


def print_data(value: object) -> None:
    """Print a text as it is, anything else as JSON."""
    say(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
