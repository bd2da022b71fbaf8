"""Continuous models: s′ ~ Normal(mean, diagonal variance), both linear in polynomial features.

    φ(s, a) = all products of degree ≤ 2 of (s, a)            (a² = a is dropped for a ∈ {0, 1})
    E[s′_j] = y_j + t_j · Σ_k W_kj (φ_k − c_k)/d_k,    Var[s′_j] = t_j² · Σ_k U_kj |φ_k|/e_k

with centres c, y and scales d, t, e of the data that the weights were fitted on. One draw ω of a
posterior is one pair (W^ω, U^ω ≥ 0); with constant noise U has one row, that of φ₀ = 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from softrobust.data.labels import Labels
from softrobust.data.npz import read_npz, write_npz
from softrobust.errors import InputError
from softrobust.models.checks import check_weights, freeze

FloatArray = NDArray[np.float64]
GAUSSIAN_FORMAT = "softrobust-gaussian-models"
FORMAT_VERSION = 1


@final
@dataclass(frozen=True, slots=True, eq=False)
class GaussianFrame:
    """Variables, actions, and what is known of rewards, start, discount and horizon.

    Attributes
    ----------
    variables, actions : Labels
    action_values : (n_actions,)
        The number that stands for an action in the features.
    reward_now, reward_next : (n_variables,) or None
        r(s, a, s′) = reward_now·s + reward_next·s′.
    start : (n_starts, n_variables) or None
        Equally likely first states.
    gamma : float or None
    horizon : int or None
    """

    variables: Labels
    actions: Labels
    action_values: FloatArray
    reward_now: FloatArray | None = None
    reward_next: FloatArray | None = None
    start: FloatArray | None = None
    gamma: float | None = None
    horizon: int | None = None

    def __post_init__(self) -> None:
        d, A = len(self.variables), len(self.actions)
        for name, shape in (("action_values", (A,)), ("reward_now", (d,)), ("reward_next", (d,))):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, freeze(value, np.float64))
                if getattr(self, name).shape != shape:
                    raise InputError(f"{name} must have shape {shape}; it has {value.shape}.")
        if self.start is not None:
            object.__setattr__(self, "start", freeze(np.atleast_2d(self.start), np.float64))

    def reward(self, s: ArrayLike, s_next: ArrayLike) -> FloatArray:
        """r(s, a, s′) for arrays (…, n_variables)."""
        if self.reward_now is None or self.reward_next is None:
            raise InputError("These models carry no rewards. Set reward_now and reward_next.")
        return np.asarray(np.asarray(s) @ self.reward_now + np.asarray(s_next) @ self.reward_next)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of φ, "1" first."""
        names = (*self.variables, "action")
        return ("1", *names, *("·".join(names[i] for i in pair) for pair in self._products()))

    def features(self, s: ArrayLike, a: ArrayLike) -> FloatArray:
        """(…, n_features) φ(s, a) for states (…, n_variables) and action indices (…)."""
        x = np.asarray(s, dtype=np.float64)
        value = np.asarray(self.action_values)[np.asarray(a)]
        x = np.concatenate([x, np.broadcast_to(value[..., None], (*x.shape[:-1], 1))], axis=-1)
        products = [x[..., i] * x[..., j] for i, j in self._products()]
        return np.concatenate([np.ones((*x.shape[:-1], 1)), x, np.stack(products, -1)], axis=-1)

    def _products(self) -> list[tuple[int, int]]:
        d = len(self.variables)
        pairs = list(combinations_with_replacement(range(d + 1), 2))
        binary = np.isin(np.asarray(self.action_values), (0.0, 1.0)).all()
        return [pair for pair in pairs if not (binary and pair == (d, d))]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Scaling:
    """Centres and scales: features (n_features,), outputs (n_variables,), noise (n_noise,)."""

    centre: FloatArray
    scale: FloatArray
    out_centre: FloatArray
    out_scale: FloatArray
    noise_scale: FloatArray

    def __post_init__(self) -> None:
        for name in self.__slots__:
            object.__setattr__(self, name, freeze(getattr(self, name), np.float64))


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GaussianModels:
    """N continuous models on common variables and actions, with weights.

    Parameters
    ----------
    weights : (n_models, n_features, n_variables)
        W, in standardised units.
    noise : (n_models, n_noise, n_variables)
        U ≥ 0: n_noise is 1 (constant variance) or n_features.
    f : (n_models,)
    scaling : Scaling
    frame : GaussianFrame
    """

    weights: FloatArray
    noise: FloatArray
    f: FloatArray
    scaling: Scaling
    frame: GaussianFrame

    def __post_init__(self) -> None:
        put = object.__setattr__  # the one place where a frozen object is completed
        put(self, "f", freeze(check_weights(self.f), np.float64))
        put(self, "weights", freeze(self.weights, np.float64))
        put(self, "noise", freeze(self.noise, np.float64))
        F, d, N = len(self.frame.feature_names), len(self.frame.variables), self.f.size
        if self.weights.shape != (N, F, d):
            raise InputError(f"weights must have shape {(N, F, d)}; they have {self.weights.shape}")
        if self.noise.shape not in ((N, 1, d), (N, F, d)):
            raise InputError(
                f"noise must have shape {(N, 1, d)} or {(N, F, d)}; it has {self.noise.shape}."
            )
        if not (np.isfinite(self.weights).all() and (self.noise >= 0).all()):
            raise InputError("Weights must be finite and noise weights at least 0.")

    @property
    def n_models(self) -> int:
        """N."""
        return self.f.size

    def __len__(self) -> int:
        return self.n_models

    def mean(self, s: ArrayLike, a: ArrayLike, omega: ArrayLike | None = None) -> FloatArray:
        """E[s′]: (n_models, n_rows, n_variables), or (n_rows, n_variables) with `omega` per row."""
        z = (self.frame.features(s, a) - self.scaling.centre) / self.scaling.scale
        y = self._apply(z, self.weights, omega)
        return np.asarray(self.scaling.out_centre + self.scaling.out_scale * y)

    def variance(self, s: ArrayLike, a: ArrayLike, omega: ArrayLike | None = None) -> FloatArray:
        """Var[s′], shaped like `mean`."""
        phi = np.abs(self.frame.features(s, a)[..., : self.noise.shape[1]])
        y = self._apply(phi / self.scaling.noise_scale, self.noise, omega)
        return np.asarray(self.scaling.out_scale**2 * y)

    def sample_next(
        self,
        s: ArrayLike,
        a: ArrayLike,
        seed: int | np.random.Generator = 0,
        omega: ArrayLike | None = None,
    ) -> FloatArray:
        """Next states for all rows under all models, or under model `omega[i]` for row i.

        Parameters
        ----------
        s : (n_rows, n_variables)
        a : (n_rows,) int
        omega : (n_rows,) int, optional

        Returns
        -------
        (n_models, n_rows, n_variables), or (n_rows, n_variables) with `omega`
        """
        mean = self.mean(s, a, omega)
        sd = np.sqrt(self.variance(s, a, omega))
        return np.asarray(mean + sd * np.random.default_rng(seed).standard_normal(mean.shape))

    @staticmethod
    def _apply(z: FloatArray, W: FloatArray, omega: ArrayLike | None) -> FloatArray:
        if omega is None:
            return np.asarray(np.matmul(z, W))
        return np.asarray(np.einsum("bk,bkj->bj", z, W[np.asarray(omega)]))

    def select(self, which: ArrayLike) -> Self:
        """The chosen models, with weights renormalised among them."""
        index = np.arange(self.n_models)[np.asarray(which)]
        f = self.f[index]
        if index.size == 0 or f.sum() <= 0:
            raise InputError("A selection needs at least one model of positive weight.")
        return replace(self, weights=self.weights[index], noise=self.noise[index], f=f / f.sum())

    def split(self, n: int) -> tuple[Self, Self]:
        """The first `n` models (to train on) and the rest (held out)."""
        if not 0 < n < self.n_models:
            raise InputError(f"split(n) needs 0 < n < {self.n_models}; it got {n}.")
        index = np.arange(self.n_models)
        return self.select(index[:n]), self.select(index[n:])

    def __repr__(self) -> str:
        kind = "constant" if self.noise.shape[1] == 1 else "varying"
        names = ", ".join(self.frame.variables)
        return f"GaussianModels({self.n_models} models of {names}, {kind} noise)"


