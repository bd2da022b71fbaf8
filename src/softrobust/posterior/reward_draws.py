"""Mean rewards that are not known exactly, drawn with the models.

    r_i = μ + trend(s) + trend_a(s) + trend(s′) + state_s + action_a + next_{s′} + pair_{s,a}
            + last_s + ε_i

`last` is for the transition that ends an episode: what it is worth may depend on where it ended
(trend and state). Every block of effects is normal with a variance of its own; variances and noise
are learned by maximising the evidence (MacKay's fixed point). A pair seen often keeps its own mean;
one seen once leans on what its state, action and next states earn elsewhere. Where rewards are a
function of the transition, noise and the variances that are not needed fall to nothing, and what
was seen is exact. Rare rewards far from all others are events with a rate, where that makes the
log's rewards likelier as a whole (`reward_events`).

The effects are taught by the busy pairs; a pair elsewhere may be an exception (a border, a full
store), and must be able to say so: with probability `DOUBT`, more or less by what it showed itself,
it has a deviation of its own, as large as pairs differ.

With thousands of effects nothing is factorised: systems are solved by conjugate gradients, traces
are those of random probes, and a draw is the solution for data and prior that are drawn anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import cho_solve, solve_triangular
from scipy.special import expit

from softrobust._core.arrays import FloatArray, IntArray, Sealed, counted, found_at
from softrobust._core.limits import time_bound
from softrobust.data import TransitionLog
from softrobust.data.reward_rules import group_rewards
from softrobust.posterior.resemblance import Geometry
from softrobust.posterior.reward_events import NEVER, RewardEvents, event_limits

ALIKE = 1e-20  # of the largest square: below this rewards differ by rounding
FLOOR = 1e-7  # of the variance of rewards: below this a variance is nothing
BLOCKS = 9
STEPS = 20
DOUBT = 0.1  # share of pairs that may be exceptions
LARGE = 700  # effects above which fewer steps are taken,
HUGE = 1500  # and above which nothing is factorised
PROBES, ROUNDS, CLOSE = 16, 300, 1e-6  # random vectors of a trace; steps and residual of a solve


@final
@dataclass(frozen=True, slots=True, eq=False)
class Variances(Sealed):
    """Learned variances: of each block of effects, of the noise, and of exceptions.

    Rewards below `low` and above `high` are events, and have no part in the others.
    """

    blocks: FloatArray
    noise: float
    freedom: float
    apart: float = 0.0
    low: float = -NEVER
    high: float = NEVER

    def numbers(self) -> FloatArray:
        """All of them in one array, for `of_numbers`."""
        return np.concatenate([
            [self.noise, self.freedom, self.apart, self.low, self.high], self.blocks,
        ])  # fmt: skip

    @classmethod
    def of_numbers(cls, x: FloatArray) -> Variances:
        """Those of `numbers`, or of a folder written before there were events."""
        return cls(x[-BLOCKS:], *map(float, x[:-BLOCKS]))


@final
@dataclass(frozen=True, slots=True, eq=False)
class RewardPosterior(Sealed):
    """The mean reward of a transition: u(s, a) + z(s′), and e(s) on top where it is the last."""

    mean: FloatArray  # (n_effects,)
    # (n_effects, n_effects): Cholesky factor of the precision; None with thousands of effects
    root: FloatArray | None
    # design (n_transitions, n_effects) sparse, times √counts, block (n_effects,): what the mean was
    # solved from
    design: sp.csr_array
    block: NDArray[np.intp]
    to_pair: sp.csr_array  # (n_states·n_actions, n_effects) sparse
    to_next: sp.csr_array  # (n_states, n_effects) sparse
    to_last: sp.csr_array  # (n_states, n_effects) sparse
    # keys of transitions (s·A + a)·S + s′, ascending, whose reward is known; `values`
    exact: IntArray
    values: FloatArray
    # (3, n_pairs): the probability that a pair is an exception; mean and deviation if so
    exceptions: FloatArray
    variances: Variances
    evidence: float  # log density of the rewards given the variances
    events: tuple[RewardEvents, ...] = ()

    @classmethod
    def fit(
        cls, log: TransitionLog, geometry: Geometry, variances: Variances | None = None
    ) -> RewardPosterior:
        """Fit to the rewards of a log; `variances` learned on a larger one may be given."""
        paid = np.asarray(log.reward, dtype=np.float64)
        if variances is not None:
            limits = variances.low, variances.high
            if limits == (-NEVER, NEVER):
                return cls._fit(log, geometry, variances)
            return cls._with_events(log, geometry, limits, variances)
        found, limits = cls._fit(log, geometry), event_limits(paid)
        if limits == (-NEVER, NEVER) or found.exact.size or found.root is None:
            return found
        apart = cls._with_events(log, geometry, limits)
        return apart if apart.evidence > found.evidence else found

    @classmethod
    def _with_events(
        cls, log: TransitionLog, geometry: Geometry, limits: tuple[float, float],
        variances: Variances | None = None,
    ) -> RewardPosterior:  # fmt: skip
        """Rewards beyond the limits as events, the others as they are elsewhere."""
        paid = np.asarray(log.reward, dtype=np.float64)
        sides = [side for side in (paid < limits[0], paid > limits[1]) if side.any()]
        usual = (paid >= limits[0]) & (paid <= limits[1])
        if not usual.any():  # a half of nothing but events
            return cls._fit(log, geometry, variances)
        rest = cls._fit(log.part(usual), geometry, variances)
        u, z, e = rest.means()
        pair = log.s.astype(np.int64) * log.n_actions + log.a
        ends = log.s_next == (-1 if log.end is None else log.end)
        beyond = paid - u[0, pair] - z[0, log.s_next] - np.where(ends, e[0, log.s], 0.0)
        events = tuple(RewardEvents.of(log, side, beyond[side]) for side in sides)
        known = sum(x.evidence(beyond[side]) for x, side in zip(events, sides, strict=True))
        none = np.zeros(0, dtype=np.int64), np.zeros(0)
        return replace(
            rest, events=events, exact=none[0], values=none[1],
            variances=replace(rest.variances, low=limits[0], high=limits[1]),
            evidence=rest.evidence + known,
        )  # fmt: skip

    @classmethod
    def _fit(
        cls, log: TransitionLog, geometry: Geometry, variances: Variances | None = None
    ) -> RewardPosterior:
        paid = np.asarray(log.reward, dtype=np.float64)
        y = paid - paid.mean()  # squares of what all rewards share would drown what they tell
        (to_pair, to_next, to_last), block = _effects(log, geometry)
        S, A = log.shape
        keys, n, place = counted((log.s.astype(np.int64) * A + log.a) * S + log.s_next, S * A * S)
        pair, to = np.divmod(keys, S)  # equal transitions have equal effects: one row for all
        X = sp.csr_array(to_pair[pair] + to_next[to])
        if log.end is not None:
            X = sp.csr_array(X + sp.diags_array(1.0 * (to == log.end)) @ to_last[pair // A])
        X = sp.csr_array(sp.diags_array(np.sqrt(n)) @ X)
        square: Any = sp.csr_array(X.T @ X)
        gram = np.asarray(square.todense()) if block.size <= HUGE else square
        target = np.asarray(X.T @ (np.bincount(place, weights=y) / np.sqrt(n)))
        scale, top = float(y.var()), max(float(np.abs(paid).max()) ** 2, 1e-200)
        scale = scale if scale > ALIKE * top else 1e-12 * top
        learned = variances is None
        if variances is None:
            variances = _evidence(gram, target, float(y @ y), y.size, block, scale)
        root, mean = _solve(gram, target, variances, block)
        fitted = np.sqrt(n) * (X @ mean)  # sums of equal rows, as those of `left`
        left = _by_pair(pair, np.bincount(place, weights=y) - fitted, S * A)
        seen = _by_pair(pair, n, S * A)
        if learned:
            level = _by_pair(pair, fitted, S * A)[seen > 0] / seen[seen > 0]
            variances = replace(variances, apart=float(level.var()))
        odd = _exceptions(left, seen, variances)
        groups = group_rewards(place, paid, keys.size)
        exact = keys, groups.mean  # where equal transitions always had equal rewards
        if n.max() == 1 or not groups.agree(float(np.abs(paid).max(initial=0.0))).all():
            exact = np.zeros(0, dtype=np.int64), np.zeros(0)
        evidence = 0.0  # without a root that of transitions is all that is known
        if root is not None:
            evidence = -0.5 * (
                y.size * np.log(2 * np.pi * variances.noise)
                + 2 * float(np.log(np.diag(root)).sum())
                + float(np.log(variances.blocks[block]).sum())
                + (float(y @ y) - float(mean @ target)) / variances.noise
            )
        mean[0] += paid.mean()  # the intercept
        solved = (mean, root, X, block, to_pair, to_next, to_last)
        return cls(*solved, *exact, odd, variances, evidence)

    def draws(self, n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray, FloatArray]:
        """u (n, n_pairs), z (n, n_states) and e (n, n_states) of `n` draws."""
        noise = rng.standard_normal((self.mean.size, n))
        spread = np.sqrt(self.variances.freedom / rng.chisquare(self.variances.freedom, n))
        if self.root is None:
            v, X = self.variances, self.design
            noise /= np.sqrt(v.blocks[self.block])[:, None]
            noise += X.T @ rng.standard_normal((X.shape[0], n)) / np.sqrt(v.noise)
            apart = _conjugate(sp.csr_array(X.T @ X), v, self.block, noise)
        else:
            apart = solve_triangular(self.root.T, noise, lower=False)
        u, z, e = self._parts(self.mean[:, None] + apart * spread)
        chance, mean, deviation = self.exceptions
        odd = rng.random(u.shape) < chance
        u = u + odd * (mean + deviation * rng.standard_normal(u.shape))
        return u + sum(x.draws(n, rng) for x in self.events), z, e

    def means(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """u, z and e of the mean, as one draw."""
        u, z, e = self._parts(self.mean[:, None])
        u = u + self.exceptions[0] * self.exceptions[1]
        return u + sum(x.rates() * x.size for x in self.events), z, e

    def noises(self) -> FloatArray:
        """(n_pairs,): the variance of a reward about its mean."""
        each = (x.rates() * (1.0 - x.rates()) * x.size**2 for x in self.events)
        return np.asarray(self.variances.noise + np.zeros(self.to_pair.shape[0]) + sum(each))

    def noise(self, pair: IntArray, rng: np.random.Generator) -> FloatArray:
        """(n,): by how much drawn rewards of pairs differ from their means."""
        out = np.sqrt(self.variances.noise) * rng.standard_normal(pair.size)
        for x in self.events:
            rate = x.rates()[pair]
            out += x.size * ((rng.random(pair.size) < rate) - rate)
        return np.asarray(out)

    def _parts(self, effects: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        designs = (self.to_pair, self.to_next, self.to_last)
        u, z, e = (np.asarray((design @ effects).T) for design in designs)
        return u, z, e

    def known(self, keys: IntArray) -> tuple[NDArray[np.bool_], FloatArray]:
        """Which transitions (s·A + a)·S + s′ have an exact reward, and that reward."""
        at, hit = found_at(self.exact, keys)
        return hit, np.where(hit, self.values[at], 0.0) if hit.any() else np.zeros(keys.size)


def drawn_rewards(log: TransitionLog) -> bool:
    """Whether the rewards are those of the log's column, so that they are estimates."""
    if log.reward is None or log.rewards is None:
        return log.reward is not None
    own = log.shown_rewards()
    assert own is not None  # there is a column
    return own.kind == log.rewards.kind and np.array_equal(own.values, log.rewards.values)


