"""Problems of the paper's sizes, for the static solvers' benchmarks (section 6 and its appendix).

Pest control draws its exponential models from the posterior given the public log where that file
is present, else from a normal approximation to it; riverswim needs the public files; inventory is
self-contained. Transition rows come from distribution functions, never from simulation.
"""

from __future__ import annotations

import csv
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr
from scipy.stats import poisson

from softrobust.data.rewards import Rewards
from softrobust.models.model_set import ModelSet
from softrobust.objective import SoftRobust
from softrobust.problem import Problem

FloatArray = NDArray[np.float64]
DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

K = 50
GROWTH_SD = (0.6, 0.6, 0.5, 0.4, 0.3)
COSTS = (0.0, 800.0, 840.0, 880.0, 920.0)


def rounded_cdf_rows(mean: FloatArray, sd: float, scale: FloatArray) -> FloatArray:
    """P[clip(round(max(0, Normal(mean, sd²))·scale), 0, K) = k], shape (..., K + 1)."""
    edges = np.arange(K) + 0.5
    with np.errstate(divide="ignore"):
        cut = (edges / scale[..., None] - mean[..., None]) / sd
    cdf = np.where(scale[..., None] > 0, ndtr(cut), 1.0)
    full = np.concatenate([np.zeros((*cdf.shape[:-1], 1)), cdf, np.ones((*cdf.shape[:-1], 1))], -1)
    return np.asarray(np.diff(full, axis=-1), np.float64)


def pest_rows(theta: FloatArray) -> FloatArray:
    """Exponential models, (n_models, 51, 5, 51), from theta (n_models, 4): mu, mu0, mu1, mu2."""
    n = np.arange(K + 1.0)
    edges = np.arange(K) + 0.5
    arrive = np.diff(np.concatenate([[0.0], ndtr((edges - 3.0) / 1.5), [1.0]]))
    shift = np.zeros((K + 1, K + 1))  # from m to n' = min(m + round(E), K)
    for m in range(K + 1):
        shift[m, m:] = arrive[: K + 1 - m]
        shift[m, K] += arrive[K + 1 - m :].sum()
    P = np.empty((len(theta), K + 1, 5, K + 1))
    for a, sd in enumerate(GROWTH_SD):
        curve = theta[:, 1:2] + theta[:, 2:3] * n + theta[:, 3:4] * n**2
        g = np.broadcast_to(theta[:, :1], curve.shape) if a == 0 else curve
        P[:, :, a] = rounded_cdf_rows(g, sd, np.broadcast_to(n, g.shape)) @ shift
    return np.asarray(P / P.sum(axis=-1, keepdims=True))


def log_posterior(x: FloatArray, n: FloatArray, a: NDArray[np.int64], y: FloatArray) -> float:
    """The log density of domains.md; x = mu, mu0, mu1, mu2, ext_mu, ext_std, sigma_0 … sigma_4."""
    mu, mu0, mu1, mu2, ext_mu, ext_std = x[:6]
    sigma = x[6:]
    if not 0.5 < mu < 3 or not 0 < ext_mu < 20 or not 0 < ext_std < 5:
        return -np.inf
    if not ((sigma > 0) & (sigma < 5)).all():
        return -np.inf
    m = np.where(a == 0, mu * n, mu0 * n + mu1 * n**2 + mu2 * n**3)
    var = 1 / sigma[a] + 1 / ext_std
    prior = -0.5 * (mu0 - 1) ** 2 - 5.0 * (mu1**2 + mu2**2)
    return float(prior - 0.5 * np.sum((y - m - ext_mu) ** 2 / var + np.log(var)))


@lru_cache
def pest_posterior(draws: int, seed: int = 0) -> FloatArray:
    """(draws, 4) posterior draws of mu, mu0, mu1, mu2 by adaptive Metropolis on the public log.

    Without the log: a normal law with the published means and standard deviations, and the
    correlations of those Metropolis draws (a cubic's coefficients trade off against each other, and
    mu with mu0 through the immigration they share).
    """
    rng = np.random.default_rng(seed)
    path = DATA / "population_log.csv"
    if not path.exists():
        sd = np.array([0.27, 0.40, 0.034, 0.00086])
        corr = np.eye(4)
        corr[np.triu_indices(4, 1)] = (0.77, -0.52, 0.36, -0.93, 0.83, -0.98)
        corr = corr + corr.T - np.eye(4)
        mean = np.array([1.90, 0.99, -0.044, 0.00109])
        return rng.multivariate_normal(mean, corr * np.outer(sd, sd), size=draws)
    with path.open() as file:
        rows = list(csv.DictReader(file))
    n = np.array([float(r["idstatefrom"]) for r in rows])
    a = np.array([int(r["idaction"]) for r in rows])
    y = np.array([float(r["idstateto"]) for r in rows])
    return _metropolis(n, a, y, draws, rng)


