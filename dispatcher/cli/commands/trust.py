"""``ekiden trust``: what folders may do here, granted and taken back."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ekiden.dispatcher.cli.options import AsJson
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.project_folders import project_of
from ekiden.shared.project_trust import ProjectTrust, project_trust_of
from ekiden.shared.terminal_text import say
from ekiden.shared.trust.notices import take_over
from ekiden.shared.trust.store import all_remembered, forget, remember
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
    standing = project_trust_of(project)
    if yes:
        remember(project, granted=standing.wanted, vouched=True)
        standing = project_trust_of(project)
    if as_json:
        say(json.dumps(_as_json(standing), ensure_ascii=False))
        return
    out = Output()
    _show(standing, out)
    if standing.lacking:
        is_agreed = _is_agreed(len(standing.lacking))
        said = {"granted" if is_agreed else "refused": standing.lacking}
        remember(project, **said, vouched=is_agreed)
        standing = project_trust_of(project)
    if standing.lacking:
        out.line("It is not trusted" if not standing.grants.granted else "It is not trusted with what is new")
    elif standing.wanted:
        out.line("It is trusted: all of this is granted")
    elif yes:
        out.line("It is trusted: you vouch for its texts")


def _show(standing: ProjectTrust, out: Output) -> None:
    """Show what a folder asks for: what it has already, then what it has not."""
    granted = [right for right in standing.wanted if right not in set(standing.lacking)]
    out.line(f"{standing.project} asks for{':' if standing.wanted else ' nothing that needs your trust'}")
    for line in listed(granted):
        out.line(line)
    if granted and standing.lacking:
        out.line("and for this, which you have not granted:")
    for line in listed(standing.lacking):
        out.line(line)
    if standing.grants.problem:
        out.line(f"What you granted before cannot be read: {standing.grants.problem}")


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
            say(json.dumps({"folder": str(one.project), **counts}))
    elif found:
        rows = [(str(one.project), str(len(one.granted)), str(len(one.refused))) for one in found]
        Output().table(("folder", "granted", "refused"), rows)
    else:
        Output().line("You were asked about no folder yet")


def _as_json(standing: ProjectTrust) -> dict[str, Any]:
    lacking = frozenset(standing.lacking)
    asks = [
        {"subject": right.subject, "what": right.shown, "granted": right not in lacking} for right in standing.wanted
    ]
    fields = {"folder": str(standing.project), "trusted": not lacking, "asks": asks}
    return fields | ({"problem": standing.grants.problem} if standing.grants.problem else {})
