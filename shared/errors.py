"""Every error that Ekiden raises, in one tree.

Two questions place a class: who can act on it, and may the same call succeed later?

    EkidenError
     ├── UserError              whoever typed the command can mend it (exit code 2 unless noted)
     │    ├── InvalidRequest        empty prompt, folder outside the workspace, bad option
     │    ├── UnknownAgent          a name that no catalog entry has
     │    ├── UnknownJob            an id that does not exist, or no longer does
     │    ├── AmbiguousId           a prefix that several ids share
     │    ├── SessionBusy           another job of the session still runs, and the caller would not wait
     │    ├── AlreadyDecided        somebody has answered an approval before: says who and when
     │    ├── ApprovalGone          an approval that nobody can answer any more, or never could
     │    ├── NoCatalog             nobody has published agent definitions yet, or they are gone
     │    └── CatalogReplaced       somebody else has published meanwhile
     ├── DefinitionError        whoever wrote the agent file can mend it
     ├── ConfigurationError     whoever runs this process can mend it
     │    ├── WrongPool             a Celery pool that cannot run coroutines
     │    ├── UnreadableDefinition  an agent in the store that a newer version has written, or a catalog that is none
     │    └── MissingModel          a model name that no adapter here serves
     ├── ConditionFailed        a condition of an agent file cannot be told: it counts as false, with a warning
     ├── GraphFailed            a graph cannot go on: no edge holds, it goes round too often, a node has failed
     ├── TooCostly              a check has used up what one may cost: it counts as failed
     ├── ToolError              the model can mend it: its text is the tool's result
     │    └── OutcomeUnknown        it ran, and nobody knows what it did
     ├── CommandLost            a program ended with whoever watched over it: what it did is unknown
     ├── HandoffRefused         the model can mend it: names the code and the allowed targets
     ├── HookFailed             whoever wrote the hook can mend it: it is required, so its leg fails
     ├── HookStopped            a hook says that the job must end, and why
     ├── ModelError             a model call that failed for good
     │    ├── ModelAccessDenied     whoever runs this process can mend it: key, project, permission
     │    ├── UnknownModel          the provider has no model of this name
     │    ├── QuotaExhausted        a quota that does not come back within minutes
     │    ├── RequestRefused        the provider finds the request itself invalid
     │    ├── MalformedCall         the model's tool call cannot be read, not even when asked again
     │    ├── ExceedsLimit          the request is larger than what a limit of ours lets through in a minute
     │    ├── ModelUnavailable      (Transient) overload, rate limit, lost connection
     │    └── NotAsked              all leave the model alone for a while: CircuitOpen, QuotaStillExhausted
     ├── NotPermitted           the Redis user lacks the right: whoever runs the server can give it (exit code 7)
     │    └── NotAnApprover         the rule that asks lets others answer, or nobody could tell who answers
     ├── StoreUnavailable       (Transient) no answer from the server
     │    ├── StoreNotReady         (Transient) it answers, but cannot serve: loading, read-only, full
     │    │    └── IndexOverwritten     another program has written over a key of ours
     │    └── NotTaken              (Transient) no dispatcher has answered a request in the intake
     ├── NotConfirmed           (Transient) it is done, but the replicas that were asked for do not have it yet
     ├── WentBack               the server lost what it had: read again from what it still has
     ├── CatalogNotReady        (Transient) this dispatcher is still reading or learning the catalog in force
     ├── Forged                 what is in the store bears no signature of this deployment, or one for another place
     ├── LostLease              another worker owns the leg now: stop, write nothing
     └── JobCancelled           somebody cancelled the job: stop, commit Cancelled

Messages name the thing with ``!r``, say what was expected and what to do; never a secret, never user text.
"""

import math
from typing import ClassVar, Final, Literal

