from typing import Any

import pytest

from ekiden.shared.definitions.model import AgentDefinition, ToolRules
from ekiden.shared.definitions.parsing import definition_from
from ekiden.shared.definitions.problems import AgentFileError
from ekiden.shared.definitions.tool_names import BUILTIN_TOOLS, MEMORY_TOOLS, SAFE_TOOLS, is_foreign, tools_meant
from ekiden.shared.definitions.tool_rules import RulesReader
from ekiden.workers.tools.registry import BUILTIN, builtin_registry

ALL = sorted(BUILTIN_TOOLS - MEMORY_TOOLS)
SAFE = sorted(SAFE_TOOLS)
CHANGES = ["delete_file", "edit_file", "write_file"]
READS = ["read_file", "read_many_files"]
ELSE = sorted(set(ALL) - {"bash", *CHANGES})


def agent(**fields: Any) -> AgentDefinition:
    return definition_from({"name": "x", "description": "d", **fields}, "You work.")


def permitted(**fields: Any) -> list[str]:
    read = agent(**fields)
    return [name for name in ALL if read.permits(name)]


def notes_of(tools: Any) -> list[str]:
    reader = RulesReader()
    reader.read(tools)
    return [text for _, text in (*reader.narrowed, *reader.notes)]


def test_the_names_are_those_of_the_workers_tools() -> None:
    assert {tool.name for tool in BUILTIN} == BUILTIN_TOOLS
    assert all(tools_meant(name) == [name] for name in BUILTIN_TOOLS)
    assert tools_meant("WRITE") == tools_meant("write") == tools_meant("Write") == ["write_file"]


@pytest.mark.parametrize(
    ("tools", "names"),
    [
        ("Read, Write, Edit, MultiEdit", ["edit_file", "read_file", "write_file"]),
        (["Bash", "Grep", "Glob", "LS"], ["bash", "glob", "grep", "ls"]),
        (["read_file", "list_directory", "run_shell_command"], ["bash", "ls", "read_file"]),
        (["search_file_content", "grep_search", "replace", "write_file"], ["edit_file", "grep", "write_file"]),
        (["read", "search", "execute"], ["bash", "grep", "read_file"]),
        ("Read,\nGrep,", ["grep", "read_file"]),
        ("*", ALL),
        (["*"], ALL),
        ("", []),
        (None, SAFE),
        ("Bash(*), Read()", ["bash", "read_file"]),
        ({"bash": False}, SAFE),
        ({"read": False}, [name for name in SAFE if name not in READS]),
        ({"deny": ["ls"]}, [name for name in SAFE if name != "ls"]),
        ("Read Grep Glob", ["glob", "grep", "read_file"]),
        ("Bash(git:*) Bash(jq:*) Read", ["read_file"]),
        ("READ, BASH", ["bash", "read_file"]),
        (["*", "!bash"], [name for name in ALL if name != "bash"]),
        (["*", "all but bash"], SAFE),
        (["*", "except", "bash"], SAFE),
        (["*", "-", "bash"], SAFE),
        (["*", "!(bash)"], SAFE),
        (["*", "!bash,edit"], ELSE),
        (["*", "!!bash"], [name for name in ALL if name != "bash"]),
        (["*", "!`Bash`"], [name for name in ALL if name != "bash"]),
        (["*", "`!Bash`"], [name for name in ALL if name != "bash"]),
        (["*", "\u2013bash"], [name for name in ALL if name != "bash"]),
        (["*", "\u2212bash"], [name for name in ALL if name != "bash"]),
        (["*", "no-bash"], [name for name in ALL if name != "bash"]),
        (["*", "not:bash"], [name for name in ALL if name != "bash"]),
        ("*, except bash", [name for name in ALL if name != "bash"]),
        (["*", "!all"], []),
        (["*", "WebSearch", "mcp__x__y", "read*"], ALL),
        (["bash", "no_op"], ["bash"]),
        ({"*": True, "bash,edit": False}, ELSE),
        ({"allow": "*", "deny": ["bash;edit"]}, ELSE),
        ("all tools except bash", []),
        ("Everything Except Bash", []),
        ({"read": True, "write": False}, ["read_file"]),
        ({"*": False, "grep": True}, ["grep"]),
        ({"*": False}, []),
        ({"*": True, "bash": False}, [name for name in ALL if name != "bash"]),
        ({"allow": "Read, Bash", "deny": ["Bash"]}, ["read_file"]),
    ],
)
def test_reads_every_form_and_foreign_names(tools: Any, names: list[str]) -> None:
    assert permitted(tools=tools) == names


