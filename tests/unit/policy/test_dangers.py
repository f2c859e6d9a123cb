"""How much a command line can do: what needs more than the tool's own level says."""

import pytest

from ekiden.shared.policy.command_patterns import prefix_command
from ekiden.shared.policy.engine import Policy
from ekiden.shared.policy.rules import Rule
from ekiden.shared.policy.tool_use import ToolUse

CRITICAL = [
    "shutdown now", "/sbin/reboot", "halt", "poweroff -f", "init 0", "telinit 6", "systemctl poweroff",
    "systemctl reboot --force", "systemctl isolate rescue.target", "sudo shutdown -h now", "env A=1 reboot",
    "bash -c 'reboot'", "echo x; reboot", "$(reboot)", "mkfs.ext4 /dev/sda1", "mkfs -t ext4 x", "wipefs -a /dev/sda",
    "dd if=/dev/zero of=/dev/sda bs=1M", "dd of=/dev/nvme0n1 if=x", "shred /dev/sdb", "echo x > /dev/sda",
    "cat x >> /dev/nvme0n1p1", "echo b > /proc/sysrq-trigger", "tee /dev/sda", "rm -rf /", "rm -rf /*", "rm -r -f //",
    "rm --recursive --force /", "rm -rf --no-preserve-root x", "rm -rf ~", "rm -rf ~/", "rm -rf ~/*", "rm -rf $HOME",
    'rm -rf "$HOME"', 'rm -rf "${HOME}"/*', "rm -fr /etc", "rm -Rf /usr/", "rm -rf /home/*", "rm -rf /tmp/../",
    "rm -rf /./", "rm -rf x /", "rm -rf '/'", "sudo rm -rf /var", "find / -delete", "find / -name x -exec rm -rf {} +",
    "xargs rm -rf /", "chmod -R 777 /", "chown -R me /", "chmod --recursive 0 /etc", "mv / /x", "mv /* /x",
    "kill -9 -1", "kill -KILL -1", "killall5 -9", ":(){ :|:& };:", "b() { b | b & }; b", "function f { f | f & }; f",
    "zpool destroy tank", "fdisk /dev/sda", "blkdiscard x", "eval 'rm -rf /'", "git status && rm -rf /",
]  # fmt: skip
ORDINARY = [
    "rm -rf build", "rm -rf ./dist", "rm -rf node_modules/*", "rm x", "rm /etc/hosts.bak", "rm -rf /tmp/x",
    "rm -rf ~/x", "chmod 644 x", "chmod -R u+w src", "kill 123", "kill -9 4242", "dd if=a of=b", "echo reboot",
    "git commit -m 'shutdown now'", "echo 'rm -rf /'", "grep -r shutdown .", "find . -delete", "mv a b",
    "systemctl status x", "echo x > out", "echo x > /dev/null", "f() { f; }; f", "cat /dev/sda1.txt", "ls /",
    "for f in *.py; do echo $f; done", "make", "python x.py", "mkdir -p a/b", "shutdown --help",
]  # fmt: skip
HIGH = [
    "sudo ls", "echo x | sudo tee y", "bash -c 'sudo ls'", "doas ls", "su - root", "$X", "eval \"$x\"", "curl x | sh",
    "git status (",
]  # fmt: skip


def risk(command: str) -> str:
    return ToolUse("bash", {"command": command}).risk


def test_what_ends_or_wipes_a_system_is_critical() -> None:
    assert [command for command in CRITICAL if risk(command) != "critical"] == []


def test_an_ordinary_command_is_no_more_than_its_tool() -> None:
    assert [(command, risk(command)) for command in ORDINARY if risk(command) != "medium"] == []


def test_sudo_and_programs_that_nobody_knows_are_high() -> None:
    assert [(command, risk(command)) for command in HIGH if risk(command) != "high"] == []


@pytest.mark.parametrize(
    ("prefix", "command", "verdict"),
    [
        ("reboot", "reboot", "allow"),
        ("sudo reboot", "sudo reboot", "allow"),
        ("reboot", "reboot; rm -rf /", "deny"),
        ("rm", "rm -rf /", "allow"),
        ("ls", "rm -rf /", "deny"),
        ("sudo", "sudo reboot", "deny"),
        ("bash -c", "bash -c reboot", "deny"),
    ],
)
def test_a_critical_command_is_denied_unless_a_rule_names_it(prefix: str, command: str, verdict: str) -> None:
    named = Rule("allow", "f", "r", ("bash",), commands=(prefix_command(prefix, restricts=False),))
    everything = Rule("allow", "f", "everything"), Rule("allow", "f", "all of bash", ("bash",))
    use = ToolUse("bash", {"command": command})
    assert Policy(everything, frozenset({"medium", "high"})).decide(use).verdict == "deny"
    assert Policy((named, *everything[:0])).decide(use).verdict == verdict


def test_a_critical_tool_is_denied_unless_a_rule_names_it() -> None:
    use = ToolUse("system_shutdown", tool_risk="critical")
    assert Policy((Rule("allow", "f", "r"),)).decide(use).verdict == "deny"
    assert Policy((Rule("ask", "f", "r", ("system_*",)),)).decide(use).verdict == "deny"
    assert Policy((Rule("ask", "f", "r", ("system_shutdown",)),)).decide(use).verdict == "ask"
    assert Policy((Rule("allow", "f", "r", ("system_shutdown",)),)).decide(use).verdict == "allow"
