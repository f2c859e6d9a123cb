"""The handler of an agent leg: load the agent, equip it, let the executor run it."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

import structlog

from ekiden.shared.definitions.model import AfterUntrusted, AgentDefinition
from ekiden.shared.errors import ModelUnavailable, UnreadableDefinition
from ekiden.shared.hooks import HookedModel
from ekiden.shared.llm.models import Models
from ekiden.shared.loop_kinds import LoopKind
from ekiden.shared.mcp.names import announced_as
from ekiden.shared.messages import ToolCall
from ekiden.shared.outcomes import Outcome, Suspended
from ekiden.shared.policy.engine import Policy
from ekiden.shared.policy.policies import agents_policy
from ekiden.shared.prices import Prices
from ekiden.shared.records import Noticed
from ekiden.shared.relay.leg import Leg, backoff_s
from ekiden.shared.stores.artifacts import RedisArtifactStore
from ekiden.shared.stores.catalogs import RedisCatalogStore
from ekiden.workers.calls.approvals import Approvals
from ekiden.workers.calls.asking import Asking
from ekiden.workers.calls.base import Decide
from ekiden.workers.calls.delegations import DelegationCalls
from ekiden.workers.calls.endings import CompletionCalls, TransferCalls
from ekiden.workers.calls.pipeline import Calls
from ekiden.workers.calls.questions import QuestionCalls
from ekiden.workers.calls.tools import ToolCalls
from ekiden.workers.completion import CONTROLS, Completion
from ekiden.workers.deciding import Deciding
from ekiden.workers.delegation import Delegations
from ekiden.workers.ending import Ending
from ekiden.workers.executor import Executor, Offer
from ekiden.workers.folder_policies import FolderPolicies
from ekiden.workers.handoff_targets import targets_of
from ekiden.workers.handoffs import Transfers
from ekiden.workers.lacking import Lacking, Pools, lacking_folder, lacking_tools, nobody_else, why_not_here
from ekiden.workers.loops.judge import Judge
from ekiden.workers.loops.watch import Loops
from ekiden.workers.mcp.agents import AgentServers
from ekiden.workers.mcp.toolbox import Offered
from ekiden.workers.model_caller import ModelCaller
from ekiden.workers.outputs import JobOutputs
from ekiden.workers.own_names import OwnNames
from ekiden.workers.sandbox.sandbox import OFF, Sandbox
from ekiden.workers.tools.base import Answered, StateView, Tool, ToolContext
from ekiden.workers.tools.builtin.kept import read_output
from ekiden.workers.tools.protected_paths import Protected
from ekiden.workers.tools.registry import Registry
from ekiden.workers.tools.running import Running, Shown
from ekiden.workers.tools.tool_runner import ToolRunner
from ekiden.workers.untrusted import Untrusted

__all__ = ["AgentHandler", "Definitions"]

_NOWHERE = Path("/nonexistent")
"""The folder of a leg without one: no tool that would look at it is offered."""

log = structlog.get_logger(__name__)


class Definitions:
    """Agent definitions by digest, read once: a digest never changes its meaning."""

    def __init__(self, store: RedisCatalogStore) -> None:
        self._store = store
        self._manifests: dict[str, dict[str, str]] = {}
        self._definitions: dict[str, AgentDefinition] = {}

    async def manifest(self, catalog: str) -> dict[str, str]:
        """Return a catalog's map name -> digest."""
        if catalog not in self._manifests:
            self._manifests[catalog] = await self._store.manifest(catalog)
        return self._manifests[catalog]

    async def definition(self, catalog: str, name: str) -> AgentDefinition:
        """Return the definition that ``catalog`` has of ``name``."""
        digest = (await self.manifest(catalog))[name]
        if digest not in self._definitions:
            self._definitions[digest] = AgentDefinition.from_json(await self._store.definition(catalog, digest))
        return self._definitions[digest]


