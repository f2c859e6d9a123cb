"""What Ekiden computes keeps numpy's linear algebra to one thread, and gives a user's program back what it had."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from threadpoolctl import OpenBLASController, threadpool_info, threadpool_limits

from ekiden.dispatcher.routing.confusions import confusions
from ekiden.dispatcher.routing.out_of_scope import OUT_OF_SCOPE
from ekiden.dispatcher.routing.semantic_model import learn
from ekiden.shared.definitions.parsing import definition_from
from ekiden.shared.embedding import encoder
from ekiden.shared.embedding.encoder import SentenceEncoder, Vectors
from ekiden.shared.embedding.single_thread import single_threaded
from ekiden.shared.memory.base import Note
from ekiden.shared.memory.index import Index
from tests.doubles.letters import Letters

A_USERS = 2
"""Threads, on any machine."""
AGENTS = [
    definition_from({"name": "bills", "description": "Explains and corrects bills."}, "x"),
    definition_from({"name": "boats", "description": "Rents boats to guests."}, "x"),
]


@pytest.fixture(autouse=True)
def a_users_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("ekiden.dispatcher.routing.semantic_model.OUT_OF_SCOPE", OUT_OF_SCOPE[:20])
    before = threadpool_limits(A_USERS, "blas")
    OpenBLASController.clear_controlling_thread()
    yield
    before.restore_original_limits()
    OpenBLASController.clear_controlling_thread()


def threads() -> int:
    [number] = {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}
    return int(number)


class Watching(Letters):
    """Notes how many threads there are when it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []

    def encode(self, texts: Sequence[str]) -> Vectors:
        self.seen.append(threads())
        return super().encode(texts)


def encode(watching: Watching, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder, "_model", lambda: watching)
    SentenceEncoder().encode(["why was I charged twice"])


def recall(watching: Watching, _: pytest.MonkeyPatch) -> None:
    class Asked(np.ndarray):
        def __rmatmul__(self, others: Any) -> Any:
            watching.seen.append(threads())
            return others

    index = Index()
    index.put(Note(id="0" * 16, content="the door is red", changed_ms=1, used_ms=1), 1, np.ones(3, np.float32))
    index.by_meaning(np.ones(3, np.float32).view(Asked))


THAT_COMPUTES: dict[str, Callable[[Watching, pytest.MonkeyPatch], object]] = {
    "a text is encoded": encode,
    "a catalog is learned": lambda watching, _: learn(AGENTS, watching),
    "a request is judged": lambda watching, _: learn(AGENTS, Letters()).judge("pay my bill", watching),
    "agents are compared": lambda watching, _: confusions(AGENTS, {agent.name for agent in AGENTS}, watching),
    "a note is looked for": recall,
}


@pytest.mark.parametrize("what", THAT_COMPUTES)
def test_there_is_one_thread_while_something_is_computed_in_whichever_thread(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    watching = Watching()
    for somewhere in (THAT_COMPUTES[what], in_another_thread(THAT_COMPUTES[what])):
        somewhere(watching, monkeypatch)
        assert threads() == A_USERS
    assert len(watching.seen) > 1
    assert set(watching.seen) == {1}


def in_another_thread(compute: Callable[..., object]) -> Callable[..., None]:
    def computed(*given: Any) -> None:
        with ThreadPoolExecutor(1) as other:
            other.submit(compute, *given).result()

    return computed


def test_who_computes_meanwhile_keeps_the_limit_and_the_last_one_lifts_it() -> None:
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        first, last = single_threaded(), single_threaded()
        one.submit(first.__enter__).result()
        other.submit(last.__enter__).result()
        one.submit(first.__exit__, None, None, None).result()
        assert threads() == 1
        other.submit(last.__exit__, None, None, None).result()
        assert threads() == A_USERS
