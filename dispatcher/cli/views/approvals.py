"""What waits for people, as people and programs read it: lines of a list, a whole approval, the question itself."""

import json
from collections.abc import Mapping, Sequence
from difflib import unified_diff
from typing import Any

from ekiden.dispatcher.cli.terminal.output import fitted
from ekiden.dispatcher.cli.views.call_text import deciding
from ekiden.dispatcher.cli.views.jobs import local_time
from ekiden.shared.approvals import ANSWER_ID, ApprovalView
from ekiden.shared.records import ApprovalAsked
from ekiden.shared.redaction import redact
from ekiden.shared.terminal_text import visible

__all__ = [
    "COLUMNS",
    "approval_row",
    "decided_by",
    "headline",
    "how_to_answer",
    "is_cut",
    "question_lines",
    "row_of_approval",
    "rows_of_approval",
]

COLUMNS = ("ID", "ASKS", "RISK", "AGENT", "SINCE", "UNTIL", "WHAT", "STATUS")
_WHAT = 60
"""Columns of a list's line for what is asked."""
_MOST_LINES = 60
_MOST_CHARACTERS = 6_000
"""Of each part of a question. Who wants to see more asks for it."""


def row_of_approval(approval: ApprovalView) -> list[str]:
    """Return the cells of a list's line."""
    risk = approval.risk if approval.kind == "call" else ""
    times = [local_time(approval.asked_at_ms), local_time(approval.expires_at_ms) if approval.expires_at_ms else ""]
    return [approval.id, approval.tool, risk, approval.agent, *times, _what(approval), _status(approval)]


def approval_row(approval: ApprovalView) -> tuple[str, str]:
    """Return a row of what a job shows: what was asked, and how that stands."""
    is_open = approval.status == "waiting"
    how = f"waits for a person: {how_to_answer(approval)}" if is_open else decided_by(approval)
    return "approval", f"{approval.id} {approval.tool} {how}"


def rows_of_approval(approval: ApprovalView) -> list[tuple[str, object]]:
    """Return a whole approval: each field that says something, by name."""
    times = {"asked": approval.asked_at_ms, "expires": approval.expires_at_ms, "decided": approval.decided_at_ms}
    fields: dict[str, Any] = {"id": approval.id, "status": _status(approval), "job": approval.job, "leg": approval.leg}
    fields |= {"agent": approval.agent, "definition": approval.definition, "call": approval.call_id}
    fields |= {"digest": approval.digest, "rule": approval.rule}
    fields |= {name: local_time(at_ms) for name, at_ms in times.items() if at_ms}
    fields |= {"approvers": ", ".join(approval.approvers), "separate": "not by who asked" if approval.separate else ""}
    fields |= {"by": approval.by, "from": approval.origin, "why": approval.why, "answer": approval.answer or ""}
    fields["edited to"] = "" if approval.edited is None else _json(approval.edited)
    return [(name, value) for name, value in fields.items() if value not in ("", None)]


def headline(approval: ApprovalView, symbols: Mapping[str, str]) -> str:
    """Return the line that says what is asked: never the agent's own words alone."""
    if approval.kind == "question":
        return f"{symbols['question']} {approval.agent} asks: {approval.text}"
    if approval.call_id == ANSWER_ID:
        return f"{symbols['ask']} Agent wants to give an answer that does not pass (Risk: {approval.risk})"
    return f"{symbols['ask']} Agent wants to execute {approval.tool} (Risk: {approval.risk})"


def question_lines(approval: ApprovalView, symbols: Mapping[str, str], *, whole: bool = False) -> list[str]:
    """Return the question as people are asked it. ``whole``: however long it is.

    What the agent's file says of it stands above the line that says what is true, and never in its place.
    """
    cut = (lambda text: text) if whole else (lambda text: _cut(text, approval, symbols["dots"]))
    told = cut(approval.text) if approval.kind == "call" and approval.text else ""
    parts = [told, cut(headline(approval, symbols)), *_asked_by(approval)]
    if approval.kind == "call":
        parts += [cut(_json(approval.args)), cut(_changes(approval))]
    parts += [f"  {number}. {choice}" for number, choice in enumerate(approval.choices, 1)]
    return [part for part in parts if part]


def is_cut(approval: ApprovalView) -> bool:
    """Tell whether there is more of it than a question shows."""
    texts = [approval.text, _json(approval.args), _changes(approval)]
    return any(_shown(text) != text for text in texts)


def how_to_answer(approval: ApprovalView | ApprovalAsked) -> str:
    """Return the command that answers it."""
    if approval.kind == "question":
        return f"`ekiden approvals answer {approval.id} TEXT`"
    return f"`ekiden approvals approve {approval.id}` (or `deny`)"


def decided_by(approval: ApprovalView) -> str:
    """Say how it ended, by whom and when."""
    if approval.status in ("expired", "void"):
        what = "its time was over" if approval.status == "expired" else "its job has ended"
        return f"nobody can answer it any more: {what}"
    when = f" at {local_time(approval.decided_at_ms)}" if approval.decided_at_ms else ""
    why = f": {approval.why}" if approval.why else ""
    who = f"{approval.by or 'somebody'}{' (by their own word)' if approval.is_claimed else ''}"
    return f"{approval.status} by {who}{when}{why}"


def _asked_by(approval: ApprovalView) -> Sequence[str]:
    """Return who asks, in which job, why, and what to know of it."""
    why = f": {approval.reason}" if approval.reason else ""
    whose = f"   by {approval.agent}, job {approval.job}{why}" if approval.kind == "call" else f"   job {approval.job}"
    return [whose]


def _changes(approval: ApprovalView) -> str:
    """Return what the call would change: as its worker has found, or the diff that an edit's own arguments make."""
    args = approval.args
    old, new = args.get("old_string", args.get("old")), args.get("new_string", args.get("new"))
    if approval.preview or not (isinstance(old, str) and isinstance(new, str)):
        return approval.preview
    lines = [*unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=1_000)]
    return "\n".join(lines[3:])  # without names of files and the place, which nobody knows here


def _what(approval: ApprovalView) -> str:
    """Return in a few words what is asked. What looks like a secret is masked: a list may be a log that others read."""
    said = approval.text if approval.kind == "question" else deciding(approval.args)
    return fitted(redact(said[: 100 * _WHAT]), _WHAT)


def _status(approval: ApprovalView) -> str:
    return f"{approval.status} by {approval.by}" if approval.by else approval.status


def _json(args: Mapping[str, Any]) -> str:
    return json.dumps(dict(args), ensure_ascii=False, indent=2)


def _shown(text: str) -> str:
    return "\n".join(text[:_MOST_CHARACTERS].split("\n")[:_MOST_LINES])


def _cut(text: str, approval: ApprovalView, dots: str) -> str:
    shown = _shown(text)
    if shown == text:
        return text
    rest = len(visible(text)) - len(visible(shown))
    return f"{shown}\n{dots} {rest} characters more: `ekiden approvals show {approval.id}` shows all"
