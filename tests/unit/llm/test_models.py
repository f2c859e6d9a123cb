"""Which model serves which name, with a key and without."""

from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from ekiden.shared.errors import MissingModel
from ekiden.shared.llm.models import ADAPTERS, Models, ModelValues, choose, usable_models
from ekiden.shared.llm.retrying import RetryingModel
from ekiden.shared.llm.sanitizing import SanitizingModel

KEY = {"GEMINI_API_KEY": "k"}
VERTEX = {"GOOGLE_GENAI_USE_VERTEXAI": "true", "GOOGLE_CLOUD_PROJECT": "p"}
PLAIN = ModelValues()


@pytest.mark.parametrize("name", [None, "", "inherit", "default"])
@pytest.mark.parametrize("env", [KEY, VERTEX])
def test_with_a_key_gemini_is_the_default(name: str | None, env: dict[str, str]) -> None:
    choice = choose(name, PLAIN, env)
    assert (choice.name, choice.adapter.name, choice.note) == ("gemini-2.5-flash", "gemini", "")


def test_without_a_key_the_stand_in_answers_and_says_what_to_do() -> None:
    choice = choose(None, PLAIN, {})
    assert (choice.name, choice.adapter.name) == ("scripted", "scripted")
    assert "GEMINI_API_KEY" in choice.note


@pytest.mark.parametrize(
    "name", ["gemini-2.5-pro", "gemini-3-pro-preview", "models/gemini-2.5-pro", " gemini-2.5-pro "]
)
def test_every_gemini_model_is_served_by_gemini(name: str) -> None:
    choice = choose(name, PLAIN, KEY)
    assert choice.adapter.name == "gemini"
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


def test_the_stand_in_can_be_asked_for_by_name() -> None:
    choice = choose("scripted", PLAIN, KEY)
    assert (choice.name, choice.note) == ("scripted", "")
    assert choose(None, ModelValues(model="scripted"), KEY).name == "scripted"


@pytest.mark.parametrize("env", [KEY, {}])
def test_a_name_that_nobody_knows_is_refused_with_the_way_out(env: dict[str, str]) -> None:
    with pytest.raises(MissingModel, match=r"'gemni-2\.5-pro'.*alias"):
        choose("gemni-2.5-pro", PLAIN, env)


def test_lists_what_is_usable_and_why_the_rest_is_not() -> None:
    with_key = {model.name: model for model in usable_models(KEY)}
    assert all(model.usable for model in with_key.values())
    without = {model.name: model for model in usable_models({})}
    assert without.keys() == with_key.keys()
    assert without["scripted"].usable
    assert not without["gemini-2.5-flash"].usable
    assert "GEMINI_API_KEY" in without["gemini-2.5-flash"].why_not


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


def test_a_second_provider_fits_beside_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    other = replace(ADAPTERS[1], name="other", prefix="llama-", known=("llama-7b",))
    monkeypatch.setattr("ekiden.shared.llm.models.ADAPTERS", (*ADAPTERS, other))
    assert choose("llama-7b", PLAIN, {}).adapter is other
    assert "llama-7b" in {model.name for model in usable_models({})}
