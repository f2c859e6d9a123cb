"""Keys, projects, addresses; many calls at once."""

import asyncio

import pytest
from google.oauth2.credentials import Credentials

from ekiden.shared.errors import ConfigurationError, MissingModel, ModelError
from ekiden.shared.llm.gemini import GeminiModel
from ekiden.shared.llm.genai.access import GeminiAccess
from tests.unit.llm.gemini.conftest import access_to
from tests.unit.llm.wires import World, asked

TOKEN = Credentials(token="t")  # type: ignore[no-untyped-call]  # google-auth has no types here


def connect(access: GeminiAccess) -> object:
    """Make a client; what that loads takes a second that only the process which runs this is to spend."""
    from ekiden.shared.llm.genai.connection import Connection

    return Connection(access)


@pytest.mark.parametrize(
    ("env", "access"),
    [
        ({"GEMINI_API_KEY": " k\n"}, GeminiAccess(api_key="k")),
        ({"GOOGLE_API_KEY": "g"}, GeminiAccess(api_key="g")),
        ({"GEMINI_API_KEY": "k", "GOOGLE_API_KEY": "g"}, GeminiAccess(api_key="k")),
        (
            {"GEMINI_API_KEY": "k", "GEMINI_BASE_URL": "http://a", "GOOGLE_GEMINI_BASE_URL": "http://b"},
            GeminiAccess(api_key="k", base_url="http://a"),
        ),
        (
            {"GEMINI_API_KEY": "k", "GOOGLE_GEMINI_BASE_URL": "http://b"},
            GeminiAccess(api_key="k", base_url="http://b"),
        ),
        (
            {"GEMINI_API_KEY": "k", "GOOGLE_GENAI_USE_VERTEXAI": "True", "GOOGLE_CLOUD_PROJECT": "p"},
            GeminiAccess(is_vertex=True, project="p", location="global"),
        ),
        (
            {
                "GOOGLE_GENAI_USE_VERTEXAI": "1",
                "GOOGLE_CLOUD_PROJECT": "p",
                "GOOGLE_CLOUD_LOCATION": "europe-west1",
                "GOOGLE_VERTEX_BASE_URL": "http://v",
            },
            GeminiAccess(is_vertex=True, project="p", location="europe-west1", base_url="http://v"),
        ),
        ({"GOOGLE_GENAI_USE_VERTEXAI": "1", "GOOGLE_API_KEY": "g"}, GeminiAccess(api_key="g", is_vertex=True)),
        (
            {"GEMINI_API_KEY": "k", "GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_GENAI_USE_VERTEXAI": "false"},
            GeminiAccess(api_key="k"),
        ),
    ],
)
def test_reads_the_variables_of_gemini_cli_and_google_genai(env: dict[str, str], access: GeminiAccess) -> None:
    assert GeminiAccess.from_env(env) == access


def test_a_given_address_outranks_the_environment() -> None:
    access = GeminiAccess.from_env({"GEMINI_API_KEY": "k", "GEMINI_BASE_URL": "http://a"}, "http://mine")
    assert access.base_url == "http://mine"


@pytest.mark.parametrize(
    ("env", "says"),
    [
        ({}, "GEMINI_API_KEY"),
        ({"GEMINI_API_KEY": "  "}, "GEMINI_API_KEY"),
        ({"GEMINI_API_KEY": "kéy"}, "GEMINI_API_KEY holds characters that no key has"),
        ({"GEMINI_API_KEY": "ab\nc"}, "GEMINI_API_KEY holds .* copy it again"),
        ({"GOOGLE_API_KEY": "a b"}, "GOOGLE_API_KEY holds"),
        ({"GEMINI_API_KEY": "k", "ALL_PROXY": "socks5://127.0.0.1:9"}, "ALL_PROXY is a SOCKS proxy.* socksio"),
        ({"GEMINI_API_KEY": "k", "https_proxy": "ftp://planted"}, "https_proxy is no address .*begins with none of"),
        ({"GEMINI_API_KEY": "k", "HTTP_PROXY": "http://me:p@ss/planted@host"}, "HTTP_PROXY is .*%2F"),
        ({"GEMINI_API_KEY": "k", "HTTP_PROXY": "http://host:planted"}, "HTTP_PROXY is no address"),
        ({"GOOGLE_GENAI_USE_VERTEXAI": "true"}, "GOOGLE_CLOUD_PROJECT"),
    ],
)
def test_says_what_is_missing(env: dict[str, str], says: str) -> None:
    with pytest.raises(MissingModel, match=says) as raised:
        GeminiAccess.from_env(env)
    assert "planted" not in str(raised.value)


