"""Rights: what covers what."""

import json
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ekiden.shared.errors import ConfigurationError
from ekiden.shared.trust.rights import Right, section_rights, setting_rights, tool_right, value_right

TOOLS = ("bash", "edit_file", "mcp.a.x", "mcp.a.y", "mcp.b.x", "read_file")
ENTRIES = st.sampled_from(["*", "mcp.*", "mcp.a.*", "b*", *TOOLS])


def meant(right: Right) -> set[str]:
    """The tools that a right gives."""
    entry = right.what.removeprefix("tool ")
    return {
        tool for tool in TOOLS if fnmatchcase(tool, entry) and not any(fnmatchcase(tool, no) for no in right.without)
    }


@given(ENTRIES, ENTRIES, st.lists(ENTRIES, max_size=2), st.lists(ENTRIES, max_size=2))
def test_a_right_to_tools_never_covers_more_than_it_gives(
    mine: str, theirs: str, no: list[str], but: list[str]
) -> None:
    granted, wanted = tool_right("agent a", mine, tuple(no)), tool_right("agent a", theirs, tuple(but))
    if granted.covers(wanted):
        assert meant(wanted) <= meant(granted)


@pytest.mark.parametrize(
    ("granted", "wanted"),
    [
        (("*", ()), ("bash", ())),
        (("*", ()), ("mcp.a.*", ())),
        (("*", ("bash",)), ("*", ("bash", "edit_file"))),
        (("mcp.a.*", ()), ("mcp.a.x", ())),
        (("bash", ()), ("bash", ("mcp.*",))),
    ],
)
def test_less_is_covered(granted: tuple[str, tuple[str, ...]], wanted: tuple[str, tuple[str, ...]]) -> None:
    assert tool_right("agent a", *granted).covers(tool_right("agent a", *wanted))


@pytest.mark.parametrize(
    ("granted", "wanted"),
    [
        (("bash", ()), ("*", ())),
        (("*", ("bash",)), ("bash", ())),
        (("*", ("bash",)), ("*", ())),
        (("mcp.a.*", ()), ("mcp.*", ())),
        (("mcp.a.x", ()), ("mcp.a.y", ())),
    ],
)
def test_more_is_not_covered(granted: tuple[str, tuple[str, ...]], wanted: tuple[str, tuple[str, ...]]) -> None:
    assert not tool_right("agent a", *granted).covers(tool_right("agent a", *wanted))


def test_another_agents_right_covers_nothing() -> None:
    assert not tool_right("agent a", "*", ()).covers(tool_right("agent b", "bash", ()))


def test_another_value_is_another_right_and_the_order_of_its_keys_is_none() -> None:
    first = value_right("setting x", {"a": 1, "b": "ä"}, "")
    assert first == value_right("setting x", {"b": "ä", "a": 1}, "as people read it")
    assert first != value_right("setting x", {"a": 1, "b": "b"}, "")


@pytest.mark.parametrize("value", ["\ud800", float("nan"), 10**400, [[]] * 50])
def test_any_value_of_a_settings_file_can_be_compared(value: object) -> None:
    assert value_right("setting x", value, "") == value_right("setting x", value, "")


def test_a_value_that_cannot_be_compared_is_refused() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ConfigurationError, match="setting x"):
        value_right("setting x", deep, "")


def test_a_folder_of_scripts_is_a_right_for_each_script_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "one.yaml").write_text("agents: {}")
    before = setting_rights(tmp_path, "ekiden.scripts_dir", "s")
    assert setting_rights(tmp_path, "ekiden.scripts_dir", "s") == before
    (tmp_path / "s" / "one.yaml").write_text("agents: {x: []}")
    assert not before[1].covers(setting_rights(tmp_path, "ekiden.scripts_dir", "s")[1]), "its text is calls of tools"
    (tmp_path / "s" / "two.yaml").write_text("agents: {}")
    assert [right.shown for right in setting_rights(tmp_path, "ekiden.scripts_dir", "s")[1:]] == [
        "script one.yaml",
        "script two.yaml",
    ]


@pytest.mark.parametrize("target", ["/dev/zero", "/nowhere", "/"])
def test_a_script_that_cannot_be_read_is_a_right_that_nobody_can_grant(tmp_path: Path, target: str) -> None:
    (tmp_path / "one.yaml").symlink_to(target)
    first, second = (setting_rights(tmp_path, "ekiden.scripts_dir", ".")[1] for _ in range(2))
    assert not first.covers(second)


@pytest.mark.parametrize("path", ["\0", "x" * 5_000, "nowhere", "\ud800"])
def test_a_folder_of_scripts_that_is_none_has_no_scripts(tmp_path: Path, path: str) -> None:
    assert len(setting_rights(tmp_path, "ekiden.scripts_dir", path)) == 1


def test_servers_and_hooks_of_a_settings_file_are_rights_by_name() -> None:
    values = json.loads(
        '{"mcpServers": {"git": {"command": "x"}}, "hooks": {"BeforeTool": [], "packages": ["x"]}, "theme": "dark"}'
    )
    found = list(section_rights(values))
    assert [(section, name) for section, name, _ in found] == [("mcpServers", "git"), ("hooks", "BeforeTool")]
    assert found[0][2].shown == 'MCP server git: {"command": "x"}'
    assert list(section_rights({"mcpServers": "none", "hooks": []})) == []
