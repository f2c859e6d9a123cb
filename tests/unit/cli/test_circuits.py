"""What people and programs are told of models that keep failing."""

import json

import pytest
from typer.testing import CliRunner

from ekiden.dispatcher.cli.doctor.server_checks import circuits
from ekiden.dispatcher.cli.main import app
from ekiden.dispatcher.cli.views.circuits import told_of
from ekiden.dispatcher.client import Client
from ekiden.shared.stores.circuits import CircuitView
from ekiden.shared.stores.opening import Stores
from tests.unit.cli.test_jobs import there


@pytest.mark.parametrize(
    ("failures", "open_s", "has_opened", "said"),
    [
        (5, 12.2, True, "failed 5 times in a row, nobody asks it for 12 s more: it is away"),
        (5, 0.0, True, "failed 5 times in a row, the next call will show: it is away"),
        (2, 0.0, False, "failed 2 times in a row, it is asked again: it is away"),
        (1, 0.0, False, "failed the last time, it is asked again: it is away"),
    ],
)
def test_a_model_that_fails_is_named_with_what_comes_of_it(
    failures: int, open_s: float, has_opened: bool, said: str
) -> None:
    view = CircuitView("c", "gemini-2.5-pro", "it is away", False, failures, open_s, has_opened)
    assert told_of(view) == said
    (finding,) = circuits([view])
    assert (finding.status, finding.text) == ("warning" if has_opened else "ok", f"gemini-2.5-pro {said}")


def test_models_names_those_that_nobody_asks(valkey_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(stores: Stores, _: Client) -> None:
        await stores.circuits.failed("c", 1, 60, 60, is_over=False, model="gemini-2.5-pro", why="it is away")

    there(valkey_url, fails)
    monkeypatch.setenv("EKIDEN_REDIS_URL", valkey_url)
    said = CliRunner().invoke(app, ["models"]).stdout
    assert "gemini-2.5-pro failed the last time, nobody asks it for" in said
    lines = CliRunner().invoke(app, ["models", "--json"]).stdout.splitlines()
    failed = {one["name"]: one["failed"] for one in map(json.loads, lines)}
    assert failed["gemini-2.5-flash"] is None
    assert failed["gemini-2.5-pro"]["why"] == "it is away"
