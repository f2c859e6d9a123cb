"""Which model serves which name, with a key and without."""

import asyncio
from collections.abc import Callable, Iterator

import pytest
from structlog.testing import capture_logs

from ekiden.shared.errors import MissingModel
from ekiden.shared.llm.base import ModelRequest
from ekiden.shared.llm.context_windows import DEFAULT_WINDOW
from ekiden.shared.llm.making import Models
from ekiden.shared.llm.models import (
    ModelChoice,
    ModelValues,
    choose,
    choose_all,
    learn_providers,
    providers,
    usable_models,
)
from ekiden.shared.llm.retrying import RetryingModel
from ekiden.shared.llm.sanitizing import SanitizingModel
from ekiden.shared.messages import Usage
from ekiden.shared.prices import Prices
from ekiden.shared.settings.model import Settings, load_settings
from ekiden.shared.tracing import semconv
from tests.unit.conftest import Install

Learn = Callable[..., tuple[str, ...]]

KEY = {"GEMINI_API_KEY": "k"}
VERTEX = {"GOOGLE_GENAI_USE_VERTEXAI": "true", "GOOGLE_CLOUD_PROJECT": "p"}
PLAIN = ModelValues()


@pytest.mark.parametrize("name", [None, "", "inherit", "default"])
@pytest.mark.parametrize("env", [KEY, VERTEX])
def test_with_a_key_gemini_is_the_default(name: str | None, env: dict[str, str]) -> None:
    choice = choose(name, PLAIN, env)
    assert (choice.name, choice.provider.name, choice.note) == ("gemini-2.5-flash", "gemini", "")


def test_without_a_key_the_stand_in_answers_and_says_what_to_do() -> None:
    choice = choose(None, PLAIN, {})
    assert (choice.name, choice.provider.name) == ("scripted", "scripted")
    assert "GEMINI_API_KEY" in choice.note


@pytest.mark.parametrize(
    "name", ["gemini-2.5-pro", "gemini-3-pro-preview", "models/gemini-2.5-pro", " gemini-2.5-pro "]
)
def test_every_gemini_model_is_served_by_gemini(name: str) -> None:
    choice = choose(name, PLAIN, KEY)
    assert choice.provider.name == "gemini"
    assert choice.name == name.strip().removeprefix("models/")
    assert not choice.note


@pytest.mark.parametrize(
    "name", ["sonnet", "Opus", "haiku", "fast", "claude-opus-4-1-20250805", "gpt-4.1", "o3-mini", "claude-sonnet-4"]
)
@pytest.mark.parametrize(("env", "expected"), [(KEY, "gemini-2.5-flash"), ({}, "scripted")])
def test_models_of_other_tools_are_served_by_the_default(name: str, env: dict[str, str], expected: str) -> None:
    choice = choose(name, PLAIN, env)
    assert choice.name == expected
    assert name in choice.note


def test_aliases_of_the_settings_outrank_ours() -> None:
    values = ModelValues(aliases={"opus": "gemini-2.5-pro", "claude-*": "gemini-2.5-flash-lite"})
    assert choose("opus", values, KEY).name == "gemini-2.5-pro"
    assert choose("claude-opus-4", values, KEY).name == "gemini-2.5-flash-lite"
    assert choose("sonnet", values, KEY).name == "gemini-2.5-flash"


def test_the_default_of_the_settings_may_be_an_alias() -> None:
    values = ModelValues(model="best", aliases={"best": "gemini-2.5-pro"})
    assert choose(None, values, KEY).name == "gemini-2.5-pro"
    assert choose("sonnet", values, KEY).name == "gemini-2.5-pro"


def test_a_gemini_model_without_a_key_is_played_by_the_stand_in() -> None:
    choice = choose("gemini-2.5-pro", PLAIN, {})
    assert choice.name == "scripted"
    assert "gemini-2.5-pro" in choice.note
    assert "GEMINI_API_KEY" in choice.note


