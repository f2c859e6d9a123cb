"""What agents may not read, and what they may not change, whatever workspace they have.

Closed is what holds the words of others: the data of Ekiden's servers and its state folder, the user's settings, and
the kernel's files. Read-only are the places from which some program takes commands, or orders for an assistant, without
being asked: whoever writes there runs them later, as somebody else. Both hold for the file tools, and for commands as
far as their sandbox can (``command_place.py``).
"""

import os
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase, translate
from functools import cache
from pathlib import Path

from ekiden.shared.globs import compiled_glob
from ekiden.shared.patterns import Pattern
from ekiden.shared.project_folders import cache_folder, state_folder
from ekiden.shared.server_supervisor import KEEPER_LOCK
from ekiden.shared.settings.files import global_file

__all__ = ["BUILTIN_PLACES", "DATA_MARKS", "Protected", "closed_below", "closed_in", "is_closed"]

DATA_MARKS = frozenset({KEEPER_LOCK, "appendonlydir"})
"""What makes a folder one of a server's data: those of the embedded mode, or of a Redis whose jobs are everybody's."""

_KERNEL = (Path("/proc"), Path("/sys"), Path("/dev"))
"""Not files, whatever they look like; they would lie inside a workspace root of ``/``."""

_GIT = ".git git~1 .gitconfig .gitmodules .githooks .config/git .hg .svn"
_HOOKS = ".husky .pre-commit-config.yaml .pre-commit-hooks.yaml .overcommit.yml"
_ASSISTANTS = (
    ".gemini .claude .claude.json .ekiden .mcp.json .cursor .windsurf .codex .continue .roo .kiro .opencode "
    "opencode.json .aider.conf.yml AGENTS.md GEMINI.md CLAUDE.md .cursorrules .clinerules .windsurfrules .goosehints "
    ".github/copilot-instructions.md .github/instructions .github/prompts .junie .amazonq .qwen .copilot .trae .augment"
)
_CI = (
    ".github/workflows .github/actions .gitlab-ci.yml .gitlab/ci .circleci Jenkinsfile azure-pipelines.yml "
    "azure-pipelines.yaml .azure-pipelines .travis.yml appveyor.yml .appveyor.yml bitbucket-pipelines.yml .drone.yml "
    ".woodpecker .woodpecker.yml .buildkite .cirrus.yml .semaphore .teamcity .forgejo/workflows .gitea/workflows "
    ".tekton .build.yml .builds cloudbuild.yaml .ci"
)
_EDITORS = (
    ".vscode .idea .zed .fleet .devcontainer .devcontainer.json .vim .vimrc .gvimrc .nvimrc .exrc .nvim.lua .emacs "
    ".emacs.d .dir-locals.el .gdbinit .lldbinit .config/nvim .config/Code .ipython"
)
_SHELLS = (
    ".bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile .zlogin .zlogout "
    ".cshrc .tcshrc .login .kshrc .inputrc .envrc .mise.toml mise.toml .xprofile .xinitrc .xsession .pam_environment "
    ".config/fish .config/mise .config/autostart .config/systemd .config/environment.d .local/bin .ssh .gnupg "
    ".bashrc.d .zsh .tmux.conf .screenrc .local/share/applications"
)
_BUILDS = (
    "sitecustomize.py usercustomize.py .cargo/config .cargo/config.toml .npmrc .yarnrc .yarnrc.yml .pnpmfile.cjs .mvn "
    ".bazelrc"
)
BUILTIN_PLACES = tuple(" ".join((_GIT, _HOOKS, _ASSISTANTS, _CI, _EDITORS, _SHELLS, _BUILDS)).split())
"""Names, and paths of up to three, that are read-only wherever they lie, with all below them."""
_NAMED_LIKE = ("*.pth", "*.code-workspace", "lefthook.*", "lefthook-local.*", ".lefthook*", ".huskyrc*")
"""And names like these."""

_HIDDEN = frozenset({"Cf", "Cc"})


@cache
def _places() -> frozenset[tuple[str, ...]]:
    return frozenset(tuple(map(_folded, place.split("/"))) for place in BUILTIN_PLACES)


@cache
def _last_names() -> frozenset[str]:
    return frozenset(place[-1] for place in _places())


@cache
def _like() -> re.Pattern[str]:
    return re.compile("|".join(map(translate, _NAMED_LIKE)), re.IGNORECASE)


