"""Mean rewards that are not known exactly, drawn with the models.

    r_i = μ + trend(s) + trend(s′) + state_s + action_a + next_{s′} + pair_{s,a} + last_s + ε_i

`last` is for the transition that ends an episode: what it is worth may depend on where it ended
(trend and state). Every block of effects is normal with a variance of its own; variances and noise
are learned by maximising the evidence (MacKay's fixed point). A pair seen often keeps its own mean;
one seen once leans on what its state, action and next states earn elsewhere. Where rewards are a
function of the transition, noise and the variances that are not needed fall to nothing, and what
was seen is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import cho_solve, solve_triangular

from softrobust._core.arrays import FloatArray, IntArray
from softrobust.data.reward_rules import estimate_rewards, group_rewards

if TYPE_CHECKING:
    from softrobust.data import TransitionLog
    from softrobust.posterior.resemblance import Geometry

FLOOR = 1e-7  # of the variance of rewards: below this a variance is nothing
BLOCKS = 8
STEPS = 20
LARGE = 700  # effects above which fewer steps are taken


@final
@dataclass(frozen=True, slots=True, eq=False)
class Variances:
    """Learned variances: of each block of effects and of the noise."""

    blocks: FloatArray
    noise: float
    freedom: float


@final
@dataclass(frozen=True, slots=True, eq=False)
class RewardPosterior:
    """The mean reward of a transition: u(s, a) + z(s′), and e(s) on top where it is the last.

    Attributes
    ----------
    mean : (n_effects,)
    root : (n_effects, n_effects)
        Cholesky factor of the precision.
    to_pair : (n_states·n_actions, n_effects) sparse
    to_next : (n_states, n_effects) sparse
    to_last : (n_states, n_effects) sparse
    evidence : float
        Log density of the rewards given the variances.
    exact : keys of transitions (s·A + a)·S + s′, ascending, whose reward is known; `values`
    """

    mean: FloatArray
    root: FloatArray
    to_pair: sp.csr_array
    to_next: sp.csr_array
    to_last: sp.csr_array
    exact: IntArray
    values: FloatArray
    variances: Variances
    evidence: float

    @classmethod
    def fit(
        cls, log: TransitionLog, geometry: Geometry, variances: Variances | None = None
    ) -> RewardPosterior:
        """Fit to the rewards of a log; `variances` learned on a larger one may be given."""
        y = np.asarray(log.reward, dtype=np.float64)
        (to_pair, to_next, to_last), block = _effects(log, geometry)
        pair = log.s.astype(np.int64) * log.n_actions + log.a
        X = sp.csr_array(to_pair[pair] + to_next[log.s_next])
        if log.end is not None:
            ends = sp.diags_array((log.s_next == log.end).astype(np.float64))
            X = sp.csr_array(X + ends @ to_last[log.s])
        gram, target = np.asarray((X.T @ X).todense()), np.asarray(X.T @ y)
        scale = max(float(y.var()), 1e-12 * max(float(np.abs(y).max()) ** 2, 1e-200))
        if variances is None:
            variances = _evidence(gram, target, float(y @ y), y.size, block, scale)
        root, mean = _solve(gram, target, variances, block)
        evidence = -0.5 * (
            y.size * np.log(2 * np.pi * variances.noise)
            + 2 * float(np.log(np.diag(root)).sum())
            + float(np.log(variances.blocks[block]).sum())
            + (float(y @ y) - float(mean @ target)) / variances.noise
        )
        keys, values = _exact(log, pair, y)
        return cls(mean, root, to_pair, to_next, to_last, keys, values, variances, evidence)

    def draws(self, n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray, FloatArray]:
        """u (n, n_pairs), z (n, n_states) and e (n, n_states) of `n` draws."""
        noise = rng.standard_normal((self.mean.size, n))
        spread = np.sqrt(self.variances.freedom / rng.chisquare(self.variances.freedom, n))
        effects = self.mean[:, None] + solve_triangular(self.root.T, noise, lower=False) * spread
        return self._parts(effects)

    def means(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """u, z and e of the mean, as one draw."""
        return self._parts(self.mean[:, None])

    def _parts(self, effects: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        u, z, e = (
            np.asarray((to @ effects).T) for to in (self.to_pair, self.to_next, self.to_last)
        )
        return u, z, e

    def known(self, keys: IntArray) -> tuple[NDArray[np.bool_], FloatArray]:
        """Which transitions (s·A + a)·S + s′ have an exact reward, and that reward."""
        if not self.exact.size:
            return np.zeros(keys.size, dtype=bool), np.zeros(keys.size)
        at = np.minimum(np.searchsorted(self.exact, keys), self.exact.size - 1)
        hit = self.exact[at] == keys
        return np.asarray(hit), np.where(hit, self.values[at], 0.0)


def drawn_rewards(log: TransitionLog) -> bool:
    """Whether the rewards are those of the log's column, so that they are estimates."""
    if log.reward is None or log.rewards is None:
        return log.reward is not None
    own = estimate_rewards(log.s, log.a, log.s_next, log.reward, log.states, log.actions, log.end)
    return own.kind == log.rewards.kind and np.array_equal(own.values, log.rewards.values)