__all__ = [
    "AlreadyDecided",
    "AmbiguousId",
    "ApprovalGone",
    "CatalogNotReady",
    "CatalogReplaced",
    "CircuitOpen",
    "CommandLost",
    "ConditionFailed",
    "ConfigurationError",
    "DefinitionError",
    "EkidenError",
    "ExceedsLimit",
    "Forged",
    "GraphFailed",
    "HandoffRefused",
    "HookFailed",
    "HookStopped",
    "IndexOverwritten",
    "InvalidRequest",
    "JobCancelled",
    "LostLease",
    "MalformedCall",
    "MissingModel",
    "ModelAccessDenied",
    "ModelError",
    "ModelUnavailable",
    "NoCatalog",
    "NotAnApprover",
    "NotAsked",
    "NotConfirmed",
    "NotPermitted",
    "NotTaken",
    "QuotaExhausted",
    "QuotaStillExhausted",
    "RequestRefused",
    "SessionBusy",
    "StopFlag",
    "StoreNotReady",
    "StoreUnavailable",
    "TooCostly",
    "ToolError",
    "Transient",
    "UnknownAgent",
    "UnknownJob",
    "UnknownModel",
    "UnreadableDefinition",
    "UnreadableJournal",
    "UserError",
    "WentBack",
    "WrongPool",
]

_LONGEST_WAIT_S: Final = 3_600.0
"""What a provider may make us wait at once, whatever it says."""


StopFlag = Literal["user", "deadline", "parent"]
"""Who stops a running job from outside; ``parent``: the job that delegated it needs it no more."""


class EkidenError(Exception):
    """The root of the tree; ``exit_code`` is what the command line ends with."""

    exit_code: ClassVar[int] = 1


class Transient:
    """Mixin: the same call may succeed later."""


class UserError(EkidenError):
    """Whoever typed the command can mend it."""

    exit_code = 2


class InvalidRequest(UserError):
    """The request itself cannot be accepted."""


class UnknownAgent(UserError):
    """No definition in the catalog has this name."""


class UnknownJob(UserError):
    """No job or session has this id (any more)."""

    exit_code = 4


class AmbiguousId(UserError):
    """Several ids begin with these characters."""


class SessionBusy(UserError):
    """The session has an unfinished job, and the caller would not wait."""

    exit_code = 1


class AlreadyDecided(UserError):
    """Somebody has answered an approval before: the first answer counts."""

    exit_code = 9

    def __init__(self, message: str, by: str, at_ms: int) -> None:
        """Keep who it was, and when, in ms since 1970."""
        super().__init__(message)
        self.by = by
        self.at_ms = at_ms


class ApprovalGone(UserError):
    """There is no such approval, or it waits no more: it has expired, or its job has ended."""

    exit_code = 4


class NoCatalog(UserError):
    """No catalog has been published to this server, or it has expired."""


class CatalogReplaced(UserError):
    """Another catalog is in force than the one that was to be replaced: nothing was published."""


class DefinitionError(EkidenError):
    """An agent file cannot be used; names the file, the line and the remedy."""

    exit_code = 2


class ConfigurationError(EkidenError):
    """This process is set up in a way that cannot work."""

    exit_code = 2


class WrongPool(ConfigurationError):
    """The Celery worker was started with a pool that cannot run coroutines."""


class UnreadableDefinition(ConfigurationError):
    """An agent definition in the store is none that this version of Ekiden can read, or the catalog itself is none."""


class MissingModel(ConfigurationError):
    """No adapter in this process serves the model."""


class ConditionFailed(EkidenError):
    """A condition is neither true nor false of what it was asked about; whoever asked takes it as false."""


class GraphFailed(EkidenError):
    """A graph cannot go on: its job fails with this text."""

    def __init__(self, message: str, reason: Literal["ERROR", "GUARDRAIL", "DENIED"] = "ERROR") -> None:
        """``reason``: see ``outcomes.TerminationReason``."""
        super().__init__(message)
        self.reason = reason


class TooCostly(EkidenError):
    """A check of something that a file or a model wrote has used up what one check may cost."""


class ToolError(EkidenError):
    """A tool refuses or fails; the text is what the model reads."""


class OutcomeUnknown(ToolError):
    """A tool ran and was lost, or given up: what it has done, nobody knows."""


class CommandLost(EkidenError):
    """A program was ended because of what it depended on, not by whoever started it; what it has done is unknown."""


class HandoffRefused(EkidenError):
    """A transfer that is not carried out; the text is what the model reads."""

    def __init__(self, code: str, message: str) -> None:
        """Keep the machine-readable ``code`` (``CIRCULAR_HANDOFF``, ...) beside the text."""
        super().__init__(message)
        self.code = code


class HookFailed(EkidenError):
    """A hook that is required could not say anything."""


class HookStopped(EkidenError):
    """A hook ends the job; the text is for the user."""


