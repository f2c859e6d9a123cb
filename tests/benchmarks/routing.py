"""How well requests reach their agents, and how fast.

    python -m tests.benchmarks.routing [--data ../shared/corpus/routing/dev] [--sets cs_clinc …] [--examples N]
        [--keywords N] [--json]

For each data set, agent files are written from ``agents.json`` and the rows of ``<set>.train.jsonl`` (examples; nothing
else is learned from), and the rows of ``<set>.test.jsonl`` are routed. With ``--examples N`` each agent has N examples,
drawn once; 0: a description only, as most files have it. With ``--keywords N`` it has N keywords besides, mined from
the train rows. Then only the first is measured:

* hybrid without a model: the right agent on clear in-scope rows (refusals ignored; refusals counted), what is kept of
  them, what is refused of the out-of-scope rows at the calibrated threshold, times;
* the rules alone, with twelve keywords an agent mined from the train rows: how much they decide (confidence of 80 and
  more), and how often they are right there;
* both: agents with examples and keywords;
* rules at scale: 1,000 and 10,000 agents of ten keywords, a request of 2,000 characters.
"""

import argparse
import asyncio
import json
import math
import random
import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from ekiden.dispatcher.routing.evaluation import NOBODY, Case, read_cases, report, run
from ekiden.dispatcher.routing.hybrid import RULE_THRESHOLD
from ekiden.dispatcher.routing.rules import RuleRouter
from ekiden.dispatcher.routing.strategies import RoutingValues, routers
from ekiden.shared.definitions.catalog import Catalog, build_catalog
from ekiden.shared.definitions.loader import load_folder
from ekiden.shared.definitions.model import AgentDefinition, Triggers
from ekiden.shared.embedding.encoder import SentenceEncoder

DATA = Path("../shared/corpus/routing/dev")
KEYWORDS = 12
ENCODER = SentenceEncoder()


