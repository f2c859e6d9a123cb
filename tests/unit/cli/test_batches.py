"""``ekiden submit --file``: many requests, each of them done once, however often the command is run."""

import asyncio
import io
import json
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ekiden.dispatcher.cli.main import app
from ekiden.dispatcher.cli.running.batch import Batch, request_id_of
from ekiden.dispatcher.cli.running.batch_command import ForAll
from ekiden.dispatcher.cli.running.batch_file import BatchRequest, opened_results, read_batch
from ekiden.dispatcher.cli.running.batch_progress import BatchProgress
from ekiden.dispatcher.cli.running.preapproval import NOTHING_APPROVED
from ekiden.dispatcher.cli.terminal.output import Output
from ekiden.dispatcher.client import Client
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.stores.opening import Stores
from tests.scenarios.relay import Relay, team
from tests.unit.cli.test_jobs import there
from tests.unit.workers.world import Replies, said

FOR_ALL = ForAll("solo", None, None, "ada", None, {}, NOTHING_APPROVED)
TEAM = team({"name": "solo"})


def written(folder: Path, *lines: Any) -> Path:
    path = folder / "requests.jsonl"
    path.write_text("\n".join(one if isinstance(one, str) else json.dumps(one, ensure_ascii=False) for one in lines))
    return path


def numbered(count: int) -> list[dict[str, str]]:
    return [{"id": f"r{n}", "prompt": f"第 {n} 件事"} for n in range(count)]


def results_in(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


class Answering(Replies):
    """A model that answers each request at once, and counts them."""

    def __init__(self) -> None:
        super().__init__({"solo": [said("done")]})


async def served(stores: Stores, model: Answering, batch: Awaitable[int]) -> int:
    """Run a batch while a dispatcher and a worker serve it."""
    relay = Relay(stores, TEAM, model)
    await stores.catalogs.publish(*TEAM.to_store(), replaces=None)
    running = asyncio.ensure_future(batch)
    while not running.done():
        if await relay.step() is None:
            await asyncio.wait([running], timeout=0.01)
    return running.result()


def batch_of(path: Path, results: Any, out: io.StringIO, *, in_flight: int = 5) -> Batch:
    requests = [(one, FOR_ALL.asked("", one)) for one in read_batch(path)]
    return Batch(requests, results, in_flight, BatchProgress(Output(out)))


def run(url: str, path: Path, out: Path, told: io.StringIO | None = None, **options: Any) -> tuple[int, Answering]:
    """Run a batch to its end."""
    model = Answering()

    async def scenario(stores: Stores, client: Client) -> int:
        with opened_results(out) as results:
            return await served(stores, model, batch_of(path, results, told or io.StringIO(), **options).run(client))

    return there(url, scenario), model


def test_each_request_has_a_result_and_progress_is_told(valkey_url: str, tmp_path: Path) -> None:
    told, out = io.StringIO(), tmp_path / "out.jsonl"
    code, _ = run(valkey_url, written(tmp_path, *numbered(20), ""), out, told)
    assert code == 0
    found = {one["id"]: one for one in results_in(out)}
    assert found.keys() == {one["id"] for one in numbered(20)}
    assert {(one["status"], one["reason"], one["result"], one["agent"]) for one in found.values()} == {
        ("done", "GOAL", "done", "solo")
    }
    lines = told.getvalue().splitlines()
    assert len(lines) == 10
    assert lines[0].startswith("2/20 | 2 done | 0 failed | 0 tokens | ")
    assert lines[-1] == "20/20 | 20 done | 0 failed | 0 tokens"


def test_no_more_jobs_are_in_flight_than_allowed(valkey_url: str, tmp_path: Path) -> None:
    most = 0

    async def scenario(stores: Stores, client: Client) -> int:
        async def counting() -> int:
            nonlocal most
            with opened_results(tmp_path / "out") as results:
                batch = asyncio.ensure_future(batch_of(path, results, io.StringIO(), in_flight=3).run(client))
                while not batch.done():
                    most = max(most, len(await stores.jobs.unfinished()))
                    await asyncio.wait([batch], timeout=0.005)
            return batch.result()

        return await served(stores, Answering(), counting())

    path = written(tmp_path, *numbered(12))
    assert there(valkey_url, scenario) == 0
    assert 0 < most <= 3


def test_a_batch_that_is_broken_off_goes_on_and_does_nothing_twice(valkey_url: str, tmp_path: Path) -> None:
    path, out, model = written(tmp_path, *numbered(12)), tmp_path / "out.jsonl", Answering()

    async def scenario(stores: Stores, client: Client) -> tuple[int, int]:
        async def broken_off() -> int:
            with opened_results(out) as results:
                batch = asyncio.ensure_future(batch_of(path, results, io.StringIO()).run(client))
                while len(results_in(out)) < 4:
                    await asyncio.wait([batch], timeout=0.005)
                os.kill(os.getpid(), signal.SIGINT)
                assert await batch == 130
            return len(results_in(out))

        before = await served(stores, model, broken_off())
        with out.open("a") as stream:
            stream.write('{"id": "r11", "jo')  # killed while it wrote
        with opened_results(out) as results:
            await served(stores, model, batch_of(path, results, io.StringIO()).run(client))
        return before, len(await stores.jobs.jobs(100))

    before, jobs = there(valkey_url, scenario)
    assert 4 <= before < 12
    assert sorted(one["id"] for one in results_in(out)) == sorted(one["id"] for one in numbered(12))
    assert (jobs, len(model.requests)) == (12, 12)


def test_a_request_that_is_refused_is_told_and_the_others_are_done(
    valkey_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, *numbered(3), {"id": "x", "prompt": "hi", "agent": "sollo"})
    told, out = io.StringIO(), tmp_path / "out"
    code, _ = run(valkey_url, path, out, told)
    assert (code, len(results_in(out))) == (1, 3)
    assert "request 'x' was not submitted: no agent is named 'sollo': did you mean 'solo'?" in capsys.readouterr().err
    assert told.getvalue().splitlines()[-1].startswith("4/4 | 3 done | 1 failed")


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (['{"id": "1", "prompt": "x"}', "{id: 2}"], "line 2: no JSON"),
        (['{"id": "1", "prompt": "x"}', "", '{"id": 1, "prompt": "y"}'], "line 3: line 1 has the id '1', too"),
        (['{"id": "1", "promt": "x"}'], "line 1: "),
        (['{"prompt": "x"}'], "line 1: 'id': is missing; a request looks like"),
        (['{"id": "1", "prompt": " "}'], "line 1: 'prompt': "),
        (['["x"]'], "line 1: 'the line': "),
        (["", " "], "holds no request"),
    ],
)
def test_a_file_that_is_not_whole_is_refused_with_its_line(tmp_path: Path, lines: list[str], why: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        read_batch(written(tmp_path, *lines))
    assert why in str(raised.value)
    assert "requests.jsonl" in str(raised.value)


def test_a_misspelt_field_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="there is no field 'promt': did you mean 'prompt'"):
        read_batch(written(tmp_path, {"id": "1", "prompt": "x", "promt": "y"}))


