"""Whether turn 1,000 of a job costs what turn 10 did.

    python -m tests.benchmarks.turns [--turns 1000]

One leg on a real server, in this process; a model that answers at once with a tool call. Prints, for the first and the
last hundred turns, the relay's own time per turn (from the model's answer to its next question) and the bytes that the
server received, and their ratios.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path

from ekiden.shared.embedded import attach
from ekiden.shared.llm.base import ModelReply, ModelRequest, OnDelta
from ekiden.shared.logs import configure_logs
from ekiden.shared.messages import Message, TextPart, ToolCall
from ekiden.shared.stores.opening import Stores, open_stores
from ekiden.shared.stores.redis import as_any
from tests.scenarios.relay import Relay, team
from tests.unit.workers.world import tool_named

SPAN = 100


class Chatterbox:
    """Calls a tool ``turns`` times, then answers; notes when it was asked and what the server had received by then."""

    def __init__(self, stores: Stores, turns: int) -> None:
        self._stores = stores
        self._turns = turns
        self.relay_s: list[float] = []
        self.received: list[int] = []
        self._answered_at = 0.0

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        if self._answered_at:
            self.relay_s.append(time.perf_counter() - self._answered_at)
        stats = await as_any(self._stores.client.info("stats"))
        self.received.append(int(stats["total_net_input_bytes"]))
        turn = len(self.received)
        parts: tuple[TextPart | ToolCall, ...] = (TextPart(text="x" * 500),)
        if turn < self._turns:
            parts += (ToolCall(id=f"c{turn}", name="look", args={"n": turn}),)
        self._answered_at = time.perf_counter()
        return ModelReply(message=Message(role="model", parts=parts))


def main() -> None:
    """Print the figures and ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=1000)
    turns = parser.parse_args().turns
    configure_logs("ERROR")
    with tempfile.TemporaryDirectory() as folder, attach(Path(folder)) as server:
        model = asyncio.run(run(server.url, turns))
    first, last = model.relay_s[:SPAN], model.relay_s[-SPAN:]
    written = [later - earlier for earlier, later in zip(model.received, model.received[1:], strict=False)]
    report("relay, ms a turn", [statistics.median(part) * 1000 for part in (first, last)])
    report(
        "received by the server, bytes a turn", [statistics.median(part) for part in (written[:SPAN], written[-SPAN:])]
    )


def report(what: str, values: list[float]) -> None:
    """Print the first and the last hundred, and their ratio."""
    first, last = values
    print(f"{what}: first {SPAN} turns {first:.2f}, last {SPAN} turns {last:.2f}, ratio {last / first:.2f}")


async def run(url: str, turns: int) -> Chatterbox:
    """Run the job and return what the model noted."""
    stores = open_stores(url)
    model = Chatterbox(stores, turns)
    catalog = team({"name": "solo", "limits": {"max_turns": turns + 1, "max_seconds": 3600}, "loops": {"judge": False}})
    ran: list[str] = []
    relay = Relay(stores, catalog, model, tools=[tool_named("look", read_only=True, ran=ran)], lease_s=3600.0)
    job = await relay.submit("talk", agent="solo")
    await relay.drain()
    view = await stores.jobs.job(job)
    assert view.status == "done", view
    await stores.close()
    return model


if __name__ == "__main__":
    main()
