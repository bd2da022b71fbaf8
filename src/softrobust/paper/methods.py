"""The methods of the figures: the curve of each over λ, how it is shown, and how curves compare.

A curve is mean against CVaR, one point for each λ, on the models a policy was computed on
("training") and on fresh ones ("held-out"). The static optimum is proven by branch and bound with a
limit on nodes, never on seconds, so that a run gives the same policies on any machine. It walks
through λ from 0 to 1: a solve starts from the best policy found so far, and in the end every λ
takes the best of all of them.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple, final

import numpy as np

from softrobust import solvers
from softrobust._core.arrays import FloatArray
from softrobust.models.model_set import ModelSet
from softrobust.models.policy import Policy
from softrobust.objective import Percentile, SoftRobust
from softrobust.paper.claims import Measured, mean_interval, more, texts, within
from softrobust.paper.pairs import Bench, bench_of
from softrobust.returns import policy_return
from softrobust.solvers import Exact, SaturationWarning, Solver, solve_grid
from softrobust.solvers.baselines.draws import PosteriorDraws, tail_mass

GAP = 1e-3  # of |value|: closer than a picture shows
IN_MEMORY = 6e7  # transition probabilities of draws that are kept
MODELS = ("training", "held-out")
MEASURES = ("mean", "cvar")
WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the bad case, by which curves are compared
# Shares of what is to be gained: the clairvoyant mean less the uniform policy's, on those models.
NOISE = 1e-5  # less than this is no difference: one policy, or rounding
NEAR = 0.02  # "comparable"
FAR = 0.05  # "very poorly"
WORDS = {"mean": "mean", "cvar": "bad case"}
Ends = tuple[float, float]


class Point(NamedTuple):
    """A policy on a method's curve: λ (None where the method has none), its own value, status."""

    lam: float | None
    policy: Policy
    own: float
    status: str
    gap: float | None = None


class Look(NamedTuple):
    """Name in words, in short, colour and marker; a curve that is in the tables only is hidden."""

    label: str
    short: str
    colour: str
    marker: str
    hidden: bool = False


LOOKS = {name: Look(**look) for name, look in texts()["looks"].items()}


def curve(name: str, bench: Bench, lams: Sequence[float], nodes: int) -> list[Point]:
    """The points of one method on one log."""
    if name == "static":
        return _static(bench, lams, nodes)
    with warnings.catch_warnings():
        if name.endswith("-paper"):  # too few draws for the quantile is what the paper did
            warnings.simplefilter("ignore", SaturationWarning)
        if name in ALONE:
            problem = bench.at(1.0)
            if name == "percentile":
                problem = replace(problem, objective=Percentile(problem.objective.alpha))
            return [_point(None, ALONE[name](bench).solve(problem))]
        solver = ALONG_LAMBDA[name](bench)
        rows = solve_grid(bench.train, solver, lams, [bench.train.objective.alpha])
    return [_point(lam, row[0]) for lam, row in zip(lams, rows, strict=True)]


def _enough(bench: Bench) -> ModelSet | PosteriorDraws:
    """As many draws as show the quantile at 1 − δ/(SA), in memory where they fit.

    A posterior that is a weighted list of models needs no draws.
    """
    weighted: Callable[[], ModelSet] | None = getattr(bench.fitted, "weighted", None)
    if weighted is not None:
        return weighted()
    n = math.ceil(tail_mass(bench.train)[1] - 1e-6)
    if n * bench.train.models.next_states.size <= IN_MEMORY:
        return bench.own_draws(n)
    return PosteriorDraws(bench.fitted, int(bench.own_seed.generate_state(1)[0]))


# Methods without λ, made for the bad case alone (or, nominal and empirical, for one model).
ALONE: dict[str, Callable[[Bench], Solver]] = {
    "nominal": lambda _: solvers.Nominal(),
    "empirical": lambda bench: solvers.Empirical(bench.log),
    "var": lambda _: solvers.VaRBellman(),
    "worst-model": lambda _: solvers.WorstModel(),
    "spibb": lambda bench: solvers.SPIBB(bench.log),
    "mvp": lambda _: solvers.MVP(),
    "wsu": lambda _: solvers.WSU(),
    "percentile": lambda _: solvers.LocalSearch(),
}
# Methods with λ; "-paper" builds its sets from the training models, as the paper did.
ALONG_LAMBDA: dict[str, Callable[[Bench], Solver]] = {
    "s-rect": lambda _: solvers.SRect(),
    "sa-rect": lambda _: solvers.SARect(),
    "bcr": lambda bench: solvers.BCR(draws=_enough(bench)),
    "bcr-paper": lambda _: solvers.BCR(variant="paper"),
    "bcr-global": lambda _: solvers.BCR(scope="global"),  # needs no union bound, hence no more
    "bcr-weighted": lambda bench: solvers.BCR(weighting="value", draws=_enough(bench)),
    "cadp": lambda _: solvers.CADP(robust=True),
    "rsvf": lambda bench: solvers.RSVF(draws=_enough(bench)),
    "rsvf-paper": lambda _: solvers.RSVF(),
    "rsvf-simple": lambda bench: solvers.RSVFSimple(draws=_enough(bench)),
    "rsvf-simple-paper": lambda _: solvers.RSVFSimple(),
}


def _point(lam: float | None, solution: Any) -> Point:
    own = solution.static_value if solution.model_value is None else solution.model_value
    return Point(lam, solution.policy, float(own), str(solution.status))


