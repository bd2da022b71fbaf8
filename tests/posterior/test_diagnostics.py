"""Diagnostics: what is well, what is not, and what is advised."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from softrobust.data import TransitionLog
from softrobust.errors import MissingExtraError
from softrobust.models import ModelSet
from softrobust.posterior import (
    Diagnostics,
    DirichletPosterior,
    LearnedPosterior,
    PosteriorWarning,
    predictive_check,
)
from softrobust.posterior.diagnostics import REMEDIES, import_arviz
from softrobust.posterior.nuts import import_numpyro

pytest.importorskip("arviz")


def test_good_chains() -> None:
    draws = {"x": np.random.default_rng(0).normal(3.0, 2.0, size=(4, 1000))}
    quality = Diagnostics.of_chains(draws, np.zeros((4, 1000), bool))
    x = quality.parameters["x"]
    assert (x.mean, x.sd) == pytest.approx((3.0, 2.0), abs=0.1)
    assert x.rhat < 1.01
    assert x.ess_bulk > 3000
    assert quality.problems == ()
    assert quality.table()[0]["parameter"] == "x"


def test_bad_chains_and_what_to_do() -> None:
    rng = np.random.default_rng(0)
    draws = {
        "x": rng.normal(size=(4, 200)) + np.arange(4)[:, None],
        "y": rng.normal(size=(4, 200, 2)),
    }
    lost = np.zeros((4, 200), bool)
    lost[0, :3] = True
    quality = Diagnostics.of_chains(draws, lost, {"level": 1.0})
    found = {note.code: note for note in quality.problems}
    assert set(found) == set(REMEDIES) - {"prior_too_sharp"}
    assert found["chains_disagree"]["parameter"] == "x"
    diverged = found["transitions_diverged"]
    assert (diverged["diverged"], diverged["draws"]) == (3, 800)
    with pytest.warns(PosteriorWarning, match=r"rhat .*double the warm-up"):
        quality.warn()
    [sharp] = Diagnostics.of_exact({"transitions": 0.0}).problems
    assert sharp.code == "prior_too_sharp"
    assert sharp["cure"] == ""
    assert set(quality.parameters) == {"x", "y[0]", "y[1]"}


def test_constant_draws_have_no_effective_size() -> None:
    quality = Diagnostics.of_chains({"x": np.ones((2, 10))})
    assert quality.parameters["x"].sd == 0
    assert quality.problems


def test_one_chain_is_compared_in_halves() -> None:
    drift = np.linspace(0, 5, 400)[None] + np.random.default_rng(0).normal(size=(1, 400))
    assert Diagnostics.of_chains({"x": drift}).parameters["x"].rhat > 1.2


def test_predictive_check_knows_the_right_model_from_a_wrong_one() -> None:
    rng = np.random.default_rng(1)
    s = rng.integers(0, 2, size=300)
    to = np.where(rng.random(300) < 0.7, s, 1 - s)
    log = TransitionLog.from_arrays(s, np.zeros(300, int), to)
    right = ModelSet.from_dense(np.array([[[0.7, 0.3]], [[0.3, 0.7]]]))
    wrong = ModelSet.from_dense(np.array([[[0.1, 0.9]], [[0.9, 0.1]]]))
    impossible = ModelSet.from_dense(np.array([[[0.0, 1.0]], [[1.0, 0.0]]]))
    many = DirichletPosterior().fit(log).sample(300, seed=0)
    assert 0.02 < predictive_check(many, log) < 0.98
    assert predictive_check(right.select([0] * 300), log) > 0.02
    assert predictive_check(wrong.select([0] * 300), log) < 0.005
    assert predictive_check(impossible, log) == 0.0


@pytest.mark.parametrize("package", ["arviz", "numpyro"])
def test_a_missing_package_says_what_to_install(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [m for m in sys.modules if m.split(".")[0] == package]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"'{package}'.*softrobust\[bayes\]"):
        import_arviz() if package == "arviz" else import_numpyro()


@pytest.mark.parametrize(("S", "A", "spread", "n"), [(10, 3, 0.3, 150), (20, 3, 1.0, 300)])
def test_what_a_sharp_prior_is_told_to_do_cures_it(S: int, A: int, spread: float, n: int) -> None:
    """A learned prior cures it; a wider support alone does not."""
    rng = np.random.default_rng(0)
    P, s = rng.dirichlet(np.full(S, spread), size=(S, A)), 0
    rows = []
    for _ in range(n):
        a = int(rng.integers(A))
        rows.append((s, a, int(rng.choice(S, p=P[s, a]))))
        s = rows[-1][2]
    s_, a_, s_next = np.array(rows).T
    log = TransitionLog.from_arrays(s_, a_, s_next, np.zeros(n))
    [found] = DirichletPosterior().fit(log).diagnostics().problems
    assert (found.code, found["cure"]) == ("prior_too_sharp", "learned")
    assert DirichletPosterior(support="all").fit(log).diagnostics().problems
    assert not LearnedPosterior().fit(log).diagnostics().problems
    [found] = DirichletPosterior(per_cell=0.02).fit(log).diagnostics().problems
    assert (found.code, found["cure"]) == ("prior_too_sharp", "learned")
