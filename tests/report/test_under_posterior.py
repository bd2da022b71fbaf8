"""The block on the posterior: limits with their confidence, nothing where there are none."""

from __future__ import annotations

import numpy as np

from softrobust.certificate import certify
from softrobust.data import TransitionLog
from softrobust.posterior import DirichletPosterior
from softrobust.problem import Problem
from softrobust.report import make_report, words
from softrobust.report.verdict import under_posterior
from softrobust.solvers.exact.exact import Exact


def log() -> TransitionLog:
    rng = np.random.default_rng(0)
    s = rng.integers(0, 4, 200)
    return TransitionLog.from_arrays(s, rng.integers(0, 2, 200), rng.integers(0, 4, 200), 1.0 * s)


def test_limits_and_what_is_indicative() -> None:
    data = log()
    posterior = DirichletPosterior().fit(data)
    problem = Problem(posterior.sample(30, seed=0), rewards=data.rewards, p0=data.p0, gamma=0.9)
    solution = Exact().solve(problem)
    test = posterior.sample(600, seed=7)
    number = words.Figures(3)
    plain = certify(problem, solution.policy, test)
    assert under_posterior(plain, number) == []
    full = certify(
        problem, solution.policy, test, posterior=posterior, replications=4, indicative=True
    )
    pairs = dict(under_posterior(full, number))
    found = full.posterior
    assert found is not None
    assert found.upper is not None
    assert pairs["No deterministic policy earns more than"].startswith(number(found.upper))
    assert "95" in pairs["This policy earns at least"]
    assert "90" in pairs["So at most this is missed"]
    assert pairs["From"] == "4 × 30 fresh models, each bounded by branch and bound"
    (last,) = [name for name in pairs if "5.3" in name]
    assert "not a bound" in last
    page = make_report(problem, solution, test, log=data, certificate=full).html
    assert "Beyond these models" in page
    assert "not a bound" in page
    assert "Beyond these models" not in make_report(problem, solution, test, log=data).html
