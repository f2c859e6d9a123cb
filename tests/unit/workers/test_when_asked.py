"""A job that asks nobody: what would be asked about is denied at once, and the agent goes on."""

from ekiden.shared.stores.opening import Stores
from tests.scenarios.relay import on_server
from tests.unit.workers.test_approvals import TWO, Stage
from tests.unit.workers.world import said


def test_what_a_person_would_have_to_approve_is_denied_at_once_and_waits_for_nobody() -> None:
    async def scenario(stores: Stores) -> None:
        stage = Stage(stores, [TWO, said("then not")])
        stage.job = await stage.relay.submit("do it", agent="solo", when_asked="deny")
        await stage.relay.drain()
        story = await stage.story()
        assert (stage.ran, await stage.waiting()) == (["l1"], [])
        assert story.view.result == "then not"
        assert story.results["w1"] == (
            "Tool execution denied: write would have to be approved by a person, and this job asks nobody"
        )

    on_server(scenario)
