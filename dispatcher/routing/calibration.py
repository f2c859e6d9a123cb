"""Thresholds of one catalog, from its own texts held against each other: none holds for all catalogs.

Examples tell it best: all but one in sixteen are kept, each judged while it is left out. Agents without examples are
judged by their own texts as requests of a stranger to the catalog: by all agents but the one whose they are. A request
of this catalog should look more like it than that. Where some agents have examples and some not, the two are mixed.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ekiden.shared.embedding.word_index import Floats

__all__ = ["CALIBRATED", "Calibration", "Scales", "calibrated", "scales_of"]

CALIBRATED = 50.0
"""The share at the calibrated threshold."""
_LOST = 0.06
"""What part of its own examples a catalog may refuse."""
_STRANGERS = 0.3
"""The quantile of what strangers get, from which a little is taken off."""
_NEARER = 0.5
_LEAST = 0.4
"""No threshold is lower, in standard deviations of what is hardly anybody's."""
_SURE = 4.6  # the logistic function of it is 0.99: what the middle example gets
_USUAL = 3.0
"""How far above the threshold the middle request is where no example tells."""
_DEFAULT_LEAD = (0.0, 10.0)
_OF_SCOPE = 0.5


@dataclass(frozen=True)
class Scales:
    """How the heads' values are brought to one scale: standard deviations of what is hardly anybody's."""

    middles: tuple[float, float]
    deviations: tuple[float, float]
    weights: tuple[float, float]

    def belonging(self, margin: Floats, scope: Floats) -> Floats:
        """Return how much requests belong here, by the margin of the best agent and by the scope."""
        both = ((margin - self.middles[0]) / self.deviations[0], (scope - self.middles[1]) / self.deviations[1])
        return np.asarray(self.weights[0] * both[0] + self.weights[1] * both[1])


@dataclass(frozen=True)
class Calibration:
    """How belonging is to be read."""

    threshold: float
    steepness: float
    lead: tuple[float, float]
    """Of the logistic function that says how often the best agent is right, given its lead."""

    def share(self, belonging: float) -> float:
        """Return it on a scale of 0 to 100 that has 50 at the threshold."""
        return 100 * _logistic(self.steepness * (belonging - self.threshold))

    def confidence(self, belonging: float, lead: float) -> float:
        """Return how surely (of 100) a request is the best agent's, given the lead over the next."""
        constant, slope = self.lead
        return self.share(belonging) * _logistic(constant + slope * lead)


def scales_of(margin: Floats, scope: Floats, exemplified: float) -> Scales:
    """Read the scales off what is hardly anybody's; the scope counts as far as agents are ``exemplified``, 0 to 1."""
    deviations = [float(values.std()) or 1.0 for values in (margin, scope)]
    middles = [float(np.median(values)) for values in (margin, scope)]
    return Scales((middles[0], middles[1]), (deviations[0], deviations[1]), (1.0, _OF_SCOPE * exemplified))


def calibrated(
    inside: Floats, strangers: Floats, exemplified: float, choice: Floats, owners: NDArray[np.int64]
) -> Calibration:
    """Read the thresholds off.

    Args:
        inside: The belonging of each example, judged without knowing it; perhaps none.
        strangers: The belonging of the own texts of agents without examples, judged without the agent; perhaps none.
        exemplified: The part of the agents that have examples.
        choice: What each example gets from each agent: a row and a column each.
        owners: The agent of each example.
    """
    kept = float(np.quantile(inside, _LOST)) if len(inside) else 0.0
    strange = max(float(np.quantile(strangers, _STRANGERS)) - _NEARER, _LEAST) if len(strangers) else _LEAST
    weight = exemplified if len(inside) else 0.0
    threshold = weight * kept + (1 - weight) * strange
    above = max(float(np.median(inside)) - threshold, 0.1) if len(inside) > 1 else _USUAL
    return Calibration(threshold, _SURE / above, _lead(choice, owners))


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
