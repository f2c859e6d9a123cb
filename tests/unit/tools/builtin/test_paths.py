import os
from pathlib import Path

import pytest

from ekiden.shared.errors import ToolError
from ekiden.workers.tools.base import ToolContext
from ekiden.workers.tools.builtin.paths import open_file, opened_folder, place_of, shown

pytestmark = pytest.mark.usefixtures("way")


def inside(path: str, context: ToolContext) -> Path:
    return place_of(path, context).real


def file_at(path: str, context: ToolContext) -> Path:
    with open_file(place_of(path, context), context) as file:
        os.read(file, 1)
    return inside(path, context)


def folder_at(path: str, context: ToolContext) -> Path:
    with opened_folder(place_of(path, context), context) as folder:
        os.fstat(folder)
    return inside(path, context)


def test_resolves_relative_paths_against_the_jobs_folder(cwd: Path, context: ToolContext) -> None:
    assert inside("a/../b.py", context) == Path(os.path.realpath(cwd)) / "b.py"


def test_accepts_an_absolute_path_inside_the_root(cwd: Path, context: ToolContext) -> None:
    assert inside(str(cwd.parent / "other" / "x"), context) == Path(os.path.realpath(cwd.parent)) / "other" / "x"


@pytest.mark.parametrize(
    "path",
    [
        "../../outside/secret.txt",
        "/etc/passwd",
        "/",
        "a/../../../outside",
        "/proc/self/root/etc/passwd",
        "/proc/self/environ",
        "/dev/zero",
        "link/secret.txt",
        "link/new/file",
        "file-link",
        "chain",
    ],
)
def test_refuses_what_leads_outside_the_root_and_names_the_path_as_given(
    path: str, cwd: Path, context: ToolContext
) -> None:
    (cwd / "link").symlink_to(cwd.parent.parent / "outside")
    (cwd / "file-link").symlink_to("../../outside/secret.txt")
    (cwd / "chain").symlink_to("file-link")
    with pytest.raises(ToolError, match="outside the workspace") as refusal:
        inside(path, context)
    assert repr(path) in str(refusal.value)


def test_refuses_a_sibling_whose_name_only_begins_like_the_root(cwd: Path, context: ToolContext) -> None:
    (cwd.parent.parent / "root-of-another").mkdir()
    with pytest.raises(ToolError, match="outside the workspace"):
        inside("../../root-of-another", context)


def test_refuses_kernel_files_even_when_the_root_is_the_whole_disk() -> None:
    everything = ToolContext(job="j", leg=1, agent="a", call_id="c", cwd=Path("/"), root=Path("/"))
    with pytest.raises(ToolError, match="outside the workspace"):
        inside("proc/self/environ", everything)
    assert inside("etc", everything) == Path(os.path.realpath("/etc"))


def test_follows_a_link_that_stays_inside(cwd: Path, context: ToolContext) -> None:
    (cwd / "real.txt").write_text("x")
    (cwd / "alias.txt").symlink_to("real.txt")
    assert file_at("alias.txt", context).name == "real.txt"


def test_works_below_a_root_that_is_itself_a_link(tmp_path: Path, cwd: Path) -> None:
    (cwd / "a.txt").write_text("x")
    (tmp_path / "alias").symlink_to(cwd.parent)
    linked = ToolContext(
        job="j", leg=1, agent="a", call_id="c", cwd=tmp_path / "alias" / "job", root=tmp_path / "alias"
    )
    assert shown(file_at("a.txt", linked), linked) == "a.txt"


@pytest.mark.parametrize("path", ["a\0b", "loop", "x" * 5000, "plain.txt/below"])
def test_explains_paths_that_the_system_cannot_use(path: str, cwd: Path, context: ToolContext) -> None:
    (cwd / "loop").symlink_to("loop")
    (cwd / "plain.txt").write_text("")
    with pytest.raises(ToolError):
        file_at(path, context)


def test_names_near_files_when_one_is_missing(cwd: Path, context: ToolContext) -> None:
    (cwd / "shop").mkdir()
    (cwd / "shop" / "cart.py").write_text("")
    (cwd / "shop" / "README.md").write_text("")
    with pytest.raises(ToolError, match=r"no file 'cart\.py'.*shop/cart\.py"):
        file_at("cart.py", context)
    with pytest.raises(ToolError, match=r"near names: shop/README\.md"):
        file_at("Readme.md", context)
    with pytest.raises(ToolError, match="near names: shop"):
        folder_at("shopp", context)


def test_tells_files_from_folders_and_pipes(cwd: Path, context: ToolContext) -> None:
    (cwd / "a.txt").write_text("")
    os.mkfifo(cwd / "pipe")
    with pytest.raises(ToolError, match="is a folder"):
        file_at(".", context)
    with pytest.raises(ToolError, match="is a file"):
        folder_at("a.txt", context)
    with pytest.raises(ToolError, match="pipe"):
        file_at("pipe", context)
