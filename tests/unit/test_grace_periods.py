"""The ladder of graces: whoever waits, waits longer than those it waits for may take, one after the other."""

import re
from pathlib import Path

import yaml

from ekiden.shared.processes import grace_periods
from ekiden.shared.processes.grace_periods import (
    ALONE_S,
    CANCEL_S,
    CLOSE_S,
    DRAIN_S,
    GIVE_BACK_S,
    JOB_S,
    LEAVE_S,
    ORPHAN_S,
    STOP_S,
    TERM_S,
    TOOL_S,
    stop_s,
)
from ekiden.shared.processes.reaper import GONE_S
from ekiden.shared.settings.model import Settings

ROOT = Path(__file__).parents[2]
OF_THE_KILLED = ("ORPHAN_S", "TAKEOVER_S")
NOTICE_S = 5.0 / 3
"""A worker hears of a stopped job at its next renewal, at the latest."""
BEAT_S, TELEMETRY_S = 5.0, 3.0
"""What stopping the heartbeat, and sending what has been traced, may take (``Heartbeat.stop``, the exporters)."""


def test_every_grace_is_longer_than_those_inside_it() -> None:
    assert TOOL_S > TERM_S + GONE_S
    assert ALONE_S > TOOL_S + GIVE_BACK_S
    assert CANCEL_S > TOOL_S + GIVE_BACK_S
    assert CANCEL_S > ALONE_S + (TOOL_S - TERM_S), "what a process of the quarantine is given, and then to be gone"
    assert CLOSE_S > LEAVE_S + TOOL_S + BEAT_S + TELEMETRY_S
    assert stop_s(7) >= 7 + CANCEL_S + CLOSE_S
    assert stop_s(DRAIN_S) == STOP_S
    assert JOB_S > NOTICE_S + TOOL_S


def test_a_container_is_given_longer_than_a_pool_in_it_may_take() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"].values()
    given = [float(service["stop_grace_period"].removesuffix("s")) for service in services if "build" in service]
    assert len(given) == 4
    assert min(given) > STOP_S


def test_what_was_killed_leaves_within_two_seconds() -> None:
    assert ORPHAN_S < 2.0
    assert Settings().drain_s is None, "the pools of run and up do not wait, unless they are told to"


def test_the_ladder_shows_what_is_in_force() -> None:
    shown = re.findall(r"^    ([\d.]+) +(\w+_S) ", grace_periods.__doc__ or "", re.MULTILINE)
    assert {name: float(seconds) for seconds, name in shown} == {
        name: getattr(grace_periods, name)
        for name in grace_periods.__all__
        if name.endswith("_S") and name not in OF_THE_KILLED
    }
