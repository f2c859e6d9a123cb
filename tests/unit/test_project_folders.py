"""Where a project begins, and which folders hold data of ours."""

import os
from pathlib import Path

import pytest

from ekiden.shared.errors import ConfigurationError
from ekiden.shared.project_folders import data_folder, digest_of, private_folder, project_of, state_folder


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder, which has a ``.gemini`` as everybody's has."""
    (tmp_path / "home" / ".gemini").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.mark.parametrize("mark", [".git", ".gemini"])
def test_a_sub_folder_belongs_to_the_nearest_project_above(home: Path, mark: str) -> None:
    deep = home / "shop" / "src" / "deep"
    deep.mkdir(parents=True)
    (home / "shop" / mark).mkdir()
    assert project_of(deep) == home / "shop"
    (home / "shop" / "src" / ".gemini").mkdir()
    assert project_of(deep) == home / "shop" / "src"
    assert data_folder(deep) == data_folder(home / "shop" / "src") != data_folder(home / "shop")


def test_a_folder_without_any_mark_is_a_project_itself_and_the_home_folder_is_nobodys_project(home: Path) -> None:
    (home / "notes" / "old").mkdir(parents=True)
    assert project_of(home / "notes" / "old") == home / "notes" / "old"
    assert project_of(home) == home


def test_a_link_leads_to_the_project_that_it_points_to(home: Path) -> None:
    (home / "shop" / ".git").mkdir(parents=True)
    (home / "link").symlink_to(home / "shop")
    assert project_of(home / "link") == home / "shop"
    assert data_folder(home / "link") == data_folder(home / "shop")


def test_a_mark_that_anybody_could_have_put_there_makes_no_project(tmp_path: Path) -> None:
    work = tmp_path / "public" / "work"
    work.mkdir(parents=True)
    (tmp_path / "public" / ".git").mkdir()
    assert project_of(work) == tmp_path / "public"
    (tmp_path / "public").chmod(0o777)
    assert project_of(work) == work


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_project_of_somebody_elses_above_is_not_entered(tmp_path: Path) -> None:
    work = tmp_path / "theirs" / "work"
    work.mkdir(parents=True)
    (tmp_path / "theirs" / ".git").mkdir()
    os.chown(tmp_path / "theirs" / ".git", 65534, 65534)
    assert project_of(work) == work


def test_state_is_where_the_desktop_conventions_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert state_folder() == tmp_path / "home" / ".local" / "state" / "ekiden"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert state_folder() == tmp_path / "state" / "ekiden"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")  # which the conventions tell us to ignore
    assert state_folder() == tmp_path / "home" / ".local" / "state" / "ekiden"


def test_a_folder_of_ours_is_made_for_its_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        made = private_folder(data_folder(tmp_path))
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o777 for path in (made, state_folder())] == [0o700, 0o700]
    assert made.name == digest_of(tmp_path)


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o720])
def test_a_folder_that_others_may_write_to_is_refused_with_the_remedy(tmp_path: Path, mode: int) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data").chmod(mode)
    with pytest.raises(ConfigurationError, match=r"others may write to .*data.*chmod go-w"):
        private_folder(tmp_path / "data")
    (tmp_path / "data").chmod(0o755)
    assert private_folder(tmp_path / "data") == tmp_path / "data"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders away")
def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    os.chown(tmp_path / "data", 65534, 65534)
    with pytest.raises(ConfigurationError, match=r"belongs to another user \(uid 65534\)"):
        private_folder(tmp_path / "data")


def test_the_folder_above_all_data_is_checked_as_well() -> None:
    state_folder().mkdir(parents=True)
    state_folder().chmod(0o777)
    with pytest.raises(ConfigurationError, match="others may write"):
        private_folder(data_folder(Path.cwd()))
