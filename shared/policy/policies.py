"""The policy that holds in a folder: the operator's, with the rules of the folder and those of the agent's file."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from ekiden.shared.definitions.model import AgentDefinition, Confirmation, ToolRules
from ekiden.shared.policy.claude_rules import read_permissions
from ekiden.shared.policy.engine import Policy
from ekiden.shared.policy.folder_rules import POLICIES, read_policy_folder, rules_of_folder
from ekiden.shared.policy.rule_files import Loaded
from ekiden.shared.policy.rules import Rule
from ekiden.shared.policy.setting_rules import read_setting_rules
from ekiden.shared.project_folders import project_of
from ekiden.shared.settings.model import Settings, place_of
from ekiden.shared.trust.notices import tell

__all__ = ["agents_policy", "folders_policy", "operators_policy", "policy_in", "users_policies", "with_sources"]


_RUN_BY_THEMSELVES = Policy().auto_approve


def users_policies() -> Path:
    """Return the user's own folder of policy files."""
    return Path.home() / POLICIES


def operators_policy(settings: Settings) -> Policy:
    """Return what the settings and the user's policy files say."""
    folders = settings.policy_files or [users_policies()]
    sources = [
        read_setting_rules(settings.policy_rules, "setting policy.rules", None, partial(place_of, "policy_rules")),
        read_permissions(settings.permissions, "setting permissions", None, partial(place_of, "permissions")),
        *(one for folder in folders for one in read_policy_folder(folder)),
    ]
    return with_sources(Policy(auto_approve=frozenset(settings.auto_approve)), sources)


def folders_policy(policy: Policy, cwd: Path) -> Policy:
    """Return the policy with the rules of the project that ``cwd`` belongs to; see ``docs/policy.md`` on trust."""
    project = project_of(cwd)
    if project == Path.home().resolve():  # whose files are the user's own
        return policy
    folder = rules_of_folder(project)
    for what in folder.ignored:
        tell(project, f"ignored {what}")
    levels = policy.auto_approve
    if folder.levels is not None:
        levels = folder.levels if folder.may_widen else levels & folder.levels
    return with_sources(policy.with_rules((), levels), folder.sources)


def agents_policy(policy: Policy, agent: AgentDefinition, bounds: Sequence[ToolRules] = ()) -> Policy:
    """Return the policy with what the agent's file says, and the files of those that delegated the job."""
    levels = policy.auto_approve
    if (own := agent.rules.auto_approve) is not None:
        # Nobody is asked to grant a folder what runs unasked by itself: a file gives none of that back.
        granted = frozenset(own) if agent.untrusted else frozenset(own) & _RUN_BY_THEMSELVES
        levels = frozenset(own) - (granted - levels)
    for above in bounds:
        levels = levels if above.auto_approve is None else levels & frozenset(above.auto_approve)
    rules = [*_asking(agent.rules, f"the file of agent {agent.name}")]
    rules += [rule for above in bounds for rule in _asking(above, "the file of an agent that delegated this job")]
    if agent.confirmation is not None:
        rules.append(_confirming(agent.name, agent.confirmation))
    levels -= {"critical"}
    return policy.with_rules(rules, levels) if rules or levels != policy.auto_approve else policy


def policy_in(settings: Settings, cwd: Path) -> Policy:
    """Return what holds of every agent in a folder."""
    return folders_policy(operators_policy(settings), cwd)


def with_sources(policy: Policy, sources: Iterable[Loaded]) -> Policy:
    """Return the policy with further sources of rules, behind all others."""
    found = list(sources)
    problems = (text for one in found for text in (*one.problems, *one.notes))
    return replace(
        policy.with_rules(rule for one in found for rule in one.safe.rules), problems=(*policy.problems, *problems)
    )


def _confirming(agent: str, confirmation: Confirmation) -> Rule:
    """Return the rule by which a person is to confirm calls of some tools."""
    name = f"confirmation of agent {agent!r}"
    reason = "the agent's file wants such calls confirmed"
    return Rule("ask", name, name, confirmation.require, reason=reason, timeout_s=confirmation.timeout)


def _asking(rules: ToolRules, where: str) -> list[Rule]:
    """Return the rule by which a file wants calls of some tools to be asked about."""
    if not rules.ask:
        return []
    tools = tuple(one for one in rules.ask if not one.startswith("!"))
    but = tuple(one.removeprefix("!") for one in rules.ask if one.startswith("!"))
    return [Rule("ask", where, where, tools, but, reason="its author wants to be asked")]
