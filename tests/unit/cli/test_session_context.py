"""``ekiden sessions show --json``: the fields that other makers' programs read of a conversation."""

import json
from datetime import datetime

from ekiden.dispatcher.client import Client
from ekiden.shared.ids import session_of
from ekiden.shared.stores.opening import Stores
from tests.contract.relay_world import submitted
from tests.unit.cli.test_agent_prompts import model, played
from tests.unit.cli.test_jobs import ekiden, there


def test_a_conversation_tells_who_talked_what_it_took_and_what_was_done_last(valkey_url: str) -> None:
    async def scenario(stores: Stores, _: Client) -> str:
        return (await played(stores, model()))[0]

    session = session_of(there(valkey_url, scenario))
    found = json.loads(ekiden(valkey_url, "sessions", "show", session, "--json"))
    assert found["agentName"] == "lead"
    assert [(one["role"], one["agentName"], one["content"]) for one in found["conversationHistory"]] == [
        ("user", "", "the cart"),
        ("model", "fixer", "mended"),
    ]
    assert found["metadata"] == {
        "session": session,
        "title": found["title"],
        "user": found["user"],
        "agent_chain": ["lead", "fixer"],
        "handoff_count": 1,
        "total_tokens": 0,
    }
    assert (found["last_action"]["type"], found["last_action"]["details"]) == ("llm_response", "")
    times = [found["startedAt"], found["lastActiveAt"], found["last_action"]["timestamp"]]
    assert all(datetime.fromisoformat(time).tzinfo for time in times)
    assert found["messages"], "what was there before stays"


def test_a_conversation_in_which_nothing_was_done_yet_says_so(valkey_url: str) -> None:
    job = there(valkey_url, lambda stores, _: submitted(stores))
    found = json.loads(ekiden(valkey_url, "sessions", "show", session_of(job), "--json"))
    assert found["last_action"] is None
    assert (found["metadata"]["agent_chain"], found["metadata"]["handoff_count"]) == ([], 0)
