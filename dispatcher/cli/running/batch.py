"""Many requests at once: so many in flight, a result written as each ends; the same command goes on where it was."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ekiden.dispatcher.cli.exit_codes import INTERRUPTED
from ekiden.dispatcher.cli.running.batch_file import BatchRequest, Results
from ekiden.dispatcher.cli.running.batch_progress import BatchProgress
from ekiden.dispatcher.cli.running.submission import CliRequest
from ekiden.dispatcher.cli.terminal.interrupts import Interrupted, interruptible
from ekiden.dispatcher.client import Client
from ekiden.shared.definitions.model import sha256_of
from ekiden.shared.errors import InvalidRequest, UnknownAgent
from ekiden.shared.stores.views import JobView
from ekiden.shared.terminal_text import note

__all__ = ["Batch", "request_id_of"]


def request_id_of(name: str, request: BatchRequest) -> str:
    """Return the id of a submission: the same for the same line of the same batch, whoever submits it and when."""
    return f"batch-{sha256_of([name, request.model_dump(mode='json')])[:40]}"


@dataclass
class Batch:
    """Submits requests and waits for their jobs.

    Attributes:
        requests: With what the command line says for all of them.
        results: Takes what comes.
        in_flight: How many jobs there are at a time.
    """

    requests: Sequence[tuple[BatchRequest, CliRequest]]
    results: Results
    in_flight: int
    progress: BatchProgress

    async def run(self, client: Client) -> int:
        """Carry the batch to its end; return the exit code: 0 where every job was done.

        Broken off, it leaves the jobs that it has submitted: they go on, and belong to their requests.
        """
        left = [one for one in self.requests if one[0].id not in self.results.known]
        waiting = iter(left)
        self.progress.begin(len(self.requests), len(self.requests) - len(left))
        try:
            async with interruptible(), asyncio.TaskGroup() as group:
                for _ in range(min(self.in_flight, len(left))):
                    group.create_task(self._work(client, waiting))
        except Interrupted:
            note("ekiden: stopped; what was submitted goes on, and the same command goes on with the rest")
            return INTERRUPTED
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        finally:
            self.progress.end()
        return 0 if self.progress.failed == 0 else 1

    async def _work(self, client: Client, waiting: Iterator[tuple[BatchRequest, CliRequest]]) -> None:
        for request, asked in waiting:
            try:
                job = await asked.submit(client, note)
            except (InvalidRequest, UnknownAgent) as error:
                self.progress.refused()
                note(f"ekiden: request {request.id!r} was not submitted: {error}")
                continue
            view = await client.wait(job)
            self.results.write(await _result(client, request, view))
            self.progress.ended(view)


async def _result(client: Client, request: BatchRequest, view: JobView) -> dict[str, Any]:
    """Return the line of a job that has ended."""
    end = await client.end_of(view)
    told: dict[str, Any] = {"id": request.id, "job": view.id, "status": view.status, "reason": view.reason}
    told["result"] = view.result
    if end is not None and end.output is not None:
        told["output"] = end.output
    if end is not None and end.recovered:
        told["recovered"] = True
    return told | {"agent": view.agent, "tokens": view.spent.tokens, "cost_usd": view.spent.micro_usd / 1e6}
