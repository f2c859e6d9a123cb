"""Where the constants of the routing come from: cross-validation over the train rows, and nothing else.

    python -m tests.benchmarks.routing_constants [--data ../shared/corpus/routing/dev] [--only lost …]

The train rows of each data set are dealt out into ten folds, label by label. Nine folds are the agents' examples (and
what keywords are mined from), the tenth is routed; its out-of-scope rows too. So every train row is routed once, by
agents that have not seen it. Of the values below, that one is taken with which the set that comes nearest to failing an
aim is farthest from it; the other constants stay as they are meanwhile. The aims are those of the benchmark:

* ``lost`` (``calibration._LOST``): 93 % of in-scope rows kept and 85 % of the others refused, on every set;
* ``strangeness`` (``evidence._STRANGENESS``): rules that decide alone are right nine times in ten on every set, and
  decide 30 % of the in-scope rows of three;
* ``grid`` (``choice._SHARPNESSES`` x ``_SHARES_OF_WORDS``): another one only if it chooses the right agent, refusals
  ignored, more often in the mean of the sets by two standard errors of the difference. None does: which mixtures there
  are to choose from matters little, as each catalog's own examples choose among them.

There was another: how much a request must look like anybody's work for rules and meaning, both unsure, to agree on an
agent. The best was that they never do, so the rule is gone.
"""

import argparse
import asyncio
import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np

from ekiden.dispatcher.routing import calibration, choice, evidence, semantic_model
from ekiden.dispatcher.routing.agent_texts import texts_of
from ekiden.dispatcher.routing.evaluation import Case, Outcome, read_cases, run
from ekiden.dispatcher.routing.hybrid import RULE_THRESHOLD
from ekiden.dispatcher.routing.kernels import fit_ridge
from ekiden.dispatcher.routing.strategies import RoutingValues, routers
from ekiden.shared.definitions.catalog import Catalog
from ekiden.shared.embedding.encoder import Encoder, SentenceEncoder, Vectors
from ekiden.shared.embedding.word_index import WordIndex
from tests.benchmarks.routing import DATA, mined, written

FOLDS = 10
KEPT, REFUSED, RIGHT, DECIDED = 0.93, 0.85, 0.9, 0.3
DECIDED_SETS = ("cs_clinc", "travel_zh", "assistant_zh")
SURE = 2.0
"""Standard errors by which another grid must be better."""
Mixture = tuple[float, float]
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
    """Return the mixtures that tell the agents apart best, if they do so surely better than those in force."""
    looked = [(fold.set, _looked(fold)) for fold in folds]
    in_force = choice._SHARPNESSES, choice._SHARES_OF_WORDS
    now = _rights(looked, in_force)
    better = {}
    for grid in GRIDS:
        gains = {name: np.subtract(right, now[name], dtype=float) for name, right in _rights(looked, grid).items()}
        gain = float(np.mean([each.mean() for each in gains.values()]))
        error = math.sqrt(sum(each.var() / len(each) for each in gains.values())) / len(gains)
        better[grid] = gain - SURE * error, gain, error
    ranked = sorted(better, key=lambda grid: better[grid][1], reverse=True)
    for grid in (*ranked[:5], ranked[-1]):
        print(f"    {grid}  {better[grid][1]:+.4f} against {in_force}, standard error {better[grid][2]:.4f}")
    best = max(better, key=lambda grid: better[grid][0])
    return f"{best if better[best][0] > 0 else in_force}; in force {in_force}"


def best_loss(folds: Sequence[Fold]) -> str:
    """Return what part of its own examples a catalog may refuse."""
    values = [step / 200 for step in range(4, 21)]
    judged = [(fold.set, *_judged(fold)) for fold in folds]
    margins = {}
    for value in values:
        kept: dict[str, list[bool]] = defaultdict(list)
        refused: dict[str, list[bool]] = defaultdict(list)
        for name, calibrated_with, inside, outside in judged:
            threshold = calibrated_with(value)
            kept[name] += [belonging >= threshold for belonging in inside]
            refused[name] += [belonging < threshold for belonging in outside]
        shares = [{name: sum(ones) / len(ones) for name, ones in some.items()} for some in (kept, refused)]
        margins[value] = min(
            *(one - KEPT for one in shares[0].values()), *(one - REFUSED for one in shares[1].values())
        )
        print(f"    {value:g}  margin {margins[value]:+.3f}  kept {_line(shares[0])}  refused {_line(shares[1])}")
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


def _judged(fold: Fold) -> tuple[Callable[[float], float], list[float], list[float]]:
    """Return what makes the fold's threshold of a loss, and how much its held rows belong: in scope, out of scope."""
    with patch("ekiden.dispatcher.routing.semantic_model.calibrated", wraps=calibration.calibrated) as calibrated:
        learned = semantic_model.learn(list(fold.plain.agents.values()), ENCODER)
    arguments = calibrated.call_args.args

    def threshold(lost: float) -> float:
        with patch.object(calibration, "_LOST", lost):
            return calibration.calibrated(*arguments).threshold

    rows = [(case, learned.judge(case.text, ENCODER).belonging) for case in fold.held if case.is_clear]
    inside, outside = ([found for case, found in rows if case.is_in_scope is wanted] for wanted in (True, False))
    return threshold, inside, outside


def _rights(
    looked: Sequence[tuple[str, Mapping[Mixture, tuple[float, list[bool]]]]], grid: tuple[Mixture, Mixture]
) -> dict[str, list[bool]]:
    """Return for each set where it is right when every fold takes the mixture of ``grid`` that surprises it least."""
    right: dict[str, list[bool]] = defaultdict(list)
    for name, found in looked:
        right[name] += min((found[mixture] for mixture in product(*grid)), key=lambda pair: pair[0])[1]
    return right


def _looked(fold: Fold) -> dict[Mixture, tuple[float, list[bool]]]:
    """Return for each mixture its surprise at the known rows, each left out, and where it is right on the held ones."""
    agents = list(fold.plain.agents.values())
    several = [texts_of(agent) for agent in agents]
    texts = [text for own in several for text in own]
    owners = np.repeat(np.arange(len(agents)), [len(own) for own in several])
    is_example = np.diff(owners, prepend=-1) == 0
    held = [case for case in fold.held if case.is_in_scope and case.is_clear]
    labels = [case.label for case in held]
    vectors, held_vectors, words = ENCODER.encode(texts), ENCODER.encode([case.text for case in held]), WordIndex(texts)
    alike, held_alike = words.kernel(), np.array([words.similarities(case.text)[0] for case in held])
    found: dict[Mixture, tuple[float, list[bool]]] = {}
    for pair in sorted({pair for grid in GRIDS for pair in product(*grid)}):
        one = choice.Mixture(*pair)
        head = fit_ridge(one.meant(vectors, vectors) + one.words * alike, np.eye(len(agents))[owners], choice._RIDGE)
        best = head.scores(one.meant(held_vectors, vectors) + one.words * held_alike).argmax(axis=1)
        right = [agents[number].name == label for number, label in zip(best, labels, strict=True)]
        found[pair] = choice._surprise(head.left_out[is_example], owners[is_example]), right
    return found


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
