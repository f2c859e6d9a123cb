"""The handler of an agent leg: load the agent, equip it, let the executor run it."""

from collections.abc import Awaitable, Collection, Sequence
from dataclasses import dataclass
from functools import partial

import structlog

from ekiden.shared.definitions.model import AfterUntrusted, AgentDefinition
from ekiden.shared.errors import HookFailed, HookStopped, ModelUnavailable, OverLimit, UnreadableDefinition
from ekiden.shared.hooks.asking import NOBODY, HookAsking
from ekiden.shared.loop_kinds import LoopKind
from ekiden.shared.outcomes import Failed, Outcome, Suspended
from ekiden.shared.policy.engine import Policy
from ekiden.shared.policy.policies import agents_policy
from ekiden.shared.records import Noticed
from ekiden.shared.relay.leg import Leg, backoff_s
from ekiden.workers.approvals import Approvals
from ekiden.workers.asking import Asking
from ekiden.workers.calls.base import Gate
from ekiden.workers.calls.delegations import DelegationCalls
from ekiden.workers.calls.endings import CompletionCalls, TransferCalls
from ekiden.workers.calls.pipeline import Calls
from ekiden.workers.calls.questions import QuestionCalls
from ekiden.workers.calls.tools import ToolCalls
from ekiden.workers.completion import Completion
from ekiden.workers.compression import Compression, CompressionRules
from ekiden.workers.deciding import Deciding
from ekiden.workers.definitions import Definitions
from ekiden.workers.delegation import Delegations
from ekiden.workers.ending import Ending
from ekiden.workers.executor import Executor
from ekiden.workers.folder_policies import FolderPolicies
from ekiden.workers.handoff_targets import targets_of
from ekiden.workers.handoffs import Transfers
from ekiden.workers.judgements import Judgements
from ekiden.workers.leg_hooks import LegHooks, hooks_of
from ekiden.workers.limits import Limits
from ekiden.workers.loops.judge import Judge
from ekiden.workers.loops.watch import Loops
from ekiden.workers.memory import Remember, nothing, with_own_state
from ekiden.workers.model_caller import ModelCaller
from ekiden.workers.model_callers import ModelCallers
from ekiden.workers.node_calls import calling
from ekiden.workers.offers import Offers
from ekiden.workers.outputs import JobOutputs
from ekiden.workers.own_tools import OwnTools
from ekiden.workers.places import place_of
from ekiden.workers.processors import Processors
from ekiden.workers.rail_judge import JudgeRules, RailJudge
from ekiden.workers.rails import Around, Rails
from ekiden.workers.repairs import Repairs
from ekiden.workers.tool_environment import ToolEnvironment
from ekiden.workers.tools.builtin.kept import read_output
from ekiden.workers.tools.tool_runner import ToolRunner
from ekiden.workers.untrusted import Untrusted
from ekiden.workers.validators import Validators

__all__ = ["AgentHandler", "Means", "unbroken"]

LIMIT_LEFT_S = 60.0
"""After what time a leg that waits for a limit looks by itself whether that is still there."""
log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Means:
    """What legs work with: real, or recorded."""

    tools: OwnTools
    """Those of this worker."""
    tool_runner: ToolRunner
    models: ModelCallers
    environment: ToolEnvironment
    """What tools work with."""
    hooks: HookAsking = NOBODY
    """Who may interfere with any leg."""
    remember: Remember = nothing
    """Gives agents their notes of earlier jobs."""
    knows_people: bool = True
    """See ``Approvals``."""


