"""What commands may use up, and that nothing of them is left: real programs that take all they can."""

import os
import resource
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from ekiden.shared.processes.usage import usage_below
from tests.unit.sandbox.conftest import Workshop

MIB = 1 << 20
MARK = "ekiden_mark_of_a_command"


def _marked(shop: Workshop) -> list[psutil.Process]:
    """Return the processes that work in the workshop's folder, whatever they are."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and Path(process.cwd()).is_relative_to(shop.folder):
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


@pytest.fixture(params=["bubblewrap", "landlock", "off"])
def mechanism(request: pytest.FixtureRequest) -> str:
    """Limits hold without a sandbox, too."""
    return str(request.param)


BOMB = "f() { [ $1 -gt 0 ] && { %s f $(($1-1)) & f $(($1-1)) & }; sleep 60; }; f 9; wait"
"""Twice as many shells each time, a thousand if nobody stops them."""
SETSID = "import os, time\nfor _ in range(9):\n    os.fork() or os.setsid()\ntime.sleep(60)"


@pytest.mark.parametrize("bomb", [BOMB % "", f"python -c '{SETSID}'"], ids=["shells", "sessions"])
def test_a_fork_bomb_is_ended_and_its_agent_told(shop: Workshop, bomb: str) -> None:
    began = time.monotonic()
    said = shop.run(bomb, sandbox=shop.limited(processes=100))
    assert "used more processes than tools.max_processes allows" in said
    assert time.monotonic() - began < 30, "it would have slept for a minute"
    assert _marked(shop) == []


def test_who_takes_too_much_memory_gets_none_and_several_together_are_ended(shop: Workshop) -> None:
    limited = shop.limited(memory_bytes=200 * MIB)
    said = shop.run("python -c 'x = bytearray(300 << 20)' 2>&1 | tail -1", sandbox=limited)
    assert said == "MemoryError\nexit code: 0"
    each = "python -c 'import time; x = bytearray(90 << 20); time.sleep(60)' &"
    said = shop.run(f"{each} {each} {each} wait", sandbox=limited)
    assert "used more memory than tools.max_memory_mib allows" in said
    assert _marked(shop) == []


def test_a_file_does_not_fill_the_disk(shop: Workshop) -> None:
    said = shop.run("head -c 50000000 /dev/zero > big; echo $?; stat -c %s big", sandbox=shop.limited(file_bytes=MIB))
    assert said.splitlines()[-2] == str(MIB)


def test_a_gigabyte_of_output_is_neither_kept_in_memory_nor_on_disk(make_shop: Callable[[str], Workshop]) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    said = make_shop("off").run("echo first; head -c 1000000000 /dev/zero; echo; echo last")
    assert said.startswith("first\n\0\0")
    assert said.endswith("\0\nlast\nexit code: 0")
    assert len(said) < 1_100_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000, "kilobytes"


LEAVERS: dict[str, str] = {
    "background": "sleep 300 &",
    "nohup": "nohup sleep 300 > /dev/null 2>&1 & disown",
    "setsid": "setsid sleep 300 > /dev/null 2>&1 &",
    "deaf": "(trap '' TERM HUP; while :; do sleep 1; done) > /dev/null 2>&1 &",
    "daemon": "python -c 'import os, time\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\n"
    "time.sleep(300)' > /dev/null 2>&1 < /dev/null",
}


@pytest.mark.parametrize("leave", LEAVERS.values(), ids=LEAVERS)
def test_nothing_that_a_command_started_outlives_it(shop: Workshop, leave: str) -> None:
    assert shop.run(f"{leave}\necho begun") == "begun\nexit code: 0"
    assert _marked(shop) == []


def test_a_command_that_is_ended_is_asked_first(shop: Workshop) -> None:
    said = shop.run("trap 'echo cleaned > cleaned; exit 0' TERM; sleep 60 & wait", timeout_s=1)
    assert "timed out" in said
    assert (shop.context.cwd / "cleaned").read_text() == "cleaned\n"
    assert _marked(shop) == []


def test_the_kernel_ends_commands_before_us_when_memory_is_short(shop: Workshop) -> None:
    ours = int(Path("/proc/self/oom_score_adj").read_text())
    if shop.context.sandbox.mechanism == "landlock":
        pytest.skip("/proc is not seen there; the same line of code sets it in all three")
    assert int(shop.run("cat /proc/self/oom_score_adj").splitlines()[0]) > ours


def test_root_in_a_sandbox_is_no_root_of_the_machine(make_shop: Callable[[str], Workshop]) -> None:
    if os.geteuid():
        pytest.skip("needs root")
    said = make_shop("bubblewrap").run("grep CapEff /proc/self/status; chown 1 . && echo owner changed")
    assert int(said.split()[1], 16) == 0b11011
    assert "owner changed" in said


def test_what_runs_below_a_process_is_counted_with_threads_and_memory(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys, threading, time\n"
        "held = bytearray(50 << 20)\n"
        "[threading.Thread(target=time.sleep, args=(60,), daemon=True).start() for _ in range(5)]\n"
        "child = subprocess.Popen(['sleep', '60'])\nprint(flush=True)\ntime.sleep(60)"
    )
    with psutil.Popen(["python", "-c", code], stdout=-1) as process:
        process.stdout.readline()
        usage = usage_below(os.getpid())
        below = [child.pid for child in process.children()]
        assert set(usage.pids) >= {process.pid, *below}
        assert usage.tasks >= 7
        assert usage.memory_bytes >= 50 * MIB
        for pid in below:
            psutil.Process(pid).kill()
        process.kill()
