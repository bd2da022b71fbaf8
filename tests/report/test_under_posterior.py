"""The block on the posterior: limits with their confidence, nothing where there are none."""

from __future__ import annotations

import numpy as np
from markupsafe import escape

from softrobust.certificate import certify
from softrobust.data import TransitionLog
from softrobust.posterior import DirichletPosterior
from softrobust.problem import Problem
from softrobust.report import words
from softrobust.report.verdict import beyond
from softrobust.solvers.exact.exact import Exact
from tests.report.builders import make_page


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
    assert beyond(plain, number) == []
    full = certify(
        problem, solution.policy, test, posterior=posterior, replications=4, indicative=True
    )
    pairs = dict(beyond(full, number))
    found = full.posterior
    assert found is not None
    assert found.upper is not None
    assert pairs["No deterministic policy earns more than"].startswith(number(found.upper))
    assert (found.confidence, found.gap_confidence) == (0.95, 0.9)
    assert (found.replications, found.n_models) == (4, 30)
    last = list(pairs)[-1]
    assert full.indicative is not None
    assert f"{full.indicative.error:.3g}" in pairs[last]
    page = make_page(problem, solution, test, log=data, certificate=full).html
    assert all(f"<dt>{escape(name)}</dt>" in page for name in pairs)
    assert escape(last) not in make_page(problem, solution, test, log=data).html
