"""``ekiden agents show NAME --prompt --job ID``: what the model got, byte by byte."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ekiden.dispatcher.cli.agents.prompts import prompts_in
from ekiden.dispatcher.cli.main import app
from ekiden.dispatcher.client import Client
from ekiden.shared.definitions.catalog import Catalog
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.records import Entry, ModelReplied
from ekiden.shared.records.turns import digest_of
from ekiden.shared.stores.opening import Stores
from ekiden.workers.tools.base import ToolContext
from tests.scenarios.relay import Relay, on_server, team
from tests.unit.cli.test_jobs import there
from tests.unit.workers.world import Replies, What, call, calls, handing_over, said, tool_named

LEAD = {"name": "lead", "prompt": "Lead by ${state.mood} for ${objective}.", "handoffs": ["fixer"]}
FIXER, IDLE = {"name": "fixer", "prompt": "Mend 修复."}, {"name": "idle", "prompt": ""}


async def set_mood(args: What, context: ToolContext) -> str:
    context.state.set("mood", args.what)
    return "set"


def model() -> Replies:
    replies = [calls(call("c1", "mood", what="bad")), calls(handing_over("t1", "fixer"))]
    return Replies({"lead": replies, "fixer": [said("mended")]})


async def played(stores: Stores, asked: Replies) -> tuple[str, list[Entry], Catalog]:
    catalog = team(LEAD, FIXER, IDLE)
    relay = Relay(stores, catalog, asked, tools=[tool_named("mood", set_mood)])
    job = await relay.submit("the cart", agent="lead")
    await relay.drain()
    return job, await stores.jobs.journal(job), catalog


def test_the_journal_and_the_catalog_give_back_every_system_prompt_as_the_model_got_it() -> None:
    asked = model()
    _, entries, catalog = on_server(lambda stores: played(stores, asked))
    for name in ("lead", "fixer"):
        found = prompts_in(entries, catalog.definition(name))
        assert [one.text for one in found] == [request.instructions for request in asked.asked(name)]
    assert found[0].text.startswith("Mend 修复.\n\n")


def test_every_reply_has_the_fingerprint_of_the_prompt_that_it_answers() -> None:
    asked = model()
    _, entries, _ = on_server(lambda stores: played(stores, asked))
    replies = [entry.record for entry in entries if isinstance(entry.record, ModelReplied)]
    prints = [reply.fingerprint and reply.fingerprint.instructions for reply in replies]
    assert prints == [digest_of(request.instructions) for request in asked.requests]


def test_a_journal_keeps_a_prompt_once_in_a_leg_without_what_the_agents_file_says_as_it_stands() -> None:
    asked = Replies({"solo": [calls(call("c1", "look")), said("ok")]})

    async def scenario(stores: Stores) -> list[Any]:
        relay = Relay(stores, team({"name": "solo", "prompt": "Alone."}), asked, tools=[tool_named("look")])
        return (await relay.told("do it", agent="solo")).of(ModelReplied)

    first, second = on_server(scenario)
    assert first.prompt is not None
    assert first.prompt.is_rest
    assert "Alone." not in first.prompt.text
    assert second.prompt is None


def test_a_prompt_that_is_not_what_the_fingerprint_says_is_not_shown() -> None:
    _, entries, catalog = on_server(lambda stores: played(stores, model()))
    other = catalog.definition("fixer").model_copy(update={"instructions": "Break it."})
    with pytest.raises(InvalidRequest, match="leg 2, turn 1: the journal is not what the reply's fingerprint says"):
        prompts_in(entries, other)


def test_a_journal_of_an_older_version_says_so() -> None:
    _, entries, catalog = on_server(lambda stores: played(stores, model()))
    older = [
        entry._replace(record=entry.record.model_copy(update={"prompt": None}))
        if isinstance(entry.record, ModelReplied)
        else entry
        for entry in entries
    ]
    with pytest.raises(InvalidRequest, match="an older version"):
        prompts_in(older, catalog.definition("fixer"))


def shown(*words: str) -> Result:
    return CliRunner().invoke(app, ["agents", "show", *words])


def test_the_command_prints_the_last_one_and_as_json_all(valkey_url: str) -> None:
    asked = model()

    async def scenario(stores: Stores, _: Client) -> str:
        return (await played(stores, asked))[0]

    job = there(valkey_url, scenario)
    first, second = (request.instructions for request in asked.asked("lead"))
    done = shown("lead", "--prompt", "--job", job, "--redis", valkey_url)
    assert (done.exit_code, done.stdout) == (0, f"{second}\n")
    assert "the last of 2" in done.stderr
    done = shown("lead", "--prompt", "--job", job, "--redis", valkey_url, "--json")
    assert [json.loads(line)["text"] for line in done.stdout.splitlines()] == [first, second]
    done = shown("idle", "--prompt", "--job", job, "--redis", valkey_url)
    assert "agent 'idle' has had no turn in job" in str(done.exception)
    assert "fixer, lead had" in str(done.exception)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["debugger", "--job", "x"], "--job is for --prompt"),
        (["debugger", "--prompt", "--data-dir", "x"], "say where --job is"),
    ],
)
def test_options_that_would_have_no_effect_are_refused(words: list[str], why: str) -> None:
    assert why in str(shown(*words).exception)
