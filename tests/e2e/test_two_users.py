"""Two users of one machine have neither each other's data nor each other's trust."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOBODY = 65_534
AS_USER = """
import json, os, sys, tempfile
from pathlib import Path
from ekiden.shared.embedded import attach
from ekiden.shared.errors import ConfigurationError
from ekiden.shared.project_folders import data_folder, private_folder
from ekiden.shared.trust.grants import grants_of
from ekiden.shared.trust.rights import Right
from ekiden.shared.trust.store import remember
user, what = int(sys.argv[1]), sys.argv[2]
os.setgroups([])
os.setgid(user)
os.setuid(user)  # only now: the interpreter itself may be root's alone
project, bash = Path.cwd(), Right("agent a", "tool bash")
if what == "grant":
    private_folder(data_folder(project))
    remember(project, granted=[bash])
if what == "attach":
    try:
        attach(data_folder(project)).close()
    except ConfigurationError as error:
        print(error)
print(len(grants_of(project).lacking([bash])), "lacking")
"""


@pytest.fixture
def common() -> Iterator[Path]:
    """A folder that both users may enter, with a project and a state folder for each."""
    folder = Path(tempfile.mkdtemp(prefix="ekiden-two-users-"))
    folder.chmod(0o755)
    for name in ("project", "root", "nobody"):
        (folder / name).mkdir()
    os.chown(folder / "nobody", NOBODY, NOBODY)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def as_user(common: Path, user: int, state: str, what: str) -> list[str]:
    """Do ``what`` as ``user`` with this state folder; return the lines that come of it."""
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": str(common)}
    done = subprocess.run(
        [sys.executable, "-c", AS_USER, str(user), what],
        cwd=common / "project",
        env={**env, "XDG_STATE_HOME": str(common / state)},
        capture_output=True,
        text=True,
        check=False,
    )
    return (done.stdout + done.stderr).splitlines()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
@pytest.mark.parametrize(("owner", "state", "other"), [(0, "root", NOBODY), (NOBODY, "nobody", 0)])
def test_who_names_anothers_state_folder_gets_neither_the_data_nor_the_trust(
    common: Path, owner: int, state: str, other: int
) -> None:
    assert as_user(common, owner, state, "grant") == ["0 lacking"]
    assert as_user(common, owner, state, "look") == ["0 lacking"]
    said = as_user(common, other, state, "attach")
    assert "belongs to another user" in said[0] or "cannot keep data in" in said[0]
    assert said[1:] == ["1 lacking"]
