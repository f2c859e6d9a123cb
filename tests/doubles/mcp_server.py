"""An MCP server that goes wrong on demand: plain lines of JSON, without the SDK, so that it starts in milliseconds.

Run as ``python mcp_server.py [how]``. ``how``: ``silent`` answers nothing, ``garbled`` writes what is no JSON first,
``broken-tools`` lists tools that no client can read, ``dies-once FILE`` dies in its first call and leaves the file,
``modern`` speaks the protocol without sessions, in which a server asks by its result, ``forgets FILE`` too, and knows
none of its questions once: it leaves the file then. ``stubborn FILE`` heeds neither the end of its input nor SIGTERM,
and starts another one like that in a session of its own: the file gets both process ids. ``library`` has resources and
prompts beside its tools, ``odd-library`` such as no client can list. ``flaps FILE`` dies once its tools are
listed; the file gets a line at each start, when that was.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HOW = sys.argv[1] if len(sys.argv) > 1 else ""
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}


def tool(name: str, **hints: bool) -> dict[str, Any]:
    return {"name": name, "description": f"Does {name}.", "inputSchema": TEXT, "annotations": hints}


TOOLS: list[Any] = [
    tool("echo", readOnlyHint=True),
    tool("environment", readOnlyHint=True),
    tool("demand"),
    tool("touch", destructiveHint=False),
    tool("fail", destructiveHint=False),
    tool("hang"),
    tool("die"),
    tool("odd_bytes"),
    tool("huge"),
    tool("picture"),
    tool("refund", destructiveHint=False),
]
LIBRARY: dict[str, Any] = {
    "resources/list": {
        "resources": [
            {"uri": "note://1", "name": "first", "description": "A greeting."},
            *({"uri": f"note://{number}", "name": f"note {number}"} for number in range(2, 40)),
        ]
    },
    "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "note://{name}", "name": "any"}]},
    "prompts/list": {
        "prompts": [
            {
                "name": "review",
                "description": "Have a file reviewed.",
                "arguments": [{"name": "file", "required": True}, {"name": "tone"}],
            }
        ]
    },
}
MODERN = "2026-07-28"
BROKEN: list[Any] = [
    {"name": "no_schema"},
    {"name": "no_type", "inputSchema": {"$ref": "#"}},
    7,
    {"name": "odd", "inputSchema": {"type": "object", "pattern": "("}},
]


def main() -> None:
    if HOW == "garbled":
        sys.stdout.buffer.write(b'Welcome!\n\xff\xfe\n{"jsonrpc"\n')
    if HOW == "stubborn":
        be_stubborn(Path(sys.argv[2]))
    if HOW == "flaps":
        with Path(sys.argv[2]).open("a") as file:
            file.write(f"{time.monotonic()}\n")
    print("started", file=sys.stderr)
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if HOW != "silent" and "id" in request:
            send({"jsonrpc": "2.0", "id": request["id"], **answer(request["method"], request.get("params") or {})})
        if HOW == "flaps" and request["method"] == "tools/list":
            return
    while HOW == "stubborn":
        time.sleep(600)


def be_stubborn(file: Path) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if not (child := os.fork()):
        os.setsid()
        while True:
            time.sleep(600)
    file.write_text(f"{os.getpid()} {child}")


def send(message: Mapping[str, Any]) -> None:
    sys.stdout.buffer.write(json.dumps(message).encode() + b"\n")
    sys.stdout.buffer.flush()


def answer(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    if method == "server/discover" and HOW in ("modern", "forgets"):
        said = {"supportedVersions": [MODERN], "capabilities": {"tools": {}}, "resultType": "complete"}
        return {"result": {**said, "ttlMs": 0, "cacheScope": "public"}}
    if method == "initialize":
        info = {"name": "double", "version": "1.2"}
        version = params["protocolVersion"]
        can: dict[str, Any] = {"tools": {}, **({"resources": {}, "prompts": {}} if HOW.endswith("library") else {})}
        return {"result": {"protocolVersion": version, "capabilities": can, "serverInfo": info}}
    if method == "tools/list":
        kept = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"} if HOW in ("modern", "forgets") else {}
        return {"result": {"tools": TOOLS + (BROKEN if HOW == "broken-tools" else []), **kept}}
    if method == "tools/call":
        if params["name"] == "refund":
            return asked(params)
        return called(params["name"], params.get("arguments") or {})
    if HOW.endswith("library") and method.startswith(("resources/", "prompts/")):
        return of_library(method, params)
    return {"error": {"code": -32601, "message": f"no method {method}"}}


def of_library(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Answer about resources and prompts."""
    if HOW == "odd-library":
        return {"result": {}}
    if method == "resources/read":
        return read(params["uri"])
    return prompted(params.get("arguments") or {}) if method == "prompts/get" else {"result": LIBRARY[method]}


