"""``ekiden config``, through the real command line."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ekiden.dispatcher.cli.commands.config import app
from ekiden.shared.errors import ConfigurationError, EkidenError, InvalidRequest
from ekiden.shared.llm.models import learn_providers
from ekiden.shared.settings.files import global_file, project_file, read_settings
from ekiden.shared.settings.model import Settings

KEY = "k1:" + "planted-" * 5


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home and a project of the test's own."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def config(*args: str, typed: str | None = None) -> Result:
    """Run ``ekiden config``; errors of ours come out as they are."""
    result = CliRunner().invoke(app, args, input=typed)
    if isinstance(result.exception, EkidenError):
        raise result.exception
    return result


def test_a_value_that_was_set_is_got_listed_with_its_origin_and_removed() -> None:
    assert config("set", "concurrency", "7").exit_code == 0
    assert config("get", "ekiden.concurrency").stdout == "7\n"
    rows = list(map(json.loads, config("list", "--json").stdout.splitlines()))
    assert {"key": "ekiden.concurrency", "value": 7, "origin": str(project_file())} in rows
    config("unset", "concurrency")
    assert config("get", "concurrency").stdout == "50\n"


def test_a_module_is_looked_for_and_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_rails.py").write_text("raise SystemExit\n\ndef no_rumours(value): ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert config("set", "--global", "guardrails.modules", "my_rails:no_rumours").exit_code == 0
    assert config("get", "guardrails.modules").stdout == '["my_rails:no_rumours"]\n'


def test_the_users_file_is_listed_alone() -> None:
    config("set", "--global", "model", "fast")
    config("set", "lease_s", "3")
    assert config("list", "--global").stdout.split() == ["key", "value", "ekiden.model", "fast"]


def test_what_commands_get_is_listed_by_name_and_can_be_added_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_PASS", "planted")
    monkeypatch.setenv("SHOP_COLOUR", "planted")

    def passed() -> dict[str, bool]:
        done = config("env", "--json")
        assert "planted" not in done.stdout
        return {row["name"]: row["passed"] for row in map(json.loads, done.stdout.splitlines())}

    before = passed()
    assert (before["HOME"], before["DB_PASS"], before["SHOP_COLOUR"]) == (True, False, False)
    config("set", "--global", "tools.env", '["SHOP_*"]')
    assert passed() == before | {"SHOP_COLOUR": True}
    assert re.search(r"^DB_PASS +kept back$", config("env").stdout, re.MULTILINE)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("routing.fallback", "maybe", "'prompt_user', 'default_agent' or 'none'"),
        ("lease_s", "soon", "must be a number"),
        ("tools.env", '["EKIDEN_*"]', "never get what is Ekiden's"),
        ("concurrency", "null", "must be a whole number"),
        ("limits.users", "null", "not null"),
        ("limits.models", "null", "not null"),
        ("concurrency", "0", "greater than or equal to 1"),
        ("modle", "x", "did you mean 'model'"),
        ("ekiden.model", "gpt-4o", "no provider here has a model 'gpt-4o'"),
        ("ekiden.model", "gemni-2.5-pro", "no provider here"),
        ("ekiden.model_aliases", '{"best": "opus"}', "no provider here has a model 'opus'"),
        ("agents.routing.llm.model", "gpt-4o", "no provider here"),
        ("guardrails.request", '[{"name": "a", "on": "output", "validator": "json"}]', "'a' has 'on': these judge the"),
        ("guardrails.request", "no_pii", "no valid JSON"),
        ("guardrails.modules", "nosuch_module:x", "there is no module 'nosuch_module' here"),
        ("tools.modules", "json.nosuch:x", "there is no module 'json.nosuch' here"),
        ("hooks.modules", "json.decoder.deeper:x", "there is no module 'json.decoder.deeper' here"),
        ("outputs.modules", "json.decoder:nosuch", "the module 'json.decoder' has no 'nosuch'"),
        ("limits.models", '{"nosuch": {"rpm": 1}}', "no provider here has a model 'nosuch'"),
        ("ekiden.prices", '{"m": [-1, 2]}', r"no price: write \[INPUT, OUTPUT\]"),
        ("ekiden.prices", '{"m": [1]}', r"no price: write \[INPUT, OUTPUT\]"),
        ("agents.routing.strategy", "foo", "there is no strategy 'foo'"),
        ("quarantine_from", "5", r"more than ekiden\.quarantine_from"),
        ("max_attempts", "2", r"more than ekiden\.quarantine_from"),
        ("signing_key", "short", "signing"),
        ("redact", "(?=a)", "RE2"),
    ],
)
def test_a_bad_value_or_key_is_refused_with_what_is_allowed(key: str, value: str, said: str) -> None:
    with pytest.raises((InvalidRequest, ConfigurationError), match=said):
        config("set", key, value)
    assert read_settings(project_file()) == {}


@pytest.mark.parametrize("name", ["gemini-2.5-pro", "models/gemini-2.5-pro", "fast", "auto", "inherit", "scripted"])
def test_a_model_of_a_provider_is_set_with_or_without_its_key(name: str) -> None:
    assert config("set", "model", name).exit_code == 0


def test_a_path_of_the_users_that_is_another_in_each_project_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="absolute path"):
        config("set", "--global", "scripts_dir", "scripts")
    assert config("set", "scripts_dir", "scripts").exit_code == 0


def test_comments_in_the_file_stay() -> None:
    project_file().parent.mkdir(parents=True)
    project_file().write_text('{\n  // how many at once\n  "ekiden": {"concurrency": 3}\n}\n')
    assert config("get", "concurrency").stdout == "3\n"
    config("set", "concurrency", "4")
    assert project_file().read_text() == '{\n  // how many at once\n  "ekiden": {"concurrency": 4}\n}\n'


def test_a_value_that_begins_with_a_hyphen_is_a_value() -> None:
    with pytest.raises(InvalidRequest, match="greater than or equal to"):
        config("set", "ekiden.concurrency", "-1")


def test_removing_what_is_not_set_says_so() -> None:
    with pytest.raises(InvalidRequest, match="not set"):
        config("unset", "model")


def test_a_password_in_an_address_is_shown_nowhere() -> None:
    assert "hunter2" not in config("set", "redis_url", "redis://me:hunter2@host/0").stdout
    assert "redis://me:[redacted]@host/0" in config("list").stdout
    assert "hunter2" not in config("list", "--json").stdout
    with pytest.raises(InvalidRequest, match=r"no value of 'ekiden\.redis_url': this is no Redis address") as caught:
        config("set", "redis_url", "redis://:hunter2/x@host/0")
    assert "hunter2" not in str(caught.value)


def test_a_password_is_got_only_by_who_asks_for_it_and_the_others_are_told() -> None:
    config("set", "redis_url", "redis://me:hunter2@host/0")
    masked = config("get", "redis_url")
    assert masked.stdout == "redis://me:[redacted]@host/0\n"
    assert "--show-secrets" in masked.stderr
    whole = config("get", "redis_url", "--show-secrets")
    assert (whole.stdout, whole.stderr) == ("redis://me:hunter2@host/0\n", "")


def test_a_signing_key_is_read_from_standard_input_and_not_repeated() -> None:
    done = config("set", "--global", "ekiden.signing_key", "-", typed=f"{KEY}\n")
    assert done.stdout.startswith("ekiden.signing_key = [redacted] (")
    assert KEY not in config("set", "--global", "signing_key", KEY).output
    assert config("get", "signing_key").stdout == "[redacted]\n"
    assert config("get", "signing_key", "--show-secrets").stdout == f"{KEY}\n"
    with pytest.raises(InvalidRequest, match="no value"):
        config("set", "model", "-", typed="\n")


OWN = '{"local": {"type": "openai", "base_url": "http://127.0.0.1:1/v1", "models": ["qwen3"]}}'


@pytest.fixture
def own_providers() -> Iterator[None]:
    """Providers that a test sets are learned by its process: no other test has them."""
    yield
    learn_providers(Settings())


@pytest.mark.usefixtures("own_providers")
@pytest.mark.parametrize("where", [[], ["--global"]])
def test_limits_are_set_of_models_of_ones_own_providers(where: list[str]) -> None:
    config("set", *where, "providers", OWN)
    config("set", *where, "limits.models", '{"local/qwen3": {"concurrent": 1, "rpm": 5}}')
    assert json.loads(config("get", "limits.models", "--json").stdout)["value"]


BUDGET = '{"max_tokens": 100, "per": "month"}'
PER_ALONE = '{"per": "week"}'


def test_a_value_is_judged_as_it_will_stand_and_not_joined_with_what_it_replaces() -> None:
    config("set", "limits.users", BUDGET)
    with pytest.raises(InvalidRequest, match="it bounds nothing by itself"):
        config("set", "limits.users", PER_ALONE)
    assert json.loads(config("get", "limits.users").stdout) == json.loads(BUDGET)


def test_a_projects_object_is_judged_with_the_users_that_it_is_joined_with() -> None:
    config("set", "--global", "limits.users", BUDGET)
    config("set", "limits.users", PER_ALONE)
    assert json.loads(config("get", "limits.users").stdout) == {"max_tokens": 100, "per": "week"}
    with pytest.raises(InvalidRequest, match=r"without it, setting 'limits.users'.*it bounds nothing"):
        config("unset", "--global", "limits.users")


def test_a_users_object_is_judged_without_the_projects_for_the_other_projects() -> None:
    config("set", "limits.users", BUDGET)
    with pytest.raises(InvalidRequest, match="it bounds nothing by itself"):
        config("set", "--global", "limits.users", PER_ALONE)


def test_what_others_need_is_not_removed() -> None:
    config("set", "max_attempts", "10")
    config("set", "quarantine_from", "8")
    with pytest.raises(InvalidRequest, match=r"'ekiden\.max_attempts' cannot be removed: without it, .*more than"):
        config("unset", "max_attempts")
    config("unset", "quarantine_from")
    config("unset", "max_attempts")


def test_a_wrong_value_can_be_removed_and_replaced_whatever_else_is_wrong() -> None:
    global_file().parent.mkdir(parents=True)
    global_file().write_text('{"limits": {"users": {"per": "week"}}, "ekiden": {"lease_s": -1}}')
    config("set", "--global", "limits.users", BUDGET)
    config("unset", "--global", "lease_s")
    assert json.loads(config("get", "limits.users").stdout) == json.loads(BUDGET)
