"""Opening below a folder: no link is followed, whenever it came there."""

import ctypes
import errno
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from ekiden.shared.errors import ToolError
from ekiden.workers.tools.builtin.editing import edit_file
from ekiden.workers.tools.builtin.files import ls, read_file
from ekiden.workers.tools.builtin.safe_open import folder_below, folder_held, made_folder, open_regular, put, read_all
from ekiden.workers.tools.builtin.searching import glob, grep
from tests.unit.tools.conftest import Use

pytestmark = pytest.mark.usefixtures("way")

SECONDS = 0.5
"""That one race may take."""


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


@contextmanager
def swapping(folder: Path, outside: Path) -> Iterator[None]:
    """Let a thread put a link to the ``outside`` in the place of ``folder``, and back, all the time."""
    ends = threading.Event()
    link = folder.with_name("link")
    link.symlink_to(outside)
    exchange = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if exchange is None:
        pytest.skip("this system cannot exchange two names at once")
    here, at_once = -100, 2  # AT_FDCWD, RENAME_EXCHANGE

    def swap() -> None:
        while not ends.is_set():
            assert exchange(here, os.fsencode(folder), here, os.fsencode(link), at_once) == 0

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()
        if folder.is_symlink():
            assert exchange(here, os.fsencode(folder), here, os.fsencode(link), at_once) == 0


def reads(use: Use) -> str:
    return use(read_file, path="swapped/secret.txt")


def lists(use: Use) -> str:
    return use(ls, path="swapped")


def finds(use: Use) -> str:
    return use(grep, pattern="secret") + use(glob, pattern="**")


def edits(use: Use) -> str:
    return use(edit_file, path="swapped/secret.txt", old="public", new="public")


def creates(use: Use) -> str:
    return use(edit_file, path="swapped/deep/er/new.txt", old="", new="x")


@pytest.mark.parametrize("act", [reads, lists, finds, edits, creates])
def test_who_swaps_a_folder_for_a_link_gets_nothing_of_the_outside(
    act: Callable[[Use], str], cwd: Path, outside: Path, use: Use
) -> None:
    inside = cwd / "swapped"
    inside.mkdir()
    (inside / "secret.txt").write_text("public")
    (outside / "planted.txt").write_text("a secret, too")
    before = {path.name: path.read_bytes() for path in outside.iterdir()}
    done = 0
    ends = threading.Event()
    timer = threading.Timer(SECONDS, ends.set)
    timer.start()
    with swapping(inside, outside):
        while not ends.is_set():
            with suppress(ToolError):
                said = act(use)
                done += 1
                assert "planted" not in said
                assert "\tsecret" not in said
                assert ":secret" not in said
    timer.join()
    assert {path.name: path.read_bytes() for path in outside.iterdir()} == before
    assert done or act is edits or act(use), (
        "where nobody swaps, nothing is refused: a chance that never came shows nothing"
    )


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
