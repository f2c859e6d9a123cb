"""Asks users whether they trust the folders that a command works in, or tells them what these do not get."""

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ekiden.shared.project_folders import project_of
from ekiden.shared.terminal_text import note, visible
from ekiden.shared.trust.grants import trust_for_now
from ekiden.shared.trust.notices import BASH, hint, take_over
from ekiden.shared.trust.rights import Right, tool_right
from ekiden.shared.trust.store import remember

if TYPE_CHECKING:
    from ekiden.shared.project_trust import ProjectTrust

__all__ = ["listed", "settle_trust"]

_NAMED = 8
_ASKING = (".gemini", ".claude/settings.json", ".claude/settings.local.json", ".mcp.json", ".ekiden/tools")
"""What a project that asks for something has one of."""


def settle_trust(is_given: bool, *folders: Path | None, may_ask: bool = True) -> None:
    """See to it that the user was asked about the current folder and ``folders``; without a terminal, tell them.

    ``is_given``: the user trusts them for now. ``may_ask``: who is at a terminal may be asked. Call it before any
    settings are read.
    """
    projects = list(dict.fromkeys(project_of(folder) for folder in (Path.cwd(), *folders) if folder is not None))
    if is_given:
        trust_for_now(projects)
    for project in projects:
        take_over(project)
    for project in projects:
        # Without these it asks for nothing, and to find that out is dear.
        if any(os.path.lexists(project / name) for name in _ASKING):
            _settle(project, may_ask=may_ask)


def listed(rights: Iterable[Right]) -> list[str]:
    """Return what is asked for as lines for people, whole: what is cut, or masked, would be granted unseen.

    It is the folder's text. A mask would let an address or a command hide behind what looks like a secret.
    """
    by_subject: dict[str, list[str]] = {}
    gives_bash = False
    for right in rights:
        by_subject.setdefault(right.subject, []).append(right.shown or right.what)
        gives_bash = gives_bash or right.covers(tool_right(right.subject, "bash", ()))
    lines = [_on_one_line(f"  {_line(subject, texts)}") for subject, texts in sorted(by_subject.items())]
    return [*lines, f"  ({BASH})"] if gives_bash else lines


def _settle(project: Path, *, may_ask: bool) -> None:
    from ekiden.shared.project_trust import project_trust_of

    trust_status = project_trust_of(project)
    if not trust_status.lacking:
        return
    if not (may_ask and trust_status.unasked and sys.stdin.isatty() and sys.stderr.isatty()):
        note(_told(trust_status))
    elif _ask(trust_status):
        remember(project, granted=trust_status.grantable, vouched=True)
    else:
        remember(project, refused=trust_status.lacking, vouched=False)


def _ask(trust_status: "ProjectTrust") -> bool:
    import typer

    begin = (
        "asks for more than you granted it" if trust_status.grants.granted else "asks for what only you can grant it"
    )
    note("\n".join([f"The folder {str(trust_status.project)!r} {begin}:", *listed(trust_status.lacking)]))
    return typer.confirm("Trust this folder?", default=False, err=True)


def _told(trust_status: "ProjectTrust") -> str:
    because = f" ({trust_status.grants.problem})" if trust_status.grants.problem else ""
    text = f"the folder {str(trust_status.project)!r} is not trusted{because}: {_summary(trust_status.lacking)}"
    return f"ekiden: {text}. {hint(trust_status.project)}"


def _summary(rights: Sequence[Right]) -> str:
    """Say what the folder does not get."""
    subjects = list(dict.fromkeys(right.subject for right in rights))
    agents = [subject.removeprefix("agent ") for subject in subjects if subject.startswith("agent ")]
    problems = {right.subject: f" ({right.problem})" for right in rights if right.problem}
    others = [f"{subject}{problems.get(subject, '')}" for subject in subjects if not subject.startswith("agent ")]
    parts = [f"agents {_some(agents)} get only tools that read, and count behind all others"] if agents else []
    return "; ".join([*parts, *([f"ignored {_some(others)}"] if others else [])])


def _some(names: list[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _line(subject: str, texts: list[str]) -> str:
    return f"{subject}: {'; '.join(texts)}" if subject.startswith("agent ") else "; ".join(texts)


def _on_one_line(text: str) -> str:
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")