class AgentHandler:
    """Runs agent legs in one worker process."""

    def __init__(
        self,
        definitions: Definitions,
        registry: Registry,
        tool_runner: ToolRunner,
        models: Models,
        prices: Prices,
        *,
        workspace_root: Path | None,
        after_untrusted: AfterUntrusted = "allow",
        env: Mapping[str, str],
        protected: Protected | None = None,
        policy: Policy | None = None,
        sandbox: Sandbox = OFF,
        knows_people: bool = True,
        pools: Pools = nobody_else,
        servers: AgentServers | None = None,
        artifacts: RedisArtifactStore | None = None,
        private_hosts: Iterable[str] = (),
        loops_off: Collection[LoopKind] = (),
    ) -> None:
        """Put it together.

        Args:
            definitions: Of the agents.
            registry: The tools of this worker.
            tool_runner: Runs them.
            models: Which there are.
            prices: What they cost.
            workspace_root: Where file tools may work; None: nowhere.
            after_untrusted: What becomes of tools once a job has read text that nobody vouches for.
            env: What programs of tools get.
            protected: What file tools may not change.
            policy: The operator's.
            knows_people: See ``Approvals``.
            sandbox: What confines programs of tools.
            pools: Tells which there are, and so what other workers have.
            servers: The MCP servers of this worker.
            artifacts: Where long results and files of tools are kept.
            private_hosts: Addresses of private networks that tools may ask all the same.
            loops_off: Kinds of loops that are not looked for.
        """
        self._definitions = definitions
        self._registry = registry
        self._tools_by_digest: dict[str, tuple[Tool, ...]] = {}
        """Of what each definition permits; see ``_own_tools``."""
        self._tool_runner = tool_runner
        self._models = models
        self._prices = prices
        self._after_untrusted = after_untrusted
        self._protected = protected or Protected()
        self._policies = FolderPolicies(policy or Policy())
        self._sandbox = sandbox
        self._knows_people = knows_people
        self._root = workspace_root.resolve() if workspace_root else None
        self._env = env
        self._pools = pools
        self._servers = servers
        self._artifacts = artifacts
        self._private_hosts = frozenset(private_hosts)
        self._loops_off = frozenset(loops_off)

    async def run(self, leg: Leg) -> Outcome:
        """Run the leg here, or give it back: this worker lacks what the agent needs, or the model is away."""
        try:
            return await self._run(leg)
        except ModelUnavailable as error:  # to wait holds no worker, and is no failed attempt
            return Suspended("retry", max(backoff_s(leg, "retry"), error.retry_after_s or 0.0), str(error))
        except UnreadableDefinition as error:  # another worker is of the version that wrote it
            log.error("definition_unreadable", error=str(error))
            return Suspended("catalog", backoff_s(leg, "catalog"), str(error))

    async def _run(self, leg: Leg) -> Outcome:
        definition = await self._definitions.definition(leg.catalog, leg.agent)
        without, lacking = await self._lacking(definition, leg)
        if lacking is not None:
            log.warning("tools_missing", lacking=lacking.what)
            return lacking.outcome(leg)
        await self._tell(definition, leg, without)
        executor = await self._executor(definition, leg)
        return await executor.run()

    def _missing(self, definition: AgentDefinition, leg: Leg) -> list[str]:
        """Return the entries of the agent's file that no tool of this worker answers to."""
        permits = _permits(definition, leg, self._registry)
        own = (*CONTROLS, read_output.name)
        lacking = [name for name in self._registry.missing(_named(definition)) if permits(name) and name not in own]
        if self._servers is None:
            return lacking
        tools = [name for name in lacking if not self._is_of_server(name)]
        return [*tools, *map(announced_as, self._servers.unknown(definition))]

    def _is_of_server(self, entry: str) -> bool:
        """Tell whether the toolbox of servers tells about an entry that is missing."""
        return self._servers is not None and entry.startswith("mcp.")

    async def _tell(self, definition: AgentDefinition, leg: Leg, missing: Collection[str]) -> None:
        """Record, once in a leg, what the agent goes without, and what its commands reach that they should not."""
        names = [repr(name) for name in missing if not self._is_of_server(name)]
        lost = [f"no worker has {', '.join(names)}, the agent works without"] if names else []
        narrowed = definition.tools.narrowed if definition.tools else ()
        await _notice(leg, *(f"{leg.agent}: {why}" for why in (*narrowed, *lost)), *self._openings(definition, leg))

    def _openings(self, definition: AgentDefinition, leg: Leg) -> list[str]:
        """Say what commands reach here that they should not."""
        if not any(tool.starts_commands for tool in self._own_tools(definition, leg)):
            return []
        opened = self._sandbox.openings(network=bool(_network(definition, leg)))
        return [f"commands are not fully confined on this worker: {opened}"] if opened else []

    async def _lacking(self, definition: AgentDefinition, leg: Leg) -> tuple[Collection[str], Lacking | None]:
        """Return the tools that the agent goes without, and what this worker lacks that is worth waiting for."""
        without: Collection[str] = ()
        if missing := self._missing(definition, leg):
            without, lacking = lacking_tools(missing, leg, await self._pools(), has_root=self._root is not None)
            if lacking is not None:
                return without, lacking
        own = self._own_tools(definition, leg)
        if not (leg.cwd and self._root and any(tool.needs_workspace for tool in own)):
            return without, None
        if not (why := why_not_here(leg, self._root)):
            return without, None
        return without, lacking_folder(leg, why, await self._pools())

    def _own_tools(self, agent: AgentDefinition, leg: Leg) -> tuple[Tool, ...]:
        """Return the tools of this worker that the agent gets: the same ones in each leg that nobody else bounds."""
        known = {} if leg.request.bounds else self._tools_by_digest
        if agent.digest not in known:
            known[agent.digest] = self._registry.offered_to(_permits(agent, leg, self._registry))
        return known[agent.digest]

    async def _all(self, leg: Leg, names: Iterable[str]) -> dict[str, AgentDefinition]:
        """Return the definitions of those of ``names`` that the job's catalog has."""
        known = await self._definitions.manifest(leg.catalog)
        return {name: await self._definitions.definition(leg.catalog, name) for name in names if name in known}

    async def _executor(self, agent: AgentDefinition, leg: Leg) -> Executor:
        """Put together what runs the leg: what its model is asked and offered, and what becomes of its calls."""
        manifest = await self._definitions.manifest(leg.catalog)
        targets = await self._all(leg, [rule.to for rule in targets_of(agent, leg)])
        subagents = await self._all(leg, [one.agent for one in agent.subagents])
        choice = self._models.choose(agent.model)
        untrusted = Untrusted(leg, self._cwd(leg), denies=self._denies_after_untrusted(agent, leg))
        served = await self._servers.offered_to(agent, leg.request.bounds) if self._servers else Offered()
        await _notice(leg, *(f"{leg.agent}: {problem}" for problem in served.problems))
        tools = {tool.name: tool for tool in (*self._own_tools(agent, leg), *served.tools)}
        leg.hooks.agent_started(agent, choice.name, list(tools))
        outputs = JobOutputs(leg, self._artifacts)
        delegations = Delegations(agent, leg, subagents, untrusted)
        completion = Completion(agent, leg.context)
        transfers = Transfers(agent, leg, manifest, targets)
        approvals = Approvals(leg, manifest[leg.agent], Asking(agent, tools), knows_people=self._knows_people)

        bounded = agents_policy(await self._policies.of(self._cwd(leg)), agent, leg.request.bounds)
        decide = Deciding(leg, bounded, tools, untrusted, self._cwd(leg), list(manifest))

        def offer() -> Offer:
            if leg.conversation.last_turn is not None:
                return Offer((*completion.specs, *transfers.specs), transfers.instruction)
            kept = [read_output.spec] if outputs.has_any else []
            specs = sorted([*(tool.spec for tool in tools.values()), *kept], key=lambda spec: spec.name)
            told = "\n\n".join(filter(None, (transfers.instruction, _gone(served.problems))))
            return Offer((*specs, *delegations.specs, *completion.specs, *transfers.specs), told)

        def offered() -> list[str]:
            return [spec.name for spec in offer().tools]

        calls = Calls(
            leg,
            approvals,
            QuestionCalls(leg, decide, approvals, tools),
            self._tool_calls(leg, decide, approvals, tools, untrusted, outputs, offered, network=_network(agent, leg)),
            DelegationCalls(leg, decide, approvals, delegations, agent.delegation, untrusted),
            CompletionCalls(leg, decide, approvals, completion),
            TransferCalls(leg, decide, approvals, transfers, offered),
        )
        model = ModelCaller(HookedModel(OwnNames(self._models.model(choice)), leg.hooks), choice, self._prices)
        ending = Ending(leg, agent, completion, transfers)
        return Executor(
            leg, agent, model, offer, calls, Loops(leg, agent, ending, Judge(leg, model), self._loops_off), ending
        )

    def _tool_calls(
        self,
        leg: Leg,
        decide: Decide,
        approvals: Approvals,
        tools: Mapping[str, Tool],
        untrusted: Untrusted,
        outputs: JobOutputs,
        offered: Callable[[], Sequence[str]],
        *,
        network: bool | None,
    ) -> ToolCalls:
        tools = {**tools, read_output.name: read_output}  # of what its own calls gave: no agent needs a right for that
        tool_runner = self._tool_runner.only(tools.values(), offered)
        root, cwd = self._root or _NOWHERE, self._cwd(leg)

        def context(call: ToolCall, state: StateView, answered: Answered | None) -> ToolContext:
            return ToolContext(
                leg.job,
                leg.number,
                leg.agent,
                call.id,
                cwd=cwd,
                root=root,
                state=state,
                env=self._env,
                lifetime=leg.lifetime,
                protected=self._protected,
                outputs=outputs,
                private_hosts=self._private_hosts,
                running=Running(_show(leg, call)),
                sandbox=self._sandbox,
                network=network,
                answered=answered,
            )

        return ToolCalls(leg, decide, approvals, tools, tool_runner, untrusted, context)

    def _cwd(self, leg: Leg) -> Path:
        return Path(leg.cwd) if leg.cwd else self._root or _NOWHERE

    def _denies_after_untrusted(self, definition: AgentDefinition, leg: Leg) -> bool:
        """The strictest word counts: the settings', the agent's, and that of each agent above a delegated job."""
        rules = [definition.tools, *leg.request.bounds]
        return self._after_untrusted == "deny" or any(one and one.after_untrusted == "deny" for one in rules)


