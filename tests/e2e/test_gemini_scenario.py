"""Three agents on Gemini's wire, in real worker processes: what the model says and how it fails."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from ekiden.dispatcher.client import Client
from ekiden.shared.messages import Usage
from ekiden.shared.records import Ended, Entry, HandedOff, LegStarted, ModelReplied, Refused, ToolFinished
from ekiden.shared.stores.views import LivePiece
from tests.doubles.gemini.server import GeminiServer, Request
from tests.doubles.gemini.wire import parts_of, signer_of, tokens
from tests.e2e.program import Program

MODEL = "gemini-3.8-flash"
AGENTS = {
    "triage": "tools: [read_file]\nhandoffs: [{to: fixer}]",
    "fixer": "tools: [edit_file]\nhandoffs: [{to: reviewer}]",
    "reviewer": "tools: []",
}
WAIT_S = 0.6
WORDS = ["Both files ", "were read, ", "the fault ", "is mended, ", "and nothing ", "else ", "was ", "touched."]
ANSWER = "".join(WORDS)


def call(name: str, **args: str) -> dict[str, Any]:
    return {"name": name, "args": args}


RULES: list[dict[str, Any]] = [
    {"times": 1, "reply": {"error": 429, "retry_delay": WAIT_S}},
    {
        "when": {"system": "You are triage", "answered": "read_file"},
        "reply": {"calls": [call("transfer_to_reviewer", reason="I skip the fixer")]},
    },
    {
        "when": {"system": "You are triage", "answered": "transfer_to_reviewer"},
        "reply": {"text": "Not to the reviewer, then.", "calls": [call("transfer_to_fixer", reason="it is in b.py")]},
    },
    {
        "when": {"system": "You are triage"},
        "reply": {
            "thought": "I need both files.",
            "calls": [call("read_file", path="a.py"), call("read_file", path="b.py")],
        },
    },
    {
        "when": {"system": "You are fixer", "answered": "edit_file"},
        "reply": {"calls": [call("transfer_to_reviewer", reason="it is mended")]},
    },
    {
        "when": {"system": "You are fixer"},
        "reply": {"calls": [call("edit_file", path="b.py", old="x = 1", new="x = 2")]},
    },
    {
        "when": {"system": "You are reviewer"},
        "reply": {"thought": "Is it right?", "text": WORDS, "chunk_delay": 0.15},
    },
]


@dataclass(frozen=True)
class Seen:
    """What is left of the job, and what somebody saw who came when the last agent had begun to speak."""

    entries: list[Entry]
    early: list[LivePiece]
    pieces: list[LivePiece]

    def of(self, kind: type[BaseModel]) -> list[Any]:
        return [entry.record for entry in self.entries if isinstance(entry.record, kind)]


@pytest.fixture
def gemini() -> Iterator[GeminiServer]:
    with GeminiServer() as server:
        yield server.add(RULES)


@pytest.fixture
def project(ekiden: Program) -> Path:
    """Two files, and three agents that a dispatcher finds in its folder."""
    agents = ekiden.folder / ".gemini" / "agents"
    agents.mkdir(parents=True)
    for name, settings in AGENTS.items():
        head = f"name: {name}\ndescription: The {name}.\nmodel: {MODEL}\n{settings}"
        (agents / f"{name}.md").write_text(f"---\n{head}\n---\nYou are {name}.\n")
    for name in ("a", "b"):
        (ekiden.folder / f"{name}.py").write_text("x = 1\n")
    return ekiden.folder


def test_a_team_on_gemini(ekiden: Program, redis_url: str, project: Path, gemini: GeminiServer) -> None:
    ekiden.env |= {"GEMINI_API_KEY": "test", "EKIDEN_GEMINI_BASE_URL": gemini.url}
    ekiden.start("dispatcher")
    ekiden.start("worker", "--agents", "triage,fixer", "--workspace-root", project)
    ekiden.start("worker", "--agents", "reviewer", "--workspace-root", project)
    seen = asyncio.run(scenario(redis_url))

    moves = [record.context.to_agent for record in seen.of(HandedOff)]
    assert moves == ["triage", "fixer", "reviewer"]
    assert [record.answer for record in seen.of(Ended)] == [ANSWER]
    assert len({record.worker for record in seen.of(LegStarted)}) == 3, "the dispatcher and two workers"
    assert (project / "b.py").read_text() == "x = 2\n"

    reads = [record.result.content for record in seen.of(ToolFinished) if record.result.name == "read_file"]
    assert len(reads) == 2
    assert all("x = 1" in content for content in reads)
    assert [record.code for record in seen.of(Refused)] == ["PERMISSION_DENIED"]
    assert_waited_as_told(gemini)
    assert_signatures_came_back(gemini)
    assert_usage_is_counted(gemini, seen)
    assert_was_heard_while_it_spoke(seen)


async def scenario(url: str) -> Seen:
    """Submit; come back with another client when the reviewer has begun; follow to the end."""
    async with asyncio.timeout(60), Client(url) as client:
        job = await client.submit("b.py is wrong", agent="triage")
        async for entry in client.follow(job):
            if entry is not None and isinstance(entry.record, LegStarted) and entry.record.agent == "reviewer":
                break
        async with Client(url) as late:
            early, pieces = await listen(late, job)
            await late.wait(job)
            return Seen(await late.entries(job), early, pieces)


async def listen(client: Client, job: str) -> tuple[list[LivePiece], list[LivePiece]]:
    """Return the pieces that were there while the job ran still, and all of them."""
    place, early, pieces = "0", [], []
    while not (await client.job(job)).is_over:
        place, more = await client.live(job, place, wait_s=0.1)
        pieces += more
        if not (await client.job(job)).is_over:
            early = list(pieces)
    _, more = await client.live(job, place, wait_s=0.1)
    return early, pieces + more


def assert_waited_as_told(gemini: GeminiServer) -> None:
    refused, again = gemini.requests[:2]
    assert again.body == refused.body
    assert again.at - refused.at >= WAIT_S


def assert_signatures_came_back(gemini: GeminiServer) -> None:
    """The double refuses a request without them; of two parallel calls, the first alone has one."""
    calls = calls_in(gemini.requests[2])
    assert [part["functionCall"]["args"]["path"] for part in calls] == ["a.py", "b.py"]
    assert signer_of(calls[0]["thoughtSignature"]) == MODEL
    assert "thoughtSignature" not in calls[1]
    assert calls_in(gemini.requests[3])[0]["thoughtSignature"] == calls[0]["thoughtSignature"]


def calls_in(request: Request) -> list[dict[str, Any]]:
    """The parts of the history that are calls."""
    return [part for content in request.body["contents"] for part in parts_of(content) if "functionCall" in part]


def assert_usage_is_counted(gemini: GeminiServer, seen: Seen) -> None:
    replies = seen.of(ModelReplied)
    answered = gemini.requests[1:]
    assert [reply.usage.input_tokens for reply in replies] == [sent(request.body) for request in answered]
    assert all(reply.usage.output_tokens > 0 for reply in replies)
    total = sum((reply.usage for reply in replies), Usage())
    assert total.input_tokens > total.output_tokens > tokens(ANSWER)


def sent(body: dict[str, Any]) -> int:
    """Tokens of a request, as the double counts them."""
    return sum(tokens(one) for one in (body["contents"], body["systemInstruction"], body.get("tools") or ""))


def assert_was_heard_while_it_spoke(seen: Seen) -> None:
    """Whoever comes late gets the answer from its beginning."""
    last = seen.entries[-1].record.leg
    heard = "".join(piece.text for piece in seen.early if piece.leg == last and not piece.thought)
    assert heard
    assert ANSWER.startswith(heard)
    final = [piece for piece in seen.pieces if piece.leg == last]
    assert "".join(piece.text for piece in final if not piece.thought) == ANSWER
    assert "".join(piece.text for piece in final if piece.thought) == "Is it right?"