def test_commas_in_brackets_belong_to_the_entry() -> None:
    rules = agent(tools="Read, Agent(plan, build), Bash(git:*, npm run), LS").tools

    assert rules is not None
    assert rules.allow == ("read_file", "ls")
    assert rules.unknown == ("Agent(plan, build)", "Bash(git:*, npm run)")


def test_a_narrowed_tool_is_not_given_whole() -> None:
    assert permitted(tools=["Read", "Bash(git diff)"]) == ["read_file"]
    assert permitted(tools=["Bash", "Bash(git diff)"]) == ["bash"]

    [note] = notes_of(["Bash(git diff)"])
    assert "'Bash(git diff)'" in note
    assert "Write 'bash'" in note


@pytest.mark.parametrize(
    ("value", "lost"),
    [
        (["Bash, Read"], ["bash", *READS]),
        (["Bash,Read"], ["bash", *READS]),
        ("Bash;Read", ["bash", *READS]),
        ("Bash|Read", ["bash", *READS]),
        ("Bash/Read", ["bash", *READS]),
        ("Bash(rm);Read", ["bash", *READS]),
        ("`Bash`, 'Read'", ["bash", *READS]),
        ("\u201cBash\u201d", ["bash"]),
        ("`Bash, Read`", ["bash", *READS]),
        ("all", ALL),
        ("Everything", ALL),
        ("lookup_order, B?sh, mcp.github.*, mcp__x__*", ["bash"]),
        ("none", []),
        ("no-bash, _Read_", ["bash", *READS]),
        ("BashTool, read_file_tool", ["bash", "read_file"]),
        ("tools, no_op", []),
    ],
)
def test_forbidden_tools_are_found_in_every_form_of_a_list(value: Any, lost: list[str]) -> None:
    assert permitted(tools="*", disallowedTools=value) == [name for name in ALL if name not in lost]
    assert permitted(tools="*", permission={str(value): "deny"}) == permitted(tools="*", disallowedTools=[str(value)])


@pytest.mark.parametrize(
    "value",
    [
        "{bash,read}",
        "[bash,read]",
        "!Bash/Read",
        "(Bash,Read)",
        "(Bash)(Read)",
        "Bash(rm, Read",
        "Bash()Read",
        "Bash. Read",
        "<Bash> <Read>",
        "B\u200bash, Read",
        "\uff22\uff41\uff53\uff48, Read",
        "B\u0430sh, Read",
        "mcp__x;Bash Read",
    ],
)
@pytest.mark.parametrize("form", ["text", "list", "permission", "asked"])
def test_what_forbids_and_cannot_be_read_leaves_safe_tools_and_is_told(value: str, form: str) -> None:
    forms: dict[str, dict[str, Any]] = {
        "text": {"disallowedTools": value},
        "list": {"disallowedTools": [value]},
        "permission": {"permission": {value: "deny"}},
        "asked": {"permission": {value: "ask"}},
    }
    rules = agent(tools="*", **forms[form]).tools

    assert rules is not None
    assert [name for name in ALL if rules.permits(name)] in (SAFE, [name for name in SAFE if name not in READS])
    assert "the agent has no tool beyond the safe ones" in rules.narrowed[0]


def test_what_is_forbidden_in_one_text_is_bounded_too() -> None:
    with pytest.raises(AgentFileError, match="'deny' has 501 entries, at most 500"):
        agent(
            disallowedTools=[
                ",".join(f"a{n}" for n in range(start, start + 84)) for start in (0, 84, 168, 252, 336, 417)
            ]
        )


def test_a_narrow_ban_bans_the_tool() -> None:
    assert permitted(tools="*", disallowedTools="Bash(rm:*, sudo:*)") == [name for name in ALL if name != "bash"]


def test_tools_of_other_programs_are_kept_and_never_waited_for() -> None:
    read = agent(tools="Read, WebSearch, mcp__github__list_issues, mcp__linear, google_web_search, DiffblueCover/*")

    assert read.tools is not None
    assert builtin_registry(workspace=True).missing(read.tools.allow or ()) == ()
    assert read.permits("mcp.github.list_issues")
    assert read.permits("mcp.linear.anything")
    assert not read.permits("mcp.other.x")
    assert not read.permits("bash")
    assert AgentDefinition.from_json(read.to_json()).digest == read.digest


