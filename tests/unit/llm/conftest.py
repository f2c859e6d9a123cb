"""A world for each adapter: one server, one client, one event loop, since a client costs a tenth of a second."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from ekiden.shared.llm.wire_model import WireModel
from tests.doubles.clocks import Passing
from tests.doubles.gemini.fixture import gemini  # noqa: F401 (a fixture is found by its name here)
from tests.unit.llm.wires import WIRES, Wire, World


class Worlds:
    """The worlds that have been asked for, by their wires."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self._runner = runner
        self._made: dict[str, World] = {}

    def of(self, wire: Wire) -> World:
        """Return the wire's world, as new."""
        if wire.name not in self._made:
            server = wire.serve().__enter__()
            self._made[wire.name] = World(wire, server, self.model(wire, server), self._runner)
        kept = self._made[wire.name]
        kept.server.reset()
        kept.server.keys = None
        return World(wire, kept.server, kept.model, self._runner)

    def model(self, wire: Wire, server: Any) -> WireModel:
        """Return a new one that talks to ``server``."""
        model = wire.adapter(server.url)
        self._runner.run(model._connected())  # before it is copied
        return model

    def close(self) -> None:
        """Stop the servers."""
        for world in self._made.values():
            self._runner.run(world.model.aclose())
            world.server.__exit__()


@pytest.fixture(scope="session")
def worlds() -> Iterator[Worlds]:
    with asyncio.Runner() as runner:
        made = Worlds(runner)
        yield made
        made.close()


@pytest.fixture(params=WIRES, ids=repr)
def world(request: pytest.FixtureRequest, worlds: Worlds) -> World:
    """Every adapter, one after the other: what holds of one holds of all."""
    return worlds.of(request.param)


@pytest.fixture
def own_model(world: World, worlds: Worlds) -> Iterator[None]:
    """A model of the test's own: it knows nothing that others were told, and leaves no connection."""
    world.model = worlds.model(world.wire, world.server)
    yield
    world.runner.run(world.model.aclose())


@pytest.fixture
def waits_pass(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the double lets one wait for goes by at once."""
    passing, loop = Passing(monkeypatch), world.runner.get_loop()
    monkeypatch.setattr(world.server, "wait", lambda seconds: passing.pass_for(loop, seconds))
