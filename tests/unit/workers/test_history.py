"""What an agent reads before its own first turn of a leg."""

import pytest

from ekiden.shared.handoff import History
from ekiden.shared.messages import Message, user_message
from ekiden.shared.records import ModelReplied, Noticed
from ekiden.shared.stores.sessions import SessionMessage
from ekiden.workers.history import opening, summary_request
from tests.unit.workers.journal import JOB, Job, texts
from tests.unit.workers.world import call, handing_over, said

SUMMARY = History(mode="summary")


def test_the_first_agent_reads_the_request_alone() -> None:
    assert texts(Job("lead", "修好它 🐛").opened()) == [("user", "修好它 🐛")]


def earlier(agent: str, text: str) -> SessionMessage:
    message = said(text).message if agent else user_message(text)
    return SessionMessage(JOB, agent, message)


def test_what_was_said_in_the_session_before_comes_first() -> None:
    before = [earlier("", "hi"), earlier("lead", "Hello."), earlier("", "who?"), earlier("helper", "Me.")]
    first, own, rest = Job("lead", earlier=before).opened()
    assert (first.role, first.text) == ("user", "hi")
    assert (own.role, own.text) == ("model", "Hello.")
    assert rest.text.startswith("who?\n\n«fence ")
    assert "agent helper said»\nMe.\n" in rest.text
    assert rest.text.endswith("\n\nfix it")


@pytest.mark.parametrize("agent", ["lead", "helper"])
def test_a_session_whose_beginning_is_cut_off_begins_with_a_user_all_the_same(agent: str) -> None:
    before = [earlier(agent, "the answer to something"), earlier("", "hi"), earlier("lead", "Hello.")]
    assert texts(Job("lead", earlier=before).opened()) == [("user", "hi"), ("model", "Hello."), ("user", "fix it")]


def test_another_agents_turns_are_one_fenced_quotation_without_tools_and_thoughts() -> None:
    job = Job("lead")
    job.turn(call("c1", "look", what="secret"), text="I look.")
    job.turn(call("c2", "look"))
    job.hand_over("fixer", "c3", text="It is cart.py.")
    [message] = job.opened()
    fence = job.fence
    assert message.role == "user"
    assert message.text.startswith(
        f"fix it\n\n«fence {fence}: agent lead said»\nI look.\n\nIt is cart.py.\n«end of fence {fence}»\n\n"
    )
    assert "secret" not in message.text
    assert "result of" not in message.text
    assert "From agent: lead" in message.text


def test_an_agent_that_comes_back_reads_its_own_turns_raw_and_the_others_fenced() -> None:
    job = Job("lead")
    job.turn(call("c1", "look"), text="I look.")
    job.hand_over("helper", "c2")
    job.turn(call("h1", "look"), text="Helping.")
    job.hand_over("lead", "h2", text="Helped.")
    request, first, first_results, second, second_results, back = job.opened()
    assert (request.role, request.text) == ("user", "fix it")
    assert [one.name for one in first.calls + second.calls] == ["look", "transfer_to_helper"]
    assert first_results.results[0].content == "result of c1"
    assert second_results.results[0].content == "Control moved to agent 'helper'."
    assert "agent helper said»\nHelping.\n\nHelped.\n" in back.text
    assert "From agent: helper" in back.text
    assert back.role == "user"


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        (History(mode="all"), ["one", "two", "three", "four"]),
        (History(mode="none"), []),
        (History(mode="last", last=1), ["four"]),
        (History(mode="last", last=3), ["two", "three", "four"]),
        (History(mode="last", last=0), []),
        (History(mode="last", last=99), ["one", "two", "three", "four"]),
    ],
)
def test_the_handoff_says_how_many_turns_are_shared(history: History, expected: list[str]) -> None:
    job = Job("lead")
    job.turn(call("c1", "look"), text="one")
    job.hand_over("helper", "c2", text="two")
    job.turn(call("h1", "look"), text="three")
    job.hand_over("writer", "h2", history, text="four")
    [message] = job.opened()
    assert [word for word in ("one", "two", "three", "four") if f"\n{word}\n" in message.text] == expected
    assert "From agent: helper" in message.text


