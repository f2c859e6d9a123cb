"""``ekiden trust``: what folders may do here, granted and taken back."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ekiden.dispatcher.cli.options import AsJson
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.shared.errors import ConfigurationError, InvalidRequest
from ekiden.shared.project_folders import project_of
from ekiden.shared.project_tools import FOLDER
from ekiden.shared.project_trust import ProjectTrust, project_trust_of
from ekiden.shared.terminal_text import note, say
from ekiden.shared.trust.notices import take_over
from ekiden.shared.trust.store import ApprovedCall, all_remembered, forget, remember, remembered
from ekiden.shared.trust_prompts import listed

__all__ = ["trust"]


def trust(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A folder of the project. [the current one]")] = Path(),
    is_list: Annotated[bool, typer.Option("--list", help="The folders that you were asked about.")] = False,
    is_revoked: Annotated[
        bool, typer.Option("--revoke", help="Forget all that was granted to it, or refused.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Grant it, do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what a folder asks for beyond reading and routing, and grant it. With --json alone, it is only shown."""
    if is_list + is_revoked + yes > 1:
        raise InvalidRequest("--list, --revoke and --yes exclude each other: give one")
    if is_list:
        return _list(as_json)
    if not path.is_dir():
        raise InvalidRequest(f"{str(path)!r} is no folder: give one that exists")
    project = project_of(path)
    return _revoke(project, as_json) if is_revoked else _grant(project, yes=yes, as_json=as_json)


def _grant(project: Path, *, yes: bool, as_json: bool) -> None:
    take_over(project)
    trust_status = project_trust_of(project)
    if yes:
        remember(project, granted=trust_status.grantable, vouched=True)
        trust_status = project_trust_of(project)
    if as_json:
        say(json.dumps(_as_json(trust_status), ensure_ascii=False))
        return
    out = Output()
    _show(trust_status, out)
    _tell_of_tools(project)
    _show_approved(project, out)
    if asked := [right for right in trust_status.lacking if not right.problem]:
        if _is_agreed(len(asked)):
            remember(project, granted=asked, vouched=True)
        else:
            remember(project, refused=asked, vouched=False)
        trust_status = project_trust_of(project)
    if problems := list(filter(None, (right.problem for right in trust_status.lacking))):
        raise InvalidRequest(f"this cannot be granted: {'; '.join(problems)}")
    if trust_status.lacking:
        out.line("It is not trusted" if not trust_status.grants.granted else "It is not trusted with what is new")
    elif trust_status.wanted:
        out.line("It is trusted: all of this is granted")
    elif yes:
        out.line("It is trusted: you vouch for its texts")


def _show(trust_status: ProjectTrust, out: Output) -> None:
    """Show what a folder asks for: what it has already, then what it has not."""
    granted = [right for right in trust_status.wanted if right not in set(trust_status.lacking)]
    out.line(f"{trust_status.project} asks for{':' if trust_status.wanted else ' nothing that needs your trust'}")
    for line in listed(granted):
        out.line(line)
    if granted and trust_status.lacking:
        out.line("and for this, which you have not granted:")
    for line in listed(trust_status.lacking):
        out.line(line)
    if trust_status.grants.problem:
        out.line(f"What you granted before cannot be read: {trust_status.grants.problem}")


def _tell_of_tools(project: Path) -> None:
    """Say which tools are asked for in vain."""
    from ekiden.dispatcher.cli.agents.tools import misnamed_tools  # with what asks servers: most folders have no tools

    if (project / FOLDER).is_dir():
        for problem in misnamed_tools(project):
            note(f"ekiden: {problem}")


def _show_approved(project: Path, out: Output) -> None:
    """Show which calls are not asked about in this folder, and what takes that back."""
    if approved := _approved_in(project):
        calls = ", ".join(f"{call.tool} ({call.risk})" for call in approved)
        out.line(f"You approved for all jobs here, until `ekiden trust --revoke`: {calls}")


def _approved_in(project: Path) -> list[ApprovedCall]:
    try:
        return sorted(remembered(project).approved)
    except ConfigurationError:  # which is told with the grants
        return []


def _is_agreed(count: int) -> bool:
    if not sys.stdin.isatty():
        raise InvalidRequest("nobody is there to be asked: give --yes to grant it, or --json to look at it")
    return typer.confirm(f"Trust this folder with all {count}?", default=False)


def _revoke(project: Path, as_json: bool) -> None:
    is_forgotten = forget(project)
    if as_json:
        say(json.dumps({"folder": str(project), "revoked": is_forgotten}))
    elif is_forgotten:
        Output().line(f"{project} is not trusted any more")
    else:
        Output().line(f"Nothing was granted to {project}, or refused")


def _list(as_json: bool) -> None:
    found = all_remembered()
    if as_json:
        for one in found:
            counts = {"granted": len(one.granted), "refused": len(one.refused)}
            say(json.dumps({"folder": str(one.project), **counts, "approved": sorted(one.approved)}))
    elif found:
        rows = [
            (str(one.project), *(str(len(said)) for said in (one.granted, one.refused, one.approved))) for one in found
        ]
        Output().table(("folder", "granted", "refused", "approved"), rows)
    else:
        Output().line("You were asked about no folder yet")


def _as_json(trust_status: ProjectTrust) -> dict[str, Any]:
    lacking = frozenset(trust_status.lacking)
    asks = [
        {"subject": right.subject, "what": right.shown, "granted": right not in lacking}
        for right in trust_status.wanted
    ]
    fields = {"folder": str(trust_status.project), "trusted": not lacking, "asks": asks}
    fields["approved"] = _approved_in(trust_status.project)
    return fields | ({"problem": trust_status.grants.problem} if trust_status.grants.problem else {})
