"""Fewer models that stand for many: clusters of draws that ask for the same behaviour.

Ten thousand draws describe a posterior well and are too many to optimise over. Models are alike for
our purpose when their optimal action values are: k-means on those (weighted, k-means++ starts), and
each cluster is represented by one of its own draws, the one nearest to the centre, with the
cluster's whole weight. A draw is taken rather than the cluster's mean model, because the return of
a mean model is not the mean of returns. What the reduction costs is measured, not assumed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np

from softrobust._core.arrays import FloatArray, IntArray
from softrobust._core.settings import whole
from softrobust.problem import Problem
from softrobust.returns.evaluation import action_values
from softrobust.returns.reference import measured, optimal_returns, static_return


@final
@dataclass(frozen=True, slots=True, eq=False)
class ReducedModels:
    """A problem on representatives, and how far its values are from those of the full one.

    The error is |ρ^S on all models − ρ^S on the representatives| over the test policies: nominal,
    uniform, and each representative's own optimum (at most 32 of them).
    """

    problem: Problem  # on the representatives, with the clusters' weights
    cluster: IntArray  # (n_models of the full problem,) which representative stands for each model
    representatives: IntArray  # (k,) their numbers in the full problem
    error: float  # the largest,
    error_mean: float  # and the average one


def reduce_models(problem: Problem, k: int, seed: int | np.random.Generator = 0) -> ReducedModels:
    """Represent the problem's models by k of them.

    With k = n_models the problem itself comes back, unchanged.
    """
    N = problem.n_models
    k = whole("k", k, 1, N, "It is at most the number of models.")
    if k == N:
        every = np.arange(N)
        return ReducedModels(problem, every, every, 0.0, 0.0)
    optima = optimal_returns(problem, tol=1e-8)
    Q = action_values(problem, optima.V)[:, problem.allowed]
    returns = measured(problem, optima.V @ problem.p0)[:, None]
    # The return weighs as much as all action values together: CVaR ranks models by it.
    x = np.hstack([Q / np.sqrt(Q.shape[1]), returns])
    cluster, chosen = _k_medoids(x, problem.models.f, k, np.random.default_rng(seed))
    weights = np.bincount(cluster, weights=problem.models.f, minlength=chosen.size)
    chosen_models = problem.models.select(chosen)  # with the draws' own weights, replaced here
    reduced = problem.with_models(replace(chosen_models, f=weights / weights.sum()))
    nominal = optimal_returns(problem.mean_problem(), tol=1e-8).decisions[0]
    rules = {rule.tobytes(): rule for rule in [nominal, *optima.decisions[chosen[:32]]]}
    tried = [problem.uniform_policy(), *(problem.policy(rule) for rule in rules.values())]
    errors = [abs(static_return(problem, x) - static_return(reduced, x)) for x in tried]
    return ReducedModels(reduced, cluster, chosen, max(errors), float(np.mean(errors)))


def _k_medoids(
    x: FloatArray, f: FloatArray, k: int, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Cluster of each row, and the row that represents each cluster (its own member)."""
    live = np.flatnonzero(f > 0)
    k = min(k, live.size)
    centres = _spread_out(x[live], f[live], k, rng)
    label = np.zeros(live.size, dtype=np.int64)
    for _ in range(100):
        distance = _squared_distances(x[live], centres)
        new = np.argmin(distance, axis=1)
        if np.array_equal(new, label):
            break
        label = new
        weight = np.bincount(label, weights=f[live], minlength=k)
        for j in np.flatnonzero(weight > 0):
            mine = label == j
            centres[j] = f[live][mine] @ x[live][mine] / weight[j]
    distance = _squared_distances(x[live], centres)
    label = np.argmin(distance, axis=1)
    used = np.unique(label)
    chosen = np.array([live[np.argmin(np.where(label == j, distance[:, j], np.inf))] for j in used])
    cluster = np.argmin(_squared_distances(x, x[chosen]), axis=1)
    cluster[live] = np.searchsorted(used, label)
    return cluster, chosen


def _spread_out(x: FloatArray, f: FloatArray, k: int, rng: np.random.Generator) -> FloatArray:
    """k-means++: each next centre is drawn with probability weight × squared distance."""
    chosen = [int(rng.choice(x.shape[0], p=f / f.sum()))]
    nearest = np.square(x - x[chosen[0]]).sum(axis=1)
    while len(chosen) < k:
        mass = f * nearest
        if mass.sum() <= 0:  # fewer distinct models than k: the rest coincide with a centre
            break
        chosen.append(int(rng.choice(x.shape[0], p=mass / mass.sum())))
        nearest = np.minimum(nearest, np.square(x - x[chosen[-1]]).sum(axis=1))
    return x[chosen].copy()


def _squared_distances(x: FloatArray, centres: FloatArray) -> FloatArray:
    """Squared distances (n, k), without a third axis."""
    d = np.square(x).sum(axis=1)[:, None] + np.square(centres).sum(axis=1) - 2 * x @ centres.T
    return np.asarray(np.maximum(d, 0.0))
