"""The ids of a job's spans."""

import os
import random

from ekiden.shared.tracing.trace_ids import child_traceparent, new_traceparent, read_traceparent


def test_ids_are_drawn_and_read_back() -> None:
    text = new_traceparent(1.0)
    root = read_traceparent(text)
    assert root is not None
    assert text == f"00-{root.trace}-{root.span_id:016x}-01"
    assert new_traceparent(1.0) != text


def test_a_program_that_seeds_its_chance_or_forks_draws_other_ids_each_time() -> None:
    drawn = []
    for _ in range(2):
        random.seed(1)
        drawn.append(new_traceparent(1.0))
    ours, theirs = os.pipe()
    if (child := os.fork()) == 0:
        os.write(theirs, new_traceparent(1.0).encode())
        os._exit(0)
    drawn += [os.read(ours, 100).decode(), new_traceparent(1.0)]
    os.waitpid(child, 0)
    assert len(set(drawn)) == 4


def test_derived_ids_are_the_same_for_whoever_derives_them() -> None:
    root = read_traceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    assert root is not None
    assert root.send(1) == read_traceparent(f"00-{root.trace}-b7ad6b7169203331-01").send(1)  # type: ignore[union-attr]  # it is one
    assert len({root.send(1), root.send(2), root.step(1), root.step(2), root.step(2, "agent"), root.span_id}) == 6
    assert 0 < root.step(1) < 2**64


def test_what_is_no_traceparent_names_no_trace() -> None:
    zeros = f"00-{'0' * 32}-{'1' * 16}-01"
    assert [read_traceparent(text) for text in (None, "", "00-xyz", zeros)] == [None] * 4


def test_a_share_of_the_jobs_is_sampled() -> None:
    roots = [read_traceparent(new_traceparent(0.25)) for _ in range(2_000)]
    sampled = [root for root in roots if root is not None and root.sampled]
    assert 350 < len(sampled) < 650
    assert all(root.is_below(0.25) for root in sampled), "whoever asks later says the same"
    assert not any(read_traceparent(new_traceparent(0.0)).sampled for _ in range(50))  # type: ignore[union-attr]  # it is one


def test_a_delegated_job_has_a_root_of_its_own_in_its_parents_trace() -> None:
    parent = new_traceparent(1.0)
    root, child = read_traceparent(parent), read_traceparent(child_traceparent(parent, "abcdefghij234567.1.1"))
    assert root is not None
    assert child is not None
    assert (child.trace_id, child.span_id, child.sampled) == (root.trace_id, root.child("abcdefghij234567.1.1"), True)
    assert len({root.span_id, child.span_id, root.child("abcdefghij234567.1.2")}) == 3
    assert root.step(1) != child.step(1), "both count their records from one"


def test_the_child_of_a_job_that_is_not_traced_is_not_traced() -> None:
    assert child_traceparent("", "abcdefghij234567.1.1") == ""
    assert child_traceparent(new_traceparent(0.0), "abcdefghij234567.1.1").endswith("-00")
