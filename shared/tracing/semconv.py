"""Every name that leaves the program in a span or a metric.

The GenAI names are those of the OpenTelemetry conventions for generative AI (v0.1.0, in development: the constants in
OpenTelemetry's own package are deprecated); ``messaging.*`` and ``error.type`` are those of the general conventions;
``ekiden.*`` is ours.
"""

from typing import Final

from ekiden.shared.llm import models

__all__ = [
    "AGENT",
    "AGENT_VERSION",
    "ARGUMENTS",
    "ATTEMPT",
    "CALL_ID",
    "CHAIN",
    "CHILD",
    "CODE",
    "CONTENT",
    "CONVERSATION",
    "COST",
    "DEPTH",
    "DESTINATION",
    "ERROR",
    "FALLBACK",
    "FINISH_REASONS",
    "FIRST_CHUNK",
    "FORKED_JOB",
    "FORKED_SEQ",
    "HANDOFF_ID",
    "INPUT_MESSAGES",
    "INPUT_TOKENS",
    "INSTRUCTIONS",
    "JOB",
    "LEG",
    "MESSAGE",
    "MESSAGE_CONVERSATION",
    "MESSAGING",
    "MESSAGING_NAME",
    "MESSAGING_TYPE",
    "NOTE",
    "OPERATION",
    "OTHER",
    "OUTCOME",
    "OUTPUT_MESSAGES",
    "OUTPUT_TOKENS",
    "PAUSE_S",
    "PROVIDER",
    "PURPOSE",
    "QUEUE_WAIT_MS",
    "REASON",
    "REQUEST_MODEL",
    "RESPONSE_MODEL",
    "RESULT",
    "ROUTE_CONFIDENCE",
    "ROUTE_DECIDED",
    "ROUTE_SCORE",
    "ROUTE_STAGE",
    "SCOPE",
    "STATUS",
    "STREAM",
    "SUSPEND_CAUSE",
    "TARGET",
    "TEMPERATURE",
    "TOKEN_TYPE",
    "TOOL",
    "TOOL_TYPE",
    "TRANSFER_MODE",
    "WORKER",
    "WORKFLOW",
    "operation_of",
    "provider_of",
]

SCOPE: Final = "ekiden"
OTHER: Final = "_OTHER"
"""Stands for a value that is none of the known ones, as a tool's name that a model made up: that is its words."""

# GenAI
OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
CONVERSATION: Final = "gen_ai.conversation.id"
WORKFLOW: Final = "gen_ai.workflow.name"
AGENT: Final = "gen_ai.agent.name"
AGENT_VERSION: Final = "gen_ai.agent.version"
REQUEST_MODEL: Final = "gen_ai.request.model"
RESPONSE_MODEL: Final = "gen_ai.response.model"
TEMPERATURE: Final = "gen_ai.request.temperature"
STREAM: Final = "gen_ai.request.stream"
FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
TOKEN_TYPE: Final = "gen_ai.token.type"  # noqa: S105  # no password
TOOL: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
CALL_ID: Final = "gen_ai.tool.call.id"
TRANSFER_MODE: Final = "gen_ai.transfer.mode"
TARGET: Final = "gen_ai.transfer.target.name"
INSTRUCTIONS: Final = "gen_ai.system_instructions"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
ARGUMENTS: Final = "gen_ai.tool.call.arguments"
RESULT: Final = "gen_ai.tool.call.result"

NOTE: Final = "ekiden.note"

CONTENT: Final = frozenset(
    {
        INSTRUCTIONS,
        INPUT_MESSAGES,
        OUTPUT_MESSAGES,
        ARGUMENTS,
        RESULT,
        NOTE,
        "gen_ai.tool.definitions",
        "exception.message",
        "exception.stacktrace",
    }
)
"""Attributes that hold what users, models or tools said: exported only when somebody asked for it."""

# messaging, errors
MESSAGING: Final = "messaging.system"
MESSAGING_TYPE: Final = "messaging.operation.type"
MESSAGING_NAME: Final = "messaging.operation.name"
DESTINATION: Final = "messaging.destination.name"
MESSAGE: Final = "messaging.message.id"
MESSAGE_CONVERSATION: Final = "messaging.message.conversation_id"
ERROR: Final = "error.type"

# ours
JOB: Final = "ekiden.job.id"
STATUS: Final = "ekiden.job.status"
REASON: Final = "ekiden.job.reason"
RECOVERED: Final = "ekiden.job.recovered"
CHAIN: Final = "ekiden.job.chain"
CHILD: Final = "ekiden.child.id"
COST: Final = "ekiden.cost_usd"
PURPOSE: Final = "ekiden.purpose"
FALLBACK: Final = "ekiden.fallback.to"
FORKED_JOB: Final = "ekiden.fork.job"
FORKED_SEQ: Final = "ekiden.fork.seq"
LEG: Final = "ekiden.leg"
ATTEMPT: Final = "ekiden.attempt"
WORKER: Final = "ekiden.worker"
OUTCOME: Final = "ekiden.outcome"
QUEUE_WAIT_MS: Final = "ekiden.queue.wait_ms"
SUSPEND_CAUSE: Final = "ekiden.suspended.cause"
PAUSE_S: Final = "ekiden.suspended.delay_s"
HANDOFF_ID: Final = "ekiden.handoff.id"
DEPTH: Final = "ekiden.handoff.depth"
GUARDRAIL: Final = "ekiden.guardrail.name"
GUARDED_AT: Final = "ekiden.guardrail.at"
GUARD_POLICY: Final = "ekiden.guardrail.policy"
GUARD_STATUS: Final = "ekiden.guardrail.status"
CODE: Final = "ekiden.handoff.refused"
GRAPH: Final = "ekiden.graph"
NODE: Final = "ekiden.graph.node"
ROUTE_DECIDED: Final = "ekiden.route.decided"
ROUTE_STAGE: Final = "ekiden.route.stage"
ROUTE_SCORE: Final = "ekiden.route.score"
ROUTE_CONFIDENCE: Final = "ekiden.route.confidence"


def provider_of(model: str) -> str:
    """Return the conventions' name of who serves ``model``, by the model's name."""
    _, provider = models.served(model)
    return OTHER if provider is None else provider.telemetry_name or provider.name


def operation_of(model: str) -> str:
    """Return the conventions' name of a call to ``model``."""
    _, provider = models.served(model)
    return "chat" if provider is None else provider.operation
