"""``git_commit``: in the repository of the job's folder, and running nothing that a strange repository brings.

What a repository brings that its user trusts (hooks, filters) runs where commands do: in the sandbox. A command may
have put it there, and would be out of the sandbox with it.
"""

import os
from collections.abc import Sequence
from dataclasses import replace

from pydantic import BaseModel, Field

from ekiden.shared.errors import CommandLost, ToolError
from ekiden.shared.project_folders import project_of
from ekiden.shared.trust.grants import vouches_for
from ekiden.workers.tools.base import ToolContext, tool
from ekiden.workers.tools.builtin.paths import place_of
from ekiden.workers.tools.builtin.subprocesses import Finished, run_command, run_confined

__all__ = ["git_commit"]

_TIMEOUT_S = 120.0
_MAX_CHARS = 20_000
_MAX_LISTED = 5_000_000
_QUIET = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "commit.gpgSign=false")
"""Hooks and watchers are programs; a signature may ask for a password."""
_HARMLESS = (
    "branch.", "core.autocrlf", "core.bare", "core.eol", "core.filemode", "core.ignorecase", "core.logallrefupdates",
    "core.precomposeunicode", "core.quotepath", "core.repositoryformatversion", "core.safecrlf", "core.sparsecheckout",
    "core.symlinks", "extensions.objectformat", "init.", "pull.", "push.", "remote.", "user.",
)  # fmt: skip
"""Beginnings of settings that run no program in a commit; what is not here may."""
_SUBMODULE = "160000 "
_OWN = ("user.name", "user.email", "core.autocrlf", "core.eol", "safe.directory")
"""Of the user's own settings, whose files are not seen in a sandbox, those that a commit there is made with."""


class GitCommit(BaseModel):
    """Record changes in the git repository of the job's folder as one commit."""

    message: str = Field(min_length=1, description="What was changed, and why.")
    paths: list[str] = Field(
        default=[], max_length=1_000, description="Files and folders to record; none: all changes in the job's folder."
    )


@tool(GitCommit, needs_workspace=True, timeout_s=4 * _TIMEOUT_S)
async def git_commit(args: GitCommit, context: ToolContext) -> str:
    """Add and commit the paths; what else is staged stays as it is."""
    paths = [str(place_of(path, context).real) for path in args.paths or ["."]]
    trusted = vouches_for(project_of(context.cwd))
    options = () if trusted else _QUIET
    if context.sandbox.mechanism != "none":
        context = replace(context, env={**context.env, **await _own_settings(context)})
    await _require_own_repository(context)
    if not trusted:
        await _require_harmless(context)
    await _git(context, *options, "--literal-pathspecs", "add", "--all", "--", *paths)
    made = await _git(
        context, *options, "--literal-pathspecs", "commit", f"--message={args.message}", "--only", "--", *paths
    )
    return made.output.strip()


async def _require_own_repository(context: ToolContext) -> None:
    """Raise ``ToolError`` unless the repository, its data too, lies in the workspace."""
    found = await _git(context, *_QUIET, "rev-parse", "--show-toplevel", "--absolute-git-dir", "--git-common-dir")
    root = context.root.resolve()
    for line in found.output.splitlines():
        if not (context.cwd / line).resolve().is_relative_to(root):
            raise ToolError("the git repository of this folder lies outside the workspace: ask the user to commit")


async def _require_harmless(context: ToolContext) -> None:
    """Raise ``ToolError`` where a repository that nobody trusts has settings or submodules that may run programs."""
    listed = await _git(context, *_QUIET, "config", "--list", "--show-scope", "--name-only")
    for line in listed.output.splitlines():
        scope, _, name = line.partition("\t")
        if scope in ("local", "worktree") and not name.startswith(_HARMLESS):
            raise ToolError(
                f"not committed: nobody trusts this folder, and its git setting {name!r} may run a program. Ask the "
                "user to commit, or to trust the folder (ekiden trust)"
            )
    staged = await _git(context, *_QUIET, "ls-files", "--stage")
    if len(staged.output) >= _MAX_LISTED or any(line.startswith(_SUBMODULE) for line in staged.output.splitlines()):
        raise ToolError("not committed: nobody trusts this folder, and its submodules have settings of their own")


async def _own_settings(context: ToolContext) -> dict[str, str]:
    """Return what hands git those of the user's own settings that the repository does not replace.

    To list settings runs nothing, so that it needs no sandbox, where the user's are not seen.
    """
    listed = await _run(context, "config", "--list", "--show-scope", "--null")
    words = listed.output.split("\0") if not listed.exit_code else []
    said = [(scope, *setting.partition("\n")[::2]) for scope, setting in zip(words[::2], words[1::2], strict=False)]
    replaced = {name for scope, name, _ in said if scope not in ("system", "global")}
    own = [(name, value) for scope, name, value in said if scope == "global" and name in _OWN and name not in replaced]
    handed = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_COUNT": str(len(own))}
    for place, (name, value) in enumerate(own):
        handed |= {f"GIT_CONFIG_KEY_{place}": name, f"GIT_CONFIG_VALUE_{place}": value}
    return handed


async def _git(context: ToolContext, *words: str) -> Finished:
    """Run git, in the sandbox if there is one. Raises ``ToolError`` with what it said unless it succeeds."""
    done = await _run(context, *words, confined=context.sandbox.mechanism != "none")
    if done.exit_code:
        raise ToolError(f"git {_verb(words)} failed (exit code {done.exit_code}): {done.output.strip()}")
    return done


async def _run(context: ToolContext, *words: str, confined: bool = False) -> Finished:
    command = ["git", "--no-pager", *words]
    env = {**context.env, "GIT_TERMINAL_PROMPT": "0", "GIT_EDITOR": "true", "GIT_OPTIONAL_LOCKS": "0"}
    most = _MAX_LISTED if "ls-files" in words else _MAX_CHARS
    try:
        if confined:
            return await run_confined(command, context, env=env, timeout_s=_TIMEOUT_S, max_chars=most)
        return await run_command(
            command, cwd=context.cwd, env=env, timeout_s=_TIMEOUT_S, max_chars=most, lifetime=context.lifetime
        )
    except (CommandLost, OSError, ValueError) as error:
        raise ToolError(f"git could not be run: {getattr(error, 'strerror', None) or error}") from error


def _verb(words: Sequence[str]) -> str:
    return next((word for word in words if word in ("add", "commit", "config", "ls-files", "rev-parse")), "")
