"""Providers that the settings name: their models, their keys, their prices."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ekiden.shared.errors import ConfigurationError
from ekiden.shared.llm.context_windows import DEFAULT_WINDOW
from ekiden.shared.llm.making import Models
from ekiden.shared.llm.models import ModelValues, choose, learn_providers, usable_models
from ekiden.shared.messages import Usage
from ekiden.shared.prices import Prices
from ekiden.shared.settings.model import HARMLESS, Settings, load_settings
from ekiden.shared.tracing import semconv

PLAIN = ModelValues()
LOCAL = {
    "type": "openai",
    "base_url": "http://127.0.0.1:11434/v1",
    "models": ["qwen3", "llama3.3:70b"],
    "context_window": 65_536,
    "prices": {"qwen3": [1, 2]},
}
KEYED = {"type": "openai", "base_url": "https://llm.example.com/v1", "api_key_env": "LLM_KEY"}


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    yield
    learn_providers(Settings())


def learn(**providers: Any) -> None:
    assert learn_providers(load_settings(providers=providers)) == ()


def test_a_model_of_a_provider_of_the_settings_is_named_with_it() -> None:
    learn(local=LOCAL)
    choice = choose("local/qwen3", PLAIN, {})
    assert (choice.name, choice.provider.name, choice.note, choice.window) == ("local/qwen3", "local", "", 65_536)
    assert choose("local/whatever:7b", PLAIN, {}).provider.name == "local", "others can be used as well"


def test_it_answers_for_agents_without_a_model_where_gemini_has_no_key() -> None:
    learn(local=LOCAL)
    assert choose(None, PLAIN, {}).name == "local/qwen3"
    assert choose("sonnet", PLAIN, {}).name == "local/qwen3"
    assert choose(None, PLAIN, {"GEMINI_API_KEY": "k"}).name == "gemini-2.5-flash"


def test_an_alias_may_mean_one_of_its_models() -> None:
    learn(local=LOCAL)
    assert choose("opus", ModelValues(aliases={"opus": "local/llama3.3:70b"}), {}).name == "local/llama3.3:70b"


def test_without_its_key_it_is_not_usable_and_says_which_variable_it_misses() -> None:
    learn(corp=KEYED | {"models": ["big"]})
    (listed,) = [one for one in usable_models({}) if one.provider == "corp"]
    assert (listed.name, listed.usable, listed.why_not) == ("corp/big", False, "no key: set LLM_KEY")
    assert "LLM_KEY" in choose("corp/big", PLAIN, {}).note
    assert choose("corp/big", PLAIN, {"LLM_KEY": "k"}).name == "corp/big"


def test_openais_own_needs_its_usual_key_and_no_address() -> None:
    learn(openai={"type": "openai", "models": ["gpt-5-mini"]})
    assert choose("openai/gpt-5-mini", PLAIN, {}).name != "openai/gpt-5-mini"
    choice = choose("openai/gpt-5-mini", PLAIN, {"OPENAI_API_KEY": "k"})
    assert (choice.name, choice.window) == ("openai/gpt-5-mini", DEFAULT_WINDOW)
    assert semconv.provider_of("openai/gpt-5-mini") == "openai"


def test_without_the_client_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    learn(local=LOCAL)
    monkeypatch.setattr("ekiden.shared.llm.access.find_spec", lambda _: None)
    assert "pip install 'ekiden[openai]'" in choose("local/qwen3", PLAIN, {}).note


def test_its_prices_are_those_of_the_settings() -> None:
    learn(local=LOCAL)
    million = Usage(input_tokens=1_000_000, output_tokens=1_000_000)
    assert Prices().cost_usd("local/qwen3", million) == 3.0
    assert Prices().cost_usd("local/qwen3-2026", million) == 3.0
    assert Prices().cost_usd("local/llama3.3:70b", million) is None
    assert Prices({"local/": (0.0, 0.0)}).cost_usd("local/llama3.3:70b", million) == 0.0


def test_a_process_makes_one_model_for_all_models_of_a_provider() -> None:
    learn(local=LOCAL)
    models = Models(PLAIN, {})
    one, other = (models.model(models.choose(name)) for name in ("local/qwen3", "local/llama3.3:70b"))
    assert one is other


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ({"a b": LOCAL}, "'a b' must be of a-z"),
        ({"gemini": LOCAL}, "'gemini' is taken"),
        ({"local": {"base_url": "http://x/v1"}}, "local: type: is missing"),
        ({"local": LOCAL | {"type": "anthropic"}}, "local: type: must be 'openai'"),
        ({"local": LOCAL | {"base_url": "localhost:11434"}}, "local: base_url"),
        ({"local": LOCAL | {"api_key": "sk-123"}}, "local: api_key: is not known"),
        ({"local": LOCAL | {"api_key_env": "sk-123"}}, "local: api_key_env"),
        ({"local": LOCAL | {"models": "qwen3"}}, "local: models"),
        ("{", "no valid JSON"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(said: Any, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says) as raised:
        load_settings(providers=said)
    assert "providers" in str(raised.value)


def test_the_environment_names_them_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EKIDEN_PROVIDERS", json.dumps({"local": LOCAL}))
    assert load_settings().providers["local"].models == ["qwen3", "llama3.3:70b"]


def test_its_key_is_masked_wherever_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_KEY", "plain-words-as-a-key")
    assert "plain-words-as-a-key" in load_settings(providers={"corp": KEYED}).secrets


def test_a_folder_that_nobody_trusts_sends_no_key_anywhere() -> None:
    assert "providers" not in HARMLESS