class ModelError(EkidenError):
    """A model call failed for good."""


class ModelAccessDenied(ModelError):
    """The provider refuses the key, the project or the account."""

    exit_code = 2


class UnknownModel(ModelError):
    """The provider has no model of this name."""

    exit_code = 2


class QuotaExhausted(ModelError):
    """The quota is used up for longer than anybody would wait."""


class RequestRefused(ModelError):
    """The provider finds the request itself invalid; the same request never succeeds."""


class MalformedCall(ModelError):
    """The model's tool call cannot be read, not even after it was asked to correct itself."""


class ExceedsLimit(ModelError):
    """The request is larger than what a limit of ours lets through in any minute."""


class ModelUnavailable(ModelError, Transient):
    """The model may answer later."""

    def __init__(self, message: str, retry_after_s: float | None = None, *, is_rate_limit: bool = False) -> None:
        """Keep what the provider said about when to come back (seconds; None: it said nothing).

        ``is_rate_limit``: whether it is asked too often.
        """
        super().__init__(message)
        self.is_rate_limit = is_rate_limit
        is_wait = retry_after_s is not None and math.isfinite(retry_after_s)
        self.retry_after_s = min(max(0.0, retry_after_s or 0.0), _LONGEST_WAIT_S) if is_wait else None


class OverLimit(EkidenError):
    """A limit that all workers keep together leaves no room for a call of a model: it waits, and holds no worker."""

    def __init__(self, message: str, wait_s: float, *, is_refusal: bool = False) -> None:
        """``wait_s``: for how long, about; ``is_refusal``: because the provider wants to be left alone so long."""
        super().__init__(message)
        self.wait_s = wait_s
        self.is_refusal = is_refusal


class NotAsked(ModelError):
    """The model was not even asked: it keeps failing, and all leave it alone for a while."""


class CircuitOpen(ModelUnavailable, NotAsked):
    """It is left alone since it gives no answer; nobody tries again before that."""


class QuotaStillExhausted(QuotaExhausted, NotAsked):
    """It is left alone since its quota is used up."""


class StoreUnavailable(EkidenError, Transient):
    """The Redis or Valkey server does not answer."""

    exit_code = 3


class StoreNotReady(StoreUnavailable):
    """The server answers but cannot serve: it is loading, read-only or out of memory."""


class IndexOverwritten(StoreNotReady):
    """Another program has written something else where the server holds an index of ours."""

    def __init__(self, key: str, kind: str, wanted: str) -> None:
        """Keep the key; ``kind`` is what is there, ``wanted`` what should be."""
        super().__init__(
            f"the Redis server holds a {kind} as {key!r}, where Ekiden keeps a {wanted}: another program wrote it. "
            f"A running pool puts it aside; where none runs: RENAME {key} ekiden:misplaced:{key}"
        )
        self.key = key


class NotTaken(StoreUnavailable):
    """A request is in the intake, and no dispatcher has answered it in time: it may still be served."""


class NotPermitted(EkidenError):
    """The server's rules do not let this Redis user do that."""

    exit_code = 7


class NotAnApprover(NotPermitted):
    """The rule that asks does not let this person answer."""


class NotConfirmed(EkidenError, Transient):
    """A change is done, but may be lost with the server: too few replicas have it yet."""

    exit_code = 6

    def __init__(self, message: str, job: str, request_id: str = "") -> None:
        """Keep the job, and what repeats its submission."""
        super().__init__(message)
        self.job = job
        self.request_id = request_id


class WentBack(EkidenError):
    """A journal has no longer what was read of it: the server was lost, and came back with less."""


class UnreadableJournal(EkidenError):
    """An entry of a journal is none of ours: another program writes to the server, or a later version did."""


class CatalogNotReady(EkidenError, Transient):
    """This process is still reading the catalog in force, or learning to route by it."""


class Forged(EkidenError):
    """Something in the store is not signed as this deployment signs it: it is not believed."""


class LostLease(EkidenError):
    """Another worker owns the leg, or the job has ended: stop and write nothing."""


class JobCancelled(EkidenError):
    """Somebody stopped the job while a leg of it runs: stop, and commit that end."""

    def __init__(self, message: str, flag: StopFlag = "user") -> None:
        """Keep who stopped it."""
        super().__init__(message)
        self.flag: StopFlag = flag