@pytest.mark.parametrize(
    "env",
    [
        {"HTTPS_PROXY": "proxy.example.org:3128"},
        {"HTTPS_PROXY": "http://me:p%40ss@proxy.example.org:3128"},
        {"ALL_PROXY": "socks5://127.0.0.1:9", "NO_PROXY": "a.example.org, *"},
        {"ALL_PROXY": "socks5://127.0.0.1:9", "all_proxy": ""},
    ],
)
def test_a_proxy_that_the_client_can_use_is_no_problem(env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert GeminiAccess.why_not({"GEMINI_API_KEY": "k", **env}) == ""
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    connect(GeminiAccess(api_key="k"))


@pytest.mark.parametrize(
    ("name", "value"), [("ALL_PROXY", "socks5://127.0.0.1:9"), ("SSL_CERT_FILE", "/no/such/file.pem")]
)
def test_a_client_that_cannot_be_made_is_no_fault_of_ours(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ModelError, match=rf"{name}|lost or refused"):
        connect(GeminiAccess(api_key="k"))


@pytest.mark.parametrize("address", ["generativelanguage.googleapis.com", "https://", "ftp://a"])
def test_refuses_an_address_that_is_none(address: str) -> None:
    with pytest.raises(ConfigurationError, match="http://"):
        GeminiAccess.from_env({"GEMINI_API_KEY": "k", "GEMINI_BASE_URL": address})


def test_never_shows_its_key() -> None:
    assert "geheim" not in repr(GeminiAccess(api_key="geheim"))


@pytest.mark.parametrize(
    ("access", "path"),
    [
        (GeminiAccess(api_key="k"), "/v1beta/models/gemini-2.5-flash:generateContent"),
        (
            GeminiAccess(is_vertex=True, project="p", location="europe-west1", credentials=TOKEN),
            "/v1beta1/projects/p/locations/europe-west1/publishers/google/models/gemini-2.5-flash:generateContent",
        ),
        (
            GeminiAccess(api_key="k", is_vertex=True),
            "/v1beta1/publishers/google/models/gemini-2.5-flash:generateContent",
        ),
    ],
    ids=["ai studio", "vertex", "vertex with a key"],
)
def test_speaks_to_ai_studio_and_to_vertex(world: World, access: GeminiAccess, path: str) -> None:
    async def call() -> str:
        model = GeminiModel(GeminiAccess(**{**vars(access), "base_url": world.server.url}))
        try:
            return (await model.reply(asked("hello"))).message.text
        finally:
            await model.aclose()

    assert "hello" in asyncio.run(call())
    assert world.server.requests[-1].path == path


@pytest.mark.usefixtures("own_model")
def test_more_calls_are_under_way_at_once_than_a_usual_pool_has_connections(world: World) -> None:
    world.rule("^go", {"hang": 600, "text": "done"})
    assert [reply.message.text for reply in world.ask_at_once(101, "go")] == ["done"] * 101


def test_one_model_serves_several_event_loops(world: World) -> None:
    model = GeminiModel(access_to(world))

    async def call() -> str:
        try:
            return (await model.reply(asked("hello"))).message.text
        finally:
            await model.aclose()

    first = asyncio.run(call())
    assert asyncio.run(call()) == first


def test_lists_the_models_of_the_key(world: World) -> None:
    async def names() -> list[str]:
        model = GeminiModel(access_to(world))
        try:
            return await model.model_names()
        finally:
            await model.aclose()

    found = asyncio.run(names())
    assert "gemini-2.5-flash" in found
    assert "gemini-embedding-001" not in found
