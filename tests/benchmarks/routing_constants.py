"""Where the constants of the routing come from: cross-validation over the train rows, and nothing else.

    python -m tests.benchmarks.routing_constants [--data ../shared/corpus/routing/dev] [--only lost …]

The train rows of each data set are dealt out into ten folds, label by label. Nine folds are the agents' examples (and
what keywords are mined from), the tenth is routed; its out-of-scope rows too. So every train row is routed once, by
agents that have not seen it. Of the values below, that one is taken with which the set that comes nearest to failing an
aim is farthest from it; the other constants stay as they are meanwhile. The aims are those of the benchmark:

* ``lost`` (``calibration._LOST``): 93 % of in-scope rows kept and 85 % of the others refused, on every set;
* ``strangeness`` (``evidence._STRANGENESS``): rules that decide alone are right nine times in ten on every set, and
  decide 30 % of the in-scope rows of three;
* ``grid`` (``meaning._SHARPNESSES`` x ``_SHARES_OF_WORDS``), whose aims differ by set: the right agent most often,
  refusals ignored, in the mean of the sets.

There was another: how much a request must look like anybody's work for rules and meaning, both unsure, to agree on an
agent. The best was that they never do, so the rule is gone.
"""

import argparse
import asyncio
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import combinations, product
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from dispatcher.routing import calibration, evidence, meaning
from dispatcher.routing.encoder import Encoder, SentenceEncoder, Vectors
from dispatcher.routing.evaluation import NOBODY, Case, Outcome, read_cases, report, run
from dispatcher.routing.hybrid import RULE_THRESHOLD
from dispatcher.routing.strategies import RoutingValues, routers
from shared.definitions.catalog import Catalog
from tests.benchmarks.routing import DATA, mined, written

FOLDS = 10
KEPT, REFUSED, RIGHT, DECIDED = 0.93, 0.85, 0.9, 0.3
DECIDED_SETS = ("cs_clinc", "travel_zh", "assistant_zh")
GRIDS = [
    (sharpnesses, shares)
    for sharpnesses in combinations((0.5, 1.0, 2.0, 3.0, 5.0), 2)
    for shares in combinations((0.15, 0.3, 0.45, 0.6, 0.75), 2)
]


class Fold(NamedTuple):
    """Agents that know nine tenths of a set, and the rows of the last tenth."""

    set: str
    plain: Catalog
    with_keywords: Catalog
    held: list[Case]


class Remembering:
    """An encoder that encodes each text once."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._known: dict[str, Vectors] = {}

    def encode(self, texts: Sequence[str]) -> Vectors:
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if new:
            self._known |= zip(new, self._encoder.encode(new), strict=True)
        return np.stack([self._known[text] for text in texts])


ENCODER = Remembering(SentenceEncoder())


def main() -> None:
    """Print a table for each constant, and what the rule takes from it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--only", nargs="*", choices=list(CONSTANTS), default=list(CONSTANTS))
    options = parser.parse_args()
    folds = [fold for name, agents in _suites(options.data) for fold in dealt(options.data, name, agents)]
    for name in options.only:
        print(f"{name}: {CONSTANTS[name](folds)}", flush=True)


def dealt(data: Path, name: str, agents: Mapping[str, Mapping[str, str]]) -> Iterator[Fold]:
    """Yield the folds of a data set's train rows."""
    cases = read_cases((data / f"{name}.train.jsonl").read_text("utf-8").splitlines(), agents)
    places: dict[str, int] = defaultdict(int)
    numbered = []
    for case in cases:
        numbered.append((places[case.label] % FOLDS, case))
        places[case.label] += 1
    for fold in range(FOLDS):
        known = [case for number, case in numbered if number != fold]
        examples = {agent: [case.text for case in known if case.label == agent] for agent in agents}
        held = [case for number, case in numbered if number == fold]
        yield Fold(name, written(agents, examples, {}), written(agents, examples, mined(known, agents)), held)


def best_grid(folds: Sequence[Fold]) -> str:
    """Return the mixtures that tell the agents apart best."""
    looked = [_looked(fold) for fold in folds]
    means = {}
    for grid in GRIDS:
        right: dict[str, list[bool]] = defaultdict(list)
        for fold, found in zip(folds, looked, strict=True):
            right[fold.set] += min((found[mixture] for mixture in product(*grid)), key=lambda pair: pair[0])[1]
        means[grid] = sum(sum(rows) / len(rows) for rows in right.values()) / len(right)
    ranked = sorted(means, key=means.__getitem__, reverse=True)
    for grid in (*ranked[:5], ranked[-1]):
        print(f"    {grid}  right {means[grid]:.4f}")
    return f"{ranked[0]}; in force {meaning._SHARPNESSES}, {meaning._SHARES_OF_WORDS}: {_in_force(means):.4f}"


