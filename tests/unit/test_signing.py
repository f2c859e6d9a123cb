"""What is signed for one place is worth nothing at another, and a secret is told to nobody."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from ekiden.dispatcher.cli.main import app
from ekiden.shared.composition import hooks_for
from ekiden.shared.errors import ConfigurationError, Forged
from ekiden.shared.redaction import configure_redaction, redact
from ekiden.shared.settings.model import load_settings
from ekiden.shared.signing import OFF, signing_of, split

SECRET = "c2VjcmV0LW9mLXRoaXMtdGVzdC1hbmQtbm8tb3RoZXI="
KEY = f"k1:{SECRET}"
SIGNING = signing_of(KEY)
TEXT = st.text(max_size=30)
PLACE = st.lists(TEXT | st.integers(0, 99), max_size=3)


@settings(deadline=500)
@given(TEXT, PLACE, TEXT)
def test_what_was_signed_is_read_at_its_place(kind: str, place: list[str | int], text: str) -> None:
    assert SIGNING.read(kind, place, SIGNING.sign(kind, place, text)) == text


@settings(deadline=500)
@given(TEXT, PLACE, TEXT, TEXT, PLACE, TEXT)
def test_no_other_kind_place_or_text_has_the_same_tag(
    kind: str, place: list[str | int], text: str, kind2: str, place2: list[str | int], text2: str
) -> None:
    is_same = (kind, list(map(str, place)), text) == (kind2, list(map(str, place2)), text2)
    assert (SIGNING.tag(kind, place, text) == SIGNING.tag(kind2, place2, text2)) == is_same


def test_parts_that_run_into_each_other_are_told_apart() -> None:
    tags = {SIGNING.tag("k", place, "t") for place in (("ab", "c"), ("a", "bc"), ("abc",), ("abc", ""), ("1:a", "bc"))}
    assert len(tags) == 5


@pytest.mark.parametrize(
    ("signed", "said"),
    [
        ("text", "is not signed"),
        ("~k1:short~text", "is not signed"),
        (f"~k1:{'A' * 43}~text", "is wrong"),
        (f"~k9:{'A' * 43}~text", "'k9', which is not known here"),
    ],
)
def test_what_is_not_signed_with_a_known_key_is_refused(signed: str, said: str) -> None:
    with pytest.raises(Forged, match=said):
        SIGNING.read("request", (), signed)


def test_without_keys_nothing_is_signed_and_what_others_signed_is_read() -> None:
    assert not OFF
    assert OFF.sign("request", (), "text") == "text"
    assert OFF.read("request", (), SIGNING.sign("request", (), "text")) == "text"
    assert OFF.read("request", (), "~ is how it begins") == "~ is how it begins"


def test_the_first_key_signs_and_all_check() -> None:
    new = f"k2:{'n' * 32}"
    both = signing_of(f"{new},{KEY}")
    seal, _ = split(both.sign("request", (), "text"))
    assert seal is not None
    assert seal.key == "k2"
    assert both.read("request", (), SIGNING.sign("request", (), "text")) == "text"
    with pytest.raises(Forged, match="'k1', which is not known here"):
        signing_of(new).read("request", (), SIGNING.sign("request", (), "text"))


def test_keys_may_stand_in_a_file_one_a_line(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"k2:{'n' * 32}\n{KEY}\n")
    assert repr(signing_of(f"@{file}")) == "Signing(k2, k1)"
    with pytest.raises(ConfigurationError, match="its file cannot be read: FileNotFoundError"):
        signing_of(f"@{tmp_path}/none")


@pytest.mark.parametrize(
    "value", [SECRET, f":{SECRET}", "k1:short", f"k1:{SECRET},{SECRET}", f"{KEY},{KEY}", f"a key:{SECRET}", " , "]
)
def test_what_is_no_key_is_refused_and_not_repeated(value: str) -> None:
    with pytest.raises(ConfigurationError, match=r"setting 'ekiden.signing_key': key \d is not ID:SECRET") as caught:
        signing_of(value)
    assert SECRET not in str(caught.value)
    assert "short" not in str(caught.value)


@pytest.mark.parametrize("words", [["config", "list", "--json"], ["config", "get", "ekiden.signing_key"]])
def test_no_command_shows_the_secret(monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    monkeypatch.setenv("EKIDEN_SIGNING_KEY", KEY)
    shown = CliRunner().invoke(app, words)
    assert SECRET not in shown.output
    found = load_settings()
    assert found.signing.read("request", (), SIGNING.sign("request", (), "text")) == "text"
    assert SECRET not in f"{found!r} {found} {found.signing!r} {found.model_dump_json()}"


def test_the_settings_tell_what_is_to_be_masked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "keys").write_text(f"{KEY}\nk9:{SECRET[::-1]}\n")
    monkeypatch.setenv("EKIDEN_SIGNING_KEY", f"@{tmp_path / 'keys'}")
    monkeypatch.setenv("EKIDEN_REDIS_URL", "redis://:p%40nted@h")
    assert load_settings().secrets == [SECRET, SECRET[::-1], "p@nted"]


def test_a_process_that_has_started_masks_the_keys_of_its_settings(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(KEY)
    settings = load_settings(signing_key=f"@{tmp_path / 'keys'}", tracing_backend="none")
    try:
        hooks_for("ekiden-worker", settings)
        assert redact(f"it says {SECRET}") == "it says [redacted]"
    finally:
        configure_redaction(())
