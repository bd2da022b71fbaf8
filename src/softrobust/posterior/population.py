"""Pest control: the posterior of growth rates, and its exact transition rows (section 6).

A population n ∈ {0, …, K} grows by a random factor and receives immigrants:

    G = max(0, Normal(g(a, n), sd_a²)),   E = max(0, Normal(3, 1.5²))
    exponential: m = clip(round(G·n), 0, K)
    logistic:    m = clip(round(n + (G − 1)·n·(K − n)/K), 0, K)
    n′ = clip(round(m + E), 0, K)

m is a rounded normal, so its law is a difference of normal distribution functions, and
n′ = m + round(E) adds an independent one. The posterior is that of a normal regression, with latent
growth and immigration integrated out:

    n′ ~ Normal(x·n + ext_mu, 1/σ_a + 1/ext_std),   x = μ (a = 0) or μ₀ + μ₁·n + μ₂·n² (a ≥ 1)

Given the rest, (μ₀, μ₁, μ₂) is Gaussian: it is integrated out of what NUTS samples (μ, ext_mu, σ,
ext_std), which removes the strongest correlations, and drawn exactly afterwards. Every draw gives
one exponential model with growth mean x; sd and immigration keep their values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, ClassVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from softrobust._core.arguments import names_arguments
from softrobust._core.arrays import FloatArray
from softrobust._core.settings import check_fields, whole
from softrobust.data import TransitionLog
from softrobust.data.labels import Labels
from softrobust.data.rewards import Rewards
from softrobust.models.model_set import ModelSet
from softrobust.posterior.base import (
    USES,
    Arrays,
    FittedPosterior,
    Frame,
    Posterior,
    Seed,
    choose,
    span,
)
from softrobust.posterior.diagnostics import Diagnostics
from softrobust.posterior.nuts import Chains, Nuts, sampler

K = 50
COSTS = (0.0, 800.0, 840.0, 880.0, 920.0)
GROWTH_SD = (0.6, 0.6, 0.5, 0.4, 0.3)
IMMIGRANTS, IMMIGRANTS_SD = 3.0, 1.5
GROWTH = ("mu", "mu0", "mu1", "mu2")
Population = Annotated[int, partial(whole, least=0, most=K, hint="It is the first population.")]
CUBIC_MEAN, CUBIC_PRECISION = (1.0, 0.0, 0.0), (1.0, 10.0, 10.0)


def pest_frame(start: int = 9) -> Frame:
    """States 0 … 50, actions 0 … 4, r(n, a) = 1000 − n² − c_a, all mass on `start`, γ = 0.9."""
    whole("start", start, 0, K, "It is the first population.")
    n = np.arange(K + 1.0)
    return Frame(
        Labels.range(K + 1, "state"),
        Labels.range(len(COSTS), "action"),
        Rewards.of_pairs(1000.0 - n[:, None] ** 2 - np.array(COSTS)),
        np.eye(K + 1)[start],
        0.9,
    )


def true_growth() -> FloatArray:
    """(5, 51) mean growth g(a, n) of the domain."""
    n = np.arange(K + 1.0)
    treated = 0.2 + (n - 25.0) ** 2 / 625.0
    return np.stack([np.full(K + 1, 2.0), *[treated] * 4])


def drawn_growth(theta: ArrayLike) -> FloatArray:
    """(n_models, 5, 51) mean growth for draws theta (n_models, 4) of μ, μ₀, μ₁, μ₂."""
    t = np.asarray(theta, dtype=np.float64)
    n = np.arange(K + 1.0)
    curve = t[:, 1:2] + t[:, 2:3] * n + t[:, 3:4] * n**2
    flat = np.broadcast_to(t[:, :1], curve.shape)
    return np.stack([flat, *[curve] * 4], axis=1)


def pest_rows(growth: FloatArray, logistic: bool = False) -> FloatArray:
    """(n_states, n_actions, n_models, n_states) exact rows from growth (n_models, 5, 51)."""
    n = np.arange(K + 1.0)
    # Half goes up, so m ≤ k ⇔ value < k + ½ ⇔ G < cut, strictly. Both sides times K (or 2) are
    # whole numbers: k + ½ = n²/K (G = 0 at n = 5, 15, …) must be met exactly, not up to rounding.
    k = np.arange(K)
    rise = n * (K - n) if logistic else 2.0 * n
    gap = K * k + K / 2 - n[:, None] ** 2 if logistic else np.tile(2.0 * k + 1.0, (K + 1, 1))
    fixed = rise == 0
    cut = gap / np.where(fixed, 1.0, rise)[:, None]
    sd = np.array(GROWTH_SD)[:, None, None, None]
    mean = growth.transpose(1, 2, 0)[..., None]  # (A, S, N, 1)
    below = ndtr((cut[None, :, None, :] - mean) / sd)
    # G ≥ 0 has an atom at 0 that only a positive bound lets in; where nothing rises, m = n.
    below *= (cut > 0)[None, :, None, :]
    below[:, fixed] = (k >= n[fixed, None])[:, None, :]
    law = np.diff(below, axis=-1, prepend=0.0, append=1.0)
    rows = np.maximum(law, 0.0) @ _immigration()  # a difference may round to −1e-17
    return np.ascontiguousarray(rows.transpose(1, 0, 2, 3))


def _immigration() -> FloatArray:
    """(51, 51): from m to min(m + round(E), K)."""
    arrive = np.diff(ndtr((np.arange(K) + 0.5 - IMMIGRANTS) / IMMIGRANTS_SD), prepend=0.0)
    out = np.zeros((K + 1, K + 1))
    for m in range(K + 1):
        out[m, m:K] = arrive[: K - m]
        out[m, K] = 1.0 - arrive[: K - m].sum()
    return out


@final
@dataclass(frozen=True, slots=True)
class PopulationPosterior(Posterior):
    """Growth rates of pest control by NUTS, with the paper's priors.

    μ ~ U(0.5, 3); μ₀ ~ N(1, 1); μ₁, μ₂ ~ N(0, 1/10); σ_a, ext_std ~ U(0, 5); ext_mu ~ U(0, 20).

    Parameters
    ----------
    start : int
        The population at the start, stored with the models as p0.
    nuts : Nuts
    """

    name: ClassVar[str] = "population"
    start: Population = 9
    nuts: Nuts = field(default_factory=Nuts)

    def __post_init__(self) -> None:
        check_fields(self)

    @names_arguments
    def fit(self, log: TransitionLog) -> FittedPopulation:
        """Run the chains; problems come as a `PosteriorWarning`."""
        data = self.data(log)
        chains = sampler(_model, _start, self.nuts, data).sample(data, self.nuts, "Population")
        fitted = FittedPopulation(self, log, chains, draw_cubic(chains, data, self.nuts.seed))
        fitted.diagnostics().warn()
        return fitted

    def restore(self, log: TransitionLog, arrays: Mapping[str, NDArray[Any]]) -> FittedPopulation:
        """The chains that were saved."""
        chains = Chains.from_arrays(arrays)
        cubic = draw_cubic(chains, self.data(log), self.nuts.seed)
        return FittedPopulation(self, log, chains, cubic)

    def data(self, log: TransitionLog) -> dict[str, Any]:
        """What the sampler reads of a log."""
        return population_data(*pest_frame(self.start).transitions(log, "Pest control"))


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FittedPopulation(FittedPosterior):
    """Draws of μ, μ₀, μ₁, μ₂ and the noise parameters; `cubic` is (n_chains, n_draws, 3)."""

    settings: PopulationPosterior
    log: TransitionLog
    chains: Chains
    cubic: FloatArray

    @property
    def theta(self) -> FloatArray:
        """(n_draws, 4): μ, μ₀, μ₁, μ₂."""
        return np.column_stack([self.chains.flat("mu"), self.cubic.reshape(-1, 3)])

    def sample(self, n: int, seed: Seed = 0) -> ModelSet:
        """`n` different draws, each as one exponential model."""
        pick = choose(self.chains.n_draws, n, seed)
        return pest_frame(self.settings.start).dense(pest_rows(drawn_growth(self.theta[pick])))

    @property
    def pool(self) -> int:
        """The draws that the chains kept."""
        return self.chains.n_draws

    def share(self, i: int, n: int = USES) -> FittedPopulation:
        """Block i of n of every chain."""
        part = span(self.cubic.shape[1], i, n)
        return replace(self, chains=self.chains.block(part), cubic=self.cubic[:, part])

    def extend(self, draws: int) -> FittedPopulation:
        """The same chains, `draws` steps longer."""
        data, nuts = self.settings.data(self.log), self.settings.nuts
        run = sampler(_model, _start, nuts, data)
        longer = run.sample(data, nuts, "Population", self.chains, draws)
        return replace(self, chains=longer, cubic=draw_cubic(longer, data, nuts.seed))

    def diagnostics(self) -> Diagnostics:
        """R̂, effective sizes, divergences; predictive checks of level and spread."""
        shown = {"mu": self.chains.values["mu"]}
        shown |= {name: self.cubic[:, :, j] for j, name in enumerate(GROWTH[1:])}
        shown |= {name: self.chains.values[name] for name in ("ext_mu", "ext_std", "sigma")}
        # Replicated logs against the log: mean next population and spread about the fit.
        data = self.settings.data(self.log)
        pick = np.random.default_rng(0).permutation(self.chains.n_draws)[:400]
        a, n, y = data["a"], data["n"], data["y"]
        curve = self.theta[pick, 1:] @ np.stack([np.ones(n.size), n, n**2])
        x = np.where(a == 0, self.theta[pick, :1], curve)
        mean = x * n + self.chains.flat("ext_mu")[pick, None]
        precision = self.chains.flat("sigma")[pick]
        sd = np.sqrt(1 / precision[:, a] + 1 / self.chains.flat("ext_std")[pick, None])
        new = mean + sd * np.random.default_rng(1).standard_normal((pick.size, n.size))
        spread, seen = ((((x - mean) / sd) ** 2).sum(axis=1) for x in (new, y))
        checks = {
            "mean next population": float(np.mean(new.mean(axis=1) > y.mean())),
            "spread of next populations": float(np.mean(spread > seen)),
        }
        # The likelihood knows no largest population: where many rows end there, it misses growth.
        full, seen = (new >= K - 0.5).mean(axis=1), (y >= K - 0.5).mean()
        checks["share of full populations"] = float(((full > seen) + 0.5 * (full == seen)).mean())
        return Diagnostics.of_chains(shown, self.chains.diverging, checks)

    def arrays(self) -> Arrays:
        """The chains."""
        return self.chains.to_arrays()

    def __repr__(self) -> str:
        return f"FittedPopulation({self.chains.n_draws} draws from {len(self.log)} transitions)"


def population_data(s: NDArray[Any], a: NDArray[Any], s_next: NDArray[Any]) -> dict[str, Any]:
    """Columns as numbers, and the cubic's design in coordinates R·(μ₀, μ₁, μ₂) of like size."""
    n, treated = np.asarray(s, np.float64), np.asarray(a) > 0
    powers = np.stack([n, n**2, n**3], axis=1) * treated[:, None]
    # The prior, as three more rows, keeps R regular when no treatment was ever tried.
    R = np.linalg.qr(np.vstack([powers, np.diag(np.sqrt(CUBIC_PRECISION))]))[1]
    inverse = np.linalg.inv(R)
    prior = inverse.T @ np.diag(CUBIC_PRECISION)
    return {
        "n": n,
        "a": np.asarray(a, np.int64),
        "y": np.asarray(s_next, np.float64),
        "R": R,
        "Z": powers @ inverse,
        "precision": prior @ inverse,
        "pull": prior @ np.array(CUBIC_MEAN),
    }