def test_nothing_stands_in_for_the_default_that_the_settings_name() -> None:
    with pytest.raises(MissingModel, match="GEMINI_API_KEY"):
        choose(None, ModelValues(model="gemini-2.5-pro"), {})
    with pytest.raises(MissingModel, match=r"gemini-\*"):
        choose(None, ModelValues(model="llama"), KEY)


@pytest.mark.parametrize("name", [None, "gemini-2.5-pro"])
@pytest.mark.parametrize("env", [{"GEMINI_API_KEY": "ab\nc"}, {"GOOGLE_GENAI_USE_VERTEXAI": "true"}])
def test_nothing_stands_in_for_what_is_set_and_cannot_be_used(name: str | None, env: dict[str, str]) -> None:
    with pytest.raises(MissingModel, match=f"Gemini cannot be used: {next(iter(env))} "):
        choose(name, PLAIN, env)
    assert choose(None, ModelValues(model="scripted"), env).name == "scripted"


@pytest.mark.parametrize("name", ["gpt-4o", "sonnet"])
def test_a_model_of_another_tool_is_none_that_the_settings_may_name(name: str) -> None:
    with pytest.raises(MissingModel, match="belongs to no provider here"):
        choose(None, ModelValues(model=name), KEY)
    assert choose(None, ModelValues(model=name, aliases={name: "gemini-2.5-pro"}), KEY).name == "gemini-2.5-pro"
    assert choose(None, ModelValues(model="auto"), KEY).name == "gemini-2.5-flash"


def test_the_stand_in_can_be_asked_for_by_name() -> None:
    choice = choose("scripted", PLAIN, KEY)
    assert (choice.name, choice.note) == ("scripted", "")
    assert choose(None, ModelValues(model="scripted"), KEY).name == "scripted"


@pytest.mark.parametrize("env", [KEY, {}])
def test_a_name_that_nobody_knows_is_refused_with_the_way_out(env: dict[str, str]) -> None:
    with pytest.raises(MissingModel, match=r"'gemni-2\.5-pro'.*alias"):
        choose("gemni-2.5-pro", PLAIN, env)


def test_lists_what_is_usable_and_why_the_rest_is_not() -> None:
    with_key = {model.name: model for model in usable_models(KEY | {"ANTHROPIC_API_KEY": "k"})}
    assert all(model.usable for model in with_key.values())
    without = {model.name: model for model in usable_models({})}
    assert without.keys() == with_key.keys()
    assert without["scripted"].usable
    assert not without["gemini-2.5-flash"].usable
    assert "GEMINI_API_KEY" in without["gemini-2.5-flash"].why_not


LOCAL = {"type": "openai", "base_url": "http://127.0.0.1:1/v1"}
SMART = ModelValues(aliases={"smart": ["gemini-2.5-pro", "local/qwen3"], "sonnet": ["local/qwen3", "default"]})


def named(names: list[str | None], values: ModelValues, env: dict[str, str]) -> list[str]:
    return [choice.name for choice in choose_all(names, values, env)]


@pytest.fixture
def local() -> Iterator[None]:
    """A provider of the settings."""
    learn_providers(load_settings(providers={"local": LOCAL}))
    yield
    learn_providers(Settings())


@pytest.mark.usefixtures("local")
def test_several_models_are_asked_in_the_order_of_the_file_and_of_its_aliases() -> None:
    assert named(["smart"], SMART, KEY) == ["gemini-2.5-pro", "local/qwen3"]
    assert named(["sonnet", "smart"], SMART, KEY) == ["local/qwen3", "gemini-2.5-flash", "gemini-2.5-pro"]
    assert named(["scripted", None], ModelValues(model="smart", aliases=SMART.aliases), KEY) == [
        "scripted",
        "gemini-2.5-pro",
        "local/qwen3",
    ]
    assert choose("smart", SMART, KEY).name == "gemini-2.5-pro"