async def _notice(leg: Leg, *texts: str) -> None:
    """Record, once in a job, what its user should know."""
    if not texts:
        return
    told = {entry.record.text for entry in leg.entries if isinstance(entry.record, Noticed)}
    if new := [Noticed(leg=leg.number, text=text) for text in texts if text not in told]:
        await leg.record(*new)


def _network(definition: AgentDefinition, leg: Leg) -> bool | None:
    """Return whether the agent's commands may reach a network: nobody who delegated the job has less."""
    said = [rules.network for rules in (definition.rules, *leg.request.bounds)]
    return False if False in said else None if None in said else True


def _named(definition: AgentDefinition) -> Sequence[str]:
    """Return the tools that the file names; where it names none, what this worker has is enough."""
    return (definition.tools.allow if definition.tools else None) or ()


def _show(leg: Leg, call: ToolCall) -> Callable[[Shown], None] | None:
    """Return what takes what a call shows while it runs to those who follow the job."""
    if (live := leg.live) is None:
        return None

    def show(shown: Shown) -> None:
        if shown.text:
            live.show(call.id, shown.text)
        if shown.fraction is not None:
            live.show(call.id, shown.about, shown.fraction)

    return show


def _gone(problems: Sequence[str]) -> str:
    """Tell the model which tools it might look for in vain."""
    return "Tools that you do not have now:\n" + "\n".join(f"- {one}" for one in problems) if problems else ""


def _permits(definition: AgentDefinition, leg: Leg, registry: Registry) -> Callable[[str], bool]:
    """Return whether the agent may use a tool: by its own file, and by those of the agents that delegated the job."""

    def permits(name: str) -> bool:
        reads = _only_reads(registry.get(name))
        own = definition.permits(name, only_reads=reads)
        return own and all(rules.permits(name, only_reads=reads) for rules in leg.request.bounds)

    return permits


def _only_reads(tool: Tool | None) -> bool:
    return tool is not None and tool.read_only and not tool.untrusted
