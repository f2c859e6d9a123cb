"""Opening below a folder: no link is followed, whenever it came there."""

import errno
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Container
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ekiden.shared.errors import ToolError
from ekiden.workers.tools.builtin import safe_open
from ekiden.workers.tools.builtin.editing import edit_file
from ekiden.workers.tools.builtin.files import ls, read_file
from ekiden.workers.tools.builtin.safe_open import folder_below, folder_held, made_folder, open_regular, put, read_all
from ekiden.workers.tools.builtin.searching import glob, grep
from tests.unit.tools.conftest import Use

pytestmark = pytest.mark.usefixtures("way")

RENAME = os.rename
"""Not watched."""


@pytest.fixture
def outside(cwd: Path) -> Path:
    return cwd.parent.parent / "outside"


def test_opens_folders_below_and_makes_those_that_are_missing(cwd: Path) -> None:
    with folder_held(cwd) as top:
        with made_folder(top, ("a", "b")) as folder:
            put(folder, "c.txt", b"text", None)
        with folder_below(top, ("a", "b"), listed=True) as folder:
            assert os.listdir(folder) == ["c.txt"]  # noqa: PTH208 - by its descriptor
        with folder_below(top, (), listed=True) as folder:
            assert os.listdir(folder) == ["a"]  # noqa: PTH208
    assert (cwd / "a" / "b" / "c.txt").read_text() == "text"


@pytest.mark.parametrize("names", [("..",), ("a", ".."), ("a", "..", ".."), (".",), ("",), ("a/b",), ("/",), ("a\0b",)])
def test_refuses_names_that_are_none(names: tuple[str, ...], cwd: Path) -> None:
    (cwd / "a").mkdir()
    with folder_held(cwd) as top:
        for opened in (folder_below, made_folder):
            with pytest.raises(OSError, match="cross-device"), opened(top, names):
                pass
    assert sorted(cwd.parent.iterdir()) == [cwd]


@pytest.mark.parametrize("link", ["../../outside", "/proc/self/cwd", "/", "a"])
def test_follows_no_link_wherever_it_leads(link: str, cwd: Path) -> None:
    (cwd / "a" / "x").mkdir(parents=True)
    (cwd / "link").symlink_to(link)
    with folder_held(cwd) as top:
        for names in (("link",), ("link", "x")):
            for opened in (folder_below, made_folder):
                with pytest.raises(OSError, match=r".") as refusal, opened(top, names):
                    pass
                assert refusal.value.errno in (errno.ELOOP, errno.ENOTDIR)


def test_what_is_no_regular_file_is_neither_opened_nor_waited_for(cwd: Path) -> None:
    os.mkfifo(cwd / "pipe")
    (cwd / "link").symlink_to("text")
    (cwd / "text").write_text("x")
    with folder_held(cwd) as top, folder_below(top, ()) as folder:
        for name in ("pipe", "link", "."):
            with pytest.raises(OSError, match="no regular file"):
                open_regular(folder, name)
        file = open_regular(folder, "text")
        assert read_all(file, 10) == b"x"
        os.close(file)


def test_a_new_file_takes_the_place_of_a_link_or_of_one_name_and_not_what_else_that_means(
    cwd: Path, outside: Path
) -> None:
    (cwd / "link").symlink_to(outside / "secret.txt")
    os.link(outside / "secret.txt", cwd / "name")
    with folder_held(cwd) as top:
        for name in ("link", "name"):
            put(top, name, b"new", None)
    assert {path.name: path.read_text() for path in cwd.iterdir()} == {"link": "new", "name": "new"}
    assert (outside / "secret.txt").read_text() == "secret"


def test_a_pipe_in_the_place_of_a_file_holds_nobody_up(cwd: Path, use: Use) -> None:
    os.mkfifo(cwd / "pipe")
    for tool, args in ((read_file, {}), (edit_file, {"old": "a", "new": "b"}), (grep, {"pattern": "x"})):
        with pytest.raises(ToolError, match="pipe"):
            use(tool, path="pipe", **args)
    with pytest.raises(ToolError, match="exists already"):
        use(edit_file, path="pipe", old="", new="x")
    assert use(grep, pattern="x").startswith("no line")
    assert stat.S_ISFIFO((cwd / "pipe").lstat().st_mode)


