"""Gaussian models: s′ ~ Normal(mean, diagonal variance), both linear in polynomial features.

    φ(s, a) = all products of degree ≤ 2 of (s, a)            (a² = a is dropped for a ∈ {0, 1})
    E[s′_j] = y_j + t_j · Σ_k W_kj (φ_k − c_k)/d_k,    Var[s′_j] = t_j² · Σ_k U_kj |φ_k|/e_k

with centres c, y and scales d, t, e of the data that the weights were fitted on. One draw ω of a
posterior is one pair (W^ω, U^ω ≥ 0); with constant noise U has one row, that of φ₀ = 1. Where
episodes end for good, one does after a in s with probability

    q^ω(s, a) = 1/(1 + exp(−z·θ^ω)),     z = (1, s, a), standardised as the features are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from softrobust._core.arguments import names_arguments
from softrobust._core.arrays import FloatArray, IntArray, Sealed, frozen, shaped
from softrobust._core.files import read_npz, rebuilding, write_npz
from softrobust.data.labels import Labels
from softrobust.errors import InputError
from softrobust.models.continuous import Box, ContinuousModels, Rng, Which, check_box
from softrobust.models.model_set import check_weights

GAUSSIAN_FORMAT = "softrobust-gaussian-models"
FORMAT_VERSION = 3  # 2: the box and the range of the data; 3: ends


@final
@dataclass(frozen=True, slots=True, eq=False)
class GaussianFrame(Sealed):
    """Variables, actions, and what is known of rewards, start, discount and horizon.

    r(s, a, s′) = reward_now·s + reward_next·s′ + reward_action[a] + reward_constant, and an end for
    good adds reward_end.
    """

    variables: Labels
    actions: Labels
    action_values: FloatArray  # (n_actions,): the number that stands for an action in the features
    reward_now: FloatArray | None = None
    reward_next: FloatArray | None = None
    start: FloatArray | None = None  # (n_starts, n_variables): equally likely first states
    gamma: float | None = None
    horizon: int | None = None
    # (low, high), each (n_variables,): values that are possible at all (a mass is not negative):
    # models drawn on this frame clip to it
    box: Box | None = None
    reward_action: FloatArray | None = None
    reward_constant: float | None = None
    reward_end: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "box", check_box("box", self.box, self.variables))
        d, A = len(self.variables), len(self.actions)
        shapes = {"action_values": (A,), "reward_now": (d,), "reward_next": (d,)}
        for name, shape in (shapes | {"reward_action": (A,)}).items():
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, shaped(name, value, np.float64, shape))
        if self.start is not None:
            start = frozen(np.atleast_2d(self.start), np.float64)
            object.__setattr__(self, "start", shaped("start", start, np.float64, (len(start), d)))

    def reward(self, s: ArrayLike, s_next: ArrayLike) -> FloatArray:
        """The part of r(s, a, s′) that s and s′ give, for arrays (…, n_variables)."""
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
        pairs = self._products()
        d = x.shape[-1]
        out = np.empty((*x.shape[:-1], d + 2 + len(pairs)))
        out[..., 0], out[..., 1 : d + 1], out[..., d + 1] = 1.0, x, value
        for k, (i, j) in enumerate(pairs, d + 2):
            np.multiply(out[..., i + 1], out[..., j + 1], out=out[..., k])
        return out

    @property
    def without_action(self) -> IntArray:
        """Which of φ do not have the action in them."""
        d = len(self.variables)
        products = [k for k, pair in enumerate(self._products(), d + 2) if d not in pair]
        return np.array([*range(d + 1), *products])

    def _products(self) -> tuple[tuple[int, int], ...]:
        return _pairs(len(self.variables), tuple(self.action_values.tolist()))


@lru_cache(maxsize=64)
def _pairs(d: int, action_values: tuple[float, ...]) -> tuple[tuple[int, int], ...]:
    """Indices of the products of two of (s, a); a² = a is left out for doses 0 and 1."""
    pairs = combinations_with_replacement(range(d + 1), 2)
    binary = set(action_values) <= {0.0, 1.0}
    return tuple(pair for pair in pairs if not (binary and pair == (d, d)))


@final
@dataclass(frozen=True, slots=True, eq=False)
class Scaling(Sealed):
    """Centres and scales: features (n_features,), outputs (n_variables,), noise (n_noise,)."""

    centre: FloatArray
    scale: FloatArray
    out_centre: FloatArray
    out_scale: FloatArray
    noise_scale: FloatArray

    def __post_init__(self) -> None:
        for name in self.__slots__:
            x = frozen(getattr(self, name), np.float64)
            object.__setattr__(self, name, x)
            if not np.isfinite(x).all() or (name.endswith("scale") and (x <= 0).any()):
                raise InputError(f"scaling.{name} must be finite, and a scale above 0.")


@names_arguments
@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GaussianModels(ContinuousModels):
    """N continuous models on common variables and actions, with weights.

    Parameters
    ----------
    weights : (n_models, n_features, n_variables)
        W, in standardised units.
    noise : (n_models, n_noise, n_variables)
        U ≥ 0: n_noise is 1 (constant variance) or n_features.
    clip : (low, high), each (n_variables,), optional
        Drawn next states are kept in this box; `mean` and `variance` are those before it.
    seen : (low, high), each (n_variables,), optional
        The range of the data; beyond it the models extrapolate.
    end_weights : (n_models, n_variables + 2), optional
        θ of the probability that an episode ends for good; None where none does.
    """

    weights: FloatArray
    noise: FloatArray
    f: FloatArray
    scaling: Scaling
    frame: GaussianFrame
    clip: Box | None = None
    seen: Box | None = None
    end_weights: FloatArray | None = None
    variables: Labels = field(init=False)
    actions: Labels = field(init=False)

    def __post_init__(self) -> None:
        put = object.__setattr__  # the one place where a frozen object is completed
        put(self, "variables", self.frame.variables)
        put(self, "actions", self.frame.actions)
        put(self, "f", check_weights(self.f))
        F, d, N = len(self.frame.feature_names), len(self.frame.variables), self.f.size
        put(self, "weights", shaped("weights", self.weights, np.float64, (N, F, d)))
        put(self, "noise", shaped("noise", self.noise, np.float64, (N, 1, d), (N, F, d)))
        if not (np.isfinite(self.weights).all() and (self.noise >= 0).all()):
            raise InputError("Weights must be finite and noise weights at least 0.")
        sizes = {"centre": F, "scale": F, "out_centre": d, "out_scale": d}
        for name, n in (sizes | {"noise_scale": self.noise.shape[1]}).items():
            shaped(f"scaling.{name}", getattr(self.scaling, name), np.float64, (n,))
        put(self, "clip", check_box("clip", self.clip, self.frame.variables))
        put(self, "seen", check_box("seen", self.seen, self.frame.variables))
        if self.end_weights is not None:
            shape = (N, d + 2)
            put(self, "end_weights", shaped("end_weights", self.end_weights, np.float64, shape))

    @property
    def end_reward(self) -> float:
        """What an end for good adds to the reward of its step."""
        return self.frame.reward_end or 0.0

    def ends(self, s: ArrayLike, a: ArrayLike, omega: Which = None) -> FloatArray | None:
        """P(the episode ends for good after a in s)."""
        if self.end_weights is None:
            return None
        from scipy.special import expit

        k = self.end_weights.shape[1]
        z = (self.frame.features(s, a)[..., :k] - self.scaling.centre[:k]) / self.scaling.scale[:k]
        if omega is None:
            return np.asarray(expit(self.end_weights @ np.atleast_2d(z).T))
        return np.asarray(expit((z * self.end_weights[np.asarray(omega)]).sum(axis=-1)))

    def mean(self, s: ArrayLike, a: ArrayLike, omega: Which = None) -> FloatArray:
        """E[s′]: (n_models, n_rows, n_variables), or (n_rows, n_variables) with `omega` per row."""
        z = (self.frame.features(s, a) - self.scaling.centre) / self.scaling.scale
        y = self._apply(z, self.weights, omega)
        return np.asarray(self.scaling.out_centre + self.scaling.out_scale * y)

    def variance(self, s: ArrayLike, a: ArrayLike, omega: Which = None) -> FloatArray:
        """Var[s′], shaped like `mean`."""
        phi = np.abs(self.frame.features(s, a)[..., : self.noise.shape[1]])
        y = self._apply(phi / self.scaling.noise_scale, self.noise, omega)
        return np.asarray(self.scaling.out_scale**2 * y)

    def draw_free(self, s: ArrayLike, a: ArrayLike, rng: Rng, omega: Which = None) -> FloatArray:
        """Mean plus noise, as `sample_next` shapes it."""
        mean = self.mean(s, a, omega)
        sd = np.sqrt(self.variance(s, a, omega))
        return np.asarray(mean + sd * rng.standard_normal(mean.shape))

    def draw_many(self, s: ArrayLike, a: ArrayLike, rng: Rng, k: int) -> FloatArray:
        """(n_models, k, n_rows, n_variables): the moments are computed once for all k."""
        mean, sd = self.mean(s, a)[:, None], np.sqrt(self.variance(s, a))[:, None]
        out = rng.standard_normal((mean.shape[0], k, *mean.shape[2:]))
        out *= sd
        out += mean
        return out if self.clip is None else np.clip(out, *self.clip, out=out)

    def mean_model(self) -> GaussianModels:
        """The Gaussian model of the mean parameters Σ_ω f_ω W^ω and Σ_ω f_ω U^ω.

        Its E[s′] is that of the mixture E_f[P̂], and its variance the mean of the models' own: the
        disagreement of the models is left out (`MixtureModel` has it).
        """
        weights, noise = (np.tensordot(self.f, x, 1)[None] for x in (self.weights, self.noise))
        ends = None if self.end_weights is None else (self.f @ self.end_weights)[None]
        return replace(self, weights=weights, noise=noise, f=np.ones(1), end_weights=ends)

    @staticmethod
    def _apply(z: FloatArray, W: FloatArray, omega: Which) -> FloatArray:
        rows = z @ W if omega is None else np.einsum("bk,bkj->bj", z, W[np.asarray(omega)])
        return np.asarray(rows)

    def select(self, which: ArrayLike) -> Self:
        """The chosen models, with weights renormalised among them."""
        index, f = self._chosen(which)
        ends = None if self.end_weights is None else self.end_weights[index]
        weights, noise = self.weights[index], self.noise[index]
        return replace(self, weights=weights, noise=noise, f=f, end_weights=ends)

    def __repr__(self) -> str:
        kind = "constant" if self.noise.shape[1] == 1 else "varying"
        names = ", ".join(self.frame.variables)
        return f"GaussianModels({self.n_models} models of {names}, {kind} noise)"


def save_gaussian(path: str | Path, models: GaussianModels) -> None:
    """Write models with all that came with them, atomically."""
    write_npz(path, GAUSSIAN_FORMAT, FORMAT_VERSION, gaussian_arrays(models))


_OWN = ("weights", "noise", "f", "clip", "seen", "end_weights")


def gaussian_arrays(models: GaussianModels) -> dict[str, NDArray[Any]]:
    """All that models hold, as plain arrays."""
    frame, scaling = models.frame, models.scaling
    held: dict[str, Any] = {name: getattr(models, name) for name in _OWN[:3]}
    held |= {f"scaling_{name}": getattr(scaling, name) for name in Scaling.__slots__}
    held |= {name: getattr(frame, name) for name in GaussianFrame.__slots__}
    held |= {name: getattr(models, name) for name in _OWN[3:]}
    return {
        name: np.array(list(value) if isinstance(value, Labels) else value)
        for name, value in held.items()
        if value is not None
    }


def gaussian_models(arrays: Mapping[str, NDArray[Any]]) -> GaussianModels:
    """The inverse of `gaussian_arrays`; a missing array is a `KeyError`."""
    own: dict[str, Any] = {name: arrays.get(name) for name in GaussianFrame.__slots__}
    own["action_values"] = arrays["action_values"]
    own["variables"] = Labels(tuple(map(str, arrays["variables"])), noun="variable")
    own["actions"] = Labels(tuple(map(str, arrays["actions"])), noun="action")
    numbers = {"gamma": float, "horizon": int, "reward_constant": float, "reward_end": float}
    for name, kind in numbers.items():
        own[name] = None if own[name] is None else kind(own[name])
    scaling = Scaling(*(arrays[f"scaling_{name}"] for name in Scaling.__slots__))
    models: dict[str, Any] = {name: arrays[name] for name in _OWN if name in arrays}
    return GaussianModels(scaling=scaling, frame=GaussianFrame(**own), **models)


def load_gaussian(path: str | Path) -> GaussianModels:
    """Read what `save_gaussian` wrote."""
    arrays = read_npz(path, GAUSSIAN_FORMAT, FORMAT_VERSION)
    with rebuilding("models", path):
        return gaussian_models(arrays)