def _static(bench: Bench, lams: Sequence[float], nodes: int) -> list[Point]:
    """Exact solves along λ that share their policies."""
    alpha, f = bench.train.objective.alpha, bench.train.models.f
    pool: list[tuple[Policy, np.ndarray[Any, np.dtype[np.float64]]]] = []

    def best(lam: float) -> int:
        goal = SoftRobust(lam, alpha)
        return int(np.argmax([goal.value(x, f) for _, x in pool]))

    solved = []
    for lam in lams:
        start = pool[best(lam)][0] if pool else None
        solution = Exact(gap=GAP, node_limit=nodes, start=start).solve(bench.at(lam))
        pool.append((solution.policy, policy_return(bench.train, solution.policy)))
        solved.append(solution)
    out = []
    for lam, solution in zip(lams, solved, strict=True):
        policy, x = pool[best(lam)]
        value = SoftRobust(lam, alpha).value(x, f)
        gap = None
        if solution.bound is not None and value != 0:
            gap = max(solution.bound.value - value, 0.0) / abs(value)
        out.append(Point(lam, policy, value, str(solution.status), gap))
    return out


def one_log(
    domain: str, domain_settings: dict[str, Any], seed: int, methods: list[str], lams: list[float],
    alpha: float, n_train: int, n_test: int, nodes: int,
) -> dict[str, Any]:  # fmt: skip
    """Task: every method's curve on the log of one data seed."""
    bench = bench_of(domain, domain_settings, seed, n_train, n_test, alpha)
    out: dict[str, Any] = {"seed": seed, "scale": bench.scales(), "curves": {}}
    for name in methods:
        points = curve(name, bench, lams, nodes)
        measured = [bench.measure(point.policy) for point in points]
        out["curves"][name] = {
            **{key: [getattr(p, key) for p in points] for key in ("lam", "own", "status", "gap")},
            **{w: {key: [m[w][key] for m in measured] for key in MEASURES} for w in MODELS},
        }
    return out


@final
@dataclass(frozen=True, slots=True, eq=False)
class Curves:
    """Arrays over logs: `values[method, models, measure]` is (n_logs, n_lams)."""

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
            for name, word, key in product(first, MODELS, MEASURES)
        }
        scales = {w: float(np.mean([log["scale"][w] for log in logs])) for w in MODELS}
        lams = {name: list(c["lam"]) for name, c in first.items()}
        return cls(tuple(int(log["seed"]) for log in logs), lams, values, scales)

    def numbers(self) -> dict[str, Any]:
        """Every return to five digits: a row for each log, a column for each λ."""
        returns: dict[str, Any] = {name: {w: {} for w in MODELS} for name in self.lams}
        for (name, word, key), x in self.values.items():
            returns[name][word][key] = [[float(f"{value:.5g}") for value in row] for row in x]
        return {"seeds": list(self.seeds), "returns": returns}

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

    def _more(
        self, what: str, a: FloatArray, b: FloatArray, models: str, margin: float = NOISE
    ) -> Measured:
        """Whether a exceeds b, log by log."""
        scale = self.scales[models]
        return more(what, mean_interval(a - b), margin * scale, scale)

    def higher(self, a: str, b: str, models: str) -> Measured:
        """Whether the curve of a is higher than that of b (see `Curves.height`)."""
        one, other = (self.height(name, models) for name in (a, b))
        return self._more(f"height, {_at(a)} less {_at(b)}", one, other, models)

    def better_at(
        self, a: str, lam_a: float, b: str, lam_b: float, measure: str, models: str,
        margin: float = NOISE,
    ) -> Measured:  # fmt: skip
        """Whether a at one λ exceeds b at another in a measure."""
        one, other = self.at(a, lam_a, models, measure), self.at(b, lam_b, models, measure)
        what = f"{WORDS[measure]}, {_at(a, lam_a)} less {_at(b, lam_b)}"
        return self._more(what, one, other, models, margin)

    def far_better_at(
        self, a: str, lam_a: float, b: str, lam_b: float, measure: str, models: str
    ) -> Measured:
        """Whether it does so by far."""
        return self.better_at(a, lam_a, b, lam_b, measure, models, FAR)

    def rises(self, method: str, measure: str, models: str, ends: Ends = (1.0, 0.0)) -> Measured:
        """Whether a measure is higher at the first λ than at the second."""
        one, other = (self.at(method, lam, models, measure) for lam in ends)
        what = f"{WORDS[measure]}, {_at(method)}, λ = {ends[0]:g} less λ = {ends[1]:g}"
        return self._more(what, one, other, models)

    def falls(self, method: str, measure: str, models: str) -> Measured:
        """Whether a measure falls from λ = 0 to λ = 1."""
        return self.rises(method, measure, models, (0.0, 1.0))

    def best_at(self, method: str, lam: float, measure: str, models: str) -> list[Measured]:
        """Whether one λ of a method exceeds every other in a measure."""
        others = [x for x in self.lams[method] if x is not None and x != lam]
        return [self.better_at(method, lam, method, x, measure, models) for x in others]

    def at_less_best(self, a: str, lam: float, b: str, models: str) -> Measured:
        """Whether a at one λ exceeds b's best bad case (λ chosen on training models)."""
        one, other = self.at(a, lam, models, "cvar"), self.score(b, 1.0, models)
        what = f"bad case, {_at(a, lam)} less {_at(b)} at its best λ"
        return self._more(what, one, other, models)

    def comparable(self, a: str, b: str, models: str) -> Measured:
        """Whether the best means of two curves are within `NEAR` of each other."""
        i = mean_interval(self.score(a, 0.0, models) - self.score(b, 0.0, models))
        scale = self.scales[models]
        return within(f"best mean, {_at(a)} less {_at(b)}", i, NEAR * scale, scale)


def _at(method: str, lam: float | None = None) -> str:
    return LOOKS[method].short + ("" if lam is None else f" at λ = {lam:g}")
