"""``ekiden submit --file``: from its options to its end."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ekiden.dispatcher.cli.connection import connected
from ekiden.dispatcher.cli.running.batch import Batch, request_id_of
from ekiden.dispatcher.cli.running.batch_file import BatchRequest, opened_results, read_batch
from ekiden.dispatcher.cli.running.batch_progress import BatchProgress
from ekiden.dispatcher.cli.running.preapproval import Preapproval
from ekiden.dispatcher.cli.running.request import deadline_of, folder_there, user_name
from ekiden.dispatcher.cli.running.submission import CliRequest, SessionChoice
from ekiden.shared.errors import InvalidRequest

__all__ = ["BatchOptions", "submit_batch"]


@dataclass(frozen=True)
class BatchOptions:
    """What the command line says of the batch as a whole."""

    file: Path
    out: Path | None
    in_flight: int
    name: str
    of_one: Mapping[str, Any]
    """What is given that is one request's."""

    def __post_init__(self) -> None:
        """Raise ``InvalidRequest`` where there is any of that."""
        if given := [option for option, value in self.of_one.items() if value]:
            raise InvalidRequest(f"--file and {given[0]} exclude each other: each line of the file is a request")


@dataclass(frozen=True)
class ForAll:
    """What the command line says of every request that does not say it itself."""

    agent: str | None
    strategy: str | None
    cwd: Path | None
    user: str | None
    deadline: str | None
    state: Mapping[str, Any]
    preapproval: Preapproval
    inputs: Mapping[str, Any] | None = None
    """Of the agent that the command line names."""

    def asked(self, batch: str, request: BatchRequest) -> CliRequest:
        """Return a request as it is submitted. Raises ``InvalidRequest``."""
        names_itself = request.agent is not None or request.strategy is not None
        asked = CliRequest(
            request.prompt,
            SessionChoice(user_name(request.user or self.user)),
            request.agent if names_itself else self.agent,
            folder_there(request.cwd or self.cwd),
            deadline_s=deadline_of(request.deadline or self.deadline),
            request_id=request_id_of(batch, request),
            state={**self.state, **request.state},
            preapproval=self.preapproval,
            inputs=request.inputs if names_itself or request.inputs is not None else self.inputs,
        )
        return asked.overridden(request.strategy if names_itself else self.strategy)


def submit_batch(options: BatchOptions, for_all: ForAll, redis: str | None, data_dir: Path | None) -> int:
    """Submit the requests of a file, and write the result of each; return the exit code."""
    requests = []
    for request in read_batch(options.file):
        try:
            requests.append((request, for_all.asked(options.name, request)))
        except InvalidRequest as error:
            raise InvalidRequest(f"{options.file}, request {request.id!r}: {error}") from None

    async def run() -> int:
        async with connected(redis, data_dir, may_start=False) as client:
            return await Batch(requests, results, options.in_flight, BatchProgress()).run(client)

    with opened_results(options.out) as results:
        return asyncio.run(run())