def test_history_ends_at_the_handoff_whatever_was_recorded_since() -> None:
    job = Job("lead")
    job.hand_over("helper", "c1", text="before")
    before = job.opened()
    job.add(Noticed(leg=1, text="later"), ModelReplied(leg=1, turn=9, message=said("a stray").message))
    assert job.opened() == before


def test_what_earlier_handoffs_said_is_quoted_and_what_the_last_one_says_is_in_the_brief_alone() -> None:
    job = Job("debugger")
    job.hand_over("fixer", "c1", reason="cause known", summary="looked around", context="cart.py:42")
    job.hand_over("reviewer", "f1", reason="repaired", context="see the diff", text="I changed one line.")
    [message] = job.opened()
    words = "Reason: cause known\nSummary: looked around\nContext: cart.py:42"
    assert f"agent debugger said»\n[handed over to fixer]\n{words}\n«end" in message.text
    assert "agent fixer said»\nI changed one line.\n«end" in message.text
    assert message.text.count("repaired") == message.text.count("see the diff") == 1


def test_a_text_that_is_quoted_is_not_told_again_in_the_brief() -> None:
    job = Job("lead")
    job.hand_over("writer", "c1", text="The sum is 42.", summary="The sum is 42.", context=" The sum is 42.\n")
    [message] = job.opened()
    assert message.text.count("The sum is 42.") == 1
    assert "Summary: [quoted above]\nContext: [quoted above]\n" in message.text


def test_a_text_that_is_not_quoted_is_in_the_brief() -> None:
    job = Job("lead")
    job.hand_over("writer", "c1", History(mode="none"), text="The sum is 42.", context="The sum is 42.")
    [message] = job.opened()
    assert "Context: The sum is 42." in message.text
    assert "agent lead said" not in message.text


def test_a_reply_that_was_no_end_is_quoted_to_nobody() -> None:
    job = Job("lead")
    job.nudged_turn("I hand this to helper now.", "Call the tool.")
    job.hand_over("helper", "c1", text="Now really.")
    [message] = job.opened()
    assert "I hand this" not in message.text
    assert "Call the tool" not in message.text
    assert "Now really." in message.text


def test_an_agent_that_was_told_so_and_comes_back_reads_it_as_it_was() -> None:
    job = Job("lead")
    job.nudged_turn("I hand this to helper now.", "Call the tool.")
    job.hand_over("helper", "c1")
    job.hand_over("lead", "h1")
    assert [message.role for message in job.opened()] == ["user", "model", "user", "model", "tool", "user"]


