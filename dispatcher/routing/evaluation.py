"""How well a catalog routes requests whose agent is known."""

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ekiden.dispatcher.routing.base import Router, RoutingResult
from ekiden.shared.definitions.catalog import Catalog
from ekiden.shared.errors import InvalidRequest
from ekiden.shared.storable import read_json
from ekiden.shared.suggestions import nearest

__all__ = ["NOBODY", "Case", "Outcome", "evaluate", "read_cases", "report", "run"]

NOBODY = "oos"
"""The label of a request that no agent here should take."""
_TOLD = 20
"""How many lines that cannot be used are told."""


@dataclass(frozen=True)
class Case:
    """A request and the agent that should get it. ``is_clear`` False: its words do not tell, so it is not counted."""

    text: str
    label: str
    is_clear: bool = True

    @property
    def is_in_scope(self) -> bool:
        """Whether any agent should take it."""
        return self.label != NOBODY


@dataclass(frozen=True)
class Outcome:
    """What became of a case."""

    case: Case
    result: RoutingResult
    duration_ms: float

    @property
    def best(self) -> str | None:
        """The chosen agent, else the first candidate: refusal ignored."""
        if self.result.route is not None:
            return self.result.route.agent
        return self.result.candidates[0].agent if self.result.candidates else None

    @property
    def is_kept(self) -> bool:
        """Whether an agent was chosen."""
        return self.result.route is not None

    @property
    def is_right(self) -> bool:
        """Whether the right agent was chosen, or nobody where nobody is right."""
        chosen = self.result.route.agent if self.result.route else NOBODY
        return chosen == self.case.label


def read_cases(lines: Iterable[str], known: Iterable[str], where: str = "") -> list[Case]:
    """Read one JSON object a line: ``text``, ``label`` (an agent, or ``oos``), perhaps ``clear``.

    Raises ``InvalidRequest``, which begins with ``where``, naming the first lines that are none, or whose label is no
    agent of ``known``.
    """
    names = sorted({*known, NOBODY})
    cases: list[Case] = []
    problems: list[str] = []
    wrong = 0
    for number, line in enumerate(lines, 1):
        try:
            cases += [_case(line, names)] if line.strip() else []
        except ValueError as error:
            wrong += 1
            problems += [f"line {number}: {error}"] if wrong <= _TOLD else []
    if problems:
        more = [f"and {wrong - _TOLD} more"] if wrong > _TOLD else []
        raise InvalidRequest(where + "\n".join([*problems, *more]))
    if not cases:
        raise InvalidRequest(
            where + 'there are no rows: give one JSON object a line, as {"text": "…", "label": "debugger"}'
        )
    return cases


async def evaluate(router: Router, catalog: Catalog, cases: Sequence[Case]) -> dict[str, Any]:
    """Route every case and return the report; what the router has to learn first is not in its times."""
    return report(await run(router, catalog, cases))


async def run(router: Router, catalog: Catalog, cases: Sequence[Case]) -> list[Outcome]:
    """Route every case, one after the other."""
    await router.route(cases[0].text, catalog)
    outcomes = []
    for case in cases:
        began = time.perf_counter()
        result = await router.route(case.text, catalog)
        outcomes.append(Outcome(case, result, (time.perf_counter() - began) * 1000))
    return outcomes


def report(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return the figures; a share of no rows is None."""
    inside = [one for one in outcomes if one.case.is_in_scope and one.case.is_clear]
    outside = [one for one in outcomes if not one.case.is_in_scope]
    times = [one.duration_ms for one in outcomes]
    belonging = ([one.result.belonging for one in some] for some in (inside, outside))
    return {
        "n": len(outcomes),
        "in_scope": len(inside),
        "out_of_scope": len(outside),
        "unclear": len(outcomes) - len(inside) - len(outside),
        "in_scope_accuracy": _share(one.is_right for one in inside),
        "in_scope_accuracy_unrefused": _share(one.best == one.case.label for one in inside),
        "in_scope_top5": _share(one.case.label in _first(one, 5) for one in inside),
        "in_scope_kept": _share(one.is_kept for one in inside),
        "oos_refused": _share(not one.is_kept for one in outside),
        "oos_auroc": _auroc(*belonging),
        "p50_ms": round(float(np.quantile(times, 0.5)), 3),
        "p99_ms": round(float(np.quantile(times, 0.99)), 3),
        "stages": _by_stage([*inside, *outside], len(inside)),
        "agents": _by_agent(inside),
        "wrong": [_wrong(one) for one in (*inside, *outside) if not one.is_right],
    }


def _case(line: str, names: Sequence[str]) -> Case:
    """Read a row. Raises ``ValueError`` with what is wrong with it."""
    try:
        row = read_json(line)
    except ValueError as error:
        raise ValueError(f"no valid JSON ({error}); each line is one object") from None
    text, label = (row.get(key) if isinstance(row, dict) else None for key in ("text", "label"))
    if not isinstance(text, str) or not isinstance(label, str) or not text.strip():
        raise ValueError("an object with the texts 'text' and 'label' is expected")
    if label not in names:
        near = nearest(label, names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"
        raise ValueError(f"the label {label!r} is no agent of the catalog, nor {NOBODY!r}: {hint}")
    return Case(text, label, row.get("clear") is not False)


def _wrong(outcome: Outcome) -> dict[str, str]:
    """Return a request that did not go where it should: where that is, and where it went."""
    went = outcome.result.route.agent if outcome.result.route else NOBODY
    return {"text": outcome.case.text, "label": outcome.case.label, "went": went}


def _first(outcome: Outcome, count: int) -> list[str]:
    names = [route.agent for route in (outcome.result.route, *outcome.result.candidates) if route is not None]
    return list(dict.fromkeys(names))[:count]


def _share(values: Iterable[bool]) -> float | None:
    found = list(values)
    return round(sum(found) / len(found), 4) if found else None


def _auroc(inside: Sequence[float], outside: Sequence[float]) -> float | None:
    """Return how often a request that belongs here looks more so than one that does not; ties count half."""
    if not inside or not outside:
        return None
    ours, others = np.array(inside)[:, None], np.array(outside)[None, :]
    return round(float((ours > others).mean() + (ours == others).mean() / 2), 4)


def _by_stage(outcomes: Sequence[Outcome], inside: int) -> dict[str, Mapping[str, Any]]:
    """Return for each stage how much it decided, and how often it was right where it did."""
    decided: dict[str, list[Outcome]] = defaultdict(list)
    for one in outcomes:
        if one.result.route is not None:
            decided[one.result.route.stage].append(one)
    return {
        stage: {
            "decided": len(ones),
            "of_in_scope": round(sum(one.case.is_in_scope for one in ones) / inside, 4) if inside else None,
            "right": _share(one.is_right for one in ones),
        }
        for stage, ones in sorted(decided.items())
    }


def _by_agent(outcomes: Sequence[Outcome]) -> dict[str, Mapping[str, Any]]:
    """Return for each agent how many requests were its, how many it got, and who got the others."""
    chosen: dict[str, Counter[str]] = defaultdict(Counter)
    for one in outcomes:
        chosen[one.case.label][one.result.route.agent if one.result.route else NOBODY] += 1
    return {
        agent: {
            "n": counts.total(),
            "right": counts[agent],
            "others": {other: count for other, count in counts.most_common() if other != agent},
        }
        for agent, counts in sorted(chosen.items())
    }
