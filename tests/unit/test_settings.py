"""Settings: layers, their precedence, and what is said of a wrong one."""

import errno
import json
import os
from pathlib import Path

import pytest

from ekiden.shared.errors import ConfigurationError
from ekiden.shared.job_limits import Period, UserBudget
from ekiden.shared.loop_kinds import LOOP_KINDS
from ekiden.shared.settings.files import change_setting, global_file, project_file, read_settings
from ekiden.shared.settings.limits import ModelLimitValues
from ekiden.shared.settings.model import load_settings, origins
from ekiden.shared.settings.unknown import tell_of_unknown_settings


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home and a project of the test's own."""
    for name in ("home", "project"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "project")


def test_without_anything_the_defaults_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EKIDEN_AUTO_APPROVE")  # which is the tests' own
    assert load_settings().lease_s == 5.0
    assert set(origins().values()) == {"default"}


def test_the_command_line_wins_over_the_environment_over_the_project_over_the_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    change_setting(global_file(), "ekiden.concurrency", 1)
    assert load_settings().concurrency == 1
    change_setting(project_file(), "ekiden.concurrency", 2)
    assert load_settings().concurrency == 2
    assert origins()["concurrency"] == str(project_file())
    monkeypatch.setenv("EKIDEN_CONCURRENCY", "3")
    assert load_settings().concurrency == 3
    assert origins()["concurrency"] == "environment EKIDEN_CONCURRENCY"
    assert load_settings(concurrency=4).concurrency == 4
    assert load_settings(concurrency=None).concurrency == 3


def test_objects_of_several_files_are_joined_and_lists_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    change_setting(global_file(), "ekiden.model_aliases", {"fast": "a", "slow": "b"})
    change_setting(global_file(), "ekiden.redact", ["x"])
    assert load_settings(model_aliases={"fast": "c"}, redact=["y"]).model_aliases == {"fast": "c", "slow": "b"}
    assert load_settings(redact=["y"]).redact == ["y"]
    monkeypatch.setenv("EKIDEN_MODEL_ALIASES", '{"fast": "d"}')
    assert load_settings().model_aliases == {"fast": "d"}, "what is text is no object yet"


def test_a_variables_name_may_be_written_small_and_ours_wins_over_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_ROUTING_STRATEGY", "rule")
    assert load_settings().routing_strategy == "rule"
    monkeypatch.setenv("ekiden_routing_strategy", "semantic")
    assert load_settings().routing_strategy == "semantic"


def test_a_setting_that_does_not_exist_is_no_option() -> None:
    with pytest.raises(ConfigurationError, match="is not known here"):
        load_settings(colour="red")


def test_keys_of_the_sources_are_read_where_the_sources_have_them() -> None:
    project_file().parent.mkdir()
    project_file().write_text('{"agents": {"routing": {"fallback": "none", "strategy": "llm"}}, "theme": "dark"}')
    assert load_settings().routing_fallback == "none"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("{\n  broken", 2),
        ("[1]", 1),
        ('{"ekiden": {"lease_s": 1},}', 1),
        ("[" * 100_000, 1),
        ('{"a":' * 70 + "1" + "}" * 70, 1),
        ('{"limits": {"job": {"max_turns": 3,\n"max_turns": 300}}}', 2),
    ],
    ids=["cut", "list", "comma", "bottomless", "deep", "twice"],
)
def test_a_file_that_cannot_be_read_is_named_with_its_line(text: str, line: int) -> None:
    project_file().parent.mkdir()
    project_file().write_text(text)
    with pytest.raises(ConfigurationError, match=rf"settings\.json:{line}: "):
        load_settings()


def test_a_wrong_value_is_named_with_its_key_and_its_origin(monkeypatch: pytest.MonkeyPatch) -> None:
    change_setting(global_file(), "ekiden.lease_s", "soon")
    with pytest.raises(ConfigurationError, match=r"ekiden\.lease_s.*home/\.gemini/settings\.json.*number"):
        load_settings()
    with pytest.raises(ConfigurationError, match=r"json:3\): must be a number$"):
        load_settings()
    monkeypatch.setenv("EKIDEN_LEASE_S", "0")
    with pytest.raises(ConfigurationError, match=r"EKIDEN_LEASE_S.*greater than 0"):
        load_settings()


def test_a_value_within_an_object_is_named_with_its_own_line() -> None:
    global_file().parent.mkdir()
    global_file().write_text('{\n"providers": {\n"local": {"type": "openai"},\n"far": {\n"type": "x"\n}}}')
    with pytest.raises(ConfigurationError, match=r"json:5\): far: type: must be 'openai'"):
        load_settings()


def test_keys_that_mean_nothing_are_told_once_a_few_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    project_file().parent.mkdir()
    project_file().write_text('{\n"ekiden": {\n"concurency": 3, "a": 1, "b": 1,\n"c": 1}, "ui": {"theme": 1}}')
    tell_of_unknown_settings()
    said = capsys.readouterr().err
    assert f"no setting is called ekiden.concurency in {project_file()}:3 (for 'ekiden.concurrency'?)" in said
    assert "and 1 more" in said
    assert said.count("\n") == 1