def test_a_line_is_the_same_submission_until_it_or_the_batch_is_another() -> None:
    one, other = BatchRequest(id="1", prompt="x"), BatchRequest(id="1", prompt="y")
    assert request_id_of("", one) == request_id_of("", BatchRequest(id="1", prompt="x"))
    assert len({request_id_of("", one), request_id_of("", other), request_id_of("again", one)}) == 3


def test_a_line_says_more_than_the_command_line() -> None:
    for_all = ForAll("solo", None, None, "ada", "30m", {"a": 1, "b": 1}, NOTHING_APPROVED)
    asked = for_all.asked("", BatchRequest(id="1", prompt="x", strategy="rule", user="bob", state={"b": 2}))
    assert (asked.agent, asked.strategy, asked.session_choice.user) == (None, "rule", "bob")
    assert (asked.deadline_s, asked.state) == (1800.0, {"a": 1, "b": 2})
    assert for_all.asked("", BatchRequest(id="1", prompt="x")).agent == "solo"


def test_a_file_of_results_has_one_writer_and_holds_results(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with (
        opened_results(out),
        pytest.raises(InvalidRequest, match="another process writes it now"),
        opened_results(out),
    ):
        pass
    with opened_results(out) as results:
        results.write({"id": "1", "result": "one\u2028two\x85three"})
    with opened_results(out) as results:
        assert results.known == {"1"}
    out.write_text("notes of mine\n")
    with pytest.raises(InvalidRequest, match="line 1: no result of a batch"), opened_results(out):
        pass
    assert out.read_text() == "notes of mine\n"
    with pytest.raises(InvalidRequest, match="cannot be written"), opened_results(tmp_path / "no" / "out"):
        pass


Ran = Callable[..., Any]


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["--file", "f", "hello"], "--file and PROMPT exclude each other"),
        (["--file", "f", "--follow"], "--file and --follow exclude each other"),
        (["hello", "--out", "o"], "--out is for many requests"),
        ([], "say what is to be done"),
        (["--file", os.devnull], "holds no request"),
    ],
)
def test_options_that_would_be_ignored_are_refused(args: list[str], why: str) -> None:
    found = CliRunner().invoke(app, ["submit", *args])
    assert found.exit_code != 0
    assert why in str(found.exception or found.output)
