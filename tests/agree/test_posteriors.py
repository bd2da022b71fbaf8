"""Posteriors by two routes: the specification's figures, exact against sampled."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from softrobust.data import read_log
from softrobust.data.continuous import ContinuousLog
from softrobust.posterior import Nuts, PopulationPosterior, RegressionPosterior
from softrobust.posterior.population import GROWTH

pytest.importorskip("numpyro")
# Found by an independent sampler on the same log: mean, standard deviation.
PUBLISHED = {
    "mu": (1.90, 0.27),
    "mu0": (0.99, 0.40),
    "mu1": (-0.044, 0.034),
    "mu2": (0.00109, 0.00086),
}


def test_population_figures(shared_data: Path) -> None:
    """Means within 0.15 posterior standard deviations; at least 400 effective draws each."""
    fitted = PopulationPosterior().fit(read_log(shared_data / "population_log.csv"))
    quality = fitted.diagnostics()
    for name in GROWTH:
        mean, sd = PUBLISHED[name]
        found = quality.parameters[name]
        assert abs(found.mean - mean) < 0.15 * sd
        assert found.sd == pytest.approx(sd, rel=0.15)
    assert min(p.ess_bulk for p in quality.parameters.values()) >= 400
    assert quality.divergences == 0
    assert fitted.sample(100, seed=0).n_models == 100


@pytest.mark.slow
def test_exact_regression_equals_nuts() -> None:
    rng = np.random.default_rng(0)
    n = 80
    s, a = rng.uniform(1, 3, size=(n, 2)), rng.integers(0, 2, size=n)
    s_next = np.stack([0.8 * s[:, 0] + 0.3 * a, s[:, 1] - 0.1 * s[:, 0] * s[:, 1]], axis=1)
    log = ContinuousLog.from_arrays(s, a, s_next + 0.05 * rng.standard_normal((n, 2)))
    exact = RegressionPosterior(noise_scale=0.05)
    nuts = replace(exact, exact=False, nuts=Nuts(warmup=500, draws=1000))
    one = exact.fit(log).sample(4000, seed=0)
    other = nuts.fit(log).sample(4000, seed=0)
    for j in range(2):
        # Draws of a chain are not independent: the test is thinned.
        assert stats.ks_2samp(one.noise[::4, 0, j], other.noise[::4, 0, j]).pvalue > 1e-3
    sd = one.weights.std(axis=0)
    assert (np.abs(one.weights.mean(axis=0) - other.weights.mean(axis=0)) < 0.1 * sd).all()
    np.testing.assert_allclose(other.weights.std(axis=0), sd, rtol=0.1)


@pytest.mark.slow
def test_varying_noise_finds_the_noise() -> None:
    """Noise that grows with the first variable is seen, and its size is right."""
    rng = np.random.default_rng(1)
    n = 400
    s, a = rng.uniform(1, 3, size=(n, 1)), rng.integers(0, 2, size=n)
    s_next = s + 0.5 * a[:, None] + 0.05 * s * rng.standard_normal((n, 1))
    log = ContinuousLog.from_arrays(s, a, s_next)
    settings = RegressionPosterior("varying", noise_scale=0.01, nuts=Nuts(4, 500, 1000))
    fitted = settings.fit(log)
    models = fitted.sample(400, seed=0)
    low, high = (np.sqrt(models.variance([[x]], [0])).mean() for x in (1.0, 3.0))
    assert low == pytest.approx(0.05, rel=0.3)
    assert high == pytest.approx(0.15, rel=0.3)
