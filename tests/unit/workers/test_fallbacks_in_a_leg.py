"""An agent with several models: what its job records, costs, and asks again after a crash."""

from ekiden.shared.errors import ModelUnavailable
from ekiden.shared.llm.base import ModelReply, ModelRequest, OnDelta
from ekiden.shared.messages import Usage
from ekiden.shared.records import FellBack, LegStarted, LegSuspended, ModelReplied
from ekiden.shared.stores.opening import Stores
from tests.scenarios.relay import Relay, Story, on_server, team
from tests.unit.workers.world import call, calls, said, tool_named

SOLO = {"name": "solo", "models": {"use": ["scripted-a", "scripted-b"], "on": ["unavailable", "refused"]}}
PAID = {"usage": Usage(input_tokens=10, output_tokens=1)}


class Two:
    """Two models: ``scripted-a`` is away, or refuses; ``scripted-b`` looks once and answers."""

    def __init__(self, *, refuses: bool = False, is_all: bool = False) -> None:
        self.asked: list[str] = []
        self._refuses = refuses
        self._is_all = is_all

    async def reply(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        self.asked.append(request.model)
        if request.model == "scripted-a" and self._refuses:
            return said("no", finish="refused").model_copy(update=PAID | {"model": request.model})
        if request.model == "scripted-a" or self._is_all:
            raise ModelUnavailable(f"{request.model} is away")
        turn = sum(message.role == "model" for message in request.messages)
        reply = said("there") if turn else calls(call("c1", "look"))
        return reply.model_copy(update=PAID | {"model": request.model})


def test_each_model_of_a_request_is_recorded_and_paid() -> None:
    async def scenario(stores: Stores) -> None:
        model = Two(refuses=True)
        story = await Relay(stores, team(SOLO), model, tools=[tool_named("look")]).told("do", agent="solo")
        assert (story.view.status, story.view.result) == ("done", "there")
        assert model.asked == ["scripted-a", "scripted-b"] * 2
        assert [(one.model, one.why, one.to) for one in story.of(FellBack)] == [
            ("scripted-a", "refused", "scripted-b")
        ] * 2
        assert {one.model for one in story.of(ModelReplied)} == {"scripted-b"}
        assert story.view.spent.tokens == 4 * 11

    on_server(scenario)


def test_a_leg_that_dies_behind_a_reply_of_the_fallback_asks_nobody_for_it_again() -> None:
    async def uncut(stores: Stores) -> Story:
        return await Relay(stores, team(SOLO), Two(), tools=[tool_named("look")]).told("do", agent="solo")

    told = on_server(uncut)

    async def scenario(stores: Stores) -> None:
        first = [one for one in told.records if one.leg == 1 and isinstance(one, FellBack | ModelReplied)][:2]
        model = Two()
        relay = Relay(stores, team(SOLO), model, tools=[tool_named("look")])
        job = await relay.submit("do", agent="solo")
        await relay.step()
        await relay.lose(job, first)
        assert await relay.wake(job) == "ok"
        await relay.drain()
        story = await relay.story(job)
        assert (story.view.status, story.view.result) == ("done", "there")
        assert model.asked == ["scripted-a", "scripted-b"], "for the second turn alone"
        kinds = (FellBack, ModelReplied)
        assert [type(one) for one in story.records if isinstance(one, kinds)] == [*kinds, *kinds]
        assert len(story.of(LegStarted)) == len(told.of(LegStarted)) + 1

    on_server(scenario)


def test_where_all_are_away_the_leg_waits_as_for_one() -> None:
    async def scenario(stores: Stores) -> None:
        relay = Relay(stores, team(SOLO), Two(is_all=True))
        job = await relay.submit("do", agent="solo")
        for _ in range(2):
            await relay.step()
        pause = (await relay.story(job)).of(LegSuspended)[-1]
        assert (pause.cause, pause.detail) == ("retry", "scripted-a is away; scripted-b is away")

    on_server(scenario)