def _exact(log: TransitionLog, pair: IntArray, y: FloatArray) -> tuple[IntArray, FloatArray]:
    """Transitions and their rewards, where equal transitions always had equal rewards."""
    keys, place, n = np.unique(
        pair * log.n_states + log.s_next, return_inverse=True, return_counts=True
    )
    groups = group_rewards(place, y, keys.size)
    if n.max() == 1 or not groups.agree(float(np.abs(y).max(initial=0.0))).all():
        return np.zeros(0, dtype=np.int64), np.zeros(0)
    return keys, groups.mean


def _effects(log: TransitionLog, geometry: Geometry) -> tuple[list[sp.csr_array], NDArray[np.intp]]:
    """Designs of pairs, of next states and of last steps, and the block of every effect."""
    S, A = log.shape
    every = np.arange(S * A)
    seen = np.flatnonzero(np.asarray(log.pair_counts).reshape(-1) > 0)
    trend = np.zeros((S, 0))
    if geometry.has_coordinates:
        width = np.maximum(geometry.sizes - 1, 1)
        trend = np.where(geometry.placed[:, None], geometry.ranks / width - 0.5, 0.0)
        trend = trend[:, geometry.numeric]
    last = np.concatenate([trend, np.eye(S)], axis=1)
    if log.end is None:
        last = last[:, :0]
    one, d, own = np.ones((S * A, 1)), trend.shape[1], np.zeros((S * A, seen.size))
    own[seen, np.arange(seen.size)] = 1.0
    state, action = np.eye(S)[every // A], np.eye(A)[every % A]
    sizes = [1, d, S, A, seen.size, d, S, last.shape[1]]
    pairs = [one, trend[every // A], state, action, own, np.zeros((S * A, sum(sizes[5:])))]
    nexts = [np.zeros((S, sum(sizes[:5]))), trend, np.eye(S), np.zeros((S, sizes[7]))]
    lasts = [np.zeros((S, sum(sizes[:7]))), last]
    designs = [sp.csr_array(np.concatenate(part, axis=1)) for part in (pairs, nexts, lasts)]
    return designs, np.repeat(np.arange(BLOCKS), sizes)


def _solve(
    gram: FloatArray, target: FloatArray, v: Variances, block: NDArray[np.intp]
) -> tuple[FloatArray, FloatArray]:
    """Cholesky factor of the precision, and the mean."""
    precision = gram / v.noise
    precision[np.diag_indices_from(precision)] += 1.0 / v.blocks[block]
    root = np.asarray(np.linalg.cholesky(precision), dtype=np.float64)
    return root, np.asarray(cho_solve((root, True), target / v.noise))


def _evidence(
    gram: FloatArray, target: FloatArray, square: float, n: int, block: NDArray[np.intp],
    scale: float,
) -> Variances:  # fmt: skip
    """Variances that maximise the evidence; the intercept's is wide and fixed."""
    floor, size = FLOOR * scale, np.bincount(block, minlength=BLOCKS)
    wide = 1e4 * (scale + square / n)
    blocks = np.full(BLOCKS, 0.25 * scale)
    blocks[0] = wide
    v = Variances(blocks, 0.25 * scale, max(n / 2, 3.0))
    for _ in range(STEPS if block.size <= LARGE else STEPS // 4):
        root, mean = _solve(gram, target, v, block)
        inverse = solve_triangular(root, np.eye(block.size), lower=True)
        spread = np.square(inverse).sum(axis=0)  # the diagonal of the covariance
        spare = np.bincount(block, weights=spread, minlength=BLOCKS) / v.blocks
        used = np.maximum(size - spare, 1e-3)
        blocks = np.maximum(np.bincount(block, weights=mean**2, minlength=BLOCKS) / used, floor)
        blocks[0] = wide
        rest = max(float(square - 2 * mean @ target + mean @ gram @ mean), 0.0)
        freedom = max(n - float(used.sum()), 3.0)
        v = Variances(blocks, max(rest / freedom, floor), freedom)
    return v


__all__ = ["RewardPosterior", "Variances", "drawn_rewards"]
