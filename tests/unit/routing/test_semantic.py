"""Routing by meaning, with an encoder whose meanings can be told by hand; once with the real one."""

import asyncio
import hashlib
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
import pytest

from ekiden.dispatcher.routing.agent_texts import texts_of
from ekiden.dispatcher.routing.base import RoutingResult
from ekiden.dispatcher.routing.semantic import SemanticRouter
from ekiden.shared.definitions.catalog import Catalog, build_catalog
from ekiden.shared.definitions.parsing import definition_from
from ekiden.shared.embedding.encoder import SentenceEncoder, Vectors
from ekiden.shared.embedding.word_index import WordIndex, words_of
from ekiden.shared.errors import CatalogNotReady

BILLS = [
    "pay my bill",
    "the bill is too high",
    "bill for march",
    "when is my bill due",
    "split the bill",
    "my bill, please",
]
BOATS = ["rent a boat", "boat for two", "is the boat free", "row a boat", "the boat leaks", "boat to the island"]


class BagOfWords:
    """A vector per word, added up: texts with the same words mean the same."""

    def __init__(self) -> None:
        self.encoded: list[str] = []

    def encode(self, texts: Sequence[str]) -> Vectors:
        self.encoded += texts
        return np.array([_row(text) for text in texts], dtype=np.float32).reshape(len(texts), 64)


@cache
def _row(text: str) -> Any:
    row = sum((_vector(word) for word in words_of(text)), np.zeros(64))
    return row / (np.linalg.norm(row) or 1)


@cache
def _vector(word: str) -> Any:
    seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "big")
    return np.random.default_rng(seed).standard_normal(64)


def catalog_of(**examples: Sequence[str]) -> Catalog:
    agents = [
        definition_from({"name": name, "description": f"Does {name}.", "triggers": {"examples": list(some)}}, "x")
        for name, some in examples.items()
    ]
    return build_catalog(agents)[0]


def routed(prompt: str, catalog: Catalog, threshold: float | None = None) -> RoutingResult:
    return asyncio.run(_router(threshold).route(prompt, catalog))


@cache
def _router(threshold: float | None) -> SemanticRouter:
    """Return one that learns a catalog once, as that of a dispatcher does."""
    return SemanticRouter(BagOfWords(), threshold)


@pytest.mark.parametrize(("prompt", "agent"), [("the bill for june is high", "bills"), ("is a boat free", "boats")])
def test_chooses_the_agent_whose_examples_the_request_is_like(prompt: str, agent: str) -> None:
    result = routed(prompt, catalog_of(bills=BILLS, boats=BOATS))

    assert result.route is not None
    assert (result.route.agent, result.route.stage) == (agent, "semantic")
    assert result.stages[0].decided


def test_refuses_what_is_like_nobodys_examples() -> None:
    result = routed("explain photosynthesis to seven penguins", catalog_of(bills=BILLS, boats=BOATS))

    assert result.route is None
    assert len(result.candidates) == 2
    assert result.stages[0].score < 50
    assert not result.stages[0].decided


def test_a_threshold_of_the_settings_replaces_the_calibrated_one() -> None:
    catalog = catalog_of(bills=BILLS, boats=BOATS)

    assert routed("explain photosynthesis to seven penguins", catalog, threshold=0.0).route is not None
    assert routed("boat for the two of us in march", catalog, threshold=100.0).route is None


def test_works_with_descriptions_alone() -> None:
    catalog = build_catalog(
        [
            definition_from({"name": "payments", "description": "Pays bills and explains them."}, "x"),
            definition_from({"name": "harbour", "description": "Rents boats and repairs them."}, "x"),
        ]
    )[0]

    assert routed("who repairs boats", catalog).candidates[0].agent == "harbour"


def test_one_agent_alone_is_a_catalog_too() -> None:
    assert routed("pay my bill", catalog_of(bills=BILLS)).candidates[0].agent == "bills"


def test_an_empty_catalog_has_no_route() -> None:
    assert routed("pay", build_catalog([])[0]) == RoutingResult()


@pytest.mark.parametrize("prompt", ["", " ", "\ud800", "?" * 5_000, "啊" * 5_000])
def test_odd_requests_are_answered(prompt: str) -> None:
    assert len(routed(prompt, catalog_of(bills=BILLS, boats=BOATS)).candidates) == 2


