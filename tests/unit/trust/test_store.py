"""What users have said about folders, and what becomes of it when it cannot be read."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ekiden.shared.errors import ConfigurationError
from ekiden.shared.project_folders import state_folder
from ekiden.shared.trust.grants import grants_of, stands_by, trust_for_now
from ekiden.shared.trust.rights import Right, tool_right
from ekiden.shared.trust.store import ApprovedCall, all_remembered, forget, remember, remembered

BASH = tool_right("agent a", "bash", ())
OTHER = tool_right("agent b", "*", ("bash", "mcp.*"))


def the_file() -> Path:
    (path,) = (state_folder() / "trust").glob("*.json")
    return path


def test_nothing_is_granted_to_a_folder_that_nobody_was_asked_about(project: Path) -> None:
    assert grants_of(project).lacking([BASH]) == [BASH]
    assert not state_folder().exists(), "to look leaves no trace"


def test_what_is_granted_is_remembered_outside_the_folder_for_its_owner_alone(project: Path) -> None:
    remember(project, granted=[BASH, OTHER])
    assert remembered(project).granted == {BASH, OTHER}
    assert grants_of(project).lacking([OTHER]) == []
    assert list(project.iterdir()) == []
    assert the_file().stat().st_mode & 0o777 == 0o600
    assert the_file().parent.stat().st_mode & 0o777 == 0o700


def test_the_later_word_counts(project: Path) -> None:
    remember(project, refused=[BASH, OTHER])
    assert grants_of(project).unasked([BASH]) == []
    remember(project, granted=[BASH])
    assert remembered(project).granted == {BASH}
    assert remembered(project).refused == {OTHER}
    remember(project, refused=[BASH])
    assert grants_of(project).lacking([BASH]) == [BASH]


def test_another_folder_gets_none_of_it(project: Path) -> None:
    remember(project, granted=[BASH])
    assert grants_of(project.parent / "elsewhere").lacking([BASH]) == [BASH]


def test_approved_calls_are_remembered_beside_the_rights_and_vouch_for_nothing(project: Path) -> None:
    remember(project, approved=[ApprovedCall("bash", "medium")])
    remember(project, approved=[ApprovedCall("write_file", "low")])
    assert remembered(project).approved == {("bash", "medium"), ("write_file", "low")}
    assert not stands_by(project), "whoever approves a call says nothing of the folder's files"
    remember(project, granted=[BASH])
    assert len(remembered(project).approved) == 2
    assert not remembered(project.parent / "elsewhere").approved


def test_all_are_listed_and_one_is_forgotten(project: Path) -> None:
    odd = project.parent / os.fsdecode(b"caf\xe9: \xff")  # no valid text, and the separator of paths
    remember(odd, granted=[BASH])
    remember(project, refused=[OTHER])
    assert [one.project for one in all_remembered()] == [odd, project]
    assert remembered(odd).granted == {BASH}
    assert forget(odd)
    assert not forget(odd)
    assert [one.project for one in all_remembered()] == [project]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"v": 2, "path": "/", "granted": [], "refused": []}',
        '{"v": 1, "path": "PROJECT", "granted": [["agent a", 1]], "refused": []}',
        '{"v": 1, "path": "PROJECT", "granted": [[]], "refused": []}',
        '{"v": 1, "path": "PROJECT", "granted": 7, "refused": []}',
        '{"v": 1, "path": 7, "granted": [], "refused": []}',
        '{"v": 1, "path": "PROJECT", "granted": [], "refused": [], "approved": [["bash"]]}',
        '{"v": 1, "path": "PROJECT", "granted": [], "refused": [], "approved": [["bash", 1]]}',
        '{"v": 1, "path": "/elsewhere", "granted": [["agent a", "tool bash"]], "refused": []}',
        "[" * 100_000,
        "\ud800",
    ],
)
def test_a_file_that_cannot_be_read_grants_nothing_and_says_why(project: Path, text: str) -> None:
    remember(project, granted=[BASH])
    the_file().write_text(text.replace("PROJECT", str(project)), errors="surrogatepass")
    grants = grants_of(project)
    assert grants.lacking([BASH]) == [BASH]
    assert str(the_file()) in grants.problem
    assert "remove it" in grants.problem
    remember(project, granted=[OTHER])  # a new word replaces it
    assert remembered(project).granted == {OTHER}


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_file_that_others_may_have_written_grants_nothing(project: Path, mode: int) -> None:
    remember(project, granted=[BASH])
    the_file().chmod(mode)
    assert "somebody else" in grants_of(project).problem
    assert grants_of(project).lacking([BASH]) == [BASH]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("whose", ["the file", "its folder", "the state folder"])
def test_what_belongs_to_another_user_grants_nothing(project: Path, whose: str) -> None:
    remember(project, granted=[BASH])
    path = {"the file": the_file(), "its folder": the_file().parent, "the state folder": state_folder()}[whose]
    os.chown(path, 65534, 65534)
    assert grants_of(project).problem
    assert grants_of(project).lacking([BASH]) == [BASH]


def test_a_link_in_the_files_place_is_not_followed(project: Path, tmp_path: Path) -> None:
    remember(project, granted=[BASH])
    the_file().rename(tmp_path / "elsewhere.json")
    (state_folder() / "trust" / the_name(project)).symlink_to(tmp_path / "elsewhere.json")
    assert grants_of(project).lacking([BASH]) == [BASH]


def the_name(project: Path) -> str:
    from ekiden.shared.project_folders import digest_of

    return f"{digest_of(project)}.json"


def test_a_pipe_in_the_files_place_keeps_nobody_waiting(project: Path) -> None:
    remember(project, granted=[BASH])
    path = the_file()
    path.unlink()
    os.mkfifo(path, 0o600)
    assert grants_of(project).lacking([BASH]) == [BASH]


def test_a_state_folder_that_cannot_be_written_is_an_error_when_something_is_to_be_remembered(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null")
    with pytest.raises(ConfigurationError, match="cannot be written"):
        remember(project, granted=[BASH])
    assert grants_of(project).lacking([BASH]) == [BASH]


def test_words_said_at_the_same_time_are_all_kept(project: Path) -> None:
    rights = [Right(f"agent {number}", "tool bash") for number in range(40)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda right: remember(project, granted=[right]), rights))
    assert remembered(project).granted == set(rights)


def test_the_home_folder_is_its_users_own() -> None:
    assert grants_of(Path.home()).lacking([BASH]) == []


@pytest.mark.parametrize(
    ("said", "is_trusted"),
    [
        ("1", True),
        ("true", True),
        ("0", False),
        ("", False),
        ("{project}", True),
        ("/nowhere:{project}/sub", True),
        ('["/nowhere", "{project}"]', True),
        ("/nowhere", False),
        ("{parent}", False),
    ],
)
def test_the_environment_names_what_is_trusted(
    project: Path, monkeypatch: pytest.MonkeyPatch, said: str, is_trusted: bool
) -> None:
    (project / ".git").mkdir()
    (project / "sub").mkdir()
    monkeypatch.setenv("EKIDEN_TRUST", said.format(project=project, parent=project.parent))
    assert grants_of(project).is_all is is_trusted


@pytest.mark.parametrize("said", ["yess", "relative/path", "/srv/a,/srv/b", "[1]", '["x"', '["here"]'])
def test_a_word_in_the_environment_that_means_nothing_is_an_error(
    project: Path, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    monkeypatch.setenv("EKIDEN_TRUST", said)
    with pytest.raises(ConfigurationError, match="EKIDEN_TRUST"):
        grants_of(project)


def test_trust_for_now_adds_to_what_the_environment_says(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EKIDEN_TRUST", "/srv/shop")
    trust_for_now([project, Path("/with:colon")])
    assert grants_of(project).is_all
    assert grants_of(Path("/srv/shop")).is_all
    assert grants_of(Path("/with:colon")).is_all
    assert not grants_of(project.parent).is_all
    assert not state_folder().exists(), "for now only"
