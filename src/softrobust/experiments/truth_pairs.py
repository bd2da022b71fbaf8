"""The task of `truth`: pairs (P*, D), every method on the log, its policy in the true model."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from softrobust.experiments.bench import Bench
from softrobust.experiments.methods import Point, curve
from softrobust.experiments.promises import promises, static_claims
from softrobust.experiments.worlds import WORLDS, ListPosterior, Pair
from softrobust.models.policy import Policy
from softrobust.objective import SoftRobust
from softrobust.posterior.demand import FittedDemand, demand_models
from softrobust.returns import optimal_returns, policy_return
from softrobust.runner import task_seed
from softrobust.solvers import SPIBB, SaturationWarning

PART = 1000  # reference draws at a time
QUANTILES = 1000  # of a posterior on a line
SEEN = 3  # times a pair must be seen for SPIBB to trust it


def pairs(
    world: str, first: int, count: int, n_train: int, n_test: int, n_reference: int, alpha: float,
    nodes: int, seed: int,
) -> dict[str, Any]:  # fmt: skip
    """Task: `count` pairs from number `first` on."""
    keys = [p.key for p in promises(alpha, n_train, n_test)]
    out: dict[str, Any] = {
        "best": [], "true": {}, "claimed": {k: [] for k in keys}, "target": {k: [] for k in keys},
    }  # fmt: skip
    family = world.split("-")[0]  # two posteriors of one world see the same pairs
    for i in range(first, first + count):
        rng = np.random.default_rng(task_seed(seed, "pair", family, i))
        pair = WORLDS[world].pair(rng)
        bench = _bench(pair, task_seed(seed, "draws", world, i), n_train, n_test, alpha)
        one = _run(pair, bench, nodes, n_reference)
        out["best"].append(one["best"])
        for name, value in one["true"].items():
            out["true"].setdefault(name, []).append(value)
        for key in keys:
            claimed, target = one["claims"][key]
            out["claimed"][key].append(claimed)
            out["target"][key].append(target)
    return out


def _bench(pair: Pair, seed: int, n_train: int, n_test: int, alpha: float) -> Bench:
    draw_seed, own_seed = np.random.SeedSequence(seed).spawn(2)
    drawn = pair.posterior.sample(n_train + n_test, np.random.default_rng(draw_seed))
    return Bench.from_draws(pair.domain, pair.log, pair.posterior, drawn, n_train, alpha, own_seed)


def _run(pair: Pair, bench: Bench, nodes: int, n_reference: int) -> dict[str, Any]:
    """True returns by method, and (claimed, target) by promise."""
    truth = bench.train.with_models(replace(pair.truth, rewards=None, p0=None, gamma=None))
    points = _points(bench, nodes)
    true = {name: float(policy_return(truth, p.policy)[0]) for name, p in points.items()}
    claims = {f"{name}:own": (p.own, true[name]) for name, p in points.items()}
    alpha = bench.train.objective.alpha
    named = {0.5: "static@0.5", 1.0: "static@1"}
    values = _objectives(
        pair, bench, {SoftRobust(lam, alpha): points[n].policy for lam, n in named.items()},
        n_reference,
    )  # fmt: skip
    for lam, name in named.items():
        value = values[SoftRobust(lam, alpha)]
        found = static_claims(bench, points[name].policy, lam, true[name], value)
        claims |= {f"{name}:{kind}": both for kind, both in found.items()}
    log_policy = Policy(pair.behaviour, bench.train.models.states, bench.train.models.actions)
    claims["spibb:baseline"] = (float(policy_return(truth, log_policy)[0]), true["spibb"])
    best = float(optimal_returns(truth).V[0] @ truth.p0)
    return {"best": best, "true": true, "claims": claims}


def _points(bench: Bench, nodes: int) -> dict[str, Point]:
    """Every method's policy on this log."""
    from softrobust.experiments.truth import METHODS

    with warnings.catch_warnings():
        # The weighted list of the pest world is the posterior itself, not a sample of it.
        warnings.simplefilter("ignore", SaturationWarning)
        static = dict(
            zip((0.0, 0.5, 1.0), curve("static", bench, [0.0, 0.5, 1.0], nodes), strict=True)
        )
        out: dict[str, Point] = {}
        for name, (method, lam) in METHODS.items():
            if method == "static" and lam is not None:
                out[name] = static[lam]
            elif method == "spibb":
                solution = SPIBB(bench.log, min_count=SEEN).solve(bench.train)
                out[name] = Point(
                    None, solution.policy, solution.static_value, str(solution.status)
                )
            else:
                out[name] = curve(method, bench, [] if lam is None else [lam], nodes)[0]
    return out


def _objectives(
    pair: Pair, bench: Bench, policies: dict[SoftRobust, Policy], n: int
) -> dict[SoftRobust, float]:
    """Objectives under the posterior itself: exact for a list, even quantiles on a line, or draws.

    Draws of the reference must be many more than the held-out ones, whose limit they check: their
    own noise, at n = 5000 against 300, takes half a percent off a coverage of 95 %.
    """
    post = pair.posterior
    if isinstance(post, ListPosterior):
        parts, f = [post.every], post.weights
    elif isinstance(post, FittedDemand) and post.grid is not None:
        even = (np.arange(QUANTILES) + 0.5) / QUANTILES
        mu = np.exp(np.interp(even, post.grid.cdf, post.grid.x))
        parts, f = [demand_models(mu, post.settings.shop)], None
    else:
        seeds = bench.own_seed.spawn(-(-n // PART))
        parts = [post.sample(PART, np.random.default_rng(s)) for s in seeds]
        f = None
    out = {}
    for goal, policy in policies.items():
        x = [policy_return(bench.train.with_models(models), policy) for models in parts]
        out[goal] = goal.value(np.concatenate(x), f)
    return out
