"""Curves of several methods over several logs: the task of one log, and arrays over all of them.

A curve is mean against CVaR, one point for each λ, on the models a policy was computed on
("training") and on fresh ones ("held-out").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from softrobust.experiments.bench import Bench, domain_of
from softrobust.experiments.intervals import Interval, mean_interval
from softrobust.experiments.methods import curve

FloatArray = NDArray[np.float64]
MODELS = ("training", "held-out")
MEASURES = ("mean", "cvar")
WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the bad case, by which curves are compared


def one_log(
    domain: str,
    domain_settings: dict[str, Any],
    seed: int,
    methods: list[str],
    lams: list[float],
    alpha: float,
    n_train: int,
    n_test: int,
    nodes: int,
) -> dict[str, Any]:
    """Task: every method's curve on the log of one data seed."""
    bench = Bench.of(domain_of(domain, domain_settings, seed), seed, n_train, n_test, alpha)
    out: dict[str, Any] = {"seed": seed, "scale": bench.scales(), "curves": {}}
    for name in methods:
        points = curve(name, bench, lams, nodes)
        measured = [bench.measure(point.policy) for point in points]
        out["curves"][name] = {
            "lam": [point.lam for point in points],
            "own": [point.own for point in points],
            "status": [point.status for point in points],
            "gap": [point.gap for point in points],
            **{
                word: {key: [m[word][key] for m in measured] for key in MEASURES} for word in MODELS
            },
        }
    return out


@final
@dataclass(frozen=True, slots=True, eq=False)
class Curves:
    """Arrays over logs: `get(method, models, measure)` is (n_logs, n_lams)."""

    seeds: tuple[int, ...]
    lams: dict[str, list[float | None]]
    values: dict[tuple[str, str, str], FloatArray]
    scales: dict[str, float]

    @classmethod
    def of(cls, logs: Sequence[Mapping[str, Any]]) -> Curves:
        """From the results of `one_log`."""
        first = logs[0]["curves"]
        values = {
            (name, word, key): np.array([log["curves"][name][word][key] for log in logs])
            for name in first
            for word in MODELS
            for key in MEASURES
        }
        scales = {w: float(np.mean([log["scale"][w] for log in logs])) for w in MODELS}
        lams = {name: list(c["lam"]) for name, c in first.items()}
        return cls(tuple(int(log["seed"]) for log in logs), lams, values, scales)

    def numbers(self) -> dict[str, Any]:
        """Every return by method, models and measure: a row for each log, a column for each λ."""
        names = list(self.lams)
        return {
            "seeds": list(self.seeds),
            "returns": {
                name: {w: {k: _short(self.values[name, w, k]) for k in MEASURES} for w in MODELS}
                for name in names
            },
        }

    def at(self, method: str, lam: float | None, models: str, measure: str) -> FloatArray:
        """(n_logs,) at one λ of a method."""
        return self.values[method, models, measure][:, self.lams[method].index(lam)]

    def score(self, method: str, weight: float, models: str) -> FloatArray:
        """(n_logs,): (1 − w)·mean + w·CVaR of the point that was best on the training models."""
        rows = np.arange(len(self.seeds))
        chosen = self._scores(method, weight, "training").argmax(axis=1)
        return np.asarray(self._scores(method, weight, models)[rows, chosen])

    def height(self, method: str, models: str) -> FloatArray:
        """(n_logs,): `score` averaged over the weights: one number for a whole curve."""
        return np.asarray(np.mean([self.score(method, w, models) for w in WEIGHTS], axis=0))

    def _scores(self, method: str, weight: float, models: str) -> FloatArray:
        mean, cvar = (self.values[method, models, key] for key in MEASURES)
        return np.asarray((1 - weight) * mean + weight * cvar)

    def less(self, a: FloatArray, b: FloatArray) -> Interval:
        """Interval of the average of a − b, log by log."""
        return mean_interval(a - b)


def _short(x: FloatArray) -> list[list[float]]:
    """Five significant digits: every return, in a file that stays small."""
    return [[float(f"{value:.5g}") for value in row] for row in x]
