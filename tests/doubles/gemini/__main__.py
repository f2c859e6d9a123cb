"""``python -m tests.doubles.gemini``: the server alone, for other processes and for trying things out."""

import argparse
import json
import threading
from contextlib import suppress
from pathlib import Path

from tests.doubles.gemini.rules import parse_rules
from tests.doubles.gemini.server import GeminiServer


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.doubles.gemini", description="A server that speaks Gemini.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8765, help="0: any free one")
    parser.add_argument("--rules", type=Path, help="a JSON file: a rule or a list of rules")
    parser.add_argument("--rpm", type=int, help="requests a minute, for each key and model")
    parser.add_argument("--lenient", action="store_true", help="accept the thought signatures of other models")
    options = parser.parse_args()
    rules = parse_rules(json.loads(options.rules.read_text(encoding="utf-8"))) if options.rules else []
    with GeminiServer(rules, options.host, options.port, rpm=options.rpm, strict=not options.lenient) as server:
        print(f"gemini double on {server.url}", flush=True)
        with suppress(KeyboardInterrupt):
            threading.Event().wait()


if __name__ == "__main__":
    main()