@pytest.mark.usefixtures("local")
def test_a_model_that_lacks_its_key_is_left_out_where_another_can_be_asked() -> None:
    (choice,) = choose_all(["smart"], SMART, {})
    assert choice.name == "local/qwen3"
    assert "gemini-2.5-pro is left out: no key" in choice.note
    values = ModelValues(model="smart", aliases=SMART.aliases)
    assert named([None], values, {}) == ["local/qwen3"]
    assert named(["gemini-2.5-pro", "gemini-2.5-flash"], ModelValues(model="scripted"), {}) == ["scripted"]


@pytest.mark.usefixtures("local")
def test_every_model_of_a_list_must_be_one_that_somebody_has() -> None:
    with pytest.raises(MissingModel, match=r"'gemni'.*alias"):
        choose_all(["local/qwen3", "gemni"], PLAIN, KEY)
    with pytest.raises(MissingModel, match="No provider here has a model 'smart'"):  # an alias names no other
        choose("best", ModelValues(aliases={"best": ["smart"], "smart": "best"}), KEY)
    with pytest.raises(MissingModel, match="names the default model"):
        choose(None, ModelValues(model="smart", aliases={"smart": ["default", "local/qwen3"]}), KEY)


def test_what_is_odd_is_logged_once() -> None:
    models = Models(PLAIN, {})
    with capture_logs() as logs:
        for name in (None, "sonnet", None, "sonnet"):
            models.choose(name)
    assert len(logs) == 2
    assert {entry["event"] for entry in logs} == {"model_chosen"}


def test_a_provider_is_made_once() -> None:
    models = Models(PLAIN, KEY)
    flash, pro = (models.model(models.choose(name)) for name in ("gemini-2.5-flash", "gemini-2.5-pro"))
    assert flash is pro
    assert isinstance(flash, SanitizingModel)
    assert isinstance(flash._model, RetryingModel)


@pytest.mark.parametrize(("name", "window"), [("gemini-2.5-flash", 1_048_576), ("gemini-9-ultra", 1_048_576)])
def test_a_models_name_tells_its_window(name: str, window: int) -> None:
    assert choose(name, PLAIN, KEY).window == window


OTHER = """
import sys

from ekiden.shared.errors import ModelUnavailable
from ekiden.shared.llm.base import ModelReply
from ekiden.shared.llm.models import Provider
from ekiden.shared.messages import Message, TextPart


class Echo:
    times = 0

    async def reply(self, request, on_delta=None):
        self.times += 1
        if self.times == 1:
            raise ModelUnavailable("not yet", 0.0)
        message = Message(role="model", parts=(TextPart(text="hm\\ud83d"),))
        return ModelReply(message=message, model=request.model)


def why_not(env):
    return "" if env["LLAMA"] == "here" else "set LLAMA"


llama = Provider(
    name="llama",
    serves=("llama-", "gpt-"),
    make=lambda values, env: Echo() if "BROKEN" not in env else 1 / 0,
    known=("llama-7b",),
    why_not=why_not,
    windows={"llama-": 8_192, "llama-70b": 131_072},
    prices={"llama-": (1.0, 2.0), "llama-70b": (3.0, 4.0)},
)
exits = Provider(name="exits", serves=("exits-",), make=lambda *_: sys.exit(3), why_not=lambda _: sys.exit(3))
named = Provider(name="named", serves=("n-",), make=None, telemetry_name="x.named", operation="text_completion")
gemini_like = Provider(name="mine", serves=("gemini-2.5",), make=None)
"""
HERE = {"LLAMA": "here"}


@pytest.fixture
def llama(install: Install, monkeypatch: pytest.MonkeyPatch) -> Iterator[Learn]:
    """Return what installs the package of a third provider, and allows the plug-ins of it that are named."""

    def learn(*attributes: str) -> tuple[str, ...]:
        install("my-llama", OTHER, models={name: name for name in attributes})
        return learn_providers(load_settings(models_packages=["my-llama"]))

    yield learn
    learn_providers(load_settings(models_packages=[]))


