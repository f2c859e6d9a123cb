"""What the tools of a worker work with: folders, variables, what confines programs, where results are kept."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.messages import ToolCall
from ekiden.shared.relay.leg import Leg
from ekiden.shared.stores.artifacts import RedisArtifactStore
from ekiden.workers.outputs import JobOutputs
from ekiden.workers.places import network_of
from ekiden.workers.sandbox.sandbox import OFF, Sandbox
from ekiden.workers.tools.base import Answered, StateView, ToolContext
from ekiden.workers.tools.protected_paths import Protected
from ekiden.workers.tools.running import Notes, Running, to_followers

__all__ = ["ToolEnvironment"]

_NOWHERE = Path("/nonexistent")
"""The folder of a leg without one: no tool that would look at it is offered."""


@dataclass(frozen=True)
class ToolEnvironment:
    """The same for all legs of a worker."""

    root: Path | None
    """Where file tools may work, a real path; None: nowhere."""
    env: Mapping[str, str]
    """What programs of tools get."""
    protected: Protected = field(default_factory=Protected)
    """What file tools may not change."""
    sandbox: Sandbox = OFF
    """What confines programs of tools."""
    artifacts: RedisArtifactStore | None = None
    """Where long results and files of tools are kept."""
    private_hosts: frozenset[str] = frozenset()
    """Addresses of private networks that tools may ask all the same."""

    def cwd(self, leg: Leg) -> Path:
        """Return the folder that a leg works in."""
        return Path(leg.cwd) if leg.cwd else self.root or _NOWHERE

    def openings(self, agent: AgentDefinition, leg: Leg) -> str:
        """Say what commands reach that they should not; empty: nothing."""
        return self.sandbox.openings(network=bool(network_of(agent, leg)))

    def contexts(
        self,
        agent: AgentDefinition,
        leg: Leg,
        outputs: JobOutputs,
        notes: Notes | None,
        hides: Callable[[str], bool],
    ) -> Callable[[ToolCall, StateView, Answered | None], ToolContext]:
        """Return what makes, of each call in a leg, what it works with.

        ``hides``: whether nobody may see the result of a tool grow.
        """
        cwd, network = self.cwd(leg), network_of(agent, leg)

        def context(call: ToolCall, state: StateView, answered: Answered | None) -> ToolContext:
            return ToolContext(
                leg.job,
                leg.number,
                leg.agent,
                call.id,
                cwd=cwd,
                root=self.root or _NOWHERE,
                state=state,
                env=self.env,
                lifetime=leg.lifetime,
                protected=self.protected,
                outputs=outputs,
                notes=notes,
                private_hosts=self.private_hosts,
                running=Running(None if hides(call.name) else to_followers(leg.live, call.id)),
                sandbox=self.sandbox,
                network=network,
                answered=answered,
                key=leg.context.graphs[-1].key if leg.context.does_part else "",
            )

        return context
