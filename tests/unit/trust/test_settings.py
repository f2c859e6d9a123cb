"""A project's settings count as far as its user trusts it."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as rules
from hypothesis import strategies as st

from ekiden.shared.errors import ConfigurationError
from ekiden.shared.project_trust import project_trust_of
from ekiden.shared.settings.files import change_setting, global_file, project_file
from ekiden.shared.settings.model import HARMLESS, Settings, key_of, load_settings, origin_of
from ekiden.shared.settings.plugins import GROUPS
from ekiden.shared.settings.policy import OF_FOLDERS
from ekiden.shared.trust.notices import take_over
from ekiden.shared.trust.store import remember

ONE_VALUE = {"context_persistence"}
RISKY = sorted(Settings.model_fields.keys() - HARMLESS - OF_FOLDERS - ONE_VALUE)
VALUES: dict[str, Any] = {
    "redis_url": "redis://203.0.113.7:6379/0",
    "gemini_base_url": "http://203.0.113.7",
    "quarantine_from": 3,  # below max_attempts
    "agents_dir": ["a"],
    "tools_read_only": ["x"],
    "tools_writable": ["x"],
    "tools_sandbox": "off",
    "tools_readable": ["/opt"],
    "model_aliases": {"fast": ["x", "y"]},
    "model_fallback_on": ["refused"],
    "model_circuit_failures": 0,
    "model_circuit_s": 1,
    "prices": {"gemini": [1, 2]},
    "redact": ["x+"],
    "mcp_keys": ["k" * 32],
    "tracing_events": ["llm"],
    "tracing_backend": "console",
    "tracing_enabled": False,
    "handoff_cycles": "deny",
    "tools_web_fetch_allow_private": ["127.0.0.1:8080"],
    "tools_after_untrusted": "deny",
    "routing_fallback": "default_agent",
    "routing_llm_enabled": False,
    "routing_session_policy": "sticky",
    "tracing_sample_rate": 0.5,
    "default_scope": "global",
    "job_limits": {"max_tokens": 7},
    "user_limits": {"max_tokens": 7},
    "session_limits": {"max_cost_usd": 7.0},
    "model_limits": {"gemini-2.5-flash": {"rpm": 7}},
    "guardrails_model": "gemini-2.5-pro",
    "guardrails_threshold": 1.0,
    "guardrails_request": [{"name": "brief", "max_length": 7}],
    "compression_threshold": 0.7,
    "compression_keep": 0.4,
    "memory_embedding_model": "gemini-embedding-001",
    "memory_dimension": 64,
    "providers": {"local": {"type": "openai", "base_url": "http://203.0.113.7/v1"}},
    **{f"{group}_modules": ["a:b"] for group in GROUPS},
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def value_of(name: str) -> Any:
    """A value of the field that is not its default."""
    kind = str(Settings.model_fields[name].annotation)
    usual = True if "bool" in kind else 7 if "int" in kind or "float" in kind else "value"
    return VALUES.get(name, usual)


def trust_what_it_asks_for(project: Path) -> None:
    remember(project, granted=project_trust_of(project).wanted)


@pytest.mark.parametrize("name", RISKY)
def test_a_setting_that_is_not_on_the_list_of_harmless_ones_is_ignored_told_and_counts_once_trusted(
    name: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    default = getattr(load_settings(), name)
    change_setting(project_file(), key_of(name), value_of(name))
    assert getattr(load_settings(), name) == default
    assert origin_of(name) == "default"
    assert capsys.readouterr().err == (
        f"ekiden: the folder {str(project)!r} is not trusted: ignored settings {key_of(name)}. "
        "`ekiden trust` shows what it asks for, and grants it\n"
    )
    trust_what_it_asks_for(project)
    assert getattr(load_settings(), name) != default
    assert origin_of(name) == str(project_file())


@pytest.mark.parametrize("name", sorted(HARMLESS))
def test_a_harmless_setting_counts_unasked(name: str, project: Path) -> None:
    values: dict[str, Any] = {
        "routing_enabled": False,
        "routing_strategy": "rule",
        "routing_learn": "on",
        "packs": [],
    }
    value = values.get(name, 12)
    change_setting(project_file(), key_of(name), value)
    assert project_trust_of(project).wanted == ()
    assert getattr(load_settings(), name) == value


def test_every_harmless_name_is_a_setting_about_routing() -> None:
    assert Settings.model_fields.keys() >= HARMLESS
    assert {key_of(name).rpartition(".")[0].split(".")[:2][-1] for name in HARMLESS - {"packs"}} == {"routing"}


def test_a_folder_that_nobody_trusts_takes_packs_away_and_brings_none_back(project: Path) -> None:
    change_setting(project_file(), "agents.packs", ["software"])
    assert load_settings().packs == ["software"]
    change_setting(global_file(), "agents.packs", [])
    assert load_settings().packs == []
    remember(project, vouched=True)
    assert load_settings().packs == ["software"]


def test_a_pack_that_there_is_not_is_ignored_in_a_strangers_folder_and_an_error_elsewhere(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change_setting(project_file(), "agents.packs", ["softwar"])
    assert load_settings().packs is None
    assert "ignored settings agents.packs, whose values are wrong" in capsys.readouterr().err
    change_setting(global_file(), "agents.packs", ["softwar"])
    with pytest.raises(ConfigurationError, match="there is no pack 'softwar': give some of software"):
        load_settings()


def test_the_users_own_word_is_never_restricted(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change_setting(global_file(), "ekiden.model", "from-home")
    change_setting(project_file(), "ekiden.model", "from-project")
    assert load_settings().model == "from-home"
    monkeypatch.setenv("EKIDEN_MODEL", "from-environment")
    assert load_settings().model == "from-environment"
    assert load_settings(model="from-options").model == "from-options"


def test_a_trusted_project_adds_guardrails_of_the_request_and_takes_none_of_the_users_away(project: Path) -> None:
    key, [users, added] = key_of("guardrails_request"), [{"name": name, "max_length": 7} for name in "ab"]
    change_setting(global_file(), key, [users])
    for value, counts in (([added], [users, added]), ([], [users]), ("none", [users])):
        change_setting(project_file(), key, value)
        trust_what_it_asks_for(project)
        assert load_settings().guardrails_request == counts


def test_another_value_is_asked_about_again_and_one_less_is_not(project: Path) -> None:
    change_setting(project_file(), "ekiden.model", "one")
    change_setting(project_file(), "ekiden.lease_s", 3)
    trust_what_it_asks_for(project)
    change_setting(project_file(), "ekiden.lease_s", None)
    assert load_settings().model == "one"
    assert project_trust_of(project).lacking == []
    change_setting(project_file(), "ekiden.model", "two")
    assert load_settings().model is None
    assert [right.shown for right in project_trust_of(project).unasked] == ['ekiden.model = "two"']


def test_a_new_script_puts_the_folder_of_scripts_out_of_force_until_it_is_granted(project: Path) -> None:
    (project / "s").mkdir()
    (project / "s" / "one.yaml").write_text("agents: {}")
    change_setting(project_file(), "ekiden.scripts_dir", "s")
    trust_what_it_asks_for(project)
    assert load_settings().scripts_dir == project / "s"
    (project / "s" / "two.yaml").write_text("agents: {}")
    assert load_settings().scripts_dir is None
    trust_what_it_asks_for(project)
    assert load_settings().scripts_dir == project / "s"
    (project / "s" / "one.yaml").write_text("agents: {x: []}")
    assert load_settings().scripts_dir is None, "another text is another script"


def test_a_folder_that_is_not_trusted_cannot_say_who_gets_what_nobody_matches(project: Path) -> None:
    change_setting(project_file(), "agents.routing.strategy", "rule")
    change_setting(project_file(), "agents.routing.fallback", "default_agent")
    change_setting(project_file(), "agents.routing.default_agent", "debugger")
    found = load_settings()
    assert found.routing_strategy == "rule"
    assert (found.routing_fallback, found.routing_default_agent) == ("prompt_user", None)


@pytest.mark.parametrize("name", sorted(HARMLESS))
@pytest.mark.parametrize("value", [-1, "not now", [[]], {"a": 1}])
def test_a_wrong_harmless_value_of_a_folder_is_told_and_stops_nothing_until_it_is_trusted(
    name: str, value: Any, project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    default = getattr(load_settings(), name)
    change_setting(project_file(), key_of(name), value)
    assert getattr(load_settings(), name) == default
    assert f"ignored settings {key_of(name)}, whose values are wrong" in capsys.readouterr().err
    monkeypatch.setenv("EKIDEN_TRUST", "1")
    with pytest.raises(ConfigurationError, match=key_of(name)):
        load_settings()


@pytest.mark.parametrize("name", ["agents_dir", "scripts_dir", "data_dir"])
def test_the_users_folders_are_not_those_that_a_clone_has_under_their_name(
    name: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "mine").mkdir()
    change_setting(global_file(), key_of(name), "mine")
    with pytest.raises(ConfigurationError, match=rf"{key_of(name)}.*home/\.gemini/settings\.json.*'mine'.*absolute"):
        load_settings()
    change_setting(global_file(), key_of(name), None)
    monkeypatch.setenv(f"EKIDEN_{name.upper()}", "mine")
    with pytest.raises(ConfigurationError, match=rf"EKIDEN_{name.upper()}.*'mine'.*absolute"):
        load_settings()
    assert getattr(load_settings(**{name: str(project / "mine")}), name)


def test_from_a_sub_folder_the_projects_settings_count_and_its_paths_begin_at_the_project(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_setting(project_file(), "ekiden.agents_dir", "more")
    change_setting(project_file(), "ekiden.workspace_root", ".")
    (project / "src").mkdir()
    monkeypatch.chdir(project / "src")
    assert load_settings().workspace_root is None
    trust_what_it_asks_for(project)
    assert load_settings().workspace_root == project
    assert load_settings().agents_dir == [project / "more"]
    change_setting(project_file(), "agents.routing.strategy", "rule")
    assert not (project / "src" / ".gemini").exists()


def test_the_home_folders_file_is_the_users_also_when_it_is_the_current_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    change_setting(global_file(), "ekiden.model", "mine")
    monkeypatch.chdir(Path.home())
    assert load_settings().model == "mine"


def test_trusted_or_not_a_file_that_cannot_be_read_is_an_error(project: Path) -> None:
    project_file().parent.mkdir()
    project_file().write_text('{"ekiden": {"model": "x"}')
    with pytest.raises(ConfigurationError, match=r"settings\.json:1"):
        load_settings()


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 100_000,
        '{"ekiden": {"lease_s": ' + "9" * 5_000 + "}}",
        "\x00",
        '{"ekiden": ' + " " * 5_000_000,
    ],
    ids=["lists", "objects", "digits", "nul", "large"],
)
def test_a_hostile_file_is_a_line_about_it(project: Path, text: str) -> None:
    project_file().parent.mkdir()
    project_file().write_text(text)
    with pytest.raises(ConfigurationError, match=r"settings\.json"):
        load_settings()


@pytest.mark.parametrize("target", ["/dev/zero", "/dev/stdin", "/"])
def test_a_link_to_what_is_no_file_is_not_followed_for_ever(project: Path, target: str) -> None:
    project_file().parent.mkdir()
    project_file().symlink_to(target)
    with pytest.raises(ConfigurationError, match=r"no regular file"):
        load_settings()


@rules(deadline=5_000, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.sampled_from(RISKY), JSON, max_size=4), st.dictionaries(st.text(), JSON, max_size=2))
def test_whatever_an_untrusted_file_says_changes_no_setting_that_is_not_harmless(
    project: Path, said: dict[str, Any], other: dict[str, Any]
) -> None:
    take_over(project)
    values: dict[str, Any] = dict(other)
    for name, value in said.items():
        *parents, last = key_of(name).split(".")
        place = values
        for part in parents:
            inner = place.get(part)
            place[part] = place = inner if isinstance(inner, dict) else {}
        place[last] = value
    project_file().parent.mkdir(exist_ok=True)
    project_file().write_text(json.dumps(values))
    found = load_settings()
    project_file().unlink()
    default = load_settings()
    assert {name: getattr(found, name) for name in RISKY} == {name: getattr(default, name) for name in RISKY}