def _metropolis(
    n: FloatArray, a: NDArray[np.int64], y: FloatArray, draws: int, rng: np.random.Generator
) -> FloatArray:
    x = np.array([1.9, 1.0, -0.044, 0.001, 3.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    dim, steps, burn = x.size, 120_000, 40_000
    root = np.diag([0.1, 0.1, 0.005, 1e-4, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3]) * 0.2
    now = log_posterior(x, n, a, y)
    kept = np.empty((steps, dim))
    for i in range(steps):
        proposal = x + root @ rng.standard_normal(dim)
        level = log_posterior(proposal, n, a, y)
        if np.log(rng.random()) < level - now:
            x, now = proposal, level
        kept[i] = x
        if i in (3000, 8000, 15_000, 30_000):
            past = kept[i // 2 : i]
            spread = np.cov(past.T) * 5.6 / dim + 1e-12 * np.eye(dim)
            root = np.asarray(np.linalg.cholesky(spread), np.float64)
    pool = kept[burn :: (steps - burn) // 4000, :4]
    return pool[rng.choice(len(pool), size=draws, replace=False)]


def pest(
    n_models: int = 100, lam: float = 0.5, alpha: float = 0.7, width: float = 1.0, seed: int = 0
) -> Problem:
    """Pest control, 51 × 5; `width` stretches the posterior draws about their mean."""
    theta = pest_posterior(4000, seed)[:n_models]
    theta = theta.mean(axis=0) + width * (theta - theta.mean(axis=0))
    n = np.arange(K + 1.0)
    p0 = np.zeros(K + 1)
    p0[9] = 1.0
    rewards = 1000.0 - n[:, None] ** 2 - np.array(COSTS)
    models = ModelSet.from_dense(pest_rows(theta), normalise=True)
    return Problem(models, rewards=rewards, p0=p0, gamma=0.9, objective=SoftRobust(lam, alpha))


def inventory(n_models: int = 100, lam: float = 0.5, alpha: float = 0.8, seed: int = 0) -> Problem:
    """Inventory, 51 × 41: lost sales, Gamma posterior after 50 observed demands of mean 10."""
    rng = np.random.default_rng(seed)
    demand = rng.poisson(10.0, size=50)
    rates = rng.gamma(4 + demand.sum(), 6 / (6 * 50 + 1), size=n_models)
    d = np.arange(51)
    pmf = np.asarray(poisson.pmf(d, rates[:, None]))
    pmf /= pmf.sum(axis=1, keepdims=True)
    S, A = 51, 41
    P = np.zeros((n_models, S, A, S))
    reward = np.zeros((S, A, S))
    s_next = np.arange(S)
    for s in range(S):
        for a in range(A):
            order = min(a, 50 - s)
            stock = s + order
            left = np.maximum(stock - d, 0)
            np.add.at(P[:, s, a].T, left, pmf.T)
            sold = np.maximum(stock - s_next, 0)
            reward[s, a] = 4.99 * sold - 2.49 * order - 3.99 * (order > 0) - 0.1 * s_next
    models = ModelSet.from_dense(P, normalise=True)
    return Problem(models, rewards=reward, gamma=0.99, objective=SoftRobust(lam, alpha))


def riverswim(lam: float = 0.5, alpha: float = 0.7) -> Problem:
    """The public riverswim models, 20 × 2 × 100, γ = .9; rewards differ by model."""
    with (DATA / "riverswim" / "training.csv").open() as file:
        rows = list(csv.DictReader(file))
    key = ("idoutcome", "idstatefrom", "idaction", "idstateto")
    index = np.array([[int(r[c]) for c in key] for r in rows]).T
    prob = np.array([float(r["probability"]) for r in rows])
    reward = np.array([float(r["reward"]) for r in rows])
    N, S, A = index[0].max() + 1, index[1].max() + 1, index[2].max() + 1
    P = np.zeros((N, S, A, S))
    np.add.at(P, tuple(index), prob)
    R = np.zeros((N, S, A, S))
    R[tuple(index)] = reward
    models = ModelSet.from_dense(P, normalise=True)
    flat = np.ascontiguousarray(R.transpose(1, 2, 0, 3)).reshape(-1)
    rewards = Rewards.of_models(flat, int(S), int(A))
    return Problem(models, rewards=rewards, gamma=0.9, objective=SoftRobust(lam, alpha))