def best_loss(folds: Sequence[Fold]) -> str:
    """Return what part of its own examples a catalog may refuse."""
    values = (0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08)
    margins = {value: _margin(folds, value) for value in values}
    return f"{max(margins, key=margins.__getitem__)}; in force {calibration._LOST}"


def best_strangeness(folds: Sequence[Fold]) -> str:
    """Return the weight of words that an agent's examples do not know."""
    values = [step / 5 for step in range(10, 31)]
    margins = {value: _rules_margin(folds, value) for value in values}
    return f"{max(margins, key=margins.__getitem__)}; in force {evidence._STRANGENESS}"


CONSTANTS = {
    "grid": best_grid,
    "lost": best_loss,
    "strangeness": best_strangeness,
}


def routed(folds: Iterable[Fold], strategy: str, *, has_keywords: bool) -> dict[str, list[Outcome]]:
    """Route every held row by agents that do not know it; return what became of the rows of each set."""
    found: dict[str, list[Outcome]] = defaultdict(list)
    for fold in folds:
        router = routers(RoutingValues(), ENCODER)[strategy]
        found[fold.set] += asyncio.run(run(router, fold.with_keywords if has_keywords else fold.plain, fold.held))
    return found


def _margin(folds: Sequence[Fold], value: float) -> float:
    """Return how far the worst set is from failing the aims."""
    with patch.object(calibration, "_LOST", value):
        found = routed(folds, "hybrid", has_keywords=False)
    reports = {name: report(ones) for name, ones in found.items()}
    kept = {name: one["in_scope_kept"] for name, one in reports.items()}
    refused = {name: one["oos_refused"] for name, one in reports.items()}
    margin = min(*(share - KEPT for share in kept.values()), *(share - REFUSED for share in refused.values()))
    print(f"    {value:g}  margin {margin:+.3f}  kept {_line(kept)}  refused {_line(refused)}", flush=True)
    return float(margin)


def _rules_margin(folds: Sequence[Fold], value: float) -> float:
    """Return how far the worst set is from failing the aims of the rules."""
    with patch.object(evidence, "_STRANGENESS", value):
        found = routed(folds, "rule", has_keywords=True)
    sure = {name: [one for one in ones if _is_sure(one)] for name, ones in found.items()}
    right = {name: sum(one.is_right for one in ones) / max(len(ones), 1) for name, ones in sure.items()}
    inside = {name: sum(one.case.is_in_scope and one.case.is_clear for one in ones) for name, ones in found.items()}
    decided = {name: sum(one.case.is_in_scope for one in ones) / inside[name] for name, ones in sure.items()}
    margin = min(*(share - RIGHT for share in right.values()), *(decided[name] - DECIDED for name in DECIDED_SETS))
    print(f"    {value:.1f}  margin {margin:+.3f}  right {_line(right)}  decided {_line(decided)}", flush=True)
    return margin


def _looked(fold: Fold) -> dict[tuple[float, float], tuple[float, list[bool]]]:
    """Return for each mixture its surprise at the known rows, each left out, and where it is right on the held ones."""
    agents = list(fold.plain.agents.values())
    held = [case for case in fold.held if case.label != NOBODY and case.is_clear]
    found: dict[tuple[float, float], tuple[float, list[bool]]] = {}
    for mixture in sorted({pair for grid in GRIDS for pair in product(*grid)}):
        with (
            patch.object(meaning, "_SHARPNESSES", mixture[:1]),
            patch.object(meaning, "_SHARES_OF_WORDS", mixture[1:]),
            _kept_surprises() as surprises,
        ):
            learned = meaning.learn(agents, ENCODER)
        right = [learned.names[learned.judge(case.text, ENCODER).order[0]] == case.label for case in held]
        found[mixture] = (surprises[0], right)
    return found


@contextmanager
def _kept_surprises() -> Iterator[list[float]]:
    """Keep what the mixtures are compared by."""
    kept: list[float] = []
    compared = meaning._surprise

    def surprise(scores: Any, owners: Any) -> float:
        kept.append(compared(scores, owners))
        return kept[-1]

    with patch.object(meaning, "_surprise", surprise):
        yield kept


def _in_force(means: Mapping[Any, float]) -> float:
    return means[meaning._SHARPNESSES, meaning._SHARES_OF_WORDS]


def _is_sure(outcome: Outcome) -> bool:
    route = outcome.result.route
    return route is not None and route.confidence >= RULE_THRESHOLD and outcome.case.is_clear


def _line(figures: Mapping[str, float]) -> str:
    return " ".join(f"{name}={value:.3f}" for name, value in figures.items())


def _suites(data: Path) -> Iterator[tuple[str, Mapping[str, Mapping[str, str]]]]:
    for name, agents in json.loads((data / "agents.json").read_text("utf-8")).items():
        if (data / f"{name}.train.jsonl").exists():
            yield name, agents


if __name__ == "__main__":
    main()
