"""A story as JSON for scripts: the same facts as the waterfall, with times in ms since the epoch."""

from typing import Any

from ekiden.dispatcher.journal.story import Attempt, Leg, Step, Story
from ekiden.shared.ids import parent_of
from ekiden.shared.redaction import redact, redact_all

__all__ = ["story_json"]


def story_json(story: Story) -> dict[str, Any]:
    """Return the job, its legs, their attempts and steps, and its children just so. ``end_ms``: null while it goes on.

    Tokens and costs are the job's own, without its children's.
    """
    end = story.end
    return {
        "id": story.job,
        "parent": parent_of(story.job),
        "session": story.session,
        "status": end.status if end else "running",
        "reason": end.reason if end else None,
        "error": redact(end.error) if end and end.error else None,
        "start_ms": story.start_ms,
        "end_ms": story.now_ms if end else None,
        "forked": {"job": story.forked.job, "seq": story.forked.seq} if story.forked else None,
        "chain": story.chain,
        "input_tokens": story.usage.input_tokens,
        "output_tokens": story.usage.output_tokens,
        "cost_usd": story.cost_usd,
        "legs": [_leg(leg) for leg in story.legs],
        "children": [story_json(child) for child in story.children.values()],
    }


def _leg(leg: Leg) -> dict[str, Any]:
    return {
        "leg": leg.number,
        "agent": leg.agent,
        "node": leg.actor.node if leg.actor else "",
        "how": leg.how,
        "ready_ms": leg.ready_ms,
        "wait_ms": leg.wait_ms,
        "end_ms": leg.end_ms,
        "attempts": [_attempt(attempt) for attempt in leg.attempts],
    }


def _attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        "attempt": attempt.number,
        "worker": attempt.worker,
        "takeover": attempt.is_takeover,
        "ready_ms": attempt.ready_ms,
        "start_ms": attempt.start_ms,
        "end_ms": attempt.end_ms,
        "end": attempt.end,
        "steps": [_step(step) for step in attempt.steps],
    }


def _step(step: Step) -> dict[str, Any]:
    usage = step.usage
    tokens = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens, "cost_usd": step.cost_usd}
    return {
        "kind": step.kind,
        "name": redact(step.name),
        "detail": redact(step.detail),
        "start_ms": step.start_ms,
        "end_ms": step.end_ms,
        "error": step.is_error,
        "lost": step.is_lost,
        **(tokens if step.kind == "model" else {}),
        **({"child": step.child, "node": step.actor.node if step.actor else ""} if step.child else {}),
        **({"stages": [redact_all(stage.model_dump(mode="json")) for stage in step.stages]} if step.stages else {}),
    }