class TestReturn:
    """Control comes back to an agent that handed over with ``return: true``."""

    def called(self) -> Job:
        job = Job("lead")
        job.turn(call("c1", "look"), text="I look.")
        job.hand_over("helper", "c2", returns=True, text="Helper can do it.", beside=[call("c3", "look")])
        return job

    def test_the_callers_conversation_goes_on_word_for_word_with_the_result_as_the_answer(self) -> None:
        job = Job("lead", earlier=[earlier("", "hi"), earlier("lead", "Hello.")])
        before = job.opened()
        job.hand_over("helper", "c2", returns=True, beside=[call("c3", "look")])
        job.turn(call("h1", "look"), text="Helping.")
        job.end("Seven.")
        opened = job.opened()
        assert opened[: len(before)] == before
        asked, answered = opened[len(before) :]
        assert [one.id for one in asked.calls] == ["c3", "c2"]
        assert [one.call_id for one in answered.results] == ["c3", "c2"]
        result = answered.results[1]
        mark = f"fence {job.fence}"
        assert result.content == f"«{mark}: agent helper ended with this result»\nSeven.\n«end of {mark}»"
        assert not result.is_error
        assert "Helping." not in str(opened)
        assert "From agent" not in str(opened)

    def test_whoever_has_control_meanwhile_is_told_who_waits(self) -> None:
        job = self.called()
        assert job.opened()[-1].text.endswith("with the request. Agent lead waits for your answer.")
        job.hand_over("writer", "h1")
        assert job.opened()[-1].text.endswith("Agent lead waits for your answer.")

    def test_a_failure_is_an_error_in_the_same_place(self) -> None:
        job = self.called()
        job.turn(call("h1", "look"))
        job.come_back("agent 'helper' reached its limit", is_error=True)
        result = job.opened()[-1].results[-1]
        assert result.is_error
        assert "agent helper ended without a result»\nagent 'helper' reached its limit\n" in result.content

    def test_who_ended_is_named_not_who_was_called(self) -> None:
        job = self.called()
        job.hand_over("writer", "h1", text="Writer is better at it.")
        job.end("Written.")
        result = job.opened()[-1].results[-1]
        assert "agent writer ended with this result»\nWritten.\n" in result.content
        assert "Writer is better" not in str(job.opened())

    def test_a_long_result_is_cut_and_said_to_be(self) -> None:
        job = self.called()
        job.end("x" * 50_000)
        content = job.opened()[-1].results[-1].content
        assert f"{'x' * 20_000} [cut: the first 20,000 of 50,000 characters]" in content
        assert len(content) < 20_300

    def test_calls_within_calls_answer_each_its_own(self) -> None:
        job = self.called()
        job.hand_over("writer", "h1", returns=True)
        job.end("Written.")
        inner = job.opened()
        assert inner[0].role == "user"
        assert "From agent: lead" in inner[0].text
        assert "Written." in inner[-1].results[0].content
        job.end("Seven.")
        outer = job.opened()
        assert "Seven." in outer[-1].results[-1].content
        assert "Written." not in str(outer)

    def test_a_call_after_a_return_goes_on_from_there(self) -> None:
        job = self.called()
        job.end("Seven.")
        after_one = job.opened()
        job.hand_over("writer", "c9", returns=True)
        job.end("Written.")
        opened = job.opened()
        assert opened[: len(after_one)] == after_one
        assert ["Seven." in str(opened), "Written." in opened[-1].results[0].content] == [True, True]

    def test_an_agent_that_control_comes_to_again_by_a_handoff_reads_the_results_of_its_calls(self) -> None:
        job = self.called()
        job.turn(text="Helping.", results=False)
        job.end("Seven.")
        job.hand_over("writer", "c9", text="Now write.")
        job.hand_over("lead", "w1", text="Written.")
        opened = job.opened()
        results = [result for message in opened for result in message.results]
        assert ["Seven." in one.content for one in results if one.call_id == "c2"] == [True]
        assert "Helping." not in str(opened)
        assert "agent writer said»\nWritten.\n" in opened[-1].text

    def test_the_results_of_others_are_quoted_to_everybody_else_once(self) -> None:
        job = self.called()
        job.end("Seven.")
        job.hand_over("writer", "c9", text="Now write.")
        [message] = job.opened()
        assert message.text.count("Seven.") == 1
        assert "agent helper said»\nSeven.\n" in message.text

    def test_a_result_that_was_no_text_of_a_turn_is_quoted_too(self) -> None:
        job = self.called()
        job.turn(call("h1", "complete_task", result="Seven."))
        job.come_back("Seven.")
        job.hand_over("writer", "c9")
        [message] = job.opened()
        assert "agent helper said»\n[ended with this result]\nSeven.\n" in message.text

    def test_a_leg_that_ended_before_its_first_turn_is_quoted_with_its_end(self) -> None:
        job = self.called()
        job.come_back("the model cannot be reached", is_error=True)
        job.hand_over("writer", "c9")
        [message] = job.opened()
        assert "agent helper said»\n[ended without a result]\nthe model cannot be reached\n" in message.text

    def test_where_the_agents_file_asked_for_the_handoff_the_result_is_told_without_a_call(self) -> None:
        job = Job("lead")
        job.turn(text="Draft.")
        job.pass_on("helper", None, returns=True)
        job.end("Checked.")
        request, own, result = job.opened()
        assert (request.text, own.text) == ("fix it", "Draft.")
        assert "agent helper ended with this result»\nChecked.\n" in result.text


