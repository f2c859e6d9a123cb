"""Where nobody was found for a request, the user is asked: on a terminal, from the list that the refusal shows."""

from collections.abc import Collection, Sequence
from difflib import get_close_matches

from ekiden.dispatcher.cli.exit_codes import INTERRUPTED, NO_ROUTE
from ekiden.dispatcher.cli.terminal.interrupts import Interrupted, typed
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.client import Client
from ekiden.shared.records import Unrouted
from ekiden.shared.settings import load_settings

__all__ = ["choose_instead"]

_HINT = "Once it is done, `ekiden route learn` lets such requests find it by themselves"


async def choose_instead(client: Client, job: str, code: int) -> str | None:
    """Return the agent that the user names for ``job``, which ended with ``code``; None: it ends with that."""
    if code != NO_ROUTE or not (offered := await _offered(client, job)):
        return None
    names = await client.agents()
    out = Output()
    try:
        while answer := (await typed("Who takes it? [a number or a name; nothing: nobody] ")).strip():
            if (agent := _meant(answer, offered, names)) is not None:
                if load_settings().routing_learn == "suggest":
                    out.line(_HINT, "dim")
                return agent
            out.line(_correction(answer, offered, names), "yellow")
    except Interrupted as stop:
        if not stop.by_user:
            raise SystemExit(INTERRUPTED) from None
        out.line()
    return None


async def _offered(client: Client, job: str) -> tuple[str, ...]:
    """Return the agents that the refusal listed, in its order."""
    records = [entry.record for entry in await client.entries(job)]
    return next((record.agents for record in reversed(records) if isinstance(record, Unrouted)), ())


def _meant(answer: str, offered: Sequence[str], names: Collection[str]) -> str | None:
    if answer.isascii() and answer.isdecimal() and 1 <= int(answer) <= len(offered):
        return offered[int(answer) - 1]
    name = answer.removeprefix("@").casefold()
    return next((known for known in (*offered, *names) if known.casefold() == name), None)


def _correction(answer: str, offered: Sequence[str], names: Collection[str]) -> str:
    near = get_close_matches(answer.removeprefix("@"), names, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"give a number from 1 to {len(offered)}, or a name"
    return f"no agent is named {answer!r}: {hint}"