def _by_pair(pair: IntArray, x: FloatArray | IntArray, n_pairs: int) -> FloatArray:
    """(n_pairs,): sums."""
    return np.asarray(np.bincount(pair, weights=x, minlength=n_pairs), dtype=np.float64)


def _exceptions(left: FloatArray, seen: FloatArray, v: Variances) -> FloatArray:
    """(3, n_pairs): chance, mean and deviation of a pair's own reward, by what was left."""
    own = v.noise / np.maximum(seen, 1)
    mean = left / np.maximum(seen, 1)
    wide = v.apart + own
    odds = np.log(DOUBT / (1 - DOUBT)) + 0.5 * (np.log(own / wide) + mean**2 * (1 / own - 1 / wide))
    chance = np.where(seen > 0, expit(odds), DOUBT) * (v.apart > 0)
    shrunk = np.where(seen > 0, v.apart / wide * mean, 0.0)
    return np.array([chance, shrunk, np.sqrt(np.where(seen > 0, own * v.apart / wide, v.apart))])


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
    d, unit, flat = trend.shape[1], sp.eye_array(S, format="csr"), sp.csr_array(trend)
    last = [flat, unit] if log.end is not None else []
    own = sp.csr_array((np.ones(seen.size), (seen, np.arange(seen.size))), shape=(S * A, seen.size))
    sizes = [1, d, S, A, A * d, seen.size, d, S, (d + S) * len(last) // 2]
    action = sp.eye_array(A, format="csr")[every % A]
    turned = sp.csr_array(sp.kron(trend, np.eye(A)))  # the trend of every action
    pairs = [sp.csr_array(np.ones((S * A, 1))), flat[every // A], unit[every // A], action, turned,
             own, sp.csr_array((S * A, sum(sizes[6:])))]  # fmt: skip
    nexts = [sp.csr_array((S, sum(sizes[:6]))), flat, unit, sp.csr_array((S, sizes[8]))]
    lasts = [sp.csr_array((S, sum(sizes[:8]))), *last]
    parts: list[list[Any]] = [pairs, nexts, lasts]
    designs = [sp.csr_array(sp.hstack(part)) for part in parts]
    return designs, np.repeat(np.arange(BLOCKS), sizes)


def _solve(
    gram: Any, target: FloatArray, v: Variances, block: NDArray[np.intp]
) -> tuple[FloatArray | None, FloatArray]:
    """Cholesky factor of the precision (None where `gram` is sparse), and the mean."""
    if sp.issparse(gram):
        return None, _conjugate(gram, v, block, (target / v.noise)[:, None])[:, 0]
    precision = gram / v.noise
    precision[np.diag_indices_from(precision)] += 1.0 / v.blocks[block]
    root = np.asarray(np.linalg.cholesky(precision), dtype=np.float64)
    return root, np.asarray(cho_solve((root, True), target / v.noise))


def _conjugate(gram: Any, v: Variances, block: NDArray[np.intp], b: FloatArray) -> FloatArray:
    """x with (gram/noise + 1/blocks)·x = b (n_effects, n), by conjugate gradients."""
    own = 1.0 / v.blocks[block][:, None]
    weight = 1.0 / (gram.diagonal()[:, None] / v.noise + own)
    x, r = np.zeros_like(b), b.copy()
    z = weight * r
    p, rz = z.copy(), (r * z).sum(axis=0)
    least = CLOSE**2 * np.maximum(rz, 1e-300)
    for _ in range(ROUNDS):
        if (rz <= least).all():
            break
        q = gram @ p / v.noise + own * p
        step = rz / np.maximum((p * q).sum(axis=0), 1e-300)
        x += step * p
        r -= step * q
        z = weight * r
        before, rz = rz, (r * z).sum(axis=0)
        p = z + rz / np.maximum(before, 1e-300) * p
    return np.asarray(x)


def _evidence(
    gram: Any, target: FloatArray, square: float, n: int, block: NDArray[np.intp],
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
        if root is None:  # the diagonal of the covariance, by random probes
            signs = np.random.default_rng(0).choice([-1.0, 1.0], (block.size, PROBES))
            spread = (signs * _conjugate(gram, v, block, signs)).mean(axis=1)
        else:
            spread = np.square(solve_triangular(root, np.eye(block.size), lower=True)).sum(axis=0)
        spare = np.bincount(block, weights=spread, minlength=BLOCKS) / v.blocks
        used = np.maximum(size - spare, 1e-3)
        blocks = np.maximum(np.bincount(block, weights=mean**2, minlength=BLOCKS) / used, floor)
        blocks[0] = wide
        rest = max(float(square - 2 * mean @ target + mean @ gram @ mean), 0.0)
        freedom = max(n - float(used.sum()), 3.0)
        v = Variances(blocks, max(rest / freedom, floor), freedom)
        if time_bound().passed:
            time_bound().note("rewards")
            break
    return v
