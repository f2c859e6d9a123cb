"""How much a command line can do beyond an ordinary one: ``sudo``, and what ends or wipes a system."""

import re

from ekiden.shared.policy.shell_starters import all_commands, hidden_in
from ekiden.shared.policy.shell_tree import Command, Script
from ekiden.shared.policy.word_sets import words
from ekiden.shared.risk import RISKS, Risk

__all__ = ["critical_commands", "risk_of"]

_ESCALATING = words("sudo su doas pkexec run0 runuser gosu su-exec setpriv capsh sudoedit")
_ENDING = words(
    "shutdown reboot halt poweroff telinit killall5 mkfs mke2fs mkswap wipefs blkdiscard vgremove lvremove pvremove"
)
_UNITS = re.compile(r"(poweroff|reboot|halt|kexec|soft-reboot|rescue|emergency|suspend|hibernate)(\.target)?")
_PARTITIONERS = words("fdisk sfdisk cfdisk parted gdisk sgdisk shred dd tee cp badblocks cryptsetup")
_DEVICE = re.compile(r"(of=)?/dev/((sd|hd|vd|xvd|nvme|mmcblk|md|dm-|loop|disk|mapper|root|r?disk)[\w/.-]*|k?mem|port)")
_WHOLE = words(
    "~ $HOME ${HOME} /bin /boot /dev /etc /home /lib /lib32 /lib64 /opt /proc /root /run /sbin /srv /sys /usr /usr/bin "
    "/usr/lib /usr/sbin /var /Users /System /Library"
) | {""}
"""The root (without its slash), a home folder, the folders of the system."""
_OTHERS_HOME = re.compile(r"~[\w.-]+")
_SYSRQ = re.compile(r"/proc/sysrq-trigger|/proc/sys/kernel/\w+|/sys/power/\w+")


def risk_of(script: Script, least: Risk) -> Risk:
    """Return the level of a command line, ``least`` if nothing in it is worse."""
    if critical_commands(script) or _is_bomb(script):
        return "critical"
    is_high = bool(hidden_in(script)) or any(one.program in _ESCALATING for one in all_commands(script))
    return max(least, "high" if is_high else least, key=RISKS.index)


def critical_commands(script: Script) -> list[Command]:
    """Return the commands that end or wipe a system; one without words stands for what is written to a device."""
    found = [one for one in all_commands(script) if _is_critical(one)]
    targets = [one.target.text for one in script.redirections]
    to_device = any(_DEVICE.fullmatch(target) or _SYSRQ.fullmatch(target) for target in targets)
    return [*found, *([Command(())] if to_device or _is_bomb(script) else [])]


def _is_critical(command: Command) -> bool:
    program, arguments = command.program, command.texts[1:]
    if program in _ENDING or program.startswith("mkfs."):
        return not {"--help", "--version"} & set(arguments)
    match program:
        case "init":
            return any(one in ("0", "6") for one in arguments)
        case "systemctl" | "loginctl":
            return any(_UNITS.fullmatch(one) for one in arguments)
        case "kill" | "pkill":
            return "-1" in arguments[1:] or (program == "kill" and arguments[:2] == ("--", "-1"))
        case "zpool" | "zfs":
            return "destroy" in arguments
        case "rm" | "chmod" | "chown" | "chgrp" | "mv" | "unlink":
            return _is_sweeping(command)
        case "find":
            return _finds_everything(command)
        case _:
            written = program in _PARTITIONERS and any(map(_DEVICE.fullmatch, arguments))
            return written or (program == "tee" and any(map(_SYSRQ.fullmatch, arguments)))


def _is_sweeping(command: Command) -> bool:
    """Tell whether a command does with a whole system, or a home, what it is for."""
    sources = [word.source for word in command.words[1:]]
    options = [one for one in command.texts[1:] if one.startswith("-")]
    if "--no-preserve-root" in options:
        return True
    targets = [one for one in sources if not one.startswith("-")]
    if command.program == "mv":
        return any(map(_is_whole, targets[:-1]))
    return _is_recursive(options) and any(map(_is_whole, targets))


def _is_whole(target: str) -> bool:
    """Tell whether a path, as it stands, is the root, a home or a folder of the system, or all that is in one."""
    path = re.sub(r"[\"'\\]", "", target)
    if not path.startswith(("/", "~", "$")):
        return False
    names: list[str] = []
    for name in re.sub(r"(/+\.?\*)+/*\Z", "", path).split("/"):
        if name == "..":
            names = names[:-1]
        elif name not in ("", "."):
            names.append(name)
    folder = "/" * path.startswith("/") * bool(names) + "/".join(names)
    return folder in _WHOLE or _OTHERS_HOME.fullmatch(folder) is not None


def _is_recursive(options: list[str]) -> bool:
    return any(
        (one.startswith("--") and len(one) > 2 and "--recursive".startswith(one))
        or (not one.startswith("--") and bool({"r", "R"} & set(one)))
        for one in options
    )


def _finds_everything(command: Command) -> bool:
    texts = command.texts
    deletes = "-delete" in texts or any(one.rpartition("/")[2] in ("rm", "shred", "unlink") for one in texts)
    return deletes and any(_is_whole(word.source) for word in command.words[1:2])


def _is_bomb(script: Script) -> bool:
    """Tell whether a function does nothing but start itself, several times over."""
    return any(called.count(name) > 1 for name, called in script.functions)