@dataclass
class Swapper:
    """Exchanges a folder and a link at given moments: before calls that could tell the one from the other."""

    folder: Path
    link: Path
    moments: Container[int]
    calls: int = 0

    def watch(self, patch: pytest.MonkeyPatch) -> "Swapper":
        """Stand before each such call of this process."""
        for name in ("lstat", "stat", "readlink", "open", "scandir", "listdir", "mkdir", "rename", "unlink"):
            patch.setattr(os, name, partial(self._call, getattr(os, name)))
        patch.setattr(safe_open, "_openat2", partial(self._call, safe_open._openat2))
        return self

    def _call(self, real: Callable[..., Any], *args: Any, **named: Any) -> Any:
        if self.folder.name in str(args) or real.__name__ in ("scandir", "listdir"):  # all else finds neither
            if self.calls in self.moments:
                swap(self.folder, self.link)
            self.calls += 1
        return real(*args, **named)


def swap(one: Path, other: Path) -> None:
    aside = one.with_name("aside")
    for path, name in ((one, aside), (other, one), (aside, other)):
        RENAME(path, name)


def reads(use: Use) -> str:
    return use(read_file, path="swapped/secret.txt")


def lists(use: Use) -> str:
    return use(ls, path="swapped")


def finds(use: Use) -> str:
    return use(grep, pattern="secret") + use(glob, pattern="**")


def edits(use: Use) -> str:
    return use(edit_file, path="swapped/secret.txt", old="c", new="C")


def creates(use: Use) -> str:
    return use(edit_file, path="swapped/deep/er/new.txt", old="", new="x")


@pytest.mark.parametrize("act", [reads, lists, finds, edits, creates])
def test_who_swaps_a_folder_for_a_link_gets_nothing_of_the_outside(
    act: Callable[[Use], str], cwd: Path, outside: Path, use: Use
) -> None:
    """Whenever somebody does: at each moment that could matter, for one call or two, or for good."""
    (outside / "planted.txt").write_text("a secret, too")
    before = {path.name: path.read_bytes() for path in outside.iterdir()}
    (cwd / "link").symlink_to(outside)

    def calls_of(act: Callable[[Use], str], moments: Container[int]) -> int:
        """Act on a new folder that is swapped at these moments; return how many there were."""
        shutil.rmtree(cwd / "swapped", ignore_errors=True)
        (cwd / "swapped").mkdir()
        (cwd / "swapped" / "secret.txt").write_text("public")
        with pytest.MonkeyPatch.context() as patch:
            swapper = Swapper(cwd / "swapped", cwd / "link", moments).watch(patch)
            with suppress(ToolError) if moments else nullcontext():
                said = act(use)
                assert not any(word in said for word in ("planted", "\tsecret", ":secret", "-secret"))
        if (cwd / "swapped").is_symlink():
            swap(cwd / "swapped", cwd / "link")
        assert {path.name: path.read_bytes() for path in outside.iterdir()} == before, moments
        return swapper.calls

    calls = calls_of(act, ())
    assert calls > 5
    for begin in range(calls):
        for end in (begin + 1, begin + 2, calls):
            calls_of(act, (begin, end))


def test_a_system_that_forbids_openat2_is_one_without_it() -> None:
    code = """
import ctypes, os, sys
from ekiden.workers.tools.builtin import safe_open
if not safe_open._has_openat2():
    sys.exit(77)
safe_open._has_openat2.cache_clear()
class Filter(ctypes.Structure):
    _fields_ = (("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint32))
class Program(ctypes.Structure):
    _fields_ = (("len", ctypes.c_ushort), ("filter", ctypes.POINTER(Filter)))
rules = (Filter * 4)(
    Filter(0x20, 0, 0, 0),           # the call's number
    Filter(0x15, 0, 1, 437),
    Filter(0x06, 0, 0, 0x00050001),  # EPERM
    Filter(0x06, 0, 0, 0x7FFF0000),  # allowed
)
c = ctypes.CDLL(None, use_errno=True)
if c.prctl(38, 1, 0, 0, 0) or c.prctl(22, 2, ctypes.byref(Program(4, rules)), 0, 0):
    sys.exit(77)
from pathlib import Path
with safe_open.folder_held(Path("/")) as top, safe_open.folder_below(top, ("usr", "bin")) as folder:
    assert os.path.samestat(os.fstat(folder), os.stat("/usr/bin", follow_symlinks=False))
assert not safe_open._has_openat2()
"""
    here = Path(__file__).parents[4]
    done = subprocess.run([sys.executable, "-c", code], cwd=here, capture_output=True, text=True, check=False)
    if done.returncode == 77:
        pytest.skip("this system has no openat2, or no filters of calls")
    assert done.returncode == 0, done.stderr
