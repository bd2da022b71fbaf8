"""All that a log leaves uncertain, in one sample: transitions, mean rewards and starts.

    ω ↦ (P^ω, R^ω, p₀^ω),      ρ(π, ω) = Σ_s p₀^ω(s)·v^ω_π(s)

Transitions come from `LearnedPosterior`. Mean rewards come from `RewardPosterior` where the log has
a column of rewards, and are taken as given elsewhere. Starts are drawn from their Dirichlet where
p₀ is the share of episode starts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import final

import numpy as np
from numpy.typing import NDArray

from softrobust._core.arrays import BoolArray, FloatArray, IntArray, read_only, refuse_if_too_large
from softrobust._core.limits import chunks, time_bound
from softrobust.data import TransitionLog
from softrobust.kernels.evaluate import (
    action_values,
    evaluate_each,
    evaluate_models,
    evaluate_sparse,
    horizon_flows,
    horizon_values_dense,
    policy_matrix,
    policy_sparsity,
    simulate,
)
from softrobust.models.model_set import ModelSet
from softrobust.posterior.learned import ENTERED, FittedLearned, LearnedPosterior, Parts
from softrobust.posterior.resemblance import Geometry
from softrobust.posterior.reward_draws import RewardPosterior, Variances

SMALL = 96  # states up to which the kernel beats LAPACK
SPARSE_STATES, SPARSE_SHARE = 200, 0.1  # from here, up to this share of states in a row: iterate,
SPARSE_ERROR = 1e-9  # to this error, of the largest value,
STEP_BYTES = 2**28  # of values at every step, of as many models as are followed at a time
BLOCK = 4  # models between two looks at the clock


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Belief:
    """N draws of what the log leaves open, and their mean."""

    fitted: FittedLearned
    gamma: float
    # (nnz · N,): rows of the models, laid out as `ModelSet.prob` over the cells of `fitted`
    prob: FloatArray
    R: FloatArray  # (n_states, n_actions, N): expected rewards
    p0: FloatArray  # (N, n_states)
    # mean_prob, mean_rewards, mean_p0: the posterior means: (nnz,), (n_states, n_actions),
    # (n_states,)
    mean_prob: FloatArray
    mean_rewards: FloatArray
    mean_p0: FloatArray
    # (n_states·n_actions + 1,): cells of every pair; a pair without any has no model
    indptr: IntArray
    next_states: NDArray[np.int32]
    parts: Parts
    horizon: int | None = None  # steps of an episode; values are then those of its start

    @classmethod
    def of(
        cls,
        log: TransitionLog,
        gamma: float,
        n: int,
        seed: int | np.random.Generator = 0,
        geometry: Geometry | None = None,
        variances: Variances | None = None,
        settings: LearnedPosterior | None = None,
        horizon: int | None = None,
    ) -> Belief:
        """Fit everything to a log and draw `n` times."""
        rng = np.random.default_rng(seed)
        settings = LearnedPosterior(entered=ENTERED) if settings is None else settings
        fitted = settings.fit(log, geometry, variances)
        prob = fitted.draws(n, rng)
        parts = fitted.reward_parts(n, rng)
        R = fitted.expected_rewards(prob, parts)
        mean_prob = fitted.mean_rows()
        mean_rewards = fitted.expected_rewards(mean_prob, fitted.reward_parts(1))[:, :, 0]
        widths = np.zeros(log.n_states * log.n_actions, dtype=np.int64)
        widths[fitted.rows] = np.diff(fitted.indptr)
        p0 = np.tile(log.p0, (n, 1))
        if log.episode is not None:
            first = np.unique(log.episode, return_index=True)[1]
            starts = np.bincount(log.s[first], minlength=log.n_states).astype(np.float64)
            live = starts > 0
            if np.allclose(starts / starts.sum(), log.p0, atol=1e-12):  # p₀ is their share
                g = rng.standard_gamma(starts[live], size=(n, int(live.sum())))
                p0[:, live] = g / g.sum(axis=1, keepdims=True)
        return cls(
            fitted, gamma, prob, R, p0, mean_prob, mean_rewards, np.asarray(log.p0),
            np.concatenate([[0], np.cumsum(widths)]), fitted.columns.astype(np.int32),
            parts, horizon,
        )  # fmt: skip

    @property
    def n_models(self) -> int:
        """N."""
        return int(self.p0.shape[0])

    @property
    def rewards(self) -> RewardPosterior | None:
        """None where rewards were given."""
        return self.fitted.rewards

    @property
    def available(self) -> BoolArray:
        """(n_states, n_actions): pairs that have a model."""
        shape = self.mean_rewards.shape
        return np.asarray((np.diff(self.indptr) > 0).reshape(shape))

    def values(self, probs: FloatArray) -> FloatArray:
        """(N, n_states): v^ω of a policy (n_states, n_actions), or of one per model."""
        if self.horizon is not None:
            return np.asarray(self._over_steps(self.prob, self.R, probs, 1)[0])
        each = "nsa" if probs.ndim == 3 else "sa"
        v = np.ascontiguousarray(np.einsum(f"{each},san->ns", probs, self.R))
        if probs.ndim == 3 and v.shape[1] <= SMALL:
            fixed = read_only(self.indptr, self.next_states, self.prob, probs)
            evaluate_each(*fixed, self.R, self.gamma, v)
            return v
        return self._solved(self.prob, probs, v)

    def returns(self, probs: FloatArray) -> FloatArray:
        """(N,): ρ(π, ω) of a policy, or of one per model."""
        return np.asarray((self.values(probs) * self.p0).sum(axis=1))

    def q_values(self, probs: FloatArray) -> FloatArray:
        """(n_states, n_actions, N): R + γ·P^ω v^ω of a policy; 0 for pairs without a model.

        With a horizon they are averages over the steps, as often as the policy is in the state at
        each of them in the mean model: it does the same at all.
        """
        if self.horizon is not None:
            return self._average_q(self.prob, self.R, probs)
        out = np.zeros_like(self.R)
        kept = (self.indptr, self.next_states, self.prob, self.R)
        action_values(*kept, self.gamma, self.values(probs), out)
        return out

    def mean_values(self, probs: FloatArray) -> FloatArray:
        """(n_states,): v_π in the mean model."""
        if self.horizon is not None:
            rewards = self.mean_rewards[:, :, None]
            return np.asarray(self._over_steps(self.mean_prob, rewards, probs, 1)[0, 0])
        v = (probs * self.mean_rewards).sum(axis=1)[None].copy()
        return np.asarray(self._solved(self.mean_prob, probs, v)[0])

    def mean_ahead(self, probs: FloatArray) -> FloatArray:
        """(n_states,): what is still to be earned in the mean model after a step, on average."""
        if self.horizon is None:
            return self.mean_values(probs)
        rewards = self.mean_rewards[:, :, None]
        V = self._over_steps(self.mean_prob, rewards, probs, self.horizon + 1)
        return np.asarray(V[1:, 0].mean(axis=0))

    def mean_visits(self, probs: FloatArray) -> FloatArray:
        """(n_states,): Σ_t γ^t P(s_t = s) of a policy in the mean model."""
        if self.horizon is not None:
            return np.asarray(self._mean_flows(probs).sum(axis=0))
        S = probs.shape[0]
        P = np.empty((S, S))
        policy_matrix(self.indptr, self.next_states, self.mean_prob, 1, 0, probs, P)
        return np.asarray(np.linalg.solve((np.eye(S) - self.gamma * P).T, self.mean_p0))

    def mean_q(self, probs: FloatArray) -> FloatArray:
        """(n_states, n_actions): action values in the mean model; −∞ without a model."""
        rewards = np.ascontiguousarray(self.mean_rewards[:, :, None])
        if self.horizon is not None:
            out = self._average_q(self.mean_prob, rewards, probs)
        else:
            out, v = np.zeros_like(rewards), self.mean_values(probs)[None]
            kept = (self.indptr, self.next_states, self.mean_prob, rewards)
            action_values(*kept, self.gamma, v, out)
        return np.where(self.available, out[:, :, 0], -np.inf)

    def _solved(self, prob: FloatArray, probs: FloatArray, v: FloatArray) -> FloatArray:
        """v (N, S) ← (I − γP^ω_π)⁻¹ v^ω, of one policy or of one per model."""
        N, S = v.shape
        if S <= SMALL:
            fixed = read_only(self.indptr, self.next_states, prob, probs)
            evaluate_models(False, 0, N, *fixed, self.gamma, v, np.zeros((N, S)))
            return v

        def own(omega: int) -> FloatArray:
            return np.asarray(probs if probs.ndim == 2 else probs[omega])

        def direct(omega: int, r: FloatArray) -> FloatArray:
            P = np.empty((S, S))
            policy_matrix(self.indptr, self.next_states, prob, N, omega, own(omega), P)
            return np.asarray(np.linalg.solve(np.eye(S) - self.gamma * P, r))

        width = max(float(np.diff(self.indptr).max(initial=0)), 1.0)
        if S < SPARSE_STATES or width > SPARSE_SHARE * S:
            for omega in range(N):
                time_bound().check()
                v[omega] = direct(omega, v[omega])
            return v
        r, h, reached = v.copy(), np.zeros((1, 1)), np.zeros((N, 2))
        step, share = 1 if probs.ndim == 3 else BLOCK, (1 - self.gamma) * SPARSE_ERROR
        for first in range(0, N, step):
            time_bound().check()
            rows, columns = policy_sparsity(self.indptr, self.next_states, own(first))
            evaluate_sparse(
                True, first, min(first + step, N), self.indptr, prob, rows, columns, own(first),
                self.gamma, share, False, v, h, reached,
            )  # fmt: skip
        for omega in map(int, np.flatnonzero(~(reached[:, 0] <= share))):
            v[omega] = direct(omega, r[omega])
        return v

    def _over_steps(
        self, prob: FloatArray, R: FloatArray, probs: FloatArray, kept: int
    ) -> FloatArray:
        """(kept, N, n_states): v_t of a policy, or of one per model; 1 keeps v_0 alone."""
        (S, _, N), H = R.shape, self.horizon
        refuse_if_too_large(8.0 * kept * N * S, "Values at every step", "Use a shorter horizon.")
        V, where = np.empty((kept, N, S)), (self.indptr, self.next_states)
        rules = np.ascontiguousarray(probs if probs.ndim == 3 else probs[None])
        for part in chunks(N):
            time_bound().check()
            ends = (part.start, part.stop)
            horizon_values_dense(False, *ends, *where, prob, rules, R, self.gamma, H, V)
        return V

    def _mean_flows(self, probs: FloatArray) -> FloatArray:
        """(horizon, n_states): γ^t P(s_t = s) of a policy in the mean model."""
        assert self.horizon is not None
        b = np.empty((self.horizon, 1, probs.shape[0]))
        b[0] = self.mean_p0
        horizon_flows(False, 0, 1, self.indptr, self.next_states, self.mean_prob, probs[None], b)
        return np.asarray(b[:, 0] * self.gamma ** np.arange(self.horizon)[:, None])

    def _average_q(self, prob: FloatArray, R: FloatArray, probs: FloatArray) -> FloatArray:
        assert self.horizon is not None
        (S, A, N), H = R.shape, self.horizon
        weights = self._mean_flows(probs)
        weights += 1e-12 * weights.sum() / weights.size  # a state that is not reached: all alike
        share, ahead = (weights / weights.sum(axis=0)).T, np.empty((S, N, S))
        step = max(1, int(STEP_BYTES / (8.0 * (H + 1) * S)))  # models whose steps are kept
        ends = list(pairwise(self.indptr.tolist()))
        for lo in range(0, N, step):
            own, some = prob, slice(lo, lo + step)
            if step < N:
                cells = [prob[i * N : j * N].reshape(N, j - i)[some].ravel() for i, j in ends]
                own = np.concatenate(cells)
            V = self._over_steps(own, R[:, :, some], probs, H + 1)[1:]
            ahead[:, some] = (share @ V.reshape(H, -1)).reshape(S, -1, S)
        out = np.zeros_like(R)
        for k in np.flatnonzero(np.diff(self.indptr)):
            lo, hi = self.indptr[k], self.indptr[k + 1]
            block = prob[lo * N : hi * N].reshape(N, hi - lo)
            listed, (s, a) = self.next_states[lo:hi], divmod(int(k), A)
            out[s, a] = R[s, a] + self.gamma * (block * ahead[s][:, listed]).sum(axis=1)
        return out

    def models(self) -> ModelSet:
        """The draws as a `ModelSet` with their rewards, for any solver.

        A set of models has one p₀, which is the mean of the drawn ones.
        """
        drawn = self.fitted.paid(self.prob, self.n_models, self.R)
        return replace(drawn, p0=self.mean_p0, gamma=self.gamma)

    def rehearse(self, omega: int, practice: FloatArray, rng: np.random.Generator) -> TransitionLog:
        """A log like the one fitted, as practice would have made it in model ω."""
        log, fitted = self.fitted.log, self.fitted
        starts, lengths = np.array([log.s[0]], dtype=np.int64), np.array([log.n_rows])
        if log.episode is not None:
            _, first, lengths = np.unique(log.episode, return_index=True, return_counts=True)
            starts = log.s[first].astype(np.int64)
            if log.end is not None:  # each may run as long as any did
                lengths = np.full_like(lengths, lengths.max())
        out = np.empty((int(lengths.sum()), 4), dtype=np.int64)
        end = -1 if log.end is None else log.end
        n = simulate(
            rng, self.indptr, self.next_states, self.prob, self.n_models, omega, practice,
            starts, lengths, end, out,
        )  # fmt: skip
        episode, s, a, s_next = (out[:n, j].astype(np.int32) for j in range(4))
        reward = None
        if self.rewards is not None:
            place = np.full(log.n_states * log.n_actions, -1)
            place[fitted.rows] = np.arange(fitted.rows.size)
            pair = s.astype(np.int64) * log.n_actions + a
            row = place[pair]
            reward = self.parts[0][row, omega] + self.parts[1][omega, s_next]
            reward += np.where(s_next == end, self.parts[2][omega, s], 0.0)
            exact, value = self.rewards.known(pair * log.n_states + s_next)
            reward = np.where(exact, value, reward + self.rewards.noise(pair, rng))
        return replace(
            log, s=s, a=a, s_next=s_next, reward=reward,
            episode=None if log.episode is None else episode,
        )  # fmt: skip
