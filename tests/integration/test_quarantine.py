"""A process of the quarantine knows what its worker knows, and shows none of it."""

import asyncio
import sys
from pathlib import Path

import pytest

from ekiden.shared.relay.quarantine import Quarantine
from tests.doubles.planted import OPERATORS, found_in
from tests.e2e.program import wait_until


@pytest.mark.skipif(sys.platform != "linux", reason="what a process shows is read in /proc")
def test_secrets_reach_it_and_are_in_no_first_environment(valkey_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in OPERATORS.items():
        monkeypatch.setenv(name, value)

    async def serve_one() -> str:
        quarantine = Quarantine("ekiden.workers.bootstrap:build", valkey_url)
        child = await quarantine._start()
        try:
            shown = await asyncio.to_thread(_first_environment, child.process.pid)
            assert b"PATH=" in shown
            assert found_in(shown) == []
            assert b"EKIDEN_REDIS_URL" not in shown
            assert found_in(child.secrets), "nothing is sent before it has said that its memory is closed"
            return await quarantine._serve(child, {"v": 1, "job": "a" * 16 + ".1"}, "ekiden.dispatch")
        finally:
            await child.process.end()
            child.messages.close()

    assert asyncio.run(serve_one()), "an answer: it has found the server, whose address it was handed"


def _first_environment(pid: int) -> bytes:
    """Read it once the kernel has put it there, which is after whoever started the program goes on."""
    file = Path(f"/proc/{pid}/environ")
    wait_until(file.read_bytes)
    return file.read_bytes()
