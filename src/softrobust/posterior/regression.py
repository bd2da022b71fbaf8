"""Continuous dynamics: Bayesian linear regression on polynomial features (section 6, cancer).

For every output j, with standardised features z (n_rows, n_features) and outputs y:

    y_i = z_i·w + e_i,   e_i ~ Normal(0, v_i),   w ~ Normal(0, I)
    constant noise: v_i = v,            v ~ HalfNormal(scale)
    varying noise:  v_i = ψ_i·u,        u_k ~ HalfNormal(scale),   ψ = |φ| in units of its r.m.s.

The scale is 1, the variance of the outputs themselves: a log tells its noise. The paper's 0.001 is
for a simulator that is nearly exact; noise of 0.3 of a standard deviation it takes for a third.

The weights integrate out in both cases. With constant noise p(v | D) is a density on a line and
p(w | v, D) a Gaussian, so draws are exact; with varying noise NUTS samples u alone, and w given u
is again exact. "Mean and variance are linearly weighted functions of the features" reads here with
non-negative features and weights, so that a variance can never be negative.

Where rows of the log ended their episode for good, a logistic regression on (1, s, a) learns how
likely that is, with weights Normal(0, 2.5²) in standard units (5² for the constant); draws are of
the normal approximation at its mode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from softrobust._core.arguments import names_arguments
from softrobust._core.arrays import FloatArray, IntArray
from softrobust._core.limits import generator
from softrobust._core.settings import Positive, check_fields
from softrobust.data.continuous import ContinuousLog
from softrobust.errors import InputError
from softrobust.models.gaussian import GaussianFrame, GaussianModels, Scaling
from softrobust.posterior.base import (
    USES,
    Arrays,
    Fitted,
    Posterior,
    Seed,
    check_count,
    choose,
    span,
)
from softrobust.posterior.diagnostics import Diagnostics
from softrobust.posterior.nuts import Chains, Nuts, sampler
from softrobust.posterior.sampling import GridDensity

NOISE_SCALE = 1.0
RANK_TOLERANCE = 1e-9
SQUARED = 1e-12  # of the largest eigenvalue: smaller ones of zᵀz are rounding


@final
@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """Standardised data: z (n, K), y (n, d), ψ (n, K or 1), and the scaling that made them.

    `kept` are the K of F features that are fitted: where there is one action, those without it.
    """

    z: FloatArray
    y: FloatArray
    psi: FloatArray
    scaling: Scaling
    kept: IntArray

    @classmethod
    def of(cls, log: ContinuousLog, frame: GaussianFrame, varying: bool) -> Design:
        """Features and outputs of the log in standard units; φ₀ = 1 stays as it is."""
        if len(frame.actions) > 1 and np.unique(log.a).size == 1:
            raise InputError(
                f"What an action does is learned from the rows that took it: of the actions "
                f"{list(frame.actions)}, only '{frame.actions[int(log.a[0])]}' occurs in the log. "
                "Name only actions that occur."
            )
        phi = frame.features(log.s, log.a)
        centre, scale = phi.mean(axis=0), phi.std(axis=0)
        kept = frame.without_action if len(frame.actions) == 1 else np.arange(centre.size)
        flat = kept[1:][scale[kept[1:]] <= 1e-12 * np.abs(phi[:, kept[1:]]).max(axis=0)]
        if flat.size:
            raise InputError(
                f"The feature '{frame.feature_names[flat[0]]}' has the same value in every row "
                f"({flat.size} such {'feature' if flat.size == 1 else 'features'}), so its weight "
                "cannot be learned. Collect data in which it varies, or leave out the variable"
                f"{_or_rare(log)}."
            )
        left = np.setdiff1d(np.arange(centre.size), kept)
        centre[0], scale[0], scale[left] = 0.0, 1.0, 1.0
        out_scale = log.s_next.std(axis=0)
        still = np.flatnonzero(out_scale == 0)
        if still.size:
            raise InputError(
                f"The next value of '{log.variables[int(still[0])]}' is the same in every row: "
                "there is nothing to learn. Leave out the variable."
            )
        psi = np.abs(phi) if varying else np.ones((len(log), 1))
        noise = np.sqrt(np.mean(psi**2, axis=0))
        noise[left if varying else []] = 1.0
        scaling = Scaling(centre, scale, log.s_next.mean(axis=0), out_scale, noise)
        z, psi = ((phi - centre) / scale)[:, kept], psi / noise
        _check_rank(z, log, [frame.feature_names[k] for k in kept])
        y = (log.s_next - scaling.out_centre) / out_scale
        return cls(z, y, psi[:, kept] if varying else psi, scaling, kept)

    def of_all(self, w: FloatArray) -> FloatArray:
        """(n, F) weights of all features from (n, K): 0 for those that are not fitted."""
        out = np.zeros((w.shape[0], self.scaling.centre.size))
        out[:, self.kept] = w
        return out


@final
@dataclass(frozen=True, slots=True, eq=False)
class RegressionPosterior(Posterior):
    """Linear mean and variance in polynomial features of degree 2.

    Parameters
    ----------
    noise : "constant" or "varying"
        Varying noise is sampled by NUTS.
    exact : bool
        With constant noise: exact draws (default), or NUTS as a check of one by the other.
    noise_scale : float
        Of the HalfNormal prior on (weights of) the variance, in standard units.
    frame : GaussianFrame, optional
        Variables, actions, rewards, start, discount; by default variables and actions of the log,
        whose action labels must then be numbers.
    nuts : Nuts
    """

    name: ClassVar[str] = "regression"
    noise: Literal["constant", "varying"] = "constant"
    exact: bool = True
    noise_scale: Positive = NOISE_SCALE
    frame: GaussianFrame | None = None
    nuts: Nuts = field(default_factory=lambda: Nuts(warmup=500, draws=500))

    def __post_init__(self) -> None:
        check_fields(self)

    @names_arguments
    def fit(self, log: ContinuousLog) -> FittedRegression:
        """Condition on the log, one output after the other."""
        frame = self._frame(log)
        design = Design.of(log, frame, self.noise == "varying")
        names = list(frame.variables)
        if self.noise == "constant" and self.exact:
            parts = tuple(ExactPart.of(design, j, self.noise_scale) for j in range(len(names)))
            return FittedRegression(self, log, frame, design, parts, ())
        how = (self.noise_scale, self.nuts)
        chains = [run_output(design, j, *how, name) for j, name in enumerate(names)]
        fitted = FittedRegression(self, log, frame, design, (), tuple(chains))
        fitted.diagnostics().warn()
        return fitted

    def restore(self, log: ContinuousLog, arrays: Mapping[str, NDArray[Any]]) -> FittedRegression:
        """The chains that were saved; exact fits are made again."""
        if self.noise == "constant" and self.exact:
            return self.fit(log)
        frame = self._frame(log)
        design = Design.of(log, frame, self.noise == "varying")
        chains = [Chains.from_arrays(arrays, f"{name}:") for name in frame.variables]
        return FittedRegression(self, log, frame, design, (), tuple(chains))

    def _frame(self, log: ContinuousLog) -> GaussianFrame:
        if self.frame is None:
            try:
                values = np.array([float(name) for name in log.actions])
            except ValueError:
                raise InputError(
                    "The actions of the log are no numbers, and the features need numbers. Give "
                    "the posterior a frame with action_values."
                ) from None
            if not np.isfinite(values).all():
                raise InputError(f"The actions {list(log.actions)} must be finite numbers.")
            return GaussianFrame(
                log.variables, log.actions, values, start=log.starts, horizon=log.longest
            )
        if self.frame.variables != log.variables or self.frame.actions != log.actions:
            raise InputError(
                f"The log must have the variables {list(self.frame.variables)} and actions "
                f"{list(self.frame.actions)}; it has {list(log.variables)} and "
                f"{list(log.actions)}."
            )
        return self.frame


@final
@dataclass(frozen=True, slots=True, eq=False)
class ExactPart:
    """One output with constant noise: p(log v | D) on a grid, and what p(w | v, D) needs."""

    grid: GridDensity
    basis: FloatArray  # (F, F) eigenvectors V of zᵀz
    eigenvalues: FloatArray  # (F,)
    target: FloatArray  # (F,) Vᵀzᵀy

    @classmethod
    def of(cls, design: Design, j: int, scale: float) -> ExactPart:
        """y ~ Normal(0, zzᵀ + v·I) in the eigenbasis of zᵀz."""
        z, y = design.z, design.y[:, j]
        eigenvalues, V = np.linalg.eigh(z.T @ z)
        if eigenvalues[0] <= SQUARED * eigenvalues[-1]:  # squares have lost what z itself shows
            _, root, rows = np.linalg.svd(z, full_matrices=False)
            eigenvalues, V = np.square(root), rows.T
        target = V.T @ (z.T @ y)
        residual = y - z @ (V @ (target / eigenvalues))
        rss, rest = float(residual @ residual), y.size - eigenvalues.size

        def log_density(x: FloatArray) -> FloatArray:
            v = np.exp(x)[:, None]
            # yᵀ(zzᵀ + v)⁻¹y as residual plus shrinkage: no cancellation between large terms.
            quad = rss / v[:, 0] + (target**2 / (eigenvalues * (eigenvalues + v))).sum(axis=1)
            logdet = rest * x + np.log(eigenvalues + v).sum(axis=1)
            return np.asarray(-0.5 * (quad + logdet) - 0.5 * (v[:, 0] / scale) ** 2 + x)

        return cls(GridDensity.of(log_density, -60.0, np.log(scale) + 5.0), V, eigenvalues, target)

    def draw(self, n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """(n, F) weights and (n, 1) variances."""
        v = np.exp(self.grid.sample(rng, n))[:, None]
        spread = np.sqrt(v / (self.eigenvalues + v))
        eps = rng.standard_normal((n, self.eigenvalues.size))
        w = (self.target / (self.eigenvalues + v) + spread * eps) @ self.basis.T
        return w, v


END_SPREAD, END_CONSTANT = 2.5, 5.0  # of the prior of an end's weights
NEWTON = 100  # steps at most: they halve until the posterior density rises


@final
@dataclass(frozen=True, slots=True, eq=False)
class EndsPart:
    """How likely a true end is: mode (k,) of the weights, and a root (k, k) of their covariance."""

    mode: FloatArray
    root: FloatArray

    @classmethod
    def of(cls, log: ContinuousLog, design: Design) -> EndsPart | None:
        """None where no row is an end."""
        if log.terminal is None or not log.terminal.any():
            return None
        from scipy.special import expit

        k, y = len(log.variables) + 2, log.terminal.astype(np.float64)
        z = np.zeros((len(log), k))  # 0 where an action is the only one, as its models have it
        first = design.kept < k
        z[:, design.kept[first]] = design.z[:, first]
        precision = np.full(k, END_SPREAD**-2.0)
        precision[0] = END_CONSTANT**-2.0

        def density(w: FloatArray) -> float:
            x = z @ w
            return float(y @ x - np.logaddexp(0.0, x).sum() - 0.5 * precision @ w**2)

        w = np.zeros(k)
        for _ in range(NEWTON):
            p = expit(z @ w)
            slope = z.T @ (y - p) - precision * w
            H = (z.T * (p * (1 - p))) @ z + np.diag(precision)
            step = np.linalg.solve(H, slope)
            while density(w + step) < density(w) and np.abs(step).max() > 1e-12:
                step /= 2
            w = w + step
            if np.abs(step).max() <= 1e-10:
                break
        return cls(w, np.linalg.cholesky(np.linalg.inv(H)))

    def draw(self, n: int, rng: np.random.Generator) -> FloatArray:
        """(n, k) weights."""
        return np.asarray(self.mode + rng.standard_normal((n, self.mode.size)) @ self.root.T)


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FittedRegression(Fitted):
    """Either one exact part per output, or one set of chains per output."""

    settings: RegressionPosterior
    log: ContinuousLog
    frame: GaussianFrame
    design: Design
    parts: tuple[ExactPart, ...]
    chains: tuple[Chains, ...]

    @property
    def ends(self) -> EndsPart | None:
        """How likely true ends are; None where the log has none."""
        return EndsPart.of(self.log, self.design)

    def sample(self, n: int, seed: Seed = 0) -> GaussianModels:
        """`n` draws of (weights, variances); outputs are independent given the data."""
        rng = generator(seed)
        n = check_count(n)
        if self.parts:
            drawn = [part.draw(n, rng) for part in self.parts]
        else:
            drawn = []
            for j, chain in enumerate(self.chains):
                u = chain.flat("u")[choose(chain.n_draws, n, rng)]
                drawn.append((draw_weights(self.design, j, u, rng), u))
        ends = self.ends
        return GaussianModels(
            np.stack([self.design.of_all(w) for w, _ in drawn], axis=2),
            np.stack([u if u.shape[1] == 1 else self.design.of_all(u) for _, u in drawn], axis=2),
            np.full(n, 1.0 / n),
            self.design.scaling,
            self.frame,
            clip=self.frame.box,
            seen=(self.log.s.min(axis=0), self.log.s.max(axis=0)),
            end_weights=None if ends is None else ends.draw(n, rng),
        )

    @property
    def pool(self) -> int | None:
        """The draws that the chains kept; without end where they are exact."""
        return min((chain.n_draws for chain in self.chains), default=None)

    def share(self, i: int, n: int = USES) -> FittedRegression:
        """Block i of n of every chain."""
        parts = [chain.block(span(chain.diverging.shape[1], i, n)) for chain in self.chains]
        return replace(self, chains=tuple(parts))

    def extend(self, draws: int) -> FittedRegression:
        """The same chains, `draws` steps longer; exact draws need none."""
        if self.parts:
            raise InputError("Draws of this posterior are exact: sample as many as you like.")
        s = self.settings
        longer = [
            run_output(self.design, j, s.noise_scale, s.nuts, name, chain, draws)
            for (j, name), chain in zip(enumerate(self.frame.variables), self.chains, strict=True)
        ]
        return replace(self, chains=tuple(longer))

    def diagnostics(self) -> Diagnostics:
        """Chains through ArviZ; the check compares squared residuals with replicated ones."""
        models = self.sample(200 if self.parts else min(200, self.chains[0].n_draws), seed=0)
        at = self.log.s, self.log.a
        mean, variance = models.mean(*at), models.variance(*at)
        seen = ((self.log.s_next - mean) ** 2 / variance).sum(axis=1)
        new = (np.random.default_rng(0).standard_normal(mean.shape) ** 2).sum(axis=1)
        share, names = (new > seen).mean(axis=0), self.frame.variables
        checks = {f"spread of '{v}'": float(p) for v, p in zip(names, share, strict=True)}
        if self.parts:
            return Diagnostics.of_exact(checks)
        of = zip(names, self.chains, strict=True)
        named = {f"{name}.u": chain.values["u"] for name, chain in of}
        lost = np.concatenate([chain.diverging for chain in self.chains], axis=1)
        return Diagnostics.of_chains(named, lost, checks)

    def arrays(self) -> Arrays:
        """The chains."""
        out: Arrays = {}
        for name, chain in zip(self.frame.variables, self.chains, strict=False):
            out |= chain.to_arrays(f"{name}:")
        return out

    def __repr__(self) -> str:
        kind = "exact" if self.parts else f"{self.chains[0].n_draws} draws"
        return f"FittedRegression({kind}, {len(self.log)} transitions)"


def draw_weights(design: Design, j: int, u: FloatArray, rng: np.random.Generator) -> FloatArray:
    """(n, F) exact draws of w | u, D: precision I + zᵀD⁻¹z."""
    z, y = design.z, design.y[:, j]
    F = z.shape[1]
    out = np.empty((u.shape[0], F))
    for i, eps in enumerate(rng.standard_normal((u.shape[0], F))):
        scaled = z / (design.psi @ u[i])[:, None]
        L = np.linalg.cholesky(np.eye(F) + scaled.T @ z)
        half = np.linalg.solve(L, scaled.T @ y)
        out[i] = np.linalg.solve(L.T, half + eps)
    return out


def run_output(
    design: Design, j: int, scale: float, nuts: Nuts, name: str, before: Chains | None = None,
    draws: int = 0,
) -> Chains:  # fmt: skip
    """The chains of one output; all outputs share one compiled sampler."""
    y, psi = design.y[:, j], design.psi
    data = {"z": design.z, "y": y, "psi": psi, "scale": np.array(scale)}
    file = None if nuts.checkpoint is None else f"{nuts.checkpoint}.{name}"
    own = replace(nuts, seed=nuts.seed + j, checkpoint=file)
    run = sampler(_model, _start, own, data)
    return run.sample(data, own, f"Regression of {name}", before, draws)


def _model(data: Any) -> None:
    """u ~ HalfNormal, weights integrated out: y ~ Normal(0, zzᵀ + diag(ψu))."""
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from jax.scipy.linalg import solve_triangular

    z, y, psi = data["z"], data["y"], data["psi"]
    with numpyro.plate("features", psi.shape[1]):
        u = numpyro.sample("u", dist.HalfNormal(data["scale"]))
    v = psi @ u
    scaled = z / v[:, None]
    L = jnp.linalg.cholesky(jnp.eye(z.shape[1]) + scaled.T @ z)
    half = solve_triangular(L, scaled.T @ y, lower=True)
    quad = jnp.sum(y**2 / v) - jnp.sum(half**2)
    logdet = jnp.sum(jnp.log(v)) + 2.0 * jnp.sum(jnp.log(jnp.diag(L)))
    numpyro.factor("evidence", -0.5 * (quad + logdet))


def _start(data: Any) -> dict[str, Any]:
    """log u that gives the residual variance of least squares, shared evenly."""
    import jax.numpy as jnp

    z, y, psi = data["z"], data["y"], data["psi"]
    residual = y - z @ jnp.linalg.lstsq(z, y)[0]
    level = jnp.minimum(jnp.mean(residual**2), data["scale"]) / jnp.mean(psi.sum(axis=1))
    return {"u": jnp.full(psi.shape[1], jnp.log(level + 1e-12))}


def _check_rank(z: FloatArray, log: ContinuousLog, names: Sequence[str]) -> None:
    """Refuse features of which one is a combination of others, by name."""
    if z.shape[0] < z.shape[1]:
        raise InputError(
            f"{z.shape[1]} features need at least as many transitions; the log has {z.shape[0]}. "
            "Collect more data."
        )
    _, R, order = qr(z, mode="economic", pivoting=True)
    size = np.abs(np.diag(R))
    weak = np.flatnonzero(size <= RANK_TOLERANCE * size[0])
    if weak.size:
        raise InputError(
            f"The features are rank-deficient: '{names[order[weak[0]]]}' is a linear "
            f"combination of the others in this log ({weak.size} such "
            f"{'feature' if weak.size == 1 else 'features'}). Collect data in "
            f"which they vary separately, or leave out a variable{_or_rare(log)}."
        )


def _or_rare(log: ContinuousLog) -> str:
    """The action that was seen too seldom for weights of its own, if there is one."""
    seen = np.bincount(log.a, minlength=len(log.actions))
    rare = int(seen.argmin())
    if len(log.actions) == 1 or seen[rare] > len(log.variables):
        return ""
    return f", or the action '{log.actions[rare]}' (seen in {seen[rare]} of {len(log)} rows)"
