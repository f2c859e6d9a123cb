"""What a job waits for, as a client's form; and a filled-in form, as an answer."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import mcp_types as types

from ekiden.shared.approvals import Answer, ApprovalView

__all__ = ["answer_of", "form_of", "told"]


def form_of(view: ApprovalView) -> types.ElicitRequest:
    """Return the form that asks a person for an approval, or for the answer to a question."""
    properties: dict[str, Any]
    if view.kind == "question":
        choices = {"enum": list(view.choices)} if view.choices else {}
        properties, required = {"answer": {"type": "string", "title": "Answer", **choices}}, ["answer"]
    else:
        properties = {
            "approve": {"type": "boolean", "title": f"Run {view.tool}?"},
            "reason": {"type": "string", "title": "Reason"},
        }
        required = ["approve"]
    schema = {"type": "object", "properties": properties, "required": required}
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=told([view]), requested_schema=schema))


def told(views: Iterable[ApprovalView]) -> str:
    """Return what waits, for people."""
    return "\n".join(_told(view) for view in views)


def answer_of(view: ApprovalView, given: types.ElicitResult, by: str) -> Answer | None:
    """Return what the person said; None: nothing that counts, so that it goes on waiting."""
    content: Mapping[str, Any] = given.content or {}
    why = str(content.get("reason") or "")
    if given.action == "decline":
        return Answer("denied", view.digest, by, why=why or "declined")
    if given.action != "accept":
        return None
    if view.kind == "question":
        return Answer("answered", view.digest, by, answer=str(content["answer"])) if "answer" in content else None
    if not isinstance(content.get("approve"), bool):
        return None
    return Answer("approved" if content["approve"] else "denied", view.digest, by, why=why)


def _told(view: ApprovalView) -> str:
    if view.kind == "question":
        return view.text or f"Agent {view.agent} asks"
    lines = [
        view.text or f"⚠️ Agent {view.agent} wants to execute {view.tool} (Risk: {view.risk})",
        f"Parameters: {json.dumps(dict(view.args), ensure_ascii=False, indent=2)}",
    ]
    return "\n".join([*lines, *filter(None, (view.reason, view.preview))])