def test_changing_a_setting_keeps_what_others_wrote_and_the_files_mode() -> None:
    project_file().parent.mkdir()
    project_file().write_text('{"mcpServers": {"时间": {"command": "date"}}, "ekiden": {"model": "scripted"}}')
    project_file().chmod(0o640)
    change_setting(project_file(), "ekiden.lease_s", 2.5)
    change_setting(project_file(), "ekiden.model", None)
    assert json.loads(project_file().read_text()) == {
        "mcpServers": {"时间": {"command": "date"}},
        "ekiden": {"lease_s": 2.5},
    }
    assert "时间" in project_file().read_text()
    assert project_file().stat().st_mode & 0o777 == 0o640
    assert list(project_file().parent.iterdir()) == [project_file()]


def test_a_key_below_something_that_is_no_object_is_refused_and_nothing_is_written() -> None:
    project_file().parent.mkdir()
    project_file().write_text('{"ekiden": "off"}')
    with pytest.raises(ConfigurationError, match="no object"):
        change_setting(project_file(), "ekiden.lease_s", 1)
    assert read_settings(project_file()) == {"ekiden": "off"}


@pytest.mark.parametrize(
    ("text", "folders"),
    [
        ("/one", ["/one"]),
        (f"/one{os.pathsep}/two", ["/one", "/two"]),
        ('["/one", "/two words"]', ["/one", "/two words"]),
    ],
)
def test_folders_in_the_environment_are_a_path_several_or_a_list(
    text: str, folders: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EKIDEN_AGENTS_DIR", text)
    assert load_settings().agents_dir == [Path(folder) for folder in folders]


@pytest.mark.parametrize(
    ("variable", "text", "expected"),
    [
        ("EKIDEN_AGENTS_DIR", '["one"', "JSON list"),
        ("EKIDEN_MODEL_ALIASES", "fast", "JSON object such as"),
        ("EKIDEN_PRICES", "[" * 100_000, "more than 64 levels"),
    ],
)
def test_a_variable_that_is_no_json_is_named_with_the_form_it_should_have(
    variable: str, text: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, text)
    with pytest.raises(ConfigurationError, match=rf"environment {variable}.*{expected}"):
        load_settings()


def test_a_leg_must_get_to_run_alone_before_its_job_is_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EKIDEN_QUARANTINE_FROM", "5")
    with pytest.raises(ConfigurationError, match=r"ekiden\.max_attempts.* more than ekiden\.quarantine_from \(5\)"):
        load_settings()
    assert load_settings(max_attempts=6).quarantine_from == 5


def test_comments_in_a_file_are_read_over_and_kept_by_a_change() -> None:
    path = project_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('{\n  // how many at once\n  "ekiden": {"concurrency": 3} /* mine */\n}\n')
    assert read_settings(path) == {"ekiden": {"concurrency": 3}}
    change_setting(path, "ekiden.concurrency", 4)
    change_setting(path, "ekiden.lease_s", None)
    assert path.read_text() == '{\n  // how many at once\n  "ekiden": {"concurrency": 4} /* mine */\n}\n'


def test_a_change_keeps_a_files_byte_order_mark_and_line_ends() -> None:
    project_file().parent.mkdir()
    project_file().write_bytes(b'\xef\xbb\xbf{\r\n  "a": 1 // c\r\n}\r\n')
    change_setting(project_file(), "b", 2)
    assert project_file().read_bytes() == b'\xef\xbb\xbf{\r\n  "a": 1, // c\r\n  "b": 2\r\n}\r\n'
    assert read_settings(project_file()) == {"a": 1, "b": 2}


@pytest.mark.parametrize("value", ["\ud800", "fine"], ids=["no text", "no place"])
def test_a_change_that_cannot_be_written_leaves_nothing_behind(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    change_setting(project_file(), "ekiden.model", "before")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigurationError, match=r"settings\.json: cannot be written"):
        change_setting(project_file(), "ekiden.model", value)
    assert list(project_file().parent.iterdir()) == [project_file()]
    assert read_settings(project_file()) == {"ekiden": {"model": "before"}}


def test_when_conversations_are_compressed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EKIDEN_COMPRESSION_THRESHOLD", "0.7")
    settings = load_settings()
    assert (settings.compression_threshold, settings.compression_keep, settings.compression_model) == (0.7, 0.3, None)
    monkeypatch.setenv("EKIDEN_COMPRESSION_KEEP", "2")
    with pytest.raises(ConfigurationError, match=r"'compression\.keep' \(environment EKIDEN_COMPRESSION_KEEP\)"):
        load_settings()


@pytest.mark.parametrize(
    ("said", "is_on"), [("false", dict.fromkeys(LOOP_KINDS, False)), ('{"text": false}', {"text": False})]
)
def test_loops_are_switched_off_all_or_by_kind(monkeypatch: pytest.MonkeyPatch, said: str, is_on: object) -> None:
    monkeypatch.setenv("EKIDEN_LOOPS", said)
    assert load_settings().loops == is_on


@pytest.mark.parametrize(("said", "why"), [("off", "JSON object such as"), ('{"txt": false}', "there is no 'txt'")])
def test_a_switch_that_there_is_none_of_is_refused(monkeypatch: pytest.MonkeyPatch, said: str, why: str) -> None:
    monkeypatch.setenv("EKIDEN_LOOPS", said)
    with pytest.raises(ConfigurationError, match=why):
        load_settings()


def test_limits_of_models_are_objects_by_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EKIDEN_MODEL_LIMITS", '{"local/qwen3": {"rpm": 10, "concurrent": 2}}')
    assert load_settings().model_limits == {"local/qwen3": ModelLimitValues(rpm=10, concurrent=2)}


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("many", "an object such as"),
        ("[1]", "an object such as"),
        ('{"m": {}}', "'m': give limits of a model, of rpm, tpm, concurrent"),
        ('{"m": 5}', "'m': give limits of a model"),
        ('{"m": {"rps": 5}}', "m: there is no limit 'rps': there are rpm, tpm, concurrent"),
        ('{"m": {"rpm": 0}}', r"m\.rpm: must be between 1 and"),
        ('{"m": {"rpm": true}}', r"m\.rpm: must be a number"),
        ('{"m": {"tpm": "lots"}}', r"m\.tpm: "),
    ],
)
def test_a_limit_of_a_model_that_cannot_be_read_is_refused(
    monkeypatch: pytest.MonkeyPatch, said: str, why: str
) -> None:
    monkeypatch.setenv("EKIDEN_MODEL_LIMITS", said)
    with pytest.raises(ConfigurationError, match=why):
        load_settings()


