"""Programs that start other programs: what they may start, and when an allowed prefix says nothing of it."""

import re
from collections.abc import Iterator

from ekiden.shared.policy.shell_tree import MOST_COMMANDS, Command, Script, Word, script_of
from ekiden.shared.policy.word_sets import words

__all__ = ["all_commands", "hidden_in", "inner_command", "is_starter", "unsafe_option"]

_SHELLS = words("ash bash csh dash fish ksh mksh rbash sh tcsh zsh")
_STARTERS = _SHELLS | words(
    ". alias builtin bwrap busybox capsh chroot chrt command coproc dbus-run-session doas env eval exec expect "
    "fakeroot firejail flatpak flock gosu ionice ltrace linux32 linux64 nice nohup nsenter parallel pkexec prlimit "
    "proot proxychains rlwrap run0 runuser script setarch setpriv setsid setuidgid source ssh start-stop-daemon "
    "stdbuf strace su su-exec sudo systemd-run taskset time timeout torify torsocks toybox trap tsocks unbuffer "
    "unshare valgrind watch xargs xvfb-run enable hash mapfile readarray bind complete compgen"
)
_FINDING_ACTIONS = frozenset(["-exec", "-execdir", "-ok", "-okdir"])
_HIDING = frozenset([".", "alias", "enable", "hash", "source"])
"""Builtins after which a name may mean another program."""
_STRING_TAKERS = frozenset(["eval", "trap"])
_TRANSPARENT = {
    "time": re.compile(r"-p"),
    "nohup": re.compile(r"(?!)"),
    "nice": re.compile(r"-n|-?\d+|--adjustment=-?\d+|-n-?\d+"),
    "timeout": re.compile(
        r"-[sk]|--(signal|kill-after)=[\w.]+|--(foreground|preserve-status)|[A-Z]+|\d+(\.\d+)?[smhd]?"
    ),
    "stdbuf": re.compile(r"-[ioe]([L0]|\d+[KMG]?)"),
}
"""What these are told before the command that they run as it is."""
_GIT_RUNS = frozenset(["-c", "-x", "--exec", "--extcmd", "foreach"])
"""Words of git's behind which a command line may stand."""
_SHELL_TEXT = re.compile(r"^!|[\s;&|<>$`(){}]")
_DEEPEST = 4

_UNSAFE_OPTIONS = {
    "git": (
        "-c -C -O -P -x -o --config --config-env --exec --exec-path --ext-diff --extcmd --git-dir --hooks "
        "--open-files-in-pager --output --output-directory --paginate --receive-pack --textconv --tool --upload-pack "
        "--work-tree"
    ),
    "find": "-delete -exec -execdir -ok -okdir -fls -fprint -fprint0 -fprintf",
    "fd": "-x -X --exec --exec-batch",
    "rg": "--pre --hostname-bin -z --search-zip",
    "sort": "-o -T --output --compress-program --temporary-directory --files0-from",
    "tar": "-I -F --checkpoint-action --to-command --use-compress-program --rsh-command --info-script",
    "rsync": "-e --rsh --rsync-path",
    "sed": "-i -f --in-place --file",
    "awk": "-f -i -l --file --include --load",
    "curl": "-o -O -K -T --output --remote-name --config --upload-file --output-dir",
    "wget": "-O --output-document --use-askpass --execute -e --config",
    "man": "-P -H --pager --html",
    "less": "-o -O --log-file",
    "printf": "-v",
    "date": "-s --set -f --file",
    "tree": "-o",
    "xxd": "-r",
    "file": "-C -m --compile --magic-file",
    "npm": "--script-shell --prefix --userconfig --globalconfig --shell",
    "pytest": "-c -p --rootdir --confcutdir --config-file",
    "make": "-f -C -I --file --makefile --directory --eval",
}
_UNSAFE = {program: frozenset(options.split()) for program, options in _UNSAFE_OPTIONS.items()}
"""Options by which programs that seem safe start others, or write: an allowed prefix means those that it has."""


def all_commands(script: Script, depth: int = 0) -> Iterator[Command]:
    """Yield each command, and each that it may start, in whatever way: rather too many than too few."""
    for command in script.commands:
        yield command
        yield from _started_by(command, depth)


