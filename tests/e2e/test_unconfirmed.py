"""What the commands say and end with where replicas are waited for that do not come."""

import json

import pytest

from tests.e2e.program import Program

WAITING = {"EKIDEN_WAIT_REPLICAS": "1"}
NOT_CONFIRMED = 6


@pytest.mark.usefixtures("redis_url")
def test_a_submit_that_no_replica_has_says_so_and_is_the_same_job_when_it_is_repeated(ekiden: Program) -> None:
    first = ekiden.run("submit", "x", "--request-id", "once", env=WAITING)
    assert (first.returncode, first.stdout) == (NOT_CONFIRMED, ""), first.stderr
    assert first.stderr.startswith("ekiden: not confirmed: ")
    again = ekiden.run("submit", "x", "--request-id", "once", "--json", env=WAITING)
    assert again.returncode == NOT_CONFIRMED
    assert again.stderr == first.stderr
    found = json.loads(again.stdout)
    assert found["job"] in first.stderr
    assert (found["confirmed"], found["request_id"]) == (False, "once")
    confirmed = ekiden.run("submit", "x", "--request-id", "once", "--json")
    assert (confirmed.returncode, json.loads(confirmed.stdout)) == (0, {"job": found["job"]})
    shown = ekiden.run("submit", "y", "--follow", "--json", env=WAITING)
    assert shown.returncode == NOT_CONFIRMED
    assert json.loads(shown.stdout)["event"] == "note"
    cancelled = ekiden.run("job", "cancel", found["job"], env=WAITING)
    assert (cancelled.returncode, cancelled.stdout) == (NOT_CONFIRMED, "")


def test_the_embedded_server_is_not_waited_with(ekiden: Program) -> None:
    for command in (["run", "x"], ["up"], ["chat"]):
        refused = ekiden.run(*command, env=WAITING)
        assert refused.returncode == 2, refused.stderr
        assert "ekiden.wait_replicas is 1, but the embedded server has no replicas" in refused.stderr
    assert not ekiden.data.exists()
