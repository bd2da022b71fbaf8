"""The block on the posterior: limits with their confidence, nothing where there are none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from markupsafe import escape

from softrobust.bounds import Covers
from softrobust.certificate import PosteriorCertificate, certify
from softrobust.data import TransitionLog
from softrobust.posterior import DirichletPosterior
from softrobust.problem import Problem
from softrobust.report import certificate_sentences
from softrobust.solvers.exact.exact import Exact
from tests.report.builders import make_page


def log() -> TransitionLog:
    rng = np.random.default_rng(0)
    s = rng.integers(0, 4, 200)
    return TransitionLog.from_arrays(s, rng.integers(0, 2, 200), rng.integers(0, 4, 200), 1.0 * s)


def test_limits_that_crossed_are_no_proof_that_nothing_is_missed() -> None:
    """The upper limit was raised to the lower one, and what may be missed is the paired gap."""
    data = log()
    problem = Problem(DirichletPosterior().fit(data).sample(9), data.rewards, data.p0, gamma=0.9)
    plain = certify(problem, problem.uniform_policy())
    found = PosteriorCertificate(
        672.1, "held-out models", 672.1, 671.0, 0.4, 0.252, Covers.DETERMINISTIC, "", 7, 600
    )

    def said(p: PosteriorCertificate) -> str:
        return " ".join(certificate_sentences(replace(plain, posterior=p)))

    assert "nothing is missed" not in said(found)
    assert "the two limits crossed by chance" in said(found)
    assert "at most 0.252 better" in said(found)
    assert "nothing is missed" in said(replace(found, paired_gap=0.0))
    assert "nothing is missed" in said(replace(found, paired_gap=0.0, upper=673.0))  # of one policy
    assert "at most 0.9 is missed" in said(replace(found, upper=673.0))
    assert "crossed" not in said(replace(found, upper=673.0))


def test_limits_and_what_is_indicative() -> None:
    data = log()
    posterior = DirichletPosterior().fit(data)
    problem = Problem(posterior.sample(30, seed=0), rewards=data.rewards, p0=data.p0, gamma=0.9)
    solution = Exact().solve(problem)
    test = posterior.sample(600, seed=7)
    plain = certificate_sentences(certify(problem, solution.policy, test))
    full = certify(
        problem, solution.policy, test, posterior=posterior, replications=4, indicative=True
    )
    found, errors = full.posterior, full.indicative
    assert found is not None
    assert found.upper is not None
    assert errors is not None
    more = [line for line in certificate_sentences(full) if line not in plain]
    assert f"{found.upper:.6g} with 95 %" in more[0]
    assert (found.confidence, found.gap_confidence) == (0.95, 0.9)
    assert (found.replications, found.n_models) == (4, 30)
    assert f"{errors.error:.3g}" in more[-1]
    page = make_page(problem, solution, test, log=data, certificate=full).html
    folded = page[page.index("<details>", page.index('id="certificate"')) :]
    assert all(str(escape(line)) in folded for line in more)  # machinery waits under details
