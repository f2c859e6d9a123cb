"""Whatever happened in a job, what an agent reads is well-formed, within its budget, and tells no fact twice."""

import random
import re
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from ekiden.shared.handoff import History
from ekiden.shared.llm.base import ModelRequest
from ekiden.shared.llm.context_windows import tokens_in, tokens_of
from ekiden.shared.messages import Message, ToolCall, user_message
from ekiden.shared.records import Refused, Retried, Summarised
from ekiden.shared.stores.sessions import SessionMessage
from ekiden.workers.history import opening, summary_request
from ekiden.workers.prompt import brief
from tests.scenarios.relay import assert_well_formed
from tests.unit.workers.journal import JOB, Job
from tests.unit.workers.world import call, handing_over, said

AGENTS = ["ada", "bob", "cem"]
LEGS = 12
MODES = ["all", "all", "all", "none", "last", "summary"]
PLENTY = 10_000_000
FACT = re.compile(r"w\d+x")


class Author:
    """Makes up a job, step by step; every fact in it is a word of its own."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._words = (f"w{n}x" for n in count())
        self.told: dict[int, list[str]] = {}
        """What every leg's agent said for others to read: texts, and the words of its handoff."""
        self._forgotten: list[str] = []
        self._openings: dict[int, list[Message]] = {}
        self._calls: Iterator[int] = count()
        is_child = self.flip()
        prompt = self.word()
        inputs = {"objective": prompt, "more": [self.word()]} if is_child else None
        earlier = [] if is_child else [self._earlier() for _ in range(self.number(5))]
        parent = self._random.choice([*AGENTS, "boss"]) if is_child else "user"
        self.job = Job(self.other(""), prompt, inputs=inputs, parent=parent, earlier=earlier)

    def flip(self) -> bool:
        return self._random.random() < 0.5

    def number(self, most: int) -> int:
        return self._random.randint(0, most)

    def word(self) -> str:
        """A fact: now and then a long one."""
        word = next(self._words)
        return word if self.number(9) else f"{word}{' and so on' * 40}"

    def other(self, agent: str) -> str:
        return self._random.choice([name for name in AGENTS if name != agent])

    def call_id(self) -> str:
        return f"c{next(self._calls)}"

    def _earlier(self) -> SessionMessage:
        agent = self._random.choice(["", *AGENTS])
        return SessionMessage(JOB, agent, said(self.word()).message if agent else user_message(self.word()))

    def play(self, legs: int) -> None:
        """Write so many legs, and check what is read before every turn."""
        for _ in range(legs):
            self._calls = count()  # ids are unique within a leg only
            self.told[self.job.leg] = []
            if self.job.context.history.mode == "summary" and self.flip():
                self.job.summarised(self.word())
            self.check_opening()
            for _ in range(self.number(2)):
                self._random.choice([self.work, self.refuse, self.nudge, self.retry])()
                self.check_turns()
            self.end_leg()

    def text(self) -> str:
        """What the agent says beside its calls, if anything."""
        text = self.word() if self.flip() else ""
        self.told[self.job.leg] += [text] if text else []
        return text

    def work(self) -> None:
        made = [call(self.call_id(), "look", what=self.word()) for _ in range(1 + self.number(1))]
        self.job.turn(*made, text=self.text())

    def refuse(self) -> None:
        """A transfer that is refused, and one that is forgotten."""
        made: list[ToolCall] = [handing_over(self.call_id(), "nobody", context=self.word()) for _ in range(2)]
        self.job.turn(*made, text=self.text(), results=False)
        first, second = made
        self.job.add(self.job.finished(second, forgotten=True))
        self._forgotten.append(str(second.args["context"]))
        leg = self.job.leg
        self.job.add(Refused(leg=leg, call_id=first.id, name=first.name, code="UNKNOWN_AGENT", message=self.word()))

    def nudge(self) -> None:
        self.job.nudged_turn(self.word(), self.word())

    def retry(self) -> None:
        """A job that failed behind half an answer, and goes on."""
        self.job.turn(text=self.word())
        self.job.add(Retried(leg=self.job.leg))

    def end_leg(self) -> None:
        if self.job.context.calls and self.number(2):
            return self._random.choice([self.answer, self.complete, self.fail])()
        return self._random.choice([self.transfer, self.transfer, self.go_on_automatically])()

    def answer(self) -> None:
        text = self.word()
        self.told[self.job.leg].append(text)
        self.job.end(text)

    def complete(self) -> None:
        text = self.word()
        self.told[self.job.leg].append(text)
        self.job.turn(call(self.call_id(), "complete_task", result=text))
        self.job.come_back(text)

    def fail(self) -> None:
        text = self.word()
        self.told[self.job.leg].append(text)
        self.job.come_back(text, is_error=True)

    def transfer(self) -> None:
        text = self.text()
        words: dict[str, Any] = {"reason": self.word()}
        if self.flip():
            words |= {"summary": text or self.word(), "context": self.word(), "payload": {"p": self.word()}}
        self.told[self.job.leg] += [words["reason"], words.get("context", "")]
        beside = [call(self.call_id(), "look")] if self.flip() else []
        to, returns = self.other(self.job.agent), self.flip()
        self.job.hand_over(to, self.call_id(), self.history(), text, returns=returns, beside=beside, **words)

    def go_on_automatically(self) -> None:
        text = self.word()
        self.told[self.job.leg].append(text)
        self.job.turn(text=text)
        context = text if self.flip() else None
        self.job.pass_on(self.other(self.job.agent), None, self.history(), reason=self.word(), context=context)

    def history(self) -> History:
        return History.model_validate({"mode": self._random.choice(MODES), "last": self.number(4)})

    def check_opening(self) -> None:
        job = self.job
        opened = job.opened(budget_tokens=PLENTY)
        self._openings[job.leg] = opened
        assert_no_fact_twice(opened)
        asked = summary_request(job.leg_now)
        assert_no_fact_twice(asked or ())
        if (back := job.context.returned) is not None:
            before = self._openings[back.leg]
            assert opened[: len(before)] == before
            assert FACT.findall(back.text)[0] in composed(opened)
            return
        self.check_budget()
        if job.context.history.mode == "all" and all(self.agent_of(leg) != job.agent for leg in range(1, job.leg)):
            told = [fact for leg in range(1, job.leg) for text in self.told[leg] for fact in FACT.findall(text)]
            assert set(told) <= set(composed(opened))

    def check_budget(self) -> None:
        """The request, the summary and the brief are there in any case."""
        job = self.job
        summaries = [one.text for one in job.leg_now.records if isinstance(one, Summarised)]
        asked = job.leg_now.request.model_dump_json()
        least = tokens_of("".join([asked, brief(job.context), *summaries])) + 200
        for budget in (0, self.number(1_000), 3_000):
            opened = job.opened(budget_tokens=budget)
            assert size(opened) <= max(budget, least)
            assert_well_formed(request(opened))
            assert_no_fact_twice(opened)
            assert set(FACT.findall(asked)) <= set(composed(opened))

    def check_turns(self) -> None:
        """Before every further turn."""
        leg = self.job.leg_now
        opened = opening(leg, PLENTY)
        assert opened == self._openings[leg.number]
        read = [*opened, *(one for turn in leg.conversation.turns for one in turn.messages())]
        assert_well_formed(request(read))
        texts = str(read) if self._forgotten else ""
        assert not [text for text in self._forgotten if text in texts]

    def agent_of(self, leg: int) -> str:
        return next(
            entry.record.context.to_agent
            for entry in self.job.entries
            if entry.record.type == "handoff" and entry.record.leg == leg - 1
        )