def test_a_provider_of_a_plug_in_serves_its_models_wherever_one_is_named(llama: Learn) -> None:
    assert llama("llama") == ()
    assert choose("llama-7b", PLAIN, HERE).provider.name == "llama"
    assert choose("gpt-4", PLAIN, HERE).note == "", "an alias of ours does not stand in its way"
    assert choose("gpt-4", ModelValues(aliases={"gpt-*": "llama-7b"}), HERE).name == "llama-7b"
    assert choose(None, ModelValues(model="llama-7b"), HERE).name == "llama-7b"
    assert {"llama-7b", "gemini-2.5-pro", "scripted"} <= {model.name for model in usable_models(HERE)}


def test_the_default_is_gemini_then_a_plug_ins_model_and_the_stand_in_last(llama: Learn) -> None:
    llama("llama")
    assert choose(None, PLAIN, {**HERE, **KEY}).name == "gemini-2.5-flash"
    assert choose(None, PLAIN, HERE).name == "llama-7b"
    assert choose(None, PLAIN, {"LLAMA": ""}).name == "scripted"


def test_a_plug_ins_provider_tells_window_price_and_names_of_its_models(llama: Learn) -> None:
    llama("llama", "named")
    assert [choose(name, PLAIN, HERE).window for name in ("llama-7b", "llama-70b-chat")] == [8_192, 131_072]
    assert choose("n-1", PLAIN, HERE).window == DEFAULT_WINDOW
    million = Usage(input_tokens=1_000_000, output_tokens=1_000_000)
    assert [Prices().cost_usd(name, million) for name in ("llama-7b", "llama-70b", "n-1")] == [3.0, 7.0, None]
    assert Prices({"llama-7": (9.0, 0.0)}).cost_usd("llama-7b", million) == 9.0
    assert [
        (semconv.provider_of(one), semconv.operation_of(one)) for one in ("llama-7b", "models/n-1", "gemini-x")
    ] == [
        ("llama", "chat"),
        ("x.named", "text_completion"),
        ("gcp.gemini", "generate_content"),
    ]
    assert semconv.provider_of("nobody-s") == semconv.OTHER


def test_a_plug_ins_model_is_asked_again_and_its_words_are_storable_like_everybodys(llama: Learn) -> None:
    llama("llama")
    models = Models(PLAIN, HERE)
    reply = asyncio.run(models.model(models.choose("llama-7b")).reply(ModelRequest("a", "llama-7b", "", ())))
    assert reply.message.text == "hm\ufffd"


def test_a_provider_that_serves_what_another_does_is_left_out(llama: Learn) -> None:
    (problem,) = llama("gemini_like")
    assert "my-llama 1.2 (my_llama:gemini_like) serves 'gemini-2.5', as 'gemini' does" in problem
    assert [one.name for one in providers()] == ["gemini", "anthropic", "scripted"]


def test_what_goes_wrong_in_a_plug_ins_provider_is_told_as_its_own(llama: Learn) -> None:
    llama("llama")
    assert "cannot tell what it needs: KeyError" in choose("llama-7b", PLAIN, {}).note
    models = Models(PLAIN, {**HERE, "BROKEN": ""})
    with pytest.raises(MissingModel, match="'llama' cannot make its model: ZeroDivisionError"):
        models.model(models.choose("llama-7b"))


def test_a_provider_that_would_end_the_program_is_told_of_likewise(llama: Learn) -> None:
    llama("exits")
    (exits,) = (one for one in providers() if one.name == "exits")
    assert exits.lacks({}) == "it cannot tell what it needs: SystemExit: 3"
    with pytest.raises(MissingModel, match="'exits' cannot make its model: SystemExit: 3"):
        Models(PLAIN, HERE).model(ModelChoice("exits-1", exits))
