"""The agent files that count here: those of a project as far as its user trusts it.

An agent that asks for what nobody granted its project is held: it loads without that, and counts behind all others.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ekiden.shared.definitions.graph_shape import place_in
from ekiden.shared.definitions.loader import AGENTS_FOLDER, Level, Loaded, load_levels
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.definitions.places import line_in
from ekiden.shared.definitions.problems import Problem
from ekiden.shared.definitions.requested_rights import Names, not_without, rights_wanted, without_rights
from ekiden.shared.packs import shipped_agent_names
from ekiden.shared.project_folders import project_of
from ekiden.shared.settings.files import project_file
from ekiden.shared.settings.model import Settings, origin_of
from ekiden.shared.trust.grants import Grants, grants_of, stands_by
from ekiden.shared.trust.notices import hint, tell, tell_beside
from ekiden.shared.trust.rights import Right

__all__ = ["agents_wanted", "files_here", "levels_here", "may_stay", "trusted"]


def levels_here(settings: Settings, agents_dir: Sequence[Path] = ()) -> list[Level]:
    """Load every level of agent files, the nearest first, each agent as far as it is trusted.

    Args:
        settings: Those in force.
        agents_dir: Further folders by the user's own word; without any, those of the settings.
    """
    return trusted(files_here(settings, agents_dir))


def files_here(settings: Settings, agents_dir: Sequence[Path] = ()) -> list[Level]:
    """Load every level as its files are: to look at and to change, not to run. Arguments as ``levels_here``."""
    here = project_of(Path.cwd())
    there = project_of(settings.project) if settings.project else here
    others = [there / AGENTS_FOLDER] if there != here and (there / AGENTS_FOLDER).is_dir() else []
    extra = list(agents_dir or settings.agents_dir)
    is_theirs = not agents_dir and origin_of("agents_dir") == str(project_file(here))
    project, *levels = load_levels(here, [*others, *extra], Path.home(), settings.packs)
    owners = [None, *(there for _ in others), *(here if is_theirs else None for _ in extra), None]  # ~, …, packs
    owned = [replace(level, project=owner) for level, owner in zip(levels, owners, strict=True)]
    return [replace(project, project=here), *owned]


def agents_wanted(levels: Sequence[Level], project: Path) -> list[Right]:
    """Return what the agents of a project ask for."""
    users = _above(levels, project)
    agents = (agent for level in levels if level.project == project for agent in level.loaded.definitions)
    return [right for agent in agents for right in rights_wanted(agent, users)]


def trusted(levels: Sequence[Level]) -> list[Level]:
    """Return the levels with the held agents of projects behind all others, and tell of them once."""
    front, behind = [], []
    own = [level for level in levels if level.name != "extra" or level.project is not None]
    named = set(_names(level for level in levels if level not in own))
    projects = {level.project for level in levels}
    above = {project: (_above(levels, project), _above(own, project)) for project in projects}
    for level in levels:
        users, alone = above[level.project]
        held = _held(level, users, alone, named)
        files = {level.loaded.sources[name] for name in held}
        free = [agent for agent in level.loaded.definitions if agent.name not in held]
        front.append(_part(level, free, files, is_held=False))
        # One whose tool would have the name of another's would cost that one its place in the catalog.
        left = [agent for name, agent in held.items() if name in users or not users.would_lose(name)]
        unused = list(_unused_graphs(held, level, users))
        left = [agent for agent in left if not_without(agent, users) is None]
        cut = [without_rights(agent, users) for agent in left]
        behind += [_part(level, cut, files, unused, is_held=True)] if held else []
    return front + behind


def _above(levels: Sequence[Level], project: Path | None) -> Names:
    """Return the names that a project's agents take the place of, or hand over to, only by a right.

    They are the user's, and those of agents that another project was granted something for: what serves the one
    must not serve the other's words.
    """
    # Also of packs that are switched off: a project's own settings may do that.
    users = Names([*_names(level for level in levels if level.project is None), *shipped_agent_names()])
    others = (level for level in levels if level.project not in (None, project))
    return users.with_more([name for level in others for name in _granted(level, users)])


def _names(levels: Iterable[Level]) -> list[str]:
    return [agent.name for level in levels for agent in level.loaded.definitions]


def _granted(level: Level, users: Names) -> list[str]:
    """Return the agents of a project's level that ask for something, all of which is granted."""
    asking = {agent.name: wanted for agent in level.loaded.definitions if (wanted := rights_wanted(agent, users))}
    if level.project is None or not asking:
        return []
    grants = grants_of(level.project)
    return [name for name, wanted in asking.items() if not grants.lacking(wanted)]