def main() -> None:
    """Print the tables, or one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--part", default="test", help="the rows that are measured")
    parser.add_argument("--sets", nargs="*", help="all, unless named")
    parser.add_argument("--examples", type=int, help="of each agent; all, unless given")
    parser.add_argument("--keywords", type=int, default=0, help="of each agent, with --examples")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    suites = json.loads((options.data / "agents.json").read_text("utf-8"))
    results = {}
    for name in options.sets or suites:
        results[name] = measure(options.data, name, suites[name], options.part, options.examples, options.keywords)
        if not options.json:
            show(name, results[name])
    if options.examples is not None:
        print(json.dumps(results) if options.json else mean_of([one["hybrid"] for one in results.values()]))
        return
    scale = {count: at_scale(count) for count in (1_000, 10_000)}
    if options.json:
        print(json.dumps({"sets": results, "rules_at_scale": scale}))
        return
    for count, times in scale.items():
        print(f"rules of {count} agents, 2,000 characters: p50 {times['p50_ms']:.2f} ms, p99 {times['p99_ms']:.2f} ms")


def mean_of(reports: Sequence[Mapping[str, Any]]) -> str:
    """Say what the sets gave in the mean, of those that have the figure."""
    names = {
        "right": "in_scope_accuracy_unrefused",
        "refusals counted": "in_scope_accuracy",
        "oos refused": "oos_refused",
    }
    found = {name: [one[key] for one in reports if one[key] is not None] for name, key in names.items()}
    return "mean  " + "  ".join(f"{name} {sum(some) / len(some):.3f}" for name, some in found.items() if some)


def measure(
    data: Path, name: str, agents: Mapping[str, Mapping[str, str]], part: str, most: int | None, words: int
) -> dict[str, Any]:
    """Return the three reports of one data set; the first alone where agents have ``most`` examples."""
    test = read_cases((data / f"{name}.{part}.jsonl").read_text("utf-8").splitlines(), agents)
    file = data / f"{name}.train.jsonl"
    train = read_cases(file.read_text("utf-8").splitlines(), agents) if file.exists() else []
    keywords = mined(train, agents)
    if most is not None:
        random.Random(1).shuffle(train)
    examples = {agent: [case.text for case in train if case.label == agent][:most] for agent in agents}
    if most is not None:
        some = {agent: keywords[agent][:words] for agent in agents}
        return {"hybrid": measured("hybrid", written(agents, examples, some), test)}
    catalogs = {
        "hybrid": written(agents, examples, {}),
        "rules": written(agents, examples, keywords),
        "both": written(agents, examples, keywords),
    }
    return {which: measured(which, catalog, test) for which, catalog in catalogs.items() if train or which == "hybrid"}


def measured(which: str, catalog: Catalog, cases: Sequence[Case]) -> dict[str, Any]:
    """Return a report with the time that learning the catalog took."""
    ENCODER.encode(["loaded"])
    router = routers(RoutingValues(), ENCODER)["rule" if which == "rules" else "hybrid"]

    async def routed() -> dict[str, Any]:
        began = time.perf_counter()
        await router.route(cases[0].text, catalog)
        learned_s = time.perf_counter() - began
        outcomes = await run(router, catalog, cases)
        figures = report(outcomes)
        del figures["agents"]
        sure = [one for one in outcomes if one.result.route and one.result.route.confidence >= RULE_THRESHOLD]
        sure = [one for one in sure if one.case.is_clear and one.result.route and one.result.route.stage == "rule"]
        inside = [one for one in sure if one.case.label != NOBODY]
        return figures | {
            "learned_s": round(learned_s, 2),
            "sure": len(inside) / max(figures["in_scope"], 1),
            "sure_right": sum(one.is_right for one in sure) / max(len(sure), 1),
            "sure_right_in_scope": sum(one.is_right for one in inside) / max(len(inside), 1),
        }

    return asyncio.run(routed())


def show(name: str, reports: Mapping[str, Mapping[str, Any]]) -> None:
    """Print what one data set gave."""
    for which, one in reports.items():
        line = f"{name:13} {which:7} right {_(one['in_scope_accuracy_unrefused'])}  top 5 {_(one['in_scope_top5'])}  "
        line += f"refusals counted {_(one['in_scope_accuracy'])}  kept {_(one['in_scope_kept'])}  "
        line += f"oos refused {_(one['oos_refused'])}  auroc {_(one['oos_auroc'])}  "
        line += f"p50 {one['p50_ms']:.1f}  p99 {one['p99_ms']:.1f} ms  learned in {one['learned_s']} s"
        if which != "hybrid":
            line += f" | rules sure of {one['sure']:.3f}, right {one['sure_right']:.3f} "
            line += f"({one['sure_right_in_scope']:.3f} of in-scope)"
        print(line, flush=True)


def _(value: float | None) -> str:
    return "  -  " if value is None else f"{value:.3f}"


def written(
    agents: Mapping[str, Mapping[str, str]],
    examples: Mapping[str, Sequence[str]],
    keywords: Mapping[str, Sequence[str]],
) -> Catalog:
    """Write the agents as files, and load them as a dispatcher does."""
    with tempfile.TemporaryDirectory() as folder:
        for name, agent in agents.items():
            triggers = {"examples": list(examples.get(name, ())), "keywords": list(keywords.get(name, ()))}
            front = {"name": name, "description": agent["description"], "triggers": triggers}
            text = f"---\n{yaml.safe_dump(front, allow_unicode=True, width=1_000_000)}---\nYou are {name}.\n"
            (Path(folder) / f"{name}.md").write_text(text, encoding="utf-8")
        loaded = load_folder(Path(folder), "project")
    errors = [problem for problem in loaded.problems if problem.severity == "error"]
    assert not errors, errors
    return build_catalog(loaded.definitions)[0]


def mined(cases: Sequence[Case], agents: Iterable[str]) -> dict[str, list[str]]:
    """Return for each agent the words and pairs of words that tell its requests from the others best."""
    counted = [(case.label, set(terms(case.text))) for case in cases]
    sizes = Counter(label for label, _ in counted)
    anywhere = Counter(term for _, found in counted for term in found)
    chosen = {}
    for agent in agents:
        own = Counter(term for label, found in counted if label == agent for term in found)
        prior = sizes[agent] / max(len(counted), 1)

        def worth(term: str, own: Counter[str] = own, prior: float = prior) -> tuple[float, str]:
            total = anywhere[term]
            odds = (own[term] + 0.5) / (total + 1) / prior
            return own[term] * math.log(odds) - 2 * (total - own[term]), term

        ranked = sorted((term for term, count in own.items() if count > 1), key=worth, reverse=True)
        chosen[agent] = list(_without_overlaps(ranked))[:KEYWORDS]
    return chosen


def terms(text: str) -> Iterator[str]:
    """Yield what may be a keyword: words, pairs of words, runs of two to four Chinese characters."""
    folded = " ".join(text.casefold().split())
    words = re.findall(r"[a-z0-9_']+", folded)
    yield from (word for word in words if len(word) > 2)
    yield from (f"{first} {second}" for first, second in pairwise(words) if f"{first} {second}" in folded)
    for chunk in re.findall(r"[\u4e00-\u9fff]+", folded):
        for size in (2, 3, 4):
            yield from (chunk[start : start + size] for start in range(len(chunk) - size + 1))


def _without_overlaps(ranked: Sequence[str]) -> Iterator[str]:
    taken: list[str] = []
    for term in ranked:
        if not any(term in other or other in term for other in taken):
            taken.append(term)
            yield term


def at_scale(count: int) -> dict[str, float]:
    """Return how long the rules of ``count`` agents take for a request of 2,000 characters full of their keywords."""
    chance = random.Random(1)
    vocabulary = [f"w{chance.getrandbits(30):x}" for _ in range(count * 10)]
    agents = {
        f"a{number}": AgentDefinition(
            name=f"a{number}",
            title="t",
            description="d",
            triggers=Triggers(keywords=tuple(chance.sample(vocabulary, 10))),
        )
        for number in range(count)
    }
    prompts = [" ".join(chance.choice(vocabulary) for _ in range(250))[:2_000] for _ in range(500)]
    router, catalog = RuleRouter(), Catalog(agents)

    async def routed() -> list[float]:
        await router.route("compile", catalog)
        times = []
        for prompt in prompts:
            began = time.perf_counter()
            await router.route(prompt, catalog)
            times.append((time.perf_counter() - began) * 1000)
        return sorted(times)

    times = asyncio.run(routed())
    return {"p50_ms": times[len(times) // 2], "p99_ms": times[int(len(times) * 0.99)]}


if __name__ == "__main__":
    main()
