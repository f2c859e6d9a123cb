"""The double itself: what it refuses, and how other processes control it."""

import http.client
import json
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.doubles.gemini.server import GeminiServer
from tests.unit.llm.wires import PATIENCE_S, await_requests

TOOLS = [{"functionDeclarations": [{"name": "f", "parametersJsonSchema": {"type": "object"}}]}]
HELLO = {"role": "user", "parts": [{"text": "hello"}]}
CALL = {"functionCall": {"name": "f", "args": {}}}
RESPONSE = {"functionResponse": {"name": "f", "response": {"output": "x"}}}


def post(url: str, body: Any) -> tuple[int, Any]:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"x-goog-api-key": "k"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def generate(server: GeminiServer, body: dict[str, Any], model: str = "gemini-2.5-flash") -> tuple[int, str]:
    status, answer = post(f"{server.url}/v1beta/models/{model}:generateContent", body)
    return status, answer["error"]["message"] if status != 200 else answer["candidates"][0]["content"]["parts"][0][
        "text"
    ]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "contents is not specified"),
        ({"contents": [{"role": "system", "parts": [{"text": "x"}]}]}, "valid role"),
        ({"contents": [{"role": "user", "parts": []}]}, "parts must not be empty"),
        ({"contents": [HELLO, {"role": "model", "parts": [CALL, CALL]}, {"parts": [RESPONSE]}]}, "equal to the number"),
        ({"contents": [HELLO, {"role": "model", "parts": [CALL]}, HELLO]}, "equal to the number"),
        ({"contents": [HELLO, {"parts": [RESPONSE]}]}, "immediately after a function call turn"),
        ({"contents": [{"role": "model", "parts": [CALL]}, {"parts": [RESPONSE]}]}, "immediately after a user turn"),
        ({"contents": [HELLO], "tools": [{"functionDeclarations": [{"name": "a b"}]}]}, "Invalid function name"),
        ({"contents": [HELLO], "tools": TOOLS * 2}, "Duplicate"),
        (
            {
                "contents": [HELLO],
                "tools": [{"functionDeclarations": [{"name": "f", "parameters": {"additionalProperties": False}}]}],
            },
            'Unknown name "additionalProperties"',
        ),
        (
            {
                "contents": [HELLO],
                "tools": [
                    {
                        "functionDeclarations": [
                            {
                                "name": "f",
                                "parametersJsonSchema": {
                                    "type": "object",
                                    "properties": {"a": {"$defs": {"F": {}}, "$ref": "#/$defs/F"}},
                                },
                            }
                        ]
                    }
                ],
            },
            "reference to undefined schema at #/$defs/F",
        ),
        (
            {
                "contents": [HELLO],
                "tools": TOOLS,
                "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["g"]}},
            },
            "unknown function name: g",
        ),
    ],
)
def test_refuses_what_gemini_refuses(gemini: GeminiServer, body: dict[str, Any], says: str) -> None:
    status, message = generate(gemini, body)
    assert status == 400
    assert says in message


@pytest.mark.parametrize(
    ("signature", "status", "says"),
    [
        (None, 400, "missing a thought_signature"),
        ("c2lnOmdlbWluaS00LWFyZ29uOjAxMjM0NTY3ODlhYmNkZWY=", 400, "Invalid thought signature"),
        ("Z2FyYmFnZQ==", 400, "Corrupted thought signature"),
        ("c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=", 200, "hello"),
    ],
    ids=["none", "another model's", "nobody's", "the one that is always accepted"],
)
def test_guards_thought_signatures(gemini: GeminiServer, signature: str | None, status: int, says: str) -> None:
    call = {**CALL, **({"thoughtSignature": signature} if signature else {})}
    body = {"contents": [HELLO, {"role": "model", "parts": [call]}, {"role": "user", "parts": [RESPONSE]}]}
    got, message = generate(gemini, body, "gemini-3.8-flash")
    assert (got, says in message) == (status, True)


def test_a_used_up_minute_says_when_to_come_back() -> None:
    with GeminiServer(rpm=1) as server:
        assert generate(server, {"contents": [HELLO]})[0] == 200
        assert generate(server, {"contents": [HELLO]})[0] == 429


def test_who_waits_in_it_and_what_callers_keep_ends_with_it() -> None:
    before = {*threading.enumerate()}
    with GeminiServer().add({"when": {"last": "^wait"}, "reply": {"hang": 600}}) as server:
        callers = [http.client.HTTPConnection(urlsplit(server.url).netloc) for _ in range(2)]
        for caller, text in zip(callers, ("hello", "wait"), strict=True):
            said = json.dumps({"contents": [{"role": "user", "parts": [{"text": text}]}]})
            caller.request("POST", "/v1beta/models/gemini-2.5-flash:generateContent", said, {"x-goog-api-key": "k"})
        assert callers[0].getresponse().read()
        await_requests(server, 2)
    for thread in {*threading.enumerate()} - before:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    for caller in callers:
        caller.close()


@pytest.fixture
def program(tmp_path: Path) -> Iterator[str]:
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps({"when": {"last": "hello"}, "times": 1, "reply": {"text": "from the file"}}))
    command = [sys.executable, "-m", "tests.doubles.gemini", "--port", "0", "--rules", str(rules)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[4]) as process:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1]
        process.terminate()


def test_another_process_controls_it_by_http(program: str) -> None:
    ask = f"{program}/v1beta/models/gemini-2.5-flash:generateContent"

    def text() -> Any:
        return post(ask, {"contents": [HELLO]})[1]["candidates"][0]["content"]["parts"][0]["text"]

    assert text() == "from the file"
    assert post(f"{program}/__rules", [{"reply": {"text": "from afar"}}])[0] == 200
    assert text() == "from afar"
    with urllib.request.urlopen(f"{program}/__requests", timeout=60) as answer:
        requests = json.load(answer)
    assert [one["method"] for one in requests] == ["generateContent"] * 2
    assert "x-goog-api-key" not in requests[0]["headers"]
    assert post(f"{program}/__reset", {})[0] == 200
    assert text() == "[local model] hello"
    assert post(f"{program}/__rules", {"replay": {}})[0] == 400
