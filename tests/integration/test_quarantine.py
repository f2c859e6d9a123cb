"""A process of the quarantine knows what its worker knows, and shows none of it."""

import asyncio
import sys
from pathlib import Path

import pytest

from shared.relay.alone import Quarantine
from tests.doubles.planted import OPERATORS, found_in


@pytest.mark.skipif(sys.platform != "linux", reason="what a process shows is read in /proc")
def test_secrets_reach_it_and_are_in_no_first_environment(valkey_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in OPERATORS.items():
        monkeypatch.setenv(name, value)

    async def serve_one() -> str:
        quarantine = Quarantine("workers.bootstrap:build", valkey_url)
        child = await quarantine._start()
        try:
            shown = await asyncio.to_thread(Path(f"/proc/{child.process.pid}/environ").read_bytes)
            assert b"PATH=" in shown
            assert found_in(shown) == []
            assert b"EKIDEN_REDIS_URL" not in shown
            return await quarantine._serve(child, {"v": 1, "job": "a" * 16 + ".1"}, "ekiden.dispatch")
        finally:
            await child.process.end()
            child.messages.close()

    assert asyncio.run(serve_one()), "an answer: it has found the server, whose address it was handed"