def test_vectors_are_made_once_for_each_definition() -> None:
    encoder = BagOfWords()
    router = SemanticRouter(encoder)
    first, second = catalog_of(bills=BILLS, boats=BOATS), catalog_of(bills=BILLS, boats=[*BOATS, "a new boat"])

    for catalog in (first, first, second):
        asyncio.run(router.route("x", catalog))

    about = texts_of(first.definition("bills"))[0]
    assert encoder.encoded.count(about) == 1
    assert encoder.encoded.count("a new boat") == 1


def test_a_new_catalog_is_learned_ahead_where_requests_are_routed_by_meaning() -> None:
    async def scenario() -> None:
        encoder = BagOfWords()
        router, (first, second) = SemanticRouter(encoder), (catalog_of(bills=BILLS), catalog_of(boats=BOATS))
        await router.prepare(first)
        assert encoder.encoded == [], "nobody has asked yet: the encoder is not loaded for nothing"
        await router.route("x", first)
        await router.prepare(second)
        encoder.encoded.clear()
        await router.route("rent a boat", second)
        await router.route("my bill", first)
        assert encoder.encoded == ["rent a boat", "my bill"], "both are known"

    asyncio.run(scenario())


def test_a_request_waits_for_a_catalog_that_is_being_learned_as_long_as_its_patience_lasts() -> None:
    async def scenario() -> None:
        may_go = threading.Event()

        class Slow(BagOfWords):
            def encode(self, texts: Sequence[str]) -> Vectors:
                assert may_go.wait(60)
                return super().encode(texts)

        router, catalog = SemanticRouter(Slow(), max_wait_s=0.01), catalog_of(bills=BILLS, boats=BOATS)
        with pytest.raises(CatalogNotReady):
            await router.route("my bill", catalog)
        may_go.set()
        async with asyncio.timeout(60):
            while True:
                with suppress(CatalogNotReady):
                    return assert_bill(await router.route("the bill for june is high", catalog))

    def assert_bill(result: RoutingResult) -> None:
        assert result.route is not None
        assert result.route.agent == "bills"

    asyncio.run(scenario())


def test_the_agents_order_follows_the_catalog_after_a_change() -> None:
    router = SemanticRouter(BagOfWords())

    async def best() -> list[str]:
        catalogs = [
            catalog_of(boats=BOATS, zoo=["feed the lion", "the lion roars"]),
            catalog_of(bills=BILLS, boats=BOATS),
        ]
        return [(await router.route("rent a boat", catalog)).candidates[0].agent for catalog in catalogs]

    assert asyncio.run(best()) == ["boats", "boats"]


def test_large_catalogs_take_the_nearest_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ekiden.dispatcher.routing.choice._MOST_ROWS", 10)
    router = SemanticRouter(BagOfWords())

    result = asyncio.run(router.route("is a boat free", catalog_of(bills=BILLS, boats=BOATS)))

    assert result.candidates[0].agent == "boats"


def test_word_similarity_is_one_for_the_same_text_and_the_kernel_agrees() -> None:
    index = WordIndex(["pay my bill", "租一条船", "rent a boat"])
    alike, known = index.similarities("租一条船")

    assert alike[1] == pytest.approx(1.0)
    assert alike.argmax() == 1
    assert known == pytest.approx(1.0)
    assert index.kernel()[1] == pytest.approx(alike)
    assert index.similarities("zzz qqq")[1] == 0.0


@pytest.mark.parametrize(
    ("prompt", "agent"),
    [
        ("j'ai oublié mon mot de passe", "accounts"),
        ("我的包裹什么时候到", "parcels"),
        ("my package has still not come", "parcels"),
        ("why is the sky blue", None),
        ("给我写一首诗", None),
    ],
)
def test_the_real_encoder_routes_across_languages_and_refuses(
    real: tuple[SemanticRouter, Catalog], prompt: str, agent: str | None
) -> None:
    route = asyncio.run(real[0].route(prompt, real[1])).route

    assert (route.agent if route else None) == agent


@pytest.fixture(scope="module")
def real() -> tuple[SemanticRouter, Catalog]:
    parcels = ["where is my parcel", "my delivery is late", "track my shipment", "the courier did not come"]
    accounts = ["I cannot log in", "reset my password", "change my e-mail address", "my account is locked"]
    return SemanticRouter(SentenceEncoder()), catalog_of(parcels=parcels, accounts=accounts)