def request(messages: list[Message]) -> ModelRequest:
    return ModelRequest(agent="a", model="m", instructions="", messages=tuple(messages))


def composed(messages: Iterable[Message]) -> list[str]:
    """The facts in what was put together for the agent: the texts, and the results of calls."""
    said = (one.text if one.role == "user" else "".join(result.content for result in one.results) for one in messages)
    return [fact for text in said for fact in FACT.findall(text)]


def assert_no_fact_twice(messages: Iterable[Message]) -> None:
    messages = list(messages)
    told = composed(messages)
    assert sorted(told) == sorted(set(told))
    own = {fact for one in messages if one.role == "model" for fact in FACT.findall(one.model_dump_json())}
    assert not own & set(told)


def size(messages: list[Message]) -> int:
    return sum(tokens_of(one.text) if one.role == "user" else tokens_in(one) for one in messages)


@settings(max_examples=150, deadline=None)
@example(seed=241, legs=7)  # marks whose ids are many digits
@example(seed=2604361, legs=10)  # many own turns with nothing but other agents' silence between them
@given(seed=st.integers(0, 2**32), legs=st.integers(1, LEGS))  # fewer legs of one seed are the beginning of its job
def test_what_an_agent_reads_is_well_formed_within_its_budget_and_tells_no_fact_twice(seed: int, legs: int) -> None:
    Author(seed).play(legs)