def test_an_agent_that_has_answered_and_gets_control_again_reads_that_something_was_between() -> None:
    job = Job("lead")
    job.hand_over("helper", "c1", returns=True)
    job.end("First.")
    job.hand_over("helper", "c2", returns=True)
    job.end("Second.")
    job.hand_over("helper", "c3", History(mode="summary"))
    job.summarised("Lead asks for more.")
    roles = [message.role for message in job.opened()]
    assert roles == ["user", "model", "user", "model", "user"]


class TestSummary:
    """``include_context: summary``: a model's summary stands for what others said."""

    def handed_over(self) -> Job:
        job = Job("lead", "fix the cart")
        job.turn(call("c1", "look"), text="It is cart.py.")
        job.hand_over("fixer", "c2", SUMMARY, text="Line 42.", context="see 42")
        return job

    def test_the_model_is_asked_for_it_with_the_request_and_what_others_said(self) -> None:
        job = self.handed_over()
        asked = summary_request(job.leg_now)
        assert asked is not None
        [message] = asked
        assert message.role == "user"
        assert message.text.startswith("Agent fixer takes over")
        assert "the request»\nfix the cart\n" in message.text
        assert "agent lead said»\nIt is cart.py.\n\nLine 42.\n" in message.text
        assert "see 42" not in message.text  # the brief says it

    def test_it_stands_for_the_quotations(self) -> None:
        job = self.handed_over()
        job.summarised("Lead found line 42 of cart.py.")
        [message] = job.opened()
        mark = f"fence {job.fence}"
        assert f"«{mark}: summary of what other agents said and did»\nLead found line 42 of cart.py.\n" in message.text
        assert "agent lead said" not in message.text
        assert message.text.index("fix the cart") < message.text.index("Lead found") < message.text.index("From agent")

    def test_until_it_is_there_the_quotations_stand_for_it(self) -> None:
        assert "agent lead said»\nIt is cart.py." in self.handed_over().opened()[0].text

    def test_it_is_asked_for_once_even_where_the_model_had_nothing_to_say(self) -> None:
        job = self.handed_over()
        job.summarised(" ")
        assert summary_request(job.leg_now) is None
        assert "agent lead said»\nIt is cart.py." in job.opened()[0].text

    @pytest.mark.parametrize("mode", ["all", "none", "last"])
    def test_nobody_is_asked_where_the_handoff_wants_none(self, mode: str) -> None:
        job = Job("lead")
        job.hand_over("fixer", "c2", History.model_validate({"mode": mode}), text="Line 42.")
        assert summary_request(job.leg_now) is None

    def test_nobody_is_asked_where_nobody_has_said_anything(self) -> None:
        job = Job("lead")
        job.hand_over("fixer", "c2", SUMMARY)
        assert summary_request(job.leg_now) is None

    def test_the_agents_own_turns_stay_as_they_were(self) -> None:
        job = Job("lead")
        job.hand_over("fixer", "c1", text="Own.")
        job.hand_over("lead", "f1", SUMMARY, text="Fixed.")
        job.summarised("It is fixed.")
        request, own, results, back = job.opened()
        assert (request.text, own.text, len(results.results)) == ("fix it", "Own.", 1)
        assert "It is fixed." in back.text
        assert "Fixed." not in back.text.replace("It is fixed.", "")

    def test_it_stays_after_a_call_that_came_back(self) -> None:
        job = self.handed_over()
        job.summarised("Lead found line 42.")
        before = job.opened()
        job.hand_over("helper", "f1", returns=True)
        job.end("Seven.")
        assert job.opened()[: len(before)] == before
        assert summary_request(job.leg_now) is None

    def test_what_is_to_be_summarised_is_cut_to_size(self) -> None:
        job = Job("lead")
        for n in range(20):
            job.turn(call(f"c{n}", "look"), text=f"word{n} " * 100)
        job.hand_over("fixer", "c99", SUMMARY, text="The newest.")
        asked = summary_request(job.leg_now, 600)
        assert asked is not None
        assert "The newest." in asked[0].text
        assert "word0 " not in asked[0].text
        assert "[Left out for want of room: the oldest " in asked[0].text


