"""The consumer's loop."""

import signal
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from kombu.asynchronous import Hub

from ekiden.shared.relay.consumer import PromptStep


class Hearing(PromptStep):
    heard = 0

    def _hear(self) -> None:
        super()._hear()
        self.heard += 1


@pytest.fixture
def hub() -> Iterator[Hub]:
    hub = Hub()
    yield hub
    hub.close()


def test_a_signal_wakes_the_loop_which_looks_then_whether_it_is_to_stop(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    consumer = SimpleNamespace(hub=hub)
    step = Hearing(consumer)
    try:
        for times in (1, 2):  # with each connection
            step.start(consumer)
            signal.raise_signal(signal.SIGUSR1)
            hub.run_once()
            assert step.heard == times
            step.stop(consumer)
        assert signal.set_wakeup_fd(-1) == -1
    finally:
        signal.signal(signal.SIGUSR1, before)
