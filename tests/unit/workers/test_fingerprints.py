"""The fingerprint of what a model was asked: the same for the same work, another one for any other."""

from collections.abc import Sequence
from typing import Any

from ekiden.shared.records import ModelReplied, Record
from ekiden.shared.records.turns import Fingerprint
from ekiden.shared.stores.opening import Stores
from tests.scenarios.relay import Relay, Story, on_server, team
from tests.unit.workers.world import Replies, Said, call, calls, handing_over, said, tool_named

LOOK = tool_named("look", read_only=True)
REPLIES = [calls(call("c1", "look", what="a")), calls(call("c2", "look", what="b")), said("ok")]


def run(replies: Sequence[Said] = REPLIES, prompt: str = "do it", cut: Sequence[Record] = (), **front: Any) -> Story:
    """Run a job of one agent; its first worker dies behind the records ``cut``."""

    async def scenario(stores: Stores) -> Story:
        relay = Relay(stores, team({"name": "solo", **front}), Replies({"solo": replies}), tools=[LOOK])
        job = await relay.submit(prompt, agent="solo")
        await relay.step()
        if cut:
            await relay.lose(job, cut)
        await relay.drain()
        return await relay.story(job)

    return on_server(scenario)


def prints(story: Story) -> list[Fingerprint | None]:
    return [record.fingerprint for record in story.of(ModelReplied)]


def test_the_same_work_has_the_same_fingerprints_in_every_job() -> None:
    first = prints(run())
    assert prints(run()) == first
    assert len({one.messages for one in first if one}) == 3
    assert len({(one.definition, one.model, one.tools) for one in first if one}) == 1


def test_a_leg_that_goes_on_elsewhere_has_the_fingerprints_that_it_would_have_had() -> None:
    story = run()
    records = [record for record in story.records if record.leg == 1][1:-1]
    assert prints(run(cut=records[:4])) == prints(story)


def test_each_digest_tells_of_its_own_part() -> None:
    def differs(**change: Any) -> set[str]:
        [one, *_], [other, *_] = prints(run()), prints(run(**change))
        assert one is not None
        assert other is not None
        return {name for name in Fingerprint.model_fields if getattr(one, name) != getattr(other, name)}

    assert differs(prompt="do something else") == {"messages"}
    assert differs(temperature=0.5) == {"definition", "model"}
    assert differs(description="Does it otherwise.") == {"definition"}
    assert differs(tools=[]) == {"definition", "tools", "model", "instructions"}, "no tools, no guidelines for them"


def test_ids_that_are_drawn_anew_do_not_count() -> None:
    async def scenario(stores: Stores) -> Story:
        agents = team({"name": "lead", "handoffs": ["fixer"]}, {"name": "fixer"})
        model = Replies({"lead": [calls(handing_over("h", "fixer"))], "fixer": [said("ok")]})
        return await Relay(stores, agents, model).told("x", agent="lead")

    assert prints(on_server(scenario)) == prints(on_server(scenario))
