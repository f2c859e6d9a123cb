"""How a pool describes itself to those who look for it."""

from types import SimpleNamespace
from typing import Any

import pytest

from ekiden.shared.relay import celery_app
from ekiden.shared.settings.model import Settings


def test_the_whole_name_of_the_host_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(celery_app, "PROCESS", "node-1.eu.example.org.4711.abc123")
    pool: Any = SimpleNamespace(
        _settings=Settings(),
        _kind="worker",
        _queues=list,
        _served=None,
        _leases=(),
        _worker=SimpleNamespace(pool=SimpleNamespace(num_processes=1)),
        admission=SimpleNamespace(lag_s=0.0, is_busy=False),
    )
    view = celery_app._Relay.describe(pool)
    assert (view.host, view.pid) == ("node-1.eu.example.org", 4711)