def read(uri: str) -> dict[str, Any]:
    match uri:
        case "note://1":
            return {"result": {"contents": [{"uri": uri, "mimeType": "text/plain", "text": "你好"}]}}
        case "note://picture":
            return {"result": {"contents": [{"uri": uri, "mimeType": "image/png", "blob": "iVBORw0KGgo="}]}}
        case "note://long":
            return {"result": {"contents": [{"uri": uri, "text": "x" * 300_000}]}}
        case _:
            return {"error": {"code": -32002, "message": f"there is no {uri}"}}


def prompted(args: Mapping[str, str]) -> dict[str, Any]:
    content = {"type": "text", "text": f"Review {args['file']} {args.get('tone', 'kindly')}."}
    return {"result": {"messages": [{"role": "user", "content": content}]}}


def called(name: str, args: Mapping[str, Any]) -> dict[str, Any]:
    match name:
        case "echo":
            return said(args.get("text", ""))
        case "environment":
            return said(json.dumps(dict(os.environ)))
        case "demand":
            return demanded(args["text"])
        case "touch":
            return touched(Path(args["text"]))
        case "fail":
            return {"result": {"content": [{"type": "text", "text": "it broke"}], "isError": True}}
        case "huge":
            return said("x" * 20_000_000)
        case "picture":
            return {"result": {"content": [{"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}]}}
        case _:
            go_wrong(name)
            return said("alive")


def demanded(method: str) -> dict[str, Any]:
    """Ask the client for something in the middle of a call, as servers of the older protocol do; tell what it said."""
    messages = [{"role": "user", "content": {"type": "text", "text": "hi"}}]
    form = {"message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}}
    params = {"sampling/createMessage": {"messages": messages, "maxTokens": 9}, "elicitation/create": form}
    send({"jsonrpc": "2.0", "id": "d", "method": method, "params": params.get(method, {})})
    while (reply := json.loads(sys.stdin.buffer.readline())).get("id") != "d":
        pass
    return said(json.dumps(reply.get("error") or reply["result"]))


def touched(file: Path) -> dict[str, Any]:
    """Make a file, and say what became of it."""
    try:
        file.write_text("")
    except OSError as error:
        return said(type(error).__name__)
    return said("made")


def asked(params: Mapping[str, Any]) -> dict[str, Any]:
    """Ask before anything is done; go on with the answer."""
    order = params["arguments"]["text"]
    if order == "sampling":
        wanted = {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 9}}
        return {"result": {"resultType": "input_required", "inputRequests": {"q": wanted}, "requestState": order}}
    if (state := params.get("requestState")) is None:
        schema = {"type": "object", "properties": {"confirm": {"type": "boolean"}}, "required": ["confirm"]}
        form = {"mode": "form", "message": f"Refund order {order}?", "requestedSchema": schema}
        request = {"method": "elicitation/create", "params": form}
        return {"result": {"resultType": "input_required", "inputRequests": {"q": request}, "requestState": order}}
    if HOW == "forgets" and not Path(sys.argv[2]).exists():
        Path(sys.argv[2]).touch()
        return {"error": {"code": -32602, "message": "Invalid or expired requestState"}}
    given = params["inputResponses"]["q"]
    return said(f"{given['action']} {(given.get('content') or {}).get('confirm')} for {state}")


def go_wrong(name: str) -> None:
    if name == "hang":
        time.sleep(600)
    elif name == "odd_bytes":
        sys.stdout.buffer.write(b"\xff\xfe\x00 not text\n")
    elif name == "die" and not (HOW == "dies-once" and Path(sys.argv[2]).exists()):
        if HOW == "dies-once":
            Path(sys.argv[2]).touch()
        os._exit(3)


def said(text: str) -> dict[str, Any]:
    return {"result": {"resultType": "complete", "content": [{"type": "text", "text": text}]}}


if __name__ == "__main__":
    main()