@dataclass(frozen=True)
class Protected:
    """What of a workspace agents may not change.

    Attributes:
        read_only: Globs of further places (``tools.read_only``).
        writable: Names of places, or paths to them, that are built in and may be written (``tools.writable``).
    """

    read_only: Sequence[str] = ()
    writable: Sequence[str] = ()
    _globs: dict[str, Pattern] = field(init=False, repr=False, compare=False)
    _allowed: tuple[tuple[str, ...], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_globs", {glob: compiled_glob(glob) for glob in self.read_only})
        object.__setattr__(self, "_allowed", tuple(_folded_all(path.strip("/").split("/")) for path in self.writable))

    def may_hold(self, name: str) -> bool:
        """Tell, in less than a microsecond, whether ``problem_of`` could say something of what is named so here."""
        return bool(self.read_only) or name.casefold() in _last_names() or _like().match(name) is not None

    def problem_of(self, names: Sequence[str]) -> str | None:
        """Say why what ``names`` lead to, from the project downwards, may not be changed; None if it may."""
        folded = _folded_all(names)
        paths = [_as_path(names), _as_path(folded)]
        for glob, pattern in self._globs.items():
            if any(map(pattern.search, paths)):
                return f"the setting tools.read_only has {glob!r}"
        allowed = _covered(folded, self._allowed)
        for start, place in _found(folded, _places()):
            if not all(at in allowed for at in range(start, start + len(place))):
                named = "/".join(names[start : start + len(place)])
                return (
                    f"programs take commands or orders from {named!r}. Leave it to the user, or ask for "
                    f"{named!r} in the setting tools.writable"
                )
        return None


def is_closed(real: Path, root: Path) -> bool:
    """Tell whether the real path ``real``, below the workspace ``root``, leads to what no agent may read."""
    if any(real.is_relative_to(top) for top in _closed(root)):
        return True
    return any(os.path.lexists(folder / mark) for folder in (real, *real.parents) for mark in DATA_MARKS)


def closed_in(folder: Path, root: Path) -> set[str]:
    """Return the names in a folder, which is not closed itself, that are; beside those that ``DATA_MARKS`` tell."""
    return {top.name for top in _closed(root) if top.parent == folder}


def closed_below(root: Path) -> list[Path]:
    """Return what below the workspace ``root`` is Ekiden's or the user's own and closed, as far as it exists."""
    return [top for top in _closed(root) if top not in _KERNEL and top.is_relative_to(root) and top.exists()]


def _closed(root: Path) -> list[Path]:
    kernel = [top for top in _KERNEL if not root.is_relative_to(top)]
    return [*kernel, *_ours(*map(os.environ.get, ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")))]


@cache
def _ours(*_environment: str | None) -> tuple[Path, ...]:
    """Return the real paths of what is Ekiden's or the user's own; they depend on the ``_environment``."""
    return tuple(Path(os.path.realpath(path)) for path in (state_folder(), cache_folder(), global_file()))


def _as_path(names: Sequence[str]) -> bytes:
    return "/".join(names).encode(errors="surrogateescape")


def _folded_all(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(_folded, names))


def _folded(name: str) -> str:
    """Return ``name`` as the least exact of file systems would know it.

    macOS and Windows take ``.GIT``, one with characters that do not show, with dots and spaces at its end, or with a
    stream's name behind a colon, for the same; a folder that is written here may be looked at there.
    """
    plain = unicodedata.normalize("NFKC", name.partition(":")[0]).casefold()
    return "".join(char for char in plain if unicodedata.category(char) not in _HIDDEN).rstrip(". ")


def _covered(names: Sequence[str], allowed: Iterable[Sequence[str]]) -> set[int]:
    """Return at which places of ``names`` something stands that is part of an ``allowed`` path."""
    return {
        at
        for path in allowed
        for start in range(len(names))
        if tuple(names[start : start + len(path)]) == tuple(path)
        for at in range(start, start + len(path))
    }


def _found(names: Sequence[str], places: frozenset[tuple[str, ...]]) -> list[tuple[int, tuple[str, ...]]]:
    """Return the ``places``, of one name to three, that ``names`` pass through, and where."""
    parts = [(at, tuple(names[at : at + length])) for at in range(len(names)) for length in (1, 2, 3)]
    return [(at, part) for at, part in parts if part in places or _is_named_like(part)]


def _is_named_like(part: Sequence[str]) -> bool:
    return len(part) == 1 and any(fnmatchcase(part[0], like) for like in _NAMED_LIKE)