def draw_cubic(chains: Chains, data: Mapping[str, NDArray[Any]], seed: int) -> FloatArray:
    """(n_chains, n_draws, 3): μ₀, μ₁, μ₂ given the sampled parameters, exactly."""
    v = 1 / chains.values["sigma"][:, :, data["a"]] + 1 / chains.values["ext_std"][:, :, None]
    rest = data["y"] - chains.values["ext_mu"][:, :, None]
    rest = rest - chains.values["mu"][:, :, None] * data["n"] * (data["a"] == 0)
    Z = data["Z"]
    A = data["precision"] + np.einsum("cdi,ij,ik->cdjk", 1 / v, Z, Z, optimize=True)
    b = data["pull"] + (rest / v) @ Z
    # Draw by draw, so that a longer chain begins with the numbers of the shorter one.
    C, D = v.shape[:2]
    eps = np.random.default_rng([seed, 1]).standard_normal((D, C, 3)).transpose(1, 0, 2)
    upper = np.linalg.cholesky(A).transpose(0, 1, 3, 2)
    w = np.linalg.solve(A, b[..., None]) + np.linalg.solve(upper, eps[..., None])
    return np.asarray(np.linalg.solve(data["R"], w)[..., 0])


def _model(data: Any) -> None:
    """The NumPyro model, (μ₀, μ₁, μ₂) integrated out."""
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from jax.scipy.linalg import solve_triangular

    mu = numpyro.sample("mu", dist.Uniform(0.5, 3.0))
    sigma = numpyro.sample("sigma", dist.Uniform(0.0, 5.0).expand([len(COSTS)]).to_event(1))
    ext_mu = numpyro.sample("ext_mu", dist.Uniform(0.0, 20.0))
    ext_std = numpyro.sample("ext_std", dist.Uniform(0.0, 5.0))
    v = 1.0 / sigma[data["a"]] + 1.0 / ext_std
    rest = data["y"] - ext_mu - mu * data["n"] * (data["a"] == 0)
    Z = data["Z"]
    L = jnp.linalg.cholesky(data["precision"] + (Z / v[:, None]).T @ Z)
    half = solve_triangular(L, data["pull"] + Z.T @ (rest / v), lower=True)
    fit = jnp.sum(jnp.log(v)) + jnp.sum(rest**2 / v) - jnp.sum(half**2)
    numpyro.factor("evidence", -0.5 * fit - jnp.sum(jnp.log(jnp.diag(L))))


def _start(data: Any) -> dict[str, Any]:
    """Unconstrained values to start from: μ mid-range, few immigrants, a wide noise."""
    import jax.numpy as jnp

    one = jnp.ones(())
    sigma = jnp.zeros(len(COSTS))
    return {"mu": 0 * one, "sigma": sigma, "ext_mu": -1.5 * one, "ext_std": -3 * one}