def save_gaussian(path: str | Path, models: GaussianModels) -> None:
    """Write models with all that came with them, atomically."""
    frame, scaling = models.frame, models.scaling
    arrays: dict[str, Any] = {"weights": models.weights, "noise": models.noise, "f": models.f}
    arrays |= {f"scaling_{name}": getattr(scaling, name) for name in Scaling.__slots__}
    for name in GaussianFrame.__slots__:
        value = getattr(frame, name)
        if value is not None:
            arrays[name] = np.array(list(value) if isinstance(value, Labels) else value)
    write_npz(path, GAUSSIAN_FORMAT, FORMAT_VERSION, arrays)


def load_gaussian(path: str | Path) -> GaussianModels:
    """Read what `save_gaussian` wrote."""
    arrays = read_npz(path, GAUSSIAN_FORMAT, FORMAT_VERSION)
    try:
        frame = GaussianFrame(
            Labels(tuple(map(str, arrays["variables"])), noun="variable"),
            Labels(tuple(map(str, arrays["actions"])), noun="action"),
            arrays["action_values"],
            arrays.get("reward_now"),
            arrays.get("reward_next"),
            arrays.get("start"),
            float(arrays["gamma"]) if "gamma" in arrays else None,
            int(arrays["horizon"]) if "horizon" in arrays else None,
        )
        scaling = Scaling(*(arrays[f"scaling_{name}"] for name in Scaling.__slots__))
        return GaussianModels(arrays["weights"], arrays["noise"], arrays["f"], scaling, frame)
    except KeyError as error:
        raise InputError(f"The file {Path(path).name} lacks {error}. Write it again.") from None
