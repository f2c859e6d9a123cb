"""Commands get what is listed and looks harmless, and what their user named; our own processes show no more."""

from pathlib import Path

import pytest

from ekiden.shared.environments import for_tools, is_open, looks_secret, open_part, problem_of_name

SECRETS = {
    "DB_PASS": "hunter2hunter2",
    "SENTRY_DSN": "https://0a1b2c@sentry.example/1",
    "SMTP_AUTH": "user:pw",
    "DATABASE_URI": "postgres://u:pw@h/d",
    "MYSQL_PWD": "mp",
    "GEMINI_API_KEY": "AIzaSECRET",
    "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer s3cr3t",
    "SLACK_HOOK": "https://hooks.slack.example/services/T0/B0/x",
    "ANYTHING": "correct-horse-battery",
    "SSH_AUTH_SOCK": "/tmp",
    "XDG_RUNTIME_DIR": "/tmp",
}
HARMLESS = {
    **dict.fromkeys(["HOME", "USER", "LANG", "LC_TIME", "TERM", "TZ", "VIRTUAL_ENV", "CC", "PYTHONPATH"], "v"),
    "PATH": "/usr/bin:/bin",
    "HTTPS_PROXY": "http://proxy.example:3128",
}


def test_commands_get_what_is_listed_and_nothing_else() -> None:
    assert for_tools(SECRETS | HARMLESS) == HARMLESS


@pytest.mark.parametrize("value", ["http://u:pw@p:1", "http://token@p", "https://:pw@[::1]:1/x", "me:pw@p:1"])
def test_an_address_with_a_user_or_a_password_is_not_passed_under_a_listed_name(value: str) -> None:
    assert for_tools({"HTTPS_PROXY": value}) == {}
    assert for_tools({"HTTPS_PROXY": value}, ["HTTPS_*"]) == {}
    assert for_tools({"HTTPS_PROXY": value}, ["HTTPS_PROXY"]) == {"HTTPS_PROXY": value}


def test_a_listed_pattern_lets_no_name_of_a_secret_through() -> None:
    assert for_tools({"LC_API_TOKEN": "x", "PYTHON_KEYRING_PASSWORD": "x", "LC_ALL": "C"}) == {"LC_ALL": "C"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PYTHON_X", "planted"),
        ("LC_X", "planted"),
        ("HTTP_PROXY", "http://p/?password=planted"),
        ("CFLAGS", "-O2 -DAPI_KEY=planted"),
        ("MAKEFLAGS", "TOKEN:=planted"),
        ("NO_PROXY", "me:planted@h"),
        ("LDFLAGS", "AIza" + "x" * 35),
        ("STRIPE", "sk_live_" + "a1" * 12),
        ("STRIPS", "https://hooks.slack.com/services/T0/B0/" + "x" * 20),
    ],
)
def test_what_a_list_or_a_pattern_lets_through_is_looked_into(name: str, value: str) -> None:
    assert for_tools({name: value}, ["STRIP*"]) == {}
    assert for_tools({name: value}, [name]) == {name: value}
    assert not is_open(name, value)


def test_the_user_adds_names_and_beginnings() -> None:
    env = {"PIP_INDEX_URL": "http://i.example", "DJANGO_DEBUG": "1", "DJANGO_SECRET_KEY": "x", "OTHER": "1"}
    named = ["PIP_INDEX_URL", "DJANGO_*"]
    assert for_tools(env, named) == {"PIP_INDEX_URL": "http://i.example", "DJANGO_DEBUG": "1"}


def test_a_key_is_passed_when_it_is_named_in_full_and_only_then() -> None:
    env = {"GEMINI_API_KEY": "AIza"}
    assert for_tools(env, ["GEMINI_*"]) == {}
    assert for_tools(env, ["GEMINI_API_KEY"]) == env


def test_what_is_ours_is_never_passed() -> None:
    assert for_tools({"EKIDEN_REDIS_URL": "x", "CELERY_BROKER_URL": "y"}, ["EKIDEN_REDIS_URL", "C*"]) == {}


@pytest.mark.parametrize("entry", ["EKIDEN_REDIS_URL", "EKIDEN_*", "E*", "CELERY_LOADER", "*", "", "A B", "A*B", "1X"])
def test_refuses_an_entry_that_names_nothing_commands_may_get(entry: str) -> None:
    assert problem_of_name(entry)


@pytest.mark.parametrize("entry", ["GEMINI_API_KEY", "DJANGO_*", "_X", "https_proxy"])
def test_takes_names_and_beginnings(entry: str) -> None:
    assert problem_of_name(entry) is None


def test_a_first_environment_shows_what_commands_may_see_and_what_can_be_no_secret(tmp_path: Path) -> None:
    kept = {
        **{name: value for name, value in HARMLESS.items() if name not in {"CC", "VIRTUAL_ENV", "HTTPS_PROXY"}},
        "EKIDEN_LEASE_S": "5.0",
        "CI_DEBUG": "true",
        "EKIDEN_DATA_DIR": str(tmp_path),
        "LD_PRELOAD": "x.so",
    }
    assert open_part(SECRETS | kept) == kept | {name: SECRETS[name] for name in ("SSH_AUTH_SOCK", "XDG_RUNTIME_DIR")}


def test_a_secret_that_looks_like_a_path_is_not_open() -> None:
    assert not is_open("ANYTHING", "/bPxRfiCYEXAMPLEKEY/wJalrXUtnFEMI")


def test_a_name_or_a_user_in_an_address_tells_of_a_secret() -> None:
    assert looks_secret("pgpassword", "x")
    assert looks_secret("URL", "redis://:x@h")
    assert not looks_secret("URL", "http://h/@x?y=a@b")
