"""What a state and an action are worth under every model: Z[s, a, ω] = E_ω[r(s, a, s′) + γφ(s′)ᵀw].

    ClosedForm   Gaussian models, features and a reward whose expectations are known: exact
    Summed       models with finitely many next states: exact
    Sampled      the paper's form: the average over k drawn next states per state, action and model

Inside CVaR the noise of `Sampled` is a bias: the tail picks models whose draws were unlucky, so its
values are too low, the more so the fewer the draws.

For Gaussian models where r and v are polynomials in s′ there is one pass: with x = (s′ − c)/d the
standardised next state, the reward's part in s′ is a polynomial in x as v is: next·s′ = next·c +
Σ_j next_j·d_j·x_j, and so on for squares. So the coefficients add up, and one expectation of one
polynomial is left.

Where an episode may end for good after a in s, with probability q_ω(s, a), its end pays e and v
counts only if it goes on: Z = E[r] + q·e + (1 − q)·γE[v].
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, final

import numpy as np

from softrobust._core.arrays import FloatArray, IntArray
from softrobust.errors import InputError
from softrobust.kernels.polynomial import polynomial_means
from softrobust.models.continuous import ContinuousModels
from softrobust.models.continuous_rewards import LinearReward, RewardFunction
from softrobust.models.features import PolynomialFeatures, normal_moments
from softrobust.models.gaussian import GaussianModels

Values = Callable[..., FloatArray]  # (w, gamma, rng) → (n, n_actions, n_models)
Pairs = tuple[FloatArray, IntArray]  # states (n_rows, n_variables) and actions (n_rows,)
CHUNK = 4_000_000  # numbers that one piece of work may hold
KEPT = 50_000_000  # numbers that are kept from one iteration to the next


@dataclass(frozen=True, slots=True, eq=False)
class Expectation(ABC):
    """Models, a reward (s, a, s′), fitted features, and the way their expectation is taken."""

    exact: ClassVar[bool] = True  # values are free of sampling noise
    models: Any
    reward: Any
    features: Any

    @abstractmethod
    def _rows(self, pairs: Pairs, w: FloatArray, gamma: float, rng: Any) -> FloatArray:
        """(n_models, n_rows) values of pairs."""

    @abstractmethod
    def _per_pair(self) -> int:
        """Numbers that the work on one pair holds, to keep pieces small."""

    def at(self, s: FloatArray) -> Values:
        """`values` at states that stay the same while w changes."""
        return lambda w, gamma, rng=None: self.values(s, w, gamma, rng)

    def values(
        self, s: FloatArray, w: FloatArray, gamma: float, rng: np.random.Generator | None = None
    ) -> FloatArray:
        """(n, n_actions, n_models) Z at states (n, n_variables); `rng` is for draws only."""
        A, N = self.models.n_actions, self.models.n_models
        out = np.empty((s.shape[0], A, N))
        piece = max(1, CHUNK // (A * self._per_pair()))
        for i in range(0, s.shape[0], piece):
            pairs, same = _pairs(s[i : i + piece], A), deepcopy(rng)
            rows, over = self._rows(pairs, w, gamma, rng), self.models.ends(*pairs)
            if over is not None:  # less what is not earned where the episode has ended
                earned = self._rows(pairs, np.zeros_like(w), gamma, same)
                rows = rows + over * (self.models.end_reward - (rows - earned))
            out[i : i + piece] = rows.reshape(N, -1, A).transpose(1, 2, 0)
        return out


def _pairs(s: FloatArray, n_actions: int) -> Pairs:
    """Every state with every action, state by state."""
    return np.repeat(s, n_actions, axis=0), np.tile(np.arange(n_actions), len(s))


@final
@dataclass(frozen=True, slots=True, eq=False)
class ClosedForm(Expectation):
    """Normal next states with independent entries, kept in the models' box if there is one."""

    def _per_pair(self) -> int:
        per = self.models.n_variables
        if not isinstance(self.features, PolynomialFeatures):
            per += int(self.features.transform(np.zeros((1, per))).shape[1])
        return int(self.models.n_models * per)

    def _rows(self, pairs: Pairs, w: FloatArray, gamma: float, rng: Any) -> FloatArray:
        if isinstance(self.features, PolynomialFeatures):
            return polynomial_worth(self.models, self.reward, self.features, *pairs, gamma * w).T
        r, phi = self._parts(*pairs)
        return np.asarray(r + gamma * (phi @ w))

    def _parts(self, s: FloatArray, a: IntArray) -> tuple[FloatArray, FloatArray]:
        """E[r] (n_models, n_rows) and E[φ(s′)] (n_models, n_rows, n_features) of pairs."""
        mean, variance = self.models.mean(s, a), self.models.variance(s, a)
        powers = normal_moments(mean, variance, self.reward.degree, self.models.clip)
        r = self.reward.expected(s, a, powers[0], powers[-1])
        return r, self.features.expected(mean, variance, self.models.clip)

    def at(self, s: FloatArray) -> Values:
        """E[r] and E[φ(s′)] do not depend on w: computed once, where memory allows."""
        A, N, n = self.models.n_actions, self.models.n_models, s.shape[0]
        F = int(self.features.transform(s[:1]).shape[1])
        if n * A * N * F > KEPT:
            return Expectation.at(self, s)
        split = np.array_split(s, max(1, n * A * N * F // CHUNK))
        pieces = [self._parts(*_pairs(part, A)) for part in split]
        r, phi = (np.concatenate(parts, axis=1) for parts in zip(*pieces, strict=True))
        over = self.models.ends(*_pairs(s, A))
        if over is not None:
            r = r + over * self.models.end_reward
            phi = phi * (1.0 - over)[:, :, None]

        def values(w: FloatArray, gamma: float, rng: Any = None) -> FloatArray:
            return np.ascontiguousarray((r + gamma * (phi @ w)).reshape(N, n, A).transpose(1, 2, 0))

        return values


@final
@dataclass(frozen=True, slots=True, eq=False)
class Summed(Expectation):
    """Σ_s′ P̂^ω(s′|s,a)·(r + γv(s′))."""

    def _per_pair(self) -> int:
        return int(self.models.n_models * 1000)

    def _rows(self, pairs: Pairs, w: FloatArray, gamma: float, rng: Any) -> FloatArray:
        def worth(now: Any, act: Any, to: FloatArray) -> FloatArray:
            v = self.features.transform(to.reshape(-1, to.shape[-1])) @ w
            return np.asarray(self.reward(now, act, to) + gamma * v.reshape(to.shape[:-1]))

        return np.asarray(self.models.expect(*pairs, worth))


@final
@dataclass(frozen=True, slots=True, eq=False)
class Sampled(Expectation):
    """The average over `k` next states; actions of a state share their random numbers."""

    exact: ClassVar[bool] = False
    k: int = 100

    def _per_pair(self) -> int:
        return int(self.models.n_models * self.k * (self.models.n_variables + 8))

    def _rows(self, pairs: Pairs, w: FloatArray, gamma: float, rng: Any) -> FloatArray:
        (s, a), A = pairs, self.models.n_actions
        out = np.empty((self.models.n_models, s.shape[0]))
        seed = int(rng.integers(2**63))
        for action in range(A):
            rows = np.arange(action, s.shape[0], A)
            same = np.random.default_rng(seed)  # common random numbers across actions
            to = self.models.draw_many(s[rows], a[rows], same, self.k)
            r = self.reward(s[rows], a[rows], to)
            v = self.features.transform(to.reshape(-1, to.shape[-1])) @ w
            out[:, rows] = (r + gamma * v.reshape(to.shape[:-1])).mean(axis=1)
        return out


def expectation_of(
    models: ContinuousModels, reward: RewardFunction, features: Any, samples: int | None
) -> Expectation:
    """The exact form, or with `samples` the average over draws; an error where neither can be."""
    if samples is not None:
        return Sampled(models, reward, features, samples)
    one = np.zeros((1, models.n_variables))
    if models.expect(one, np.zeros(1, np.int64), lambda s, a, to: to[..., 0]) is not None:
        return Summed(models, reward, features)
    why = None
    if not isinstance(models, GaussianModels):
        why = f"{type(models).__name__} only draws next states"
    elif not isinstance(reward, LinearReward):
        why = "the reward is not a LinearReward"
    elif not hasattr(features, "expected"):
        why = f"{type(features).__name__} has no expected(mean, variance, box)"
    if why is not None:
        raise InputError(
            f"Expected values have no closed form here: {why}. Set samples=100 to average over "
            "drawn next states.",
            arguments={"samples": "100"},
        )
    return ClosedForm(models, reward, features)


@final
class Products(NamedTuple):
    """Every product as a shorter one times a power of one variable (`kernels.polynomial`)."""

    factors: tuple[tuple[int, ...], ...]
    place: dict[tuple[int, ...], int]
    parent: IntArray
    last: IntArray
    power: IntArray


@lru_cache(maxsize=64)
def products(degree: int, n_variables: int) -> Products:
    """All products of at most `degree` of the variables, shorter ones first."""
    factors = tuple(PolynomialFeatures(degree).exponents(n_variables))
    place = {f: i for i, f in enumerate(factors)}
    power = [f.count(f[-1]) if f else 0 for f in factors]
    parent = [place[f[: len(f) - k]] for f, k in zip(factors, power, strict=True)]
    last = [f[-1] if f else 0 for f in factors]
    arrays = (np.array(x, dtype=np.int64) for x in (parent, last, power))
    return Products(factors, place, *arrays)


def polynomial_worth(
    models: GaussianModels,
    reward: LinearReward,
    features: PolynomialFeatures,
    s: FloatArray,
    a: IntArray,
    w: FloatArray,
) -> FloatArray:
    """(n_rows, n_models) E_ω[r(s, a, s′) + φ(s′)ᵀw] of pairs s (n_rows, d), a (n_rows,)."""
    d, N, R = models.n_variables, models.n_models, s.shape[0]
    centre, scale = features.standards()
    degree = max(features.degree, reward.degree)
    basis = products(degree, d)
    # The part of r that depends on s′ = centre + scale·x, as coefficients of products of x.
    coef = np.zeros(len(basis.factors))
    square = np.zeros((d, d)) if reward.square is None else reward.square
    coef[0] = reward.next @ centre + centre @ square @ centre
    linear = scale * (reward.next + (square + square.T) @ centre)
    for j in range(d):
        coef[basis.place[(j,)]] += linear[j]
    for i, j in np.ndindex(square.shape) if reward.square is not None else ():
        coef[basis.place[min(i, j), max(i, j)]] += square[i, j] * scale[i] * scale[j]
    coef[: w.size] += w  # shorter products come first, so those of φ are a beginning
    frame, own = models.frame, models.scaling
    phi = frame.features(s, a)
    unit = own.out_scale / scale
    # One product of matrices for all models: (R, F) by (F, N·d).
    W = (models.weights * unit).transpose(1, 0, 2).reshape(phi.shape[1], N * d)
    y = ((phi - own.centre) / own.scale) @ W
    if models.noise.shape[1] == 1:
        variance = models.noise[None, :, 0] * (unit**2 / own.noise_scale)
    else:
        U = (models.noise * unit**2).transpose(1, 0, 2).reshape(phi.shape[1], N * d)
        variance = ((np.abs(phi) / own.noise_scale) @ U).reshape(R, N, d)
    low, high = centre, centre
    if models.clip is not None:
        low, high = ((side - centre) / scale for side in models.clip)
    out = np.empty((R, N))
    polynomial_means(
        y.reshape(R, N, d), (own.out_centre - centre) / scale, np.ascontiguousarray(variance),
        low, high, models.clip is not None, basis.parent, basis.last, basis.power,
        max(degree, 1), coef, out,
    )  # fmt: skip
    # What does not depend on s′ is the reward at s′ = 0.
    out += np.asarray(reward(s, a, np.zeros_like(s)))[:, None]
    return out
