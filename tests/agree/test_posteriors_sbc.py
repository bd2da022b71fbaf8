"""Simulation-based calibration of every sampler.

θ ~ prior, data ~ likelihood, L draws from the posterior: the rank of θ is uniform on 0 … L.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from softrobust.data import TransitionLog
from softrobust.domains import RiverSwim
from softrobust.models.gaussian import Scaling
from softrobust.posterior import (
    DemandPosterior,
    DirichletPosterior,
    HierarchicalPosterior,
    Nuts,
    Shop,
    TiedPosterior,
    population,
    regression,
)
from softrobust.posterior.demand import Demands, demand_law
from softrobust.posterior.nuts import sampler
from softrobust.posterior.regression import Design, ExactPart
from tests.posterior.sbc import rank, uniform_p

L = 99
LEVEL = 1e-3


def three_states(to: np.ndarray[tuple[int], np.dtype[np.int64]]) -> TransitionLog:
    """Transitions out of state 0."""
    n = to.size
    return TransitionLog.from_arrays(
        np.zeros(n, int), np.zeros(n, int), to, np.zeros(n), state_names=range(3)
    )


def test_dirichlet() -> None:
    rng, ranks = np.random.default_rng(0), []
    settings = DirichletPosterior(strength=2.0, support="all", min_count=1)
    for _ in range(300):
        p = rng.dirichlet(np.full(3, 2 / 3))
        log = three_states(rng.choice(3, size=5, p=p))
        ranks.append(rank(settings.fit(log).sample(L, rng).block(0, 0)[1][:, 0], p[0]))
    assert uniform_p(ranks, L) > LEVEL


def test_hierarchical() -> None:
    """Eight pairs of one action share a strength; ranks of the strength and of one probability."""
    rng, strengths, rows = np.random.default_rng(1), [], []
    settings = HierarchicalPosterior(1.5, 0.8, support="all")
    for _ in range(300):
        kappa = np.exp(np.log(1.5) + 0.8 * rng.standard_normal())
        p = rng.dirichlet(np.full(8, kappa / 8), size=8)
        s = np.repeat(np.arange(8), 6)
        to = np.concatenate([rng.choice(8, size=6, p=row) for row in p])
        log = TransitionLog.from_arrays(
            s, np.zeros(48, int), to, np.zeros(48), state_names=range(8)
        )
        fitted = settings.fit(log)
        strengths.append(rank(fitted.strengths(L, rng), kappa))
        rows.append(rank(fitted.sample(L, rng).block(2, 0)[1][:, 1], p[2, 1]))
    assert uniform_p(strengths, L) > LEVEL
    assert uniform_p(rows, L) > LEVEL


def test_tied() -> None:
    rng, ranks = np.random.default_rng(2), []
    settings = TiedPosterior(known={"0": (1.0, 0.0, 0.0)}, frame=RiverSwim().frame())
    for _ in range(300):
        q = rng.dirichlet(np.ones(3))
        s = rng.integers(0, 20, size=15)
        to = np.clip(s + rng.choice(3, size=15, p=q) - 1, 0, 19)
        log = TransitionLog.from_arrays(
            s, np.ones(15, int), to, state_names=range(20), action_names=["0", "1"]
        )
        ranks.append(rank(settings.fit(log).draws(L, rng)[:, 1, 2], q[2]))
    assert uniform_p(ranks, L) > LEVEL


@pytest.mark.parametrize(
    ("censored", "truncated", "times"),
    [(False, False, 4000), (True, False, 400), (True, True, 200)],
)
def test_demand(censored: bool, truncated: bool, times: int) -> None:
    """Untruncated Poisson demand with the closed form; sell-outs and truncation on the grid."""
    rng, ranks = np.random.default_rng(3), []
    settings = DemandPosterior(truncated=truncated, shop=Shop(max_demand=30))
    for _ in range(times):
        mu = rng.gamma(4.0, 6.0)
        d = rng.poisson(mu, size=8)
        if truncated:
            d = rng.choice(31, size=8, p=demand_law(np.array([mu]), 30)[0])
        stock = rng.integers(5, 25, size=d.size) if censored else np.full(d.size, 10**6)
        out = d >= stock
        fitted = settings.fit_demands(Demands(d[~out], stock[out]))
        ranks.append(rank(fitted.means(L, rng), mu))
    assert uniform_p(ranks, L) > LEVEL


def test_exact_regression() -> None:
    rng, noise, weight = np.random.default_rng(4), [], []
    z = np.column_stack([np.ones(25), rng.standard_normal((25, 3))])
    one = np.ones(1)
    scaling = Scaling(np.zeros(4), np.ones(4), np.zeros(1), one, one)
    for _ in range(400):
        v, w = abs(0.3 * rng.standard_normal()), rng.standard_normal(4)
        y = z @ w + np.sqrt(v) * rng.standard_normal(25)
        part = ExactPart.of(Design(z, y[:, None], np.ones((25, 1)), scaling, np.arange(4)), 0, 0.3)
        drawn, variances = part.draw(L, rng)
        noise.append(rank(variances, v))
        weight.append(rank(drawn[:, 2], w[2]))
    assert uniform_p(noise, L) > LEVEL
    assert uniform_p(weight, L) > LEVEL


NUTS = Nuts(chains=1, warmup=500, draws=594, block=594, target_accept=0.9)


@pytest.mark.slow
def test_population_nuts() -> None:
    """100 replications of the paper's prior on one compiled chain; every sixth draw is kept."""
    pytest.importorskip("numpyro")
    rng = np.random.default_rng(5)
    n, a = rng.integers(0, 51, size=100).astype(float), rng.integers(0, 5, size=100)
    ranks: dict[str, list[int]] = {name: [] for name in ("mu", "mu0", "mu2", "ext_mu", "ext_std")}
    for i in range(100):
        mu, ext_mu, ext_std = rng.uniform(0.5, 3), rng.uniform(0, 20), rng.uniform(0, 5)
        cubic = np.array([1.0, 0.0, 0.0]) + rng.standard_normal(3) * [1.0, 10**-0.5, 10**-0.5]
        sigma = rng.uniform(0, 5, size=5)
        truth = {"mu": mu, "mu0": cubic[0], "mu2": cubic[2], "ext_mu": ext_mu, "ext_std": ext_std}
        x = np.where(a == 0, mu, cubic[0] + cubic[1] * n + cubic[2] * n**2)
        y = x * n + ext_mu + np.sqrt(1 / sigma[a] + 1 / ext_std) * rng.standard_normal(100)
        data = population.population_data(n, a, y)
        run = sampler(population._model, population._start, NUTS, data)
        chain = run.sample(data, replace(NUTS, seed=i), "SBC")
        drawn = dict(chain.values)
        drawn |= dict(
            zip(("mu0", "mu2"), population.draw_cubic(chain, data, i).T[[0, 2]], strict=True)
        )
        for name, value in truth.items():
            ranks[name].append(rank(np.ravel(drawn[name])[::6], float(value)))
    for name, found in ranks.items():
        assert uniform_p(found, L, bins=5) > LEVEL, name


@pytest.mark.slow
def test_regression_nuts() -> None:
    """100 replications of the varying noise, weights integrated out."""
    pytest.importorskip("numpyro")
    rng = np.random.default_rng(6)
    z = np.column_stack([np.ones(60), rng.standard_normal((60, 3))])
    psi = np.column_stack([np.ones(60), np.abs(rng.standard_normal((60, 2)))])
    ranks: dict[int, list[int]] = {0: [], 1: [], 2: []}
    for i in range(100):
        u, w = np.abs(0.3 * rng.standard_normal(3)), rng.standard_normal(4)
        y = z @ w + np.sqrt(psi @ u) * rng.standard_normal(60)
        data = {"z": z, "y": y, "psi": psi, "scale": np.array(0.3)}
        run = sampler(regression._model, regression._start, NUTS, data)
        chain = run.sample(data, replace(NUTS, seed=i), "SBC")
        for k, kept in ranks.items():
            kept.append(rank(chain.flat("u")[::6, k], float(u[k])))
    for k, found in ranks.items():
        assert uniform_p(found, L, bins=5) > LEVEL, k
