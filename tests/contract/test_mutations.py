"""Tests of the tests: with one safety taken out of a copy of a script, the test that watches over it fails."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest

from ekiden.shared.stores import scripts
from tests.conftest import Backend, real_backend
from tests.contract import test_approvals as approvals
from tests.contract import test_budget_periods as periods
from tests.contract import test_children as children
from tests.contract import test_clock as clock
from tests.contract import test_graph_steps as steps
from tests.contract import test_job_store as contract
from tests.contract import test_last_steps as last
from tests.contract import test_model_limits as model_limits
from tests.contract import test_publishing as publishing
from tests.contract import test_rewind as rewound
from tests.doubles.clocks import let_clock_be_set


@dataclass(frozen=True)
class Mutation:
    """A text of the scripts, what stands in its place, and who must notice."""

    taken_out: str
    old: str
    new: str
    noticed_by: Callable[[Backend], None]


def with_a_clock_that_is_set(test: Callable[..., None], *args: object) -> Callable[[Backend], None]:
    """A test of the clock as one that needs a backend only."""

    def whole(backend: Backend) -> None:
        with pytest.MonkeyPatch.context() as patching:
            let_clock_be_set(patching)
            test(backend, *args)

    return whole


def whole_of(test: Callable[..., None], *args: object) -> Callable[[Backend], None]:
    """One case of a test as one that needs a backend only."""
    return lambda backend: test(backend, *args)


MUTATIONS = [
    Mutation(
        "fence check",
        "elseif job.status ~= 'running' or fence_of(job.fence, job.owner) ~= fence or job.leg ~= leg then",
        "elseif false then",
        contract.test_after_the_lease_another_worker_takes_over_and_the_first_cannot_write,
    ),
    Mutation(
        "drawn part of the fence",
        "(count or '') .. '.' .. (owner or '')",
        "(count or '') .. '.'",
        rewound.test_two_workers_whose_claims_were_counted_alike_never_look_alike,
    ),
    Mutation(
        "journal's position",
        "if job.seq ~= seq then return {'moved'} end",
        "",
        rewound.test_a_writer_that_remembers_more_than_the_server_stops_and_the_leg_goes_on_from_there,
    ),
    Mutation(
        "renewal's look at the position",
        "and tonumber(h[5]) >= seq then",
        "then",
        rewound.test_a_writer_that_remembers_more_than_the_server_stops_and_the_leg_goes_on_from_there,
    ),
    Mutation(
        "stored verdict",
        "if commit ~= '' and told and",
        "if false and told and",
        contract.test_a_repeated_commit_gets_the_stored_verdict,
    ),
    Mutation(
        "append's token",
        "local again = this.token == token",
        "local again = false",
        contract.test_appends_are_numbered_and_a_repeated_one_is_recognised,
    ),
    Mutation(
        "append's cancel check",
        "if this.cancel then return {'cancelled', this.cancel} end\nlocal purse",
        "local purse",
        contract.test_a_running_job_that_was_cancelled_can_only_end_as_cancelled,
    ),
    Mutation(
        "finish's cancel check",
        "this.cancel and status ~= fits[this.cancel]",
        "false",
        contract.test_a_running_job_that_was_cancelled_can_only_end_as_cancelled,
    ),
    Mutation(
        "finish's waking of the session's next job",
        "  leave(job, k.session, k.inbox)\n",
        "",
        contract.test_further_jobs_of_a_session_wait_in_order_and_each_end_starts_the_next,
    ),
    Mutation(
        "finish's waking of the parent",
        "  report(job, status)\n",
        "",
        children.test_the_last_child_that_ends_wakes_its_parent_once,
    ),
    Mutation(
        "finish's end of the children",
        "  abandon(job)\n  report",
        "  report",
        children.test_the_end_of_a_job_stops_its_children_down_to_the_last,
    ),
    Mutation(
        "finish's clearing of the indexes",
        "  forget(job)\n",
        "",
        contract.test_finishing_clears_every_index_and_stores_result_and_messages,
    ),
    Mutation(
        "claim's lease check",
        "if this.status == 'running' and not mine and is_leased(id) then return {'busy'} end",
        "",
        contract.test_only_one_of_two_claims_succeeds,
    ),
    Mutation(
        "depth check",
        "if depth > tonumber(max_depth) then",
        "if false then",
        contract.test_n_handoffs_are_allowed_and_one_more_is_refused,
    ),
    Mutation(
        "the end of a graph's branches with its next step",
        "put(this, 'depth', depth_there)\n  abandon(this)",
        "put(this, 'depth', depth_there)",
        steps.test_a_graph_that_takes_a_step_waits_for_none_of_its_branches,
    ),
    Mutation(
        "that a graph is woken once",
        "if parent.cause == 'children' then join(parent) else save(parent) end",
        "join(parent)",
        steps.test_the_first_branch_that_ends_wakes_its_graph_once_and_the_others_go_on,
    ),
    Mutation(
        "the end of branches that are named no more",
        "abandon(this, named)",
        "",
        steps.test_branches_that_a_graph_names_no_more_are_stopped,
    ),
    Mutation(
        "cycle check",
        "if tonumber(visits) > 0 then",
        "if false then",
        contract.test_a_refused_transfer_leaves_the_leg_running,
    ),
    Mutation(
        "finish's count of what its leg's last steps have spent",
        "spend(this, purse, tokens, micro_usd, turns, used_ms)\naccount(this, purse, session, used)\nif purse",
        "account(this, purse, session, used)\nif purse",
        partial(last.test_last_steps_that_are_written_count_once_also_when_the_write_is_repeated, write=last.finished),
    ),
    Mutation(
        "suspend's count of what they have spent below a root",
        "if purse ~= this then save(purse) end\n\nlocal function ask",
        "local function ask",
        partial(last.test_what_a_childs_last_steps_have_spent_counts_on_its_root, write=last.given_back),
    ),
    Mutation(
        "transfer's look at what they have spent",
        "spend(this, purse, tokens, micro_usd, turns, used_ms)\n\nlocal function why_not",
        "local function why_not",
        last.test_what_last_steps_have_spent_counts_before_their_transfer_is_allowed,
    ),
    Mutation(
        "suspend's count of the legs that it begins",
        "    count_leg(purse)\n  end",
        "  end",
        children.test_a_family_counts_its_turns_legs_and_time_together,
    ),
    Mutation(
        "what of a leg's time was counted before",
        "math.max(0, used_ms - (job.used_ms or 0))",
        "used_ms",
        children.test_a_family_counts_its_turns_legs_and_time_together,
    ),
    Mutation(
        "session's memory of untrusted text",
        "  call('HSET', session, 'untrusted', 1)\n",
        "",
        partial(
            last.test_last_steps_that_are_written_count_once_also_when_the_write_is_repeated, write=last.handed_over
        ),
    ),
    Mutation(
        "suspend's note of progress",
        "if used_ms ~= '' then",
        "if false then",
        last.test_a_leg_that_is_given_back_with_a_last_step_has_made_progress,
    ),
    Mutation(
        "sweeper's look at the oldest message",
        "if oldest and (not sent_ms or sent_ms <= since or sent_ms > now) then return {'waiting'} end",
        "",
        contract.test_a_lost_message_is_pushed_again_but_one_that_still_waits_is_not,
    ),
    Mutation(
        "a lease's safety from clocks that nobody has compared",
        "return not is_vouched_for or listed_at",
        "return listed_at",
        with_a_clock_that_is_set(clock.test_a_lease_cannot_be_taken_by_a_clock_that_nobody_has_compared),
    ),
    Mutation(
        "relay time's standing still",
        "local now = math.max(ticked, followed)",
        "local now = ticked",
        with_a_clock_that_is_set(
            clock.test_relay_time_does_not_go_back_though_the_clock_was_set_back_while_no_pool_ran
        ),
    ),
    Mutation(
        "a jump's being taken out once",
        "if known ~= jumps then return {'known'} end",
        "",
        with_a_clock_that_is_set(clock.test_pools_that_notice_at_the_same_time_take_a_jump_out_once, clock.HOUR_S),
    ),
    Mutation(
        "a jump's respect for what others have followed",
        "now = math.max(ticked - by_ms, followed)",
        "now = ticked - by_ms",
        with_a_clock_that_is_set(clock.test_a_pool_whose_own_clock_stood_still_holds_up_nobody),
    ),
    Mutation(
        "the putting right of what was written since a jump",
        "if at > 0 then redis.call('ZADD'",
        "if false then redis.call('ZADD'",
        with_a_clock_that_is_set(
            clock.test_what_was_written_before_anybody_noticed_the_jump_is_put_right, 8 * clock.DAY_S
        ),
    ),
    Mutation(
        "publish's comparison",
        "if current ~= replaced then return {'moved', current} end\n",
        "",
        publishing.test_of_many_that_publish_at_once_one_succeeds,
    ),
    Mutation(
        "first answer's right",
        "if told then return",
        "if false then return",
        approvals.test_a_decision_never_writes_beside_a_running_leg,
    ),
    Mutation(
        "answer's digest",
        "~= digest then return {'another'} end",
        "== '' then return {'another'} end",
        approvals.test_an_answer_to_another_call_than_the_one_that_was_shown_is_refused,
    ),
    Mutation(
        "decision's look at who runs",
        "or this.cancel or this.status ~= 'suspended' then",
        "then",
        approvals.test_what_a_child_asks_is_listed_with_the_jobs_above_it_and_ends_with_them,
    ),
    Mutation(
        "expiry's time",
        "if expires > tonumber(passed_ms) then return {'busy'} end",
        "",
        approvals.test_what_nobody_answers_expires_and_the_leg_goes_on,
    ),
    Mutation(
        "answer's time",
        "elseif expires <= now and is_vouched_for then",
        "elseif false then",
        approvals.test_what_nobody_answers_expires_and_the_leg_goes_on,
    ),
    Mutation(
        "approval's end with its job",
        "left < tonumber(timeout_ms) then",
        "false then",
        approvals.test_an_approval_waits_no_longer_than_its_job_and_says_so,
    ),
    Mutation(
        "sweeper's patience with people",
        "if this.waits then return {'unanswered', this.waits} end",
        "",
        approvals.test_what_nobody_answers_expires_and_the_leg_goes_on,
    ),
    Mutation(
        "last answer's wake-up",
        "if #left > 0 then",
        "if false then",
        approvals.test_what_nobody_answers_expires_and_the_leg_goes_on,
    ),
    Mutation(
        "withdrawal at a job's end",
        "  if not job.waits then return end",
        "  if true then return end",
        whole_of(approvals.test_the_end_of_a_job_withdraws_what_it_asks, "user"),
    ),
    Mutation(
        "fence of a reservation",
        "fence_of(job[2], job[3]) == fence",
        "true",
        model_limits.test_a_dispatchers_slot_is_free_when_its_claim_is_over_however_long_the_jobs_next_legs_take,
    ),
    Mutation(
        "look at an hour before it is counted",
        "if purse.max_user_per_s then",
        "if false then",
        with_a_clock_that_is_set(
            periods.test_what_a_job_records_counts_for_the_hour_though_nobody_has_looked_at_that_yet
        ),
    ),
]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.taken_out)
def test_a_safety_that_is_taken_out_is_missed(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = scripts.source_of
    touched = []

    def mutated(name: str) -> str:
        text = whole(name)
        touched.append(mutation.old in text)
        return text.replace(mutation.old, mutation.new)

    backend = real_backend()
    mutation.noticed_by(backend)
    monkeypatch.setattr(scripts, "source_of", mutated)
    with pytest.raises((AssertionError, pytest.fail.Exception)):  # the latter: pytest.raises that nothing satisfied
        mutation.noticed_by(backend)
    assert any(touched), "the text is no longer in any script: mend the mutation"