class AgentHandler:
    """Runs agent legs in one worker process."""

    def __init__(
        self,
        definitions: Definitions,
        means: Means,
        *,
        policy: Policy | None = None,
        after_untrusted: AfterUntrusted = "allow",
        loops_off: Collection[LoopKind] = (),
        compression: CompressionRules = CompressionRules(),  # noqa: B008  # frozen
        processors: Processors | None = None,
        validators: Validators | None = None,
        judging: JudgeRules = JudgeRules(),  # noqa: B008  # frozen
    ) -> None:
        """Put it together.

        Args:
            definitions: Of the agents.
            means: What legs work with.
            policy: The operator's.
            after_untrusted: What becomes of tools once a job has read text that nobody vouches for.
            loops_off: Kinds of loops that are not looked for.
            compression: When conversations are compressed whose agents' files do not say it.
            processors: Make what callers read of structured results; None: ours alone.
            validators: Those of plug-ins, which guardrails ask.
            judging: By whom guardrails are judged that say a sentence.
        """
        self._definitions = definitions
        self._means = means
        self._policies = FolderPolicies(policy or Policy())
        self._after_untrusted = after_untrusted
        self._loops_off = frozenset(loops_off)
        self._compression_rules = compression
        self._processors = processors or Processors()
        self._validators = validators or Validators()
        self._judging = judging

    async def run(self, leg: Leg) -> Outcome:
        """Run the leg here, or give it back: this worker lacks what the agent needs, or the model is away."""
        return await unbroken(leg, self._run(leg))

    def judgements(self, leg: Leg, agent: AgentDefinition) -> Judgements:
        """Return who asks the guardrails of an agent that does not run in the leg itself: the agent of a graph."""
        model = self._means.models.caller(agent.models, leg, agent.fallback_on)
        return self._judgements(leg, model, Limits(leg, agent))

    def hooks(self, leg: Leg, *agents: AgentDefinition) -> LegHooks:
        """Return who may interfere with a leg: those with any one, and those of the files of ``agents``."""
        return hooks_of(agents, leg, self._means.hooks, self._means.environment.env)

    async def _run(self, leg: Leg) -> Outcome:
        definition = await self._definitions.definition(leg.catalog, leg.agent)
        if leg.context.does_part:
            definition = calling(definition, leg.inputs)
        without, lacking = await self._means.tools.lacking(definition, leg)
        if lacking is not None:
            log.warning("tools_missing", lacking=lacking.what)
            return lacking.outcome(leg)
        await self._tell(definition, leg, without)
        executor = await self._executor(definition, leg, self.hooks(leg, definition))
        return await executor.run()

    async def _tell(self, definition: AgentDefinition, leg: Leg, missing: Collection[str]) -> None:
        """Record, once in a leg, what the agent goes without, and what its commands reach that they should not."""
        names = ", ".join(map(repr, missing))
        lost = [f"no worker has {names}, the agent works without"] if names else []
        narrowed = definition.tools.narrowed if definition.tools else ()
        await _notice(leg, *(f"{leg.agent}: {why}" for why in (*narrowed, *lost)), *self._openings(definition, leg))

    def _openings(self, definition: AgentDefinition, leg: Leg) -> list[str]:
        """Say what commands reach here that they should not."""
        if not any(tool.starts_commands for tool in self._means.tools.offered_to(definition, leg)):
            return []
        opened = self._means.environment.openings(definition, leg)
        return [f"commands are not fully confined on this worker: {opened}"] if opened else []

    async def _all(self, leg: Leg, names: Sequence[str]) -> dict[str, AgentDefinition]:
        """Return the definitions of those of ``names`` that the job's catalog has."""
        known = await self._definitions.manifest(leg.catalog)
        return {name: await self._definitions.definition(leg.catalog, name) for name in names if name in known}

    async def _executor(self, agent: AgentDefinition, leg: Leg, hooks: LegHooks) -> Executor:
        """Put together what runs the leg: what its model is asked and offered, and what becomes of its calls."""
        manifest = await self._definitions.manifest(leg.catalog)
        targets = await self._all(leg, [rule.to for rule in targets_of(agent, leg)])
        subagents = await self._all(leg, [one.agent for one in agent.subagents])
        model = self._means.models.caller(agent.models, leg, agent.fallback_on)
        cwd = self._means.environment.cwd(leg)
        untrusted = Untrusted(leg, cwd, denies=self._denies_after_untrusted(agent, leg))
        served = await self._means.tools.of_servers(agent, leg)
        await _notice(leg, *(f"{leg.agent}: {problem}" for problem in served.problems))
        tools = with_own_state(agent, leg, (*self._means.tools.offered_to(agent, leg), *served.tools))
        leg.hooks.agent_started(agent, model.name, list(tools))
        outputs, limits = JobOutputs(leg, self._means.environment.artifacts), Limits(leg, agent)
        approvals = Approvals(leg, manifest[leg.agent], Asking(agent, tools), knows_people=self._means.knows_people)
        rails = await self._rails(leg, agent, self._judgements(leg, model, limits), approvals)
        completion, delegations = Completion(agent, leg.context), Delegations(agent, leg, subagents, untrusted)
        transfers = Transfers(agent, leg, manifest, targets)

        bounded = agents_policy(await self._policies.of(cwd), agent, leg.request.bounds)
        decide = Deciding(leg, bounded, tools, untrusted, cwd, list(manifest))

        offers = Offers(leg, tools, served.problems, outputs, completion, delegations, transfers)
        readable = {**tools, read_output.name: read_output}  # to read one's own results needs no right
        tool_runner = self._means.tool_runner.only(readable.values(), offers.names)
        notes = await self._means.remember(agent, leg, untrusted)
        contexts = self._means.environment.contexts(agent, leg, outputs, notes, rails.guard_results_of)
        gate = Gate(leg, decide, approvals, hooks, rails)
        calls = Calls(
            gate,
            QuestionCalls(gate, tools),
            ToolCalls(gate, readable, tool_runner, untrusted, contexts),
            DelegationCalls(gate, delegations, agent.delegation, untrusted),
            CompletionCalls(gate, completion),
            TransferCalls(gate, transfers, offers.names),
        )
        ending = Ending(leg, agent, limits, completion, transfers, self._processors, hooks, rails)
        place = await place_of(agent, leg, self._means.environment.sandbox, cwd, tools)
        compression = self._compression(agent, leg, model, hooks)
        loops = Loops(leg, agent, ending, Judge(leg, model), self._loops_off)
        return Executor(leg, agent, model, offers.now, calls, loops, limits, ending, hooks, rails, compression, place)

    def _judgements(self, leg: Leg, model: ModelCaller, limits: Limits) -> Judgements:
        by = model if self._judging.model is None else self._means.models.caller((self._judging.model,), leg)
        judge = RailJudge(leg, by, self._judging.threshold)
        return Judgements(leg, self._validators, Repairs(leg, model, limits), judge)

    async def _rails(self, leg: Leg, agent: AgentDefinition, judgements: Judgements, approvals: Approvals) -> Rails:
        graphs = await self._all(leg, leg.context.all_graphs)
        around = [graphs[at.graph] for at in leg.context.graphs if at.graph in graphs]
        within = [Around(graph, partial(self.judgements, leg, graph)) for graph in graphs.values()]
        return Rails(leg, agent, judgements, approvals, around, within)

    def _compression(self, agent: AgentDefinition, leg: Leg, model: ModelCaller, hooks: LegHooks) -> Compression:
        rules = self._compression_rules.with_those_of(agent)
        writer = model if rules.model is None else self._means.models.caller((rules.model,), leg)
        return Compression(leg, rules, model, writer, hooks)

    def _denies_after_untrusted(self, definition: AgentDefinition, leg: Leg) -> bool:
        """The strictest word counts: the settings', the agent's, and that of each agent above a delegated job."""
        rules = [definition.tools, *leg.request.bounds]
        return self._after_untrusted == "deny" or any(one and one.after_untrusted == "deny" for one in rules)


async def unbroken(leg: Leg, run: Awaitable[Outcome]) -> Outcome:
    """Return the outcome of a leg that runs; where it is broken off, how it pauses or ends by that."""
    try:
        return await run
    except OverLimit as error:  # woken when its turn has come; the timer is for limits that nobody keeps any more
        return Suspended("limit", max(LIMIT_LEFT_S, 2 * error.wait_s), str(error))
    except ModelUnavailable as error:  # to wait holds no worker, and is no failed attempt
        return Suspended("retry", max(backoff_s(leg, "retry"), error.retry_after_s or 0.0), str(error))
    except UnreadableDefinition as error:  # another worker is of the version that wrote it
        log.error("definition_unreadable", error=str(error))
        return Suspended("catalog", backoff_s(leg, "catalog"), str(error))
    except HookStopped as error:
        return Failed("DENIED", str(error))
    except HookFailed as error:
        return Failed("ERROR", str(error))


async def _notice(leg: Leg, *texts: str) -> None:
    """Record, once in a job, what its user should know."""
    if not texts:
        return
    told = {entry.record.text for entry in leg.entries if isinstance(entry.record, Noticed)}
    if new := [Noticed(leg=leg.number, text=text) for text in texts if text not in told]:
        await leg.record(*new)
