"""Thresholds of one catalog, from its own examples held against each other: none holds for all catalogs."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ekiden.dispatcher.routing.word_index import Floats

__all__ = ["CALIBRATED", "Calibration", "calibrated"]

CALIBRATED = 50.0
"""The share at the calibrated threshold."""
_LOST = 0.05
"""What part of its own examples a catalog may refuse."""
_MOST_LOST = 0.25
_REFUSED = 0.9
"""What part of the background is to be refused where the examples are too few to tell what is lost."""
_ENOUGH = 10
"""Examples of an agent, in the mean, that are enough to tell."""
_STEEP = 4.6  # the logistic function of it is 0.99: what the middle example gets
_DEFAULT_LEAD = (0.0, 10.0)


@dataclass(frozen=True)
class Calibration:
    """How the heads' values are to be read."""

    choice_scale: float
    scope_scale: float
    threshold: float
    steepness: float
    lead: tuple[float, float]
    """Of the logistic function that says how often the best agent is right, given its lead."""

    def belonging(self, choice: float, scope: float) -> float:
        """Return how much a request belongs here, in standard deviations of the catalog's own examples."""
        return choice / self.choice_scale + scope / self.scope_scale

    def share(self, belonging: float) -> float:
        """Return it on a scale of 0 to 100 that has 50 at the threshold."""
        return 100 * _logistic(self.steepness * (belonging - self.threshold))

    def confidence(self, belonging: float, lead: float) -> float:
        """Return how surely (of 100) a request is the best agent's, given the lead over the next."""
        constant, slope = self.lead
        return self.share(belonging) * _logistic(constant + slope * lead)


def calibrated(
    choice: Floats, owners: NDArray[np.int64], scope: Floats, background: Floats, agents: int
) -> Calibration:
    """Read the thresholds off.

    Args:
        choice: What the choice says of each example without knowing it: a column for each agent. May have no rows.
        owners: The agent of each example.
        scope: What the scope says of each example without knowing it.
        background: What the two say of requests that are hardly anybody's: a row each.
        agents: How many there are.
    """
    has_examples = len(choice) > 1
    values = np.column_stack([choice.max(axis=1), scope]) if has_examples else background
    scales = np.where((deviation := values.std(axis=0)) > 0, deviation, 1.0)
    outside = (background / scales).sum(axis=1)
    if not has_examples:
        threshold = float(np.quantile(outside, 1 - _LOST))
        return Calibration(float(scales[0]), float(scales[1]), threshold, 1.0, _DEFAULT_LEAD)
    inside = (values / scales).sum(axis=1)
    threshold = _threshold(inside, outside, len(choice) / agents)
    middle = max(float(np.median(inside)) - threshold, 0.1)
    return Calibration(float(scales[0]), float(scales[1]), threshold, _STEEP / middle, _lead(choice, owners))


def _threshold(inside: Floats, outside: Floats, each: float) -> float:
    kept = float(np.quantile(inside, _LOST))
    if each >= _ENOUGH:
        return kept
    wanted = min(float(np.quantile(outside, _REFUSED)), float(np.quantile(inside, _MOST_LOST)))
    return max(kept, wanted)


def _lead(choice: Floats, owners: NDArray[np.int64]) -> tuple[float, float]:
    """Fit how often the best agent is right, given its lead: logistic regression by Newton's method."""
    if choice.shape[1] < 2:
        return 4.0, 0.0
    ordered = np.sort(choice, axis=1)
    inputs = np.column_stack([np.ones(len(choice)), ordered[:, -1] - ordered[:, -2]])
    right = (choice.argmax(axis=1) == owners).astype(np.float64)
    weights = np.array(_DEFAULT_LEAD)
    prior = np.diag([0.1, 0.01])
    for _ in range(20):
        said = 1 / (1 + np.exp(-np.clip(inputs @ weights, -30, 30)))
        gradient = inputs.T @ (said - right) + prior @ (weights - _DEFAULT_LEAD)
        hessian = (inputs * (said * (1 - said))[:, None]).T @ inputs + prior
        weights = weights - np.linalg.solve(hessian, gradient)
    return float(weights[0]), float(weights[1])


def _logistic(value: float) -> float:
    return float(1 / (1 + np.exp(-np.clip(value, -30.0, 30.0))))