def test_all_unknown_tools_are_told_in_one_warning() -> None:
    [note] = notes_of("WebSearch, Task, TodoRead, WebSearch")

    assert "'WebSearch', 'Task', 'TodoRead'." in note


def test_tools_in_our_own_style_are_waited_for() -> None:
    read = agent(tools=["lookup_order", "mcp.github.*", "read_*"])

    assert read.tools == ToolRules(allow=("lookup_order", "mcp.github.*", "read_*"))
    assert notes_of(["lookup_order"]) == []
    assert not is_foreign("lookup_order")
    assert is_foreign("WebSearch")


def test_a_file_for_another_program_is_not_kept_waiting_for_its_tools() -> None:
    rules = agent(tools="Read, platformio, esp-idf, mcp.github.*").tools

    assert rules == ToolRules(allow=("read_file", "mcp.github.*"), unknown=("platformio", "esp-idf"))


@pytest.mark.parametrize(
    "key",
    [
        "disallowedTools",
        "disallowed_tools",
        "disallowed-tools",
        "disallowedtools",
        "DisallowedTools",
        "disallowed tools",
        "Disallowed-Tools",
        "disallowedTools\xa0",
        "EXCLUDE_TOOLS",
    ],
)
@pytest.mark.parametrize("value", ["Write, Bash", ["Write", "Bash"]])
def test_forbidden_tools_are_read_in_every_spelling(key: str, value: Any) -> None:
    assert permitted(**{key: value}) == SAFE
    assert key not in agent(**{key: value}).extra


@pytest.mark.parametrize("key", ["allowedTools", "allowed-tools"])
def test_a_list_of_allowed_tools_counts_where_there_are_no_tools(key: str) -> None:
    assert permitted(**{key: ["read", "shell"]}) == ["bash", "read_file"]


@pytest.mark.parametrize("key", ["allowedTools", "allowed-tools", "Allowed Tools", "ALLOWEDTOOLS", "Tools"])
@pytest.mark.parametrize(
    ("tools", "others", "names"),
    [
        (["read", "bash"], ["read", "edit"], ["read_file"]),
        (["read", "bash"], "*", ["bash", "read_file"]),
        ("*", ["read", "bash"], ["bash", "read_file"]),
        (["*"], ["*", "!bash"], [name for name in ALL if name != "bash"]),
        (["read*", "bash"], ["read_file", "b*"], ["bash", "read_file"]),
        (["b*"], ["b?sh"], []),  # what two patterns have in common is not worked out
        (["Bash(git diff)"], ["bash"], []),
        (["bash", "ls"], {"deny": ["glob"]}, ["ls"]),
    ],
)
def test_of_several_lists_of_allowed_tools_an_agent_gets_what_all_of_them_allow(
    key: str, tools: Any, others: Any, names: list[str]
) -> None:
    assert permitted(**{"tools": tools, key: others}) == names


@pytest.mark.parametrize(("one", "other"), [("deny", "allow"), ("allow", "deny"), ("deny", None)])
def test_of_several_words_on_untrusted_text_the_stricter_counts(one: str, other: str | None) -> None:
    second = {"allow": ["bash"], **({"after_untrusted": other} if other else {})}
    rules = agent(tools={"allow": ["bash"], "after_untrusted": one}, Tools=second).tools

    assert rules is not None
    assert rules.after_untrusted == "deny"


def test_what_permissions_deny_altogether_is_forbidden() -> None:
    permission = {"edit": "deny", "bash": {"*": "deny"}, "read": "ask"}

    assert permitted(permission=permission) == SAFE
    assert agent(permission=permission).extra == {"permission": permission}


def test_a_banned_name_bans_a_tool_of_exactly_that_name_too() -> None:
    assert not agent(tools={"deny": ["search"]}).permits("search")


@pytest.mark.parametrize("key", ["tools", "disallowedTools"])
@pytest.mark.parametrize("value", [[True], [["ls"]], [" "], 3])
def test_rules_that_are_not_understood_are_refused_by_their_field(key: str, value: Any) -> None:
    with pytest.raises(AgentFileError) as caught:
        agent(**{key: value})

    assert caught.value.field == key


def test_rules_without_unknown_tools_are_written_as_ever() -> None:
    assert "unknown" not in agent(tools=["ls"]).to_json()
