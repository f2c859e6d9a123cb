"""How a pool takes messages: several at a time, as many as there is room for, and of each queue in turn."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kombu import Connection
from redis import Redis

from ekiden.shared.relay.transport import MOST, RejectHandler, transport_to
from tests.unit.relay.foreign import good

QUEUES = ("ekiden.agent.a", "ekiden.agent.b")


@pytest.fixture
def server(valkey_url: str) -> Iterator[Redis]:
    """A client of an empty server."""
    with Redis.from_url(valkey_url, decode_responses=True) as client:
        client.flushall()
        yield client


def pushed(server: Redis, queue: str, *numbers: int) -> None:
    """Push messages that say which they are."""
    for number in numbers:
        message = good()
        message["headers"]["id"] = f"{queue}:{number}"
        server.lpush(queue, json.dumps(message))


@contextmanager
def consuming(url: str, room: int, buried: list[bytes] | None = None) -> Iterator[tuple[Callable[[], list[str]], Any]]:
    """Give what takes what comes with the next answer of the server, and the channel."""
    taken: list[str] = []
    kept: list[bytes] = [] if buried is None else buried
    intake = RejectHandler(lambda _queue, _reason, raw: kept.append(raw), lambda: False)
    with Connection(transport=transport_to(url, intake)) as connection:
        channel = connection.default_channel
        channel.room = lambda: room
        for queue in QUEUES:
            channel.basic_consume(queue, True, lambda message: taken.append(message.headers["id"]), queue)

        def take() -> list[str]:
            taken.clear()
            connection.drain_events(timeout=60)
            return list(taken)

        yield take, channel


def ids(queue: str, *numbers: int) -> list[str]:
    return [f"{queue}:{number}" for number in numbers]


def test_as_many_are_taken_at_a_time_as_there_is_room_for_and_of_each_queue_in_turn(
    valkey_url: str, server: Redis
) -> None:
    for queue in QUEUES:
        pushed(server, queue, *range(5))
    with consuming(valkey_url, room=3) as (take, _):
        first, then, *_ = rounds = [take() for _ in range(4)]
    assert sorted([first, then]) == [ids(queue, 0, 1, 2) for queue in QUEUES]
    assert sorted(rounds[2:]) == [ids(queue, 3, 4) for queue in QUEUES]


@pytest.mark.parametrize("room", [1, 0, -3])
def test_one_is_taken_where_there_is_room_for_one(valkey_url: str, server: Redis, room: int) -> None:
    pushed(server, QUEUES[0], 0, 1, 2)
    with consuming(valkey_url, room) as (take, _):
        assert take() == ids(QUEUES[0], 0)
        assert server.llen(QUEUES[0]) == 2


def test_never_more_are_taken_than_may_be_lost_with_a_worker(valkey_url: str, server: Redis) -> None:
    pushed(server, QUEUES[0], *range(MOST + 5))
    with consuming(valkey_url, room=1_000) as (take, _):
        assert take() == ids(QUEUES[0], *range(MOST))


def test_what_is_no_message_is_kept_and_those_beside_it_are_taken(valkey_url: str, server: Redis) -> None:
    buried: list[bytes] = []
    pushed(server, QUEUES[0], 0)
    server.lpush(QUEUES[0], "nonsense")
    pushed(server, QUEUES[0], 1)
    with consuming(valkey_url, 10, buried) as (take, _):
        assert take() == ids(QUEUES[0], 0, 1)
    assert buried == [b"nonsense"]


def test_messages_are_taken_one_by_one_where_the_servers_rules_are_of_an_earlier_version(
    valkey_url: str, server: Redis
) -> None:
    server.acl_setuser("earlier", enabled=True, nopass=True, keys=["*"], commands=["+@all", "-blmpop"])
    pushed(server, QUEUES[0], 0, 1)
    with consuming(valkey_url.replace("unix://", "unix://earlier:x@"), room=10) as (take, _):
        assert take() == ids(QUEUES[0], 0)
        assert take() == ids(QUEUES[0], 1)
    server.acl_deluser("earlier")