def _held(level: Level, users: Names, alone: Names, named: Container[str]) -> dict[str, AgentDefinition]:
    """Return the agents that ask for more than is granted, by name, and tell of them.

    Args:
        level: Whose agents they are.
        users: What names are the user's.
        alone: The same without the further folders that the user has named: what lacks even then is not trusted.
        named: The agents of these, which count in the place of the level's own: these need no word.
    """
    if level.project is None or not level.loaded.definitions:
        return {}
    grants = grants_of(level.project)
    agents = level.loaded.definitions
    held = {agent.name: agent for agent in agents if grants.lacking(rights_wanted(agent, users))}
    lacking = {name for name, agent in held.items() if grants.lacking(rights_wanted(agent, alone))}
    if beside := [name for name in held if name not in lacking and name not in named]:
        tell_beside(level.project, beside)
    less = [name for name, agent in held.items() if not_without(agent, users) is None]
    if told := [name for name in less if name in lacking]:
        _tell(level.project, told, grants)
    if unused := [name for name in held if name not in less and name in lacking]:
        tell(level.project, f"the graphs of {', '.join(unused)} are not used: they cannot do with less")
    return held


def may_stay(agent: AgentDefinition, file: str, levels: Sequence[Level]) -> bool:
    """Tell whether an agent that its ``file`` gave before may stay as it was: all that it has is granted still."""
    owners = (level.project for level in levels if Path(file).is_relative_to(level.folder))
    project = next(owners, None)
    return project is None or not grants_of(project).lacking(rights_wanted(agent, _above(levels, project)))


def _unused_graphs(held: Mapping[str, AgentDefinition], level: Level, users: Names) -> Iterator[Problem]:
    """Yield for each graph that is not used, since it could not work with less, what it asks for."""
    for name, agent in held.items():
        if level.project is not None and agent.graph is not None and (lacking := not_without(agent, users)) is not None:
            number, what = lacking
            file, place = level.loaded.sources[name], place_in(agent.graph, ("nodes", number))
            text = f"the node {agent.graph.nodes[number].name!r} {what}, which nobody has granted this folder, and the "
            text += f"graph of {name!r} is not used without: {hint(level.project)}"
            yield Problem(file, line_in(file, place), "error", text, "graph", place)


def _part(
    level: Level,
    agents: Sequence[AgentDefinition],
    held: Container[str],
    unused: Sequence[Problem] = (),
    *,
    is_held: bool,
) -> Level:
    """Return the level with these agents, and with what is wrong with the files that are held, or with all others."""
    loaded = level.loaded
    if agents and level.project is not None and not stands_by(level.project):
        agents = list(map(_as_a_strangers, agents))
    problems = [problem for problem in loaded.problems if (problem.file in held) == is_held]
    return replace(level, loaded=Loaded(tuple(agents), (*problems, *unused), loaded.sources), is_held=is_held)


def _as_a_strangers(agent: AgentDefinition) -> AgentDefinition:
    """Return the agent as one whose words are those of an unknown author."""
    fields = {name: getattr(agent, name) for name in AgentDefinition.model_fields}  # a copy would keep the digest
    return AgentDefinition(**{**fields, "untrusted": True})


def _tell(project: Path, names: Iterable[str], grants: Grants) -> None:
    because = f" ({grants.problem})" if grants.problem else ""
    tell(
        project,
        f"agents {', '.join(names)} get only tools that read, and count behind all others{because}",
    )
