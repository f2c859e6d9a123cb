"""The run path of every entry, and the events that carry it."""

import io
import json
from typing import Any

from ekiden.dispatcher.cli.views.json_lines import JsonView, event_type
from ekiden.dispatcher.journal.follower import show_job_tree
from ekiden.dispatcher.journal.run_paths import Paths
from ekiden.dispatcher.journal.tree import in_order
from ekiden.shared.records import Entry
from tests.unit.cli.families import DIGGER, ROOT, SCOUT, TESTER, family


def events(job: str, journals: dict[str, list[Entry]], tail: int | None = None) -> list[dict[str, Any]]:
    stream = io.StringIO()
    show_job_tree(job, in_order(journals), JsonView(job, stream), tail)
    found = [json.loads(line) for line in stream.getvalue().splitlines()]
    for event in found:
        event_type().validate_python(event)
    return [event for event in found if event["event"] == "record"]


def paths(found: list[dict[str, Any]], job: str) -> list[str]:
    """The paths of a job's events, each once."""
    return list(dict.fromkeys("/".join(event["run_path"]) for event in found if event["job"] == job))


def test_the_path_grows_with_every_handoff_and_shrinks_with_a_return() -> None:
    found = events(ROOT, family())
    assert paths(found, ROOT) == ["user", "user/lead", "user/lead/checker", "user/lead/reviewer"]
    of_leg = {event["leg"]: event["run_path"] for event in found if event["job"] == ROOT}
    assert of_leg[3] == of_leg[1] == ["user", "lead"]


def test_a_childs_path_begins_with_its_parents_at_the_delegation() -> None:
    found = events(ROOT, family())
    assert paths(found, SCOUT) == ["user/lead", "user/lead/scout", "user/lead/scout/helper"]
    assert paths(found, TESTER) == ["user/lead", "user/lead/tester"]
    assert paths(found, DIGGER) == ["user/lead/scout/helper", "user/lead/scout/helper/digger"]


def test_a_child_that_is_looked_at_alone_has_the_same_paths() -> None:
    journals = family()
    whole = events(ROOT, journals)
    for job in (SCOUT, DIGGER):
        alone = events(job, {job: journals[job]})
        assert alone == [event for event in whole if event["job"] == job]


def test_events_of_all_jobs_come_in_the_order_of_time_each_journals_in_its_own() -> None:
    found = events(ROOT, family())
    assert [event["at_ms"] for event in found] == sorted(event["at_ms"] for event in found)
    for job, entries in family().items():
        assert [event["seq"] for event in found if event["job"] == job] == [entry.seq for entry in entries]
    order = [(event["job"], event["type"]) for event in found]
    assert order.index((ROOT, "delegated")) < order.index((SCOUT, "request"))
    assert order.index((TESTER, "ended")) < order.index((ROOT, "tool_result"))


def test_a_tail_knows_the_paths_of_what_it_does_not_show() -> None:
    journals = family()
    whole = events(ROOT, journals)
    for tail in (0, 1, 7, 20, 1_000):
        assert events(ROOT, journals, tail) == whole[len(whole) - min(tail, len(whole)) :]


def test_of_a_leg_that_nobody_heard_of_the_path_is_that_of_the_beginning() -> None:
    assert Paths().of(7) == ("user",)
    assert Paths().above(SCOUT) is None