def _started_by(command: Command, depth: int) -> Iterator[Command]:
    for rest in _starting_at(command):
        if rest[0].is_known:
            yield Command(tuple(rest))
    for text in _texts_run(command) if depth < _DEEPEST else ():
        yield from all_commands(script_of(text), depth + 1)


def _starting_at(command: Command) -> Iterator[tuple[Word, ...]]:
    """Yield the words from each place on at which the command that is started may begin."""
    words = command.words[:MOST_COMMANDS]
    for place in range(1, len(words)):
        if command.program == "find":
            if words[place - 1].text in _FINDING_ACTIONS:
                yield words[place:]
        elif is_starter(command):
            yield words[place:]


def _texts_run(command: Command) -> Iterator[str]:
    """Yield what may be run as a command line: of the words, and of all that follow one, as ``eval`` takes them."""
    known = [word.text for word in command.words[1:MOST_COMMANDS] if word.is_known]
    if command.program == "git":
        known = [text for before, text in zip(command.texts, command.texts[1:], strict=False) if before in _GIT_RUNS]
    elif not is_starter(command):
        return
    for text in known:
        _, is_set, value = text.partition("=")
        yield from (
            one.lstrip("!") for one in (text, value if is_set else "") if _SHELL_TEXT.search(one) or one[:1] == "!"
        )
    if command.program in _STRING_TAKERS | {"ssh", "watch"}:
        yield " ".join(known)


def hidden_in(script: Script, depth: int = 0) -> str:
    """Say why the commands that are run may be others than those that ``all_commands`` finds; empty: they are not."""
    if script.hidden:
        return script.hidden[0]
    for command in script.commands:
        if why := _hidden_by(command, depth):
            return why
    return ""


def _hidden_by(command: Command, depth: int) -> str:
    program, arguments = command.program, command.words[1:]
    if program in _HIDING:
        return f"behind {program!r}, a name may mean another program"
    if not is_starter(command):
        return ""
    if unknown := next((word for word in arguments if not word.is_known), None):
        return f"{program!r} may run what {unknown.source!r:.60} turns out to be"
    if program in _SHELLS and all(word.text.startswith(("-", "+")) for word in arguments):
        return f"{program!r} runs what it reads"
    if depth >= _DEEPEST or len(arguments) >= MOST_COMMANDS:
        return f"{program!r} stands in more commands than are looked into"
    return next(filter(None, (hidden_in(script_of(text), depth + 1) for text in _texts_run(command))), "")


def is_starter(command: Command) -> bool:
    """Tell whether the program's own purpose is to run others."""
    if command.program == "find":
        return any(word.text in _FINDING_ACTIONS or not word.is_known for word in command.words)
    return command.program in _STARTERS


def inner_command(command: Command) -> Command | None:
    """Return what ``time``, ``timeout`` and the like run, if they are told nothing else; None: not that simple."""
    expected = _TRANSPARENT.get(command.texts[0]) if command.words and command.words[0].is_known else None
    if expected is None:
        return None
    for place, word in enumerate(command.words[1:], 1):
        if not word.is_known:
            return None
        if not expected.fullmatch(word.text):
            return Command(command.words[place:]) if not word.text.startswith("-") else None
    return None


def unsafe_option(command: Command, named: int) -> str:
    """Return a word behind the first ``named`` ones by which the program runs something else, or writes; or nothing."""
    unsafe = _UNSAFE.get({"gawk": "awk", "mawk": "awk", "gmake": "make"}.get(command.program, command.program))
    for word in command.words[named:] if unsafe else ():
        if any(_may_mean(word.text, option) for option in unsafe or ()):
            return word.source
    return ""


def _may_mean(text: str, option: str) -> bool:
    """Tell whether ``text`` is the option, with a value or abbreviated too, or holds it among several letters."""
    if option.startswith("--"):
        name = text.partition("=")[0]
        return len(name) > 2 and option.startswith(name)
    if text == option or text.startswith(f"{option}="):
        return True
    is_letter = len(option) == 2 and text.startswith("-") and not text.startswith("--")
    return is_letter and option[1] in text[1:]
