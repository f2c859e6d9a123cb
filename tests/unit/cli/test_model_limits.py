"""What `ekiden models` and `ekiden doctor` tell of limits of models."""

import json

import pytest

from ekiden.dispatcher.cli.commands.models import models
from ekiden.dispatcher.cli.doctor.server_checks import model_limits
from ekiden.dispatcher.cli.views.model_limits import told_of_limit
from ekiden.shared.model_limits import limits_of
from ekiden.shared.settings.model import load_settings
from ekiden.shared.stores.model_limits import LimitState, ModelLimit, Reserved
from ekiden.shared.stores.opening import Stores
from tests.conftest import real_backend

LIMIT = ModelLimit("k:m", "m", rpm=1_000, concurrent=50)


@pytest.mark.parametrize(
    ("state", "told"),
    [
        (None, "1,000 calls a minute, 50 calls at a time"),
        (LimitState(12, 900, 3, 0, 0.0), "12 of 1,000 calls a minute, 3 of 50 calls at a time"),
        (
            LimitState(9, 900, 3, 2, 11.6),
            "9 of 1,000 calls a minute, 3 of 50 calls at a time, 2 waiting, its provider is left alone for 12 s more",
        ),
    ],
)
def test_what_is_used_of_a_limit_is_told_beside_it(state: LimitState | None, told: str) -> None:
    assert told_of_limit(LIMIT, state) == told


def test_one_call_is_said_in_the_singular() -> None:
    assert told_of_limit(ModelLimit("k:m", "m", rpm=1, tpm=1, concurrent=1), LimitState(0, 0, 0, 0, 0.0)) == (
        "0 of 1 call a minute, 0 of 1 token a minute, 0 of 1 call at a time"
    )


def test_doctor_tells_what_is_used_and_of_models_that_nobody_has(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"scripted": {"rpm": 10}, "nobodys": {"rpm": 10}}
    monkeypatch.setenv("EKIDEN_MODEL_LIMITS", json.dumps(said))

    async def scenario(stores: Stores) -> None:
        limit = limits_of(load_settings().model_limits, {})["scripted"]
        assert limit is not None
        assert isinstance(await stores.model_limits.take(limit, "a.1", 5, queues=False), Reserved)
        first, second = await model_limits(stores)
        assert (first.status, first.text) == ("ok", "scripted: 1 of 10 calls a minute")
        assert (second.status, second.text) == ("warning", "no provider here has a model 'nobodys'")

    real_backend().run(scenario)


def test_models_shows_limits_also_where_no_server_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EKIDEN_MODEL_LIMITS", '{"scripted": {"rpm": 10, "tpm": 5000}}')
    models()
    assert "limit: scripted: 10 calls a minute, 5,000 tokens a minute" in capsys.readouterr().out
    models(as_json=True)
    shown = {one["name"]: one["limit"] for one in map(json.loads, capsys.readouterr().out.splitlines())}
    assert shown["scripted"] == {"rpm": 10, "tpm": 5_000}
    assert shown["gemini-2.5-flash"] is None
