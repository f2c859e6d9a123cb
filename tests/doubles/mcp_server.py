"""An MCP server that goes wrong on demand: plain lines of JSON, without the SDK, so that it starts in milliseconds.

Run as ``python mcp_server.py [how]``. ``how``: ``silent`` answers nothing, ``garbled`` writes what is no JSON first,
``broken-tools`` lists tools that no client can read, ``dies-once FILE`` dies in its first call and leaves the file,
``modern`` speaks the protocol without sessions, in which a server asks by its result, ``forgets FILE`` too, and knows
none of its questions once: it leaves the file then.
"""

import json
import os
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
    tool("fail", destructiveHint=False),
    tool("hang"),
    tool("die"),
    tool("odd_bytes"),
    tool("huge"),
    tool("picture"),
    tool("refund", destructiveHint=False),
]
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
    print("started", file=sys.stderr)
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if HOW != "silent" and "id" in request:
            send({"jsonrpc": "2.0", "id": request["id"], **answer(request["method"], request.get("params") or {})})


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
        return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}}
    if method == "tools/list":
        kept = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"} if HOW in ("modern", "forgets") else {}
        return {"result": {"tools": TOOLS + (BROKEN if HOW == "broken-tools" else []), **kept}}
    if method == "tools/call":
        if params["name"] == "refund":
            return asked(params)
        return called(params["name"], params.get("arguments") or {})
    return {"error": {"code": -32601, "message": f"no method {method}"}}


def called(name: str, args: Mapping[str, Any]) -> dict[str, Any]:
    match name:
        case "echo":
            return said(args.get("text", ""))
        case "environment":
            return said(json.dumps(dict(os.environ)))
        case "fail":
            return {"result": {"content": [{"type": "text", "text": "it broke"}], "isError": True}}
        case "huge":
            return said("x" * 20_000_000)
        case "picture":
            return {"result": {"content": [{"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}]}}
        case _:
            go_wrong(name)
            return said("alive")


def asked(params: Mapping[str, Any]) -> dict[str, Any]:
    """Ask before anything is done; go on with the answer."""
    order = params["arguments"]["text"]
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
