"""What ``ekiden agents validate --all`` says of how requests find agents: by the real encoder."""

from functools import cache

import pytest

from ekiden.dispatcher.cli.agents import findability as module
from ekiden.dispatcher.cli.agents.findability import findability
from ekiden.dispatcher.cli.agents.suggestions import has_own_words
from ekiden.dispatcher.routing.confusions import Confusion, confusions
from ekiden.shared.definitions.loader import load_levels
from ekiden.shared.definitions.model import AgentDefinition
from ekiden.shared.embedding.encoder import SentenceEncoder


def agent(name: str, description: str, **fields: object) -> AgentDefinition:
    return AgentDefinition.model_validate({"name": name, "title": name, "description": description, **fields})


def warnings(*agents: AgentDefinition) -> dict[str, str]:
    found = findability({one.name: one for one in agents}, ENCODER())
    return {name: " ".join(finding.message for finding in findings) for name, findings in found.items() if findings}


ENCODER = cache(SentenceEncoder)
TEAM = (
    agent("weather", "Tells the weather."),
    agent("alarms", "Sets, shows and cancels alarms."),
    agent("billing", "Answers questions about invoices, charges and refunds."),
)


@pytest.mark.parametrize(
    ("one", "has"),
    [
        (agent("helper", "Helps with things."), False),
        (agent("assistant", "A helpful assistant for all your needs"), False),
        (agent("助手", "处理用户的各种问题"), False),
        (agent("forecast", "查询天气预报"), True),
        (agent("helper", "Helps with things.", triggers={"keywords": ["invoice"]}), True),
        (agent("helper", "Helps with things.", triggers={"patterns": ["INV-[0-9]+"]}), True),
        *((one, True) for one in TEAM),
    ],
)
def test_words_that_fit_any_agent_tell_nothing_of_its_work(one: AgentDefinition, has: bool) -> None:
    assert has_own_words(one) is has


def test_an_agent_that_only_luck_finds_is_named_with_the_remedy() -> None:
    said = warnings(*TEAM, agent("helper", "Helps with things."))

    assert list(said) == ["helper"]
    assert said["helper"].startswith("requests find it by luck only: no word of its description ('Helps with things.')")
    assert "`ekiden agents suggest helper`" in said["helper"]


def test_two_that_are_confused_are_named_with_the_pair_of_sentences() -> None:
    said = warnings(*TEAM, agent("refunds", "Handles invoices and refunds of customers."))

    assert "routing may confuse it with 'refunds', in " in said["billing"]
    assert "is as near to 'handle invoices' there" in said["billing"] or "Handles invoices" in said["billing"]
    assert not {"weather", "alarms"} & said.keys()


def test_only_the_agents_that_are_asked_about_are_judged() -> None:
    team = (*TEAM, agent("refunds", "Handles invoices and refunds of customers."))

    assert {one.agent for one in confusions(team, {"billing", "weather"}, ENCODER())} == {"billing"}
    assert confusions(team, {"weather"}, ENCODER()) == []


def test_one_that_is_confused_with_several_is_told_so_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    confused = [Confusion("billing", name, "pay a bill", "settle a bill", 1, 3) for name in ("weather", "alarms")]
    monkeypatch.setattr(module, "confusions", lambda *_: confused)
    found = findability({one.name: one for one in TEAM}, ENCODER())

    (told,) = found["billing"]
    assert "may confuse it with 'weather', in 1 of its 3 sentences: 'pay a bill' is as near to " in told.message
    assert "there; with 'alarms', in 1" in told.message


def test_an_example_that_would_go_to_another_agent_is_a_confusion() -> None:
    examples = [f"what will the weather be {day}" for day in ("tomorrow", "today", "on Monday")]
    sky = agent("sky", "Looks after telescopes.", triggers={"examples": examples})

    assert "confuse it with 'weather', in 3 of its " in warnings(*TEAM, sky)["sky"]


def test_who_gets_work_by_handoff_only_need_not_be_found() -> None:
    desk = agent("desk", "Takes complaints about parcels.", handoffs=[{"to": "second"}])

    assert warnings(*TEAM, desk, agent("second", "Helps with things.")) == {}


def test_the_shipped_team_is_told_of_where_ones_own_agents_are_confused_with_it() -> None:
    shipped = [one for level in load_levels(None) for one in level.loaded.definitions]
    critic = agent("critic", "Reviews a change or a piece of code for faults.")

    said = warnings(*shipped, *TEAM, critic)

    assert set(said) <= {"critic"}
    assert "routing may confuse it with 'reviewer'" in said["critic"]