class TestTask:
    """A delegated job begins with what the other agent wants."""

    def delegated(self, **inputs: object) -> Job:
        return Job("helper", "the objective", inputs=inputs, parent="lead")

    def test_the_child_reads_its_inputs_marked_as_the_parents_words_and_nothing_else(self) -> None:
        job = self.delegated(objective="count the files", folder="src", deep=True, names=["a", "文"])
        [message] = job.opened()
        mark = f"fence {job.fence}"
        assert message.text == (
            f"«{mark}: task from agent lead»\nobjective: count the files\nfolder: src\ndeep: true\n"
            f'names: ["a", "文"]\n«end of {mark}»\n'
            "Do this task for agent lead, which gets your answer as its result."
        )

    def test_without_inputs_the_objective_is_all(self) -> None:
        assert "objective: the objective\n" in self.delegated().opened()[0].text

    def test_whom_the_child_hands_over_to_reads_the_task_and_a_brief(self) -> None:
        job = self.delegated(objective="count the files")
        job.hand_over("counter", "h1", text="I cannot count.")
        [message] = job.opened()
        assert message.text.index("task from agent lead") < message.text.index("agent helper said»\nI cannot count.")
        assert message.text.index("I cannot count.") < message.text.index("From agent: helper")


def long_job(turns: int = 30) -> Job:
    before = [earlier("", "hello " * 50), earlier("lead", "Hello. " * 50)]
    job = Job("lead", "the request", earlier=before)
    for n in range(turns):
        job.turn(call(f"c{n}", "look"), text=f"word{n} " * 55)
    job.hand_over("fixer", "c99", text="The newest.", reason="the reason")
    return job


def test_of_a_long_past_the_newest_turns_are_told_and_one_line_says_how_much_is_missing() -> None:
    [message] = long_job().opened(budget_tokens=1_150)
    first, *_ = message.text.split("\n\n")
    assert first.startswith("[Left out for want of room: the oldest 25 turns of this conversation, about ")
    told = [n for n in range(30) if f"word{n} " in message.text]
    assert told == list(range(24, 30))
    assert message.text.count("Left out") == 1
    for kept in ("the request", "The newest.", "Reason: the reason"):
        assert kept in message.text
    assert "Hello" not in message.text


def test_the_request_and_the_brief_are_told_whatever_the_budget() -> None:
    [message] = long_job().opened(budget_tokens=0)
    assert "the request" in message.text
    assert "Reason: the reason" in message.text
    assert "word" not in message.text


def test_what_the_budget_leaves_out_of_the_quotations_stays_in_the_brief() -> None:
    job = Job("lead")
    job.hand_over("fixer", "c1", text="It is 42. " * 50, context="It is 42. " * 50)
    [message] = job.opened(budget_tokens=0)
    assert "Context: It is 42." in message.text


def test_own_turns_are_left_out_with_their_results() -> None:
    job = Job("lead")
    for n in range(9):
        job.turn(call(f"c{n}", "look", what="x" * 400))
    job.hand_over("fixer", "t1")
    job.hand_over("lead", "f1", text="Fixed.")
    opened = job.opened(budget_tokens=700)
    assert [message.role for message in opened[:3]] == ["user", "model", "tool"]
    calls = [one.id for message in opened for one in message.calls]
    results = [one.call_id for message in opened for one in message.results]
    assert calls == results
    assert 2 < len(calls) < 9
    assert calls[-1] == "t1"


def test_a_callers_own_turns_are_never_left_out() -> None:
    job = Job("lead")
    for n in range(9):
        job.turn(call(f"c{n}", "look", what="x" * 400))
    job.hand_over("helper", "t1", returns=True)
    job.end("Seven.")
    assert len([one for message in job.opened(budget_tokens=0) for one in message.calls]) == 10


def test_a_leg_in_mid_run_reads_the_same_opening_as_at_its_start() -> None:
    job = long_job()
    before: list[Message] = job.opened(budget_tokens=2_000)
    job.turn(call("f1", "look"), text="I fix.")
    job.turn(handing_over("f2", "nobody"), text="Or not.", results=False)
    assert opening(job.leg_now, 2_000) == before