def test_budgets_are_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EKIDEN_USER_LIMITS", '{"max_tokens": 5000}')
    monkeypatch.setenv("EKIDEN_SESSION_LIMITS", '{"max_cost_usd": 1.5}')
    settings = load_settings()
    assert (settings.user_limits, settings.session_limits) == ({"max_tokens": 5_000}, {"max_cost_usd": 1.5})
    monkeypatch.setenv("EKIDEN_USER_LIMITS", '{"max_turns": 5}')
    with pytest.raises(ConfigurationError, match="there is no limit 'max_turns': there are max_tokens, max_cost_usd"):
        load_settings()


@pytest.mark.parametrize("per", ["hour", "day", "week", "month"])
def test_a_users_budget_is_for_a_day_or_for_what_it_says(monkeypatch: pytest.MonkeyPatch, per: Period) -> None:
    monkeypatch.setenv("EKIDEN_USER_LIMITS", json.dumps({"max_cost_usd": 20, "per": per}))
    budget = UserBudget(**load_settings().user_limits)
    assert (budget.max_cost_usd, budget.per) == (20.0, per)
    assert (budget == UserBudget(max_cost_usd=20)) == (per == "day")


@pytest.mark.parametrize(
    ("variable", "said", "why"),
    [
        ("USER", {"max_tokens": 5, "per": "year"}, "per: must be 'hour', 'day', 'week' or 'month'"),
        ("USER", {"per": "month"}, "per: it bounds nothing by itself"),
        ("SESSION", {"max_tokens": 5, "per": "month"}, "there is no limit 'per': there are max_tokens, max_cost_usd"),
    ],
)
def test_a_period_that_cannot_be_meant_is_refused(
    monkeypatch: pytest.MonkeyPatch, variable: str, said: dict[str, object], why: str
) -> None:
    monkeypatch.setenv(f"EKIDEN_{variable}_LIMITS", json.dumps(said))
    with pytest.raises(ConfigurationError, match=why):
        load_settings()


def test_what_jobs_may_use_up_is_one_object(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EKIDEN_JOB_LIMITS", '{"max_tokens": 5000, "max_cost_usd": 1.5}')
    assert load_settings().job_limits == {"max_tokens": 5_000, "max_cost_usd": 1.5}


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("many", "give a JSON object such as"),
        ('{"max_token": 5}', "there is no limit 'max_token': there are max_turns, max_legs"),
        ('{"max_turns": 0}', "max_turns: must be between 1 and"),
        ("[5]", "must be an object such as"),
    ],
)
def test_a_limit_of_jobs_that_cannot_be_read_stops_the_start(
    monkeypatch: pytest.MonkeyPatch, said: str, why: str
) -> None:
    monkeypatch.setenv("EKIDEN_JOB_LIMITS", said)
    with pytest.raises(ConfigurationError, match=r"setting 'limits\.job'") as refused:
        load_settings()
    assert why in str(refused.value)
