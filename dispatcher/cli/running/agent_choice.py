"""Where nobody was found for a request, the user is asked: on a terminal, from the list that the refusal shows."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from ekiden.dispatcher.cli.exit_codes import INTERRUPTED, NO_ROUTE
from ekiden.dispatcher.cli.terminal.interrupts import Interrupted, typed
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.client import Client
from ekiden.shared.records import Unrouted
from ekiden.shared.settings.model import load_settings

__all__ = ["Offer", "choose_instead", "offer_of"]


_NEAR = 0.75
"""How like a name a word must be to be meant as one where it may be something else."""


@dataclass(frozen=True)
class Offer:
    """Whom a refused request may go to instead: those that the refusal lists, in its order, and all others by name."""

    listed: Sequence[str]
    names: Collection[str]

    def meant(self, answer: str) -> str | None:
        """Return whom a number or a name means; None: nobody."""
        if answer.isascii() and answer.isdecimal() and 1 <= int(answer) <= len(self.listed):
            return self.listed[int(answer) - 1]
        name = answer.removeprefix("@").casefold()
        return next((known for known in (*self.listed, *self.names) if known.casefold() == name), None)

    def correction(self, answer: str) -> str:
        """Say what may have been meant by an answer that means nobody."""
        near = get_close_matches(answer.removeprefix("@"), self.names, n=3)
        hint = (
            f"did you mean {' or '.join(near)}?" if near else f"give a number from 1 to {len(self.listed)}, or a name"
        )
        return f"no agent is named {answer!r}: {hint}"

    def is_answer(self, text: str) -> bool:
        """Tell whether what is typed in the place of an answer is meant as one: a number, or nearly a name."""
        word = text.strip().removeprefix("@")
        is_near = bool(get_close_matches(word, self.names, n=1, cutoff=_NEAR)) or self.meant(word) is not None
        return " " not in word and (word.isdecimal() or is_near)


async def offer_of(client: Client, job: str, code: int) -> Offer | None:
    """Return whom the user may name for ``job``, which ended with ``code``; None: there is nothing to choose."""
    if code != NO_ROUTE or not (listed := await _listed(client, job)):
        return None
    return Offer(listed, await client.agents())


_HINT = "Once it is done, `ekiden route learn` lets such requests find it by themselves"


async def choose_instead(client: Client, job: str, code: int) -> str | None:
    """Ask whom the request of ``job``, which ended with ``code``, goes to; None: it ends with that."""
    if (offer := await offer_of(client, job, code)) is None:
        return None
    out = Output()
    try:
        while answer := (await typed("Who takes it? [a number or a name; nothing: nobody] ")).strip():
            if (agent := offer.meant(answer)) is not None:
                if load_settings().routing_learn == "suggest":
                    out.line(_HINT, "dim")
                return agent
            out.line(offer.correction(answer), "yellow")
    except Interrupted as stop:
        if not stop.by_user:
            raise SystemExit(INTERRUPTED) from None
        out.line()
    return None


async def _listed(client: Client, job: str) -> tuple[str, ...]:
    """Return the agents that the refusal lists."""
    records = [entry.record for entry in await client.entries(job)]
    return next((record.agents for record in reversed(records) if isinstance(record, Unrouted)), ())
