"""The agents of a project that nobody trusts: without what they ask for, and behind all others."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ekiden.dispatcher.cli.agents.discovery import open_agents
from ekiden.shared.definitions.catalog import build_catalog
from ekiden.shared.definitions.loader import AGENTS_FOLDER, Level, layered
from ekiden.shared.definitions.model import AgentDefinition, HandoffRule, ToolRules
from ekiden.shared.definitions.parsing import definition_from
from ekiden.shared.definitions.requested_rights import Names, rights_wanted, without_rights
from ekiden.shared.definitions.tool_names import BUILTIN_TOOLS, MEMORY_TOOLS, SAFE_TOOLS
from ekiden.shared.definitions.trusted import agents_wanted, files_here, levels_here
from ekiden.shared.project_trust import project_trust_of
from ekiden.shared.settings.files import change_setting, project_file
from ekiden.shared.settings.model import load_settings
from ekiden.shared.trust.grants import Grants
from ekiden.shared.trust.store import remember
from ekiden.workers.tools.registry import BUILTIN

TOOLS = (*BUILTIN_TOOLS, "mcp.git.push", "read_mind", "a_tool_of_tomorrow")
ENTRIES = st.lists(st.sampled_from(["*", "b*", "mcp.*", "read_*", *TOOLS]), max_size=4).map(tuple)
RULES = st.none() | st.builds(ToolRules, allow=st.none() | ENTRIES, deny=ENTRIES, unknown=ENTRIES)
NOBODY = Names(())


def write(root: Path, name: str, **fields: Any) -> Path:
    """Write an agent file below ``root``."""
    path = root / AGENTS_FOLDER / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    front = yaml.safe_dump({"name": name, "description": f"Says {root.name}.", **fields}, allow_unicode=True)
    path.write_text(f"---\n{front}---\nWork.\n", "utf-8")
    return path


def in_force() -> dict[str, AgentDefinition]:
    """The agents that a dispatcher in this folder would publish."""
    loaded = layered(level.loaded for level in levels_here(load_settings()))
    catalog, _ = build_catalog(loaded.definitions, loaded.sources)
    return dict(catalog.agents)


def tools_of(agent: AgentDefinition) -> set[str]:
    return {tool for tool in TOOLS if agent.permits(tool)}


def trust_what_it_asks_for(project: Path) -> None:
    remember(project, granted=project_trust_of(project).wanted)


def test_the_safe_tools_are_those_that_change_nothing_outside_of_the_session() -> None:
    assert {tool.name for tool in BUILTIN if tool.read_only} | {"set_state"} == SAFE_TOOLS | {"recall_memory"}


@settings(deadline=None)
@given(RULES)
def test_what_is_left_of_an_agent_never_has_more_than_the_safe_tools_or_than_its_file_says(rules: ToolRules) -> None:
    agent = AgentDefinition(name="a", title="A", description="d", tools=rules)
    left = tools_of(without_rights(agent, NOBODY))
    assert left == tools_of(agent) & SAFE_TOOLS


@settings(deadline=None)
@given(RULES)
def test_an_agent_asks_for_something_whenever_it_has_more_than_the_safe_tools(rules: ToolRules) -> None:
    agent = AgentDefinition(name="a", title="A", description="d", tools=rules)
    if not tools_of(agent) <= SAFE_TOOLS:
        assert rights_wanted(agent, NOBODY)


@settings(deadline=None)
@given(RULES, RULES)
def test_who_may_do_more_than_was_granted_asks_anew(before: ToolRules, after: ToolRules) -> None:
    old, new = (AgentDefinition(name="a", title="A", description="d", tools=rules) for rules in (before, after))
    grants = Grants(granted=frozenset(rights_wanted(old, NOBODY)))
    if not grants.lacking(rights_wanted(new, NOBODY)):
        assert tools_of(new) - SAFE_TOOLS <= tools_of(old)


@settings(deadline=None)
@given(RULES, st.sampled_from(TOOLS))
def test_who_gives_a_tool_up_does_not_ask_anew(before: ToolRules | None, less: str) -> None:
    rules = before or ToolRules()
    old = AgentDefinition(name="a", title="A", description="d", tools=before)
    grants = Grants(granted=frozenset(rights_wanted(old, NOBODY)))
    fewer = [rules.model_copy(update={"deny": (*rules.deny, less)})]
    if rules.allow is not None:
        fewer.append(rules.model_copy(update={"allow": rules.allow[1:]}))
    for one in fewer:
        new = AgentDefinition(name="a", title="A", description="d", tools=one)
        assert grants.lacking(rights_wanted(new, NOBODY)) == []


def test_a_network_is_a_right_of_its_own_and_gone_without_it(project: Path) -> None:
    write(project, "fetcher", tools=["read_file"], network=True)
    assert [right.shown for right in project_trust_of(project).wanted] == ["network for its commands"]
    assert in_force()["fetcher"].rules.network is None
    trust_what_it_asks_for(project)
    assert in_force()["fetcher"].rules.network is True


def test_an_agent_that_only_reads_asks_for_nothing_and_is_as_its_file_says(project: Path) -> None:
    write(project, "billing", tools=["read_file", "grep"], limits={"max_turns": 9})
    assert project_trust_of(project).wanted == ()
    assert in_force()["billing"].tools == ToolRules(allow=("read_file", "grep"))


def test_an_agent_of_an_untrusted_project_has_the_safe_tools_and_one_that_is_trusted_all(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(project, "mine", tools=["bash", "read_file"])
    write(project, "greedy", tools="*")
    assert tools_of(in_force()["mine"]) == {"read_file"}
    assert tools_of(in_force()["greedy"]) == SAFE_TOOLS
    assert capsys.readouterr().err == (
        f"ekiden: the folder {str(project)!r} is not trusted: agents greedy, mine get only tools that read, and "
        "count behind all others. `ekiden trust` shows what it asks for, and grants it\n"
    )
    trust_what_it_asks_for(project)
    assert tools_of(in_force()["mine"]) == {"bash", "read_file"}
    assert tools_of(in_force()["greedy"]) == set(TOOLS) - MEMORY_TOOLS
    assert capsys.readouterr().err == ""


def test_a_safe_tool_of_an_untrusted_agent_is_waited_for_only_where_its_file_names_it(project: Path) -> None:
    write(project, "named", tools=["bash", "grep"])
    write(project, "greedy", tools="*")
    assert in_force()["named"].tools == ToolRules(allow=("grep",))
    assert in_force()["greedy"].tools == ToolRules(allow=(), unknown=tuple(sorted(SAFE_TOOLS)))


@pytest.mark.parametrize("theirs", ["debugger", "Debugger", "DEBUGGER"])
def test_an_untrusted_agent_takes_the_place_of_none_that_ships(project: Path, theirs: str) -> None:
    write(project, theirs, tools=["read_file"])
    assert in_force()["debugger"].description.startswith("Finds out why")
    assert tools_of(in_force()["debugger"]) >= {"bash"}


def test_an_untrusted_agent_takes_no_shipped_place_by_switching_the_pack_off(project: Path) -> None:
    write(project, "debugger", tools=["read_file"])
    (project / ".gemini" / "settings.json").write_text('{"agents": {"packs": []}}')
    assert "agent debugger" in {right.subject for right in project_trust_of(project).wanted}


def test_an_untrusted_agent_does_not_push_one_out_whose_tool_would_have_the_same_name(project: Path) -> None:
    write(project, "Code Fixer", tools=["read_file"])
    write(project, "code_fixer", tools=["read_file"])
    agents = in_force()
    assert "code-fixer" in agents
    assert not {"Code Fixer", "code_fixer"} & agents.keys()


def test_an_untrusted_agent_takes_the_place_of_none_of_the_users_and_a_trusted_one_does(project: Path) -> None:
    write(Path.home(), "helper", tools=["bash"])
    write(project, "helper", tools=["read_file"])
    assert in_force()["helper"].description == "Says home."
    [right] = project_trust_of(project).wanted
    assert right.shown == "replaces yours or Ekiden's"
    trust_what_it_asks_for(project)
    assert in_force()["helper"].description == "Says project."


def test_an_agent_of_the_users_that_comes_later_is_not_replaced_by_what_was_granted_before(project: Path) -> None:
    write(project, "helper", tools=["bash"])
    trust_what_it_asks_for(project)
    write(Path.home(), "helper")
    assert in_force()["helper"].description == "Says home."


def test_an_untrusted_agent_hands_over_to_its_own_kind_only(project: Path) -> None:
    write(project, "lure", tools=["bash"], handoffs=[{"to": "code-fixer"}, {"to": "friend"}])
    write(project, "friend", tools=["bash"])
    assert in_force()["lure"].targets == ("friend",)
    trust_what_it_asks_for(project)
    assert in_force()["lure"].targets == ("code-fixer", "friend")


def test_to_hand_over_to_an_agent_of_the_users_is_a_right_also_for_one_that_only_reads(project: Path) -> None:
    write(project, "lure", tools=["read_file"], handoffs=[{"to": "code-fixer", "when": "auto"}])
    assert [right.what for right in project_trust_of(project).wanted] == ["hands over to code-fixer"]
    assert in_force()["lure"].targets == ()


def test_programs_of_an_agent_are_rights_and_an_untrusted_one_has_none(project: Path) -> None:
    servers = {"git": {"command": "git-mcp"}}
    write(project, "mine", tools=["read_file"], hooks={"BeforeTool": []}, mcpServers=servers, color="red")
    write(project, "other", tools=["read_file"], hooks={"BeforeTool": [{"command": "./x"}]})
    assert [right.what.split()[0] for right in project_trust_of(project).wanted] == ["mcpServers", "hooks", "hooks"]
    assert in_force()["mine"].extra == {"color": "red"}
    assert in_force()["other"].extra == {}


def test_only_what_is_new_is_held_and_a_reworded_text_is_not(project: Path) -> None:
    path = write(project, "mine", tools=["bash"])
    trust_what_it_asks_for(project)
    path.write_text(path.read_text("utf-8").replace("Work.", "Work harder."), "utf-8")
    write(project, "newcomer", tools=["bash"])
    assert tools_of(in_force()["mine"]) == {"bash"}
    assert tools_of(in_force()["newcomer"]) == set()
    assert [right.subject for right in project_trust_of(project).lacking] == ["agent newcomer"]
    write(project, "mine", tools=["bash", "edit_file"])
    assert tools_of(in_force()["mine"]) == set()


def test_what_a_folder_that_the_projects_settings_name_holds_is_the_projects(project: Path) -> None:
    write(project / "more", "hidden", tools=["bash"])
    change_setting(project_file(), "ekiden.agents_dir", [f"more/{AGENTS_FOLDER}"])
    assert "hidden" not in in_force(), "the setting is ignored"
    trust_what_it_asks_for(project)
    assert tools_of(in_force()["hidden"]) == set(), "and once it counts, its agents are asked about"
    trust_what_it_asks_for(project)
    assert tools_of(in_force()["hidden"]) == {"bash"}


def test_what_the_user_names_is_the_users_word(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "mine", "helper", tools=["bash"])
    monkeypatch.setenv("EKIDEN_AGENTS_DIR", str(tmp_path / "mine" / AGENTS_FOLDER))
    assert tools_of(in_force()["helper"]) == {"bash"}
    monkeypatch.delenv("EKIDEN_AGENTS_DIR")
    write(project, "ours", tools=["bash"])
    levels = levels_here(load_settings(), [project / AGENTS_FOLDER])
    agents = {agent.name: agent for level in levels if level.name == "extra" for agent in level.loaded.definitions}
    assert tools_of(agents["ours"]) == {"bash"}


def test_another_project_is_asked_about_itself(project: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    write(other, "theirs", tools=["bash"])
    write(project, "ours", tools=["bash"])
    trust_what_it_asks_for(project)

    def found() -> dict[str, set[str]]:
        levels = levels_here(load_settings(project=other))
        agents = layered(level.loaded for level in levels).definitions
        return {agent.name: tools_of(agent) for agent in agents if agent.name in ("ours", "theirs")}

    assert found() == {"ours": {"bash"}, "theirs": set()}
    trust_what_it_asks_for(other)
    assert found() == {"ours": {"bash"}, "theirs": {"bash"}}


def test_from_a_sub_folder_the_projects_agents_are_found_and_held_alike(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project, "mine", tools=["bash"])
    (project / "src" / "deep").mkdir(parents=True)
    monkeypatch.chdir(project / "src" / "deep")
    assert tools_of(in_force()["mine"]) == set()
    trust_what_it_asks_for(project)
    assert tools_of(in_force()["mine"]) == {"bash"}


def test_what_is_wrong_with_a_file_is_told_once_held_or_not(project: Path) -> None:
    write(project, "held", tools=["edit_file", "Bash(git:*)"])
    write(project, "broken", triggers={"priority": "high"})
    problems = [problem for level in levels_here(load_settings()) for problem in level.loaded.problems]
    assert sorted(Path(problem.file).stem for problem in problems) == ["broken", "held"]
    assert not any(level.is_held for level in files_here(load_settings()))


def test_the_digest_of_what_is_left_is_its_own() -> None:
    agent = definition_from({"name": "a", "description": "d", "tools": ["bash"]}, "Work.")
    assert agent.digest
    left = without_rights(agent, NOBODY)
    assert left.digest != agent.digest
    assert left.digest == AgentDefinition.from_json(left.to_json()).digest


def test_nothing_of_the_users_is_a_projects() -> None:
    users = Level("global", Path("/home"), layered([]))
    assert agents_wanted([users], Path("/srv/shop")) == []
    rule = HandoffRule(to="x")
    assert without_rights(AgentDefinition(name="a", title="A", description="d", handoffs=(rule,)), NOBODY).handoffs == (
        rule,
    )


def test_what_one_project_was_granted_serves_no_other_ones_words(project: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    write(project, "deployer", tools=["bash"])
    trust_what_it_asks_for(project)
    write(other, "helper", tools=["read_file"], handoffs=[{"to": "deployer", "when": "auto"}])
    write(other, "deployer", tools=["read_file"])
    levels = levels_here(load_settings(project=other))
    agents = {agent.name: agent for agent in layered(level.loaded for level in levels).definitions}
    assert agents["helper"].handoffs == ()
    assert agents["deployer"].permits("bash"), "the impostor counts behind"


@pytest.mark.parametrize(
    "front",
    [
        "tools: bash",
        "tools: Bash, Shell, run_shell_command",
        "tools: ['*']",
        "tools: [b*, '[b]ash', '?ash', 'ba**']",
        "tools: {bash: true}",
        "tools: {allow: [bash], unknown: [bash]}",
        "tools: {deny: [edit_file]}",
        "tools: {allow: null, unknown: ['*']}",
        "tools: [read_file]\nallowed-tools: Bash\nallowedTools: [Bash]",
        "tools: [read_file]\npermissionMode: bypassPermissions\nyolo: true",
        "tools: [read_file]\nextra: {tools: {allow: [bash]}}",
        "tools: ['\uff42ash', 'BASH', 'bash ', ' bash', 'bash\\t', 'Bash(*)']",
        "scope: global\nkind: system\ntools: [bash]",
        "scope: builtin\ntitle: debugger\ntools: [bash]",
        "transfer_to_parent: true\nsubagents: [debugger, code-fixer]",
        "subagents: [Debugger, code_fixer]\npermission: allow",
        "handoffs: ['*', debugger, Debugger, debugger_, {to: code-fixer, when: auto, return: true}]",
        "handoffs: [friend]\ntransfer: single",
        "tools: &all ['*']\n<<: {tools: [bash]}",
        "tools: [read_file]\ntools: [bash]",
    ],
)
@pytest.mark.parametrize("name", ["lure", "debugger", "Code Fixer", "reviewer"])
def test_no_front_matter_gets_an_untrusted_agent_bash_or_a_way_to_who_has_it(
    front: str, name: str, project: Path
) -> None:
    shipped = in_force()
    folder = project / AGENTS_FOLDER
    folder.mkdir(parents=True)
    (folder / "a.md").write_text(f"---\nname: {name}\ndescription: d\n{front}\n---\nWork.\n", "utf-8")
    (folder / "b.md").write_text("---\nname: friend\ndescription: d\ntools: [bash]\nhandoffs: [debugger]\n---\nHi.\n")
    agents = in_force()
    assert {name: agents[name] for name in shipped} == shipped
    for agent in agents.values():
        if agent.name not in shipped:
            assert tools_of(agent) <= SAFE_TOOLS
            assert not set(agent.targets) & shipped.keys()


COSTLY = {
    "model": "gemini-2.5-pro",
    "limits": {"max_turns": 9_000, "max_seconds": 20, "max_cost_usd": 3},
    "loops": {"text": False},
    "compression": {"model": "gemini-2.5-flash"},
}


def test_what_costs_more_than_usual_is_asked_for_and_until_then_the_usual_holds(project: Path) -> None:
    write(project, "dear", **COSTLY)
    shown = {right.shown for right in project_trust_of(project).wanted}
    assert shown == {"model gemini-2.5-pro, gemini-2.5-flash", "max_turns up to 9000", "loops are not looked for: text"}
    left = in_force()["dear"]
    assert (left.model, left.limits.max_turns, left.loops, left.compression.model) == (None, 30, {}, None)
    assert (left.limits.max_seconds, left.limits.max_cost_usd) == (20, 3), "what is lower stays"
    trust_what_it_asks_for(project)
    assert (in_force()["dear"].model, in_force()["dear"].limits.max_turns) == ("gemini-2.5-pro", 9_000)


def test_a_lower_limit_than_the_granted_one_is_not_asked_for_and_a_higher_one_is(project: Path) -> None:
    write(project, "dear", limits={"max_turns": 100})
    trust_what_it_asks_for(project)
    for turns, asks in ((60, False), (101, True)):
        write(project, "dear", limits={"max_turns": turns})
        assert bool(project_trust_of(project).lacking) is asks


def test_whatever_costs_more_is_gone_from_an_agent_without_rights() -> None:
    agent = definition_from({"name": "a", "description": "d", **COSTLY}, "Work.")
    assert not rights_wanted(without_rights(agent, NOBODY), NOBODY)


def test_an_untrusted_graph_runs_none_of_the_users_agents(project: Path) -> None:
    write(project, "friend")
    write(project, "lure", kind="graph", graph={"entry": "fix", "nodes": [{"name": "fix", "agent": "code-fixer"}]})
    write(project, "own", kind="graph", graph={"entry": "friend", "nodes": ["friend"]})
    assert [right.what for right in project_trust_of(project).wanted] == ["hands over to code-fixer"]
    assert "own" in in_force()
    assert "lure" not in in_force()
    trust_what_it_asks_for(project)
    assert "lure" in in_force()


CALLING = {"entry": "run", "nodes": [{"name": "run", "tool": "bash", "args": {"command": "ls"}}]}


def test_a_graph_whose_tool_nobody_granted_is_not_used_and_the_remedy_is_trust(project: Path) -> None:
    path = write(project, "flow", kind="graph", tools=["bash"], graph=CALLING)

    found = [one for level in levels_here(load_settings()) for one in level.loaded.problems if one.severity == "error"]
    [problem] = [one for one in found if one.file == str(path)]

    assert "flow" not in in_force()
    assert "'run' calls 'bash', which nobody has granted" in problem.message
    assert "`ekiden trust` shows" in problem.message
    [file] = [one for one in open_agents([], as_files=True).files if one.name == "flow"]
    assert [(one.severity, one.message) for one in file.problems if one.aspect == "graph"] == [
        ("warning", problem.message)
    ]
    trust_what_it_asks_for(project)
    assert "flow" in in_force()
    assert not [one for one in open_agents([], as_files=True).get("flow").problems if one.aspect == "graph"]
