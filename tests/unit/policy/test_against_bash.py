"""What bash itself makes of command lines that were allowed: it starts the allowed command, and nothing else."""

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from ekiden.shared.policy.command_patterns import prefix_command
from ekiden.shared.policy.engine import Policy
from ekiden.shared.policy.rules import Rule
from ekiden.shared.policy.tool_use import ToolUse

BEGINNINGS = ("git status", "git status ", "LANG=C git status", "time git status ", "{ git status; ", "(git status ")
WRITTEN = (
    "git status|git status|evil|rm x| | |\t|\n|;|&&|¦|¦¦|¦&|&|(|)|{|}|{ |; }|$(|`|'|\"|\\| #|!|! |<|>|>>|<<|<<<|<(|"
    ">&|2>&1|/dev/null|> /dev/null|2>/dev/null|$x|${x|*|?|[|]|~|-s|--|=|x=1|A=1 |LANG=C |if |; then |; fi|while |"
    "do |done|for f in |case x in |esac|f()|[[ | ]]|((|))|$((|time |nohup |timeout 5 |nice |eval |exec |coproc |"
    "E\n|\nE\n|$'|\\n|\\\n|,|{a,b}|..|@(|'a b'|\"a\"|$|1|2|0<|3>|&>|<>|>¦|«|\r|\u00a0"
)
PIECES = [piece.replace("¦", "|") for piece in WRITTEN.split("|")]
LOGGING = """
log() { printf '%s\\x01' "$@" >> "$LOG"; printf '\\x02' >> "$LOG"; }
git() { log git "$@"; }
command_not_found_handle() { log "$@"; }
cd "$WORK"
for line; do ( eval "$line" ) < /dev/null > /dev/null 2>&1; done
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="this is about bash")
def test_bash_starts_nothing_but_what_was_allowed(tmp_path: Path) -> None:
    drawn = random.Random(15)
    lines = [
        drawn.choice(BEGINNINGS) + "".join(drawn.choices(PIECES, k=drawn.choice((1, 2, 3, 4, 6)))) for _ in range(1_000)
    ]
    policy = Policy((Rule("allow", "f", "r", commands=(prefix_command("git status", restricts=False),)),))
    allowed = [line for line in lines if policy.decide(ToolUse("bash", {"command": line})).verdict == "allow"]
    assert len(allowed) > 50

    log, work = tmp_path / "log", tmp_path / "work"
    work.mkdir()
    bash, env = shutil.which("bash") or "", {"PATH": str(_programs(tmp_path)), "LOG": str(log), "WORK": str(work)}
    subprocess.run([bash, "-c", LOGGING, "bash", *allowed], env=env, check=False, timeout=60)
    started = [call.split("\x01")[:2] for call in log.read_text(errors="replace").split("\x02") if call]
    assert len(started) > 50
    assert [call for call in started if call != ["git", "status"]] == []
    assert list(work.iterdir()) == []


def _programs(tmp_path: Path) -> Path:
    """Return a folder with a ``git`` that does as the function, for ``time`` and the like, and these themselves."""
    folder = tmp_path / "bin"
    folder.mkdir()
    git = folder / "git"
    git.write_text("#!/bin/sh\n{ printf 'git\\001'; printf '%s\\001' \"$@\"; printf '\\002'; } >> \"$LOG\"\n")
    git.chmod(0o755)
    for name in ("nohup", "timeout", "nice"):
        if (path := shutil.which(name)) is not None:
            (folder / name).symlink_to(path)
    return folder
