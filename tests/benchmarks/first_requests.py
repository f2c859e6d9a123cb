"""How many of the requests that developers make first reach an agent of the shipped team that they would accept.

    python -m tests.benchmarks.first_requests

The table (``first_requests.jsonl``) is held out: neither the agents' files nor the router were made with it. Rows that
have been looked at to improve something are of no use here any more; then a new table is due.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ekiden.dispatcher.routing.strategies import RoutingValues, routers
from ekiden.shared.definitions.catalog import Catalog, build_catalog
from ekiden.shared.definitions.loader import load_levels

TABLE = Path(__file__).with_suffix(".jsonl")
"""Each row has the request, and which agents may take it: none where it is nobody's."""


def main() -> None:
    """Print what went elsewhere, and the figures."""
    rows = [json.loads(line) for line in TABLE.read_text("utf-8").splitlines()]
    went = asyncio.run(routed([row["text"] for row in rows]))
    ours, others = ([row for row in rows if bool(row["takes"]) is one] for one in (True, False))
    for row in rows:
        if not is_right(row, went):
            print(f"{row['text']!r} went to {went[row['text']]}, not {' or '.join(row['takes']) or 'refused'}")
    print(f"accepted {share(ours, went)}, nobody's refused {share(others, went)}")


def share(rows: Sequence[Mapping[str, Any]], went: Mapping[str, str | None]) -> str:
    """Say how many of the rows went right."""
    right = sum(is_right(row, went) for row in rows)
    return f"{right} of {len(rows)} ({right / len(rows):.0%})"


def is_right(row: Mapping[str, Any], went: Mapping[str, str | None]) -> bool:
    """Tell whether an agent that may take the request got it; of nobody's, whether none did."""
    agent = went[row["text"]]
    return agent in row["takes"] if row["takes"] else agent is None


async def routed(texts: Sequence[str]) -> dict[str, str | None]:
    """Return whom each text goes to among the shipped agents, without a model."""
    catalog, router = shipped(), routers(RoutingValues())["hybrid"]
    results = {text: await router.route(text, catalog) for text in texts}
    return {text: result.route.agent if result.route else None for text, result in results.items()}


def shipped() -> Catalog:
    """Return the catalog of whoever has no agents of their own."""
    return build_catalog([agent for level in load_levels(None) for agent in level.loaded.definitions])[0]


if __name__ == "__main__":
    main()
