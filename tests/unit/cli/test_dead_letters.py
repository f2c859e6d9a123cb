"""``ekiden status --dead-letters``, through the real command line."""

import asyncio
import base64
import json

import pytest
from typer.testing import CliRunner, Result

from ekiden.dispatcher.cli.main import app
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.stores.opening import open_stores


def status(*args: str) -> Result:
    """Run ``ekiden status``; errors of ours come out as they are."""
    result = CliRunner().invoke(app, ["status", *args])
    if isinstance(result.exception, InvalidRequest):
        raise result.exception
    return result


@pytest.fixture
def server(valkey_url: str) -> str:
    """A server with two dead letters."""

    async def bury() -> None:
        stores = open_stores(valkey_url)
        await stores.client.flushall()
        await stores.dead_letters.bury("ekiden.dispatch", "it is binary", b"\x1b[2J\xff\x00")
        await stores.dead_letters.bury("ekiden.agent.a", "it is long", b"x" * 100_000)
        await stores.close()

    asyncio.run(bury())
    return valkey_url


def test_dead_letters_are_shown_and_forgotten_once_they_were(server: str) -> None:
    shown = status("--dead-letters", "--redis", server).stdout
    assert "ekiden.dispatch  it is binary" in shown
    assert "\x1b" not in shown
    assert "\\u001b[2J\\xff\\u0000" in shown
    assert status("--dead-letters", "--clear", "--redis", server).stdout.splitlines()[-1] == "2 forgotten"
    assert status("--dead-letters", "--redis", server).stdout == "No dead letters\n"


def test_as_json_each_is_a_line_with_its_bytes(server: str) -> None:
    first, second = map(json.loads, status("--dead-letters", "--json", "--redis", server).stdout.splitlines())
    assert (first["queue"], first["reason"]) == ("ekiden.dispatch", "it is binary")
    assert base64.b64decode(first["raw"]) == b"\x1b[2J\xff\x00"
    assert base64.b64decode(second["raw"]) == b"x" * 8_192


@pytest.mark.parametrize("options", [["--clear"], ["--dead-letters", "--watch"]])
def test_options_that_would_do_nothing_are_refused(options: list[str]) -> None:
    with pytest.raises(InvalidRequest, match="--dead-letters"):
        status(*options)
