"""How much hidden confounding would overturn the choice: the marginal sensitivity model.

Whoever acted may have seen more than the log shows. If the odds of an action given everything seen
differ from the odds given the state alone by at most a factor Λ (Tan 2006), the rows of a pair may
be reweighted by any w with mean 1 and

    e + (1 − e)/Λ  ≤  w  ≤  e + (1 − e)·Λ,        e = π_b(a|s).

The least value of a policy over all such reweightings, each pair for itself, is a robust MDP whose
inner problem is a greedy one: next states in ascending order of z = r + γv get the largest weight
until the mean is used up (Bruns-Smith and Zhou 2023). The tipping point Λ* is where that least
value falls to what current practice earns, which needs no counterfactual. With a horizon nature may
reweight anew at every step, and its least value is a backward recursion. Not covered: confounders
that carry over from step to step, mismeasured states or rewards, and practice that changed.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from softrobust._core.arrays import FloatArray
from softrobust.data import TransitionLog
from softrobust.errors import InputError, SolverError
from softrobust.problem import Problem
from softrobust.returns.evaluation import AnyPolicy, rules_of
from softrobust.solvers.baselines.behaviour import unmasked

MOST = 100.0  # no study would call odds off by more than this plausible
ROUNDS = 200
SETTLED = 1e-9  # relative change between two rounds of nature's policy iteration
DENSE_STATES = 3000
REWARD_LEVELS = 20  # outcomes of one transition that differ in reward
WIDTH = 1e-3  # of Λ*, relative


@final
@dataclass(frozen=True, slots=True)
class Confounding:
    """The tipping point, and the values it rests on, all in the mean model."""

    # Λ*; 1 if the policy is no better even without confounding, None if Λ = 100 does not do
    tipping: float | None
    # value, practice: return of the policy without confounding, and of current practice
    value: float
    practice: float
    at_two: float  # least return of the policy at Λ = 2

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)


def tipping_point(
    problem: Problem,
    policy: AnyPolicy,
    practice: AnyPolicy,
    behaviour: FloatArray,
    log: TransitionLog | None = None,
) -> Confounding:
    """Λ* for a policy against current practice.

    Parameters
    ----------
    behaviour : (n_states, n_actions)
        π_b(a|s); a pair never seen has e = 0, so that nature has the widest choice there.
    log : TransitionLog, optional
        Where rewards vary within a pair, its rows let nature choose among rewards too.
    """
    if problem.n_states > DENSE_STATES:
        raise InputError(
            f"The check for hidden confounding solves dense systems, up to {DENSE_STATES} states; "
            f"there are {problem.n_states}. Leave it out, or merge states."
        )
    mean = unmasked(problem).mean_problem()
    rows = _Rows.of(problem, mean, behaviour, log)
    value = rows.least_value(policy, 1.0)
    earned = rows.least_value(practice, 1.0)
    at_two = rows.least_value(policy, 2.0)
    if value <= earned:
        return Confounding(1.0, value, earned, at_two)
    if rows.least_value(policy, MOST) > earned:
        return Confounding(None, value, earned, at_two)
    low, high = 1.0, MOST
    while high / low > 1 + WIDTH:
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if rows.least_value(policy, middle) > earned else (low, middle)
    return Confounding(low, value, earned, at_two)  # the smaller end: never claims too much


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Mean transition rows, padded: next states, probabilities, rewards, and e for every pair."""

    mean: Problem
    next_states: NDArray[np.int64]
    p: FloatArray
    r: FloatArray
    e: FloatArray

    @classmethod
    def of(
        cls,
        problem: Problem,
        mean: Problem,
        behaviour: FloatArray,
        log: TransitionLog | None = None,
    ) -> _Rows:
        S, A, models = mean.n_states, mean.n_actions, mean.models
        count = np.diff(models.indptr)
        pair = np.repeat(np.arange(S * A, dtype=np.int64), count)
        to, p = np.asarray(models.next_states, dtype=np.int64), np.asarray(models.prob)
        # Rewards by next state where they are known so; else the pair's expected reward.
        r = np.repeat(mean.R[:, :, 0].reshape(-1), count)
        if problem.rewards.kind in ("next", "triple"):
            value, known = problem.rewards.lookup(pair, models.next_states)
            live = known & ~np.asarray(models.sinks)[pair // A]
            r = np.where(live, value, r)
        elif log is not None and log.reward is not None and problem.rewards.kind == "pair":
            pair, to, p, r = _split_by_reward(pair, to, p, r, log)
        width = np.bincount(pair, minlength=S * A)
        column = np.arange(pair.size) - np.repeat(np.cumsum(width) - width, width)
        shape = (S * A, max(int(width.max()), 1))
        next_states, prob, reward = np.zeros(shape, np.int64), np.zeros(shape), np.zeros(shape)
        next_states[pair, column], prob[pair, column], reward[pair, column] = to, p, r
        return cls(mean, next_states, prob, reward, np.asarray(behaviour).reshape(-1))

    def least_value(self, policy: AnyPolicy, odds: float) -> float:
        """p₀ᵀv of the policy under nature's worst reweighting, by nature's policy iteration."""
        mean = self.mean
        S, A, gamma = mean.n_states, mean.n_actions, mean.gamma
        low = self.e + (1 - self.e) / odds
        high = self.e + (1 - self.e) * odds
        v, rules = np.zeros(S), rules_of(policy)
        if mean.horizon is not None:
            for t in range(mean.horizon - 1, -1, -1):
                z = self.r + gamma * v[self.next_states]
                q = (self._worst(z, low, high) * z).sum(axis=1).reshape(S, A)
                v = (rules[min(t, len(rules) - 1)] * q).sum(axis=1)
            return float(mean.p0 @ v)
        for _ in range(ROUNDS):
            q = self._worst(self.r + gamma * v[self.next_states], low, high)
            P = np.zeros((S, S))
            weight = rules[0].reshape(-1)[:, None] * q
            np.add.at(P, (np.repeat(np.arange(S), A)[:, None], self.next_states), weight)
            r = (weight * self.r).sum(axis=1).reshape(S, A).sum(axis=1)
            fresh = np.linalg.solve(np.eye(S) - gamma * P, r)
            change, v = float(np.abs(fresh - v).max()), fresh
            if change <= SETTLED * max(float(np.abs(v).max()), 1e-300):
                return float(mean.p0 @ v)
        raise SolverError("Nature's policy iteration did not settle in 200 rounds.")

    def _worst(self, z: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """Probabilities p·w of the least Σ p·w·z with low ≤ w ≤ high and Σ p·w = Σ p."""
        order = np.argsort(np.where(self.p > 0, z, np.inf), axis=1)
        p = np.take_along_axis(self.p, order, axis=1)
        room = (high - low)[:, None] * p
        spare = p.sum(axis=1, keepdims=True) * (1 - low)[:, None]
        used = np.clip(spare - (np.cumsum(room, axis=1) - room), 0.0, room)
        q = np.empty_like(p)
        np.put_along_axis(q, order, low[:, None] * p + used, axis=1)
        return q


def _split_by_reward(
    pair: NDArray[np.int64], to: NDArray[np.int64], p: FloatArray, r: FloatArray, log: TransitionLog
) -> tuple[NDArray[np.int64], NDArray[np.int64], FloatArray, FloatArray]:
    """Every (pair, next state) as its rewards in the log, which a hidden cause may drive, too."""
    assert log.reward is not None
    own = log.s.astype(np.int64) * log.n_actions + log.a
    order = np.lexsort((log.reward, own))
    keys, rewards, nexts = own[order], np.asarray(log.reward)[order], log.s_next[order]
    rows: list[tuple[int, int, float, float]] = []
    for k, s_next, share, mean in zip(pair, to, p, r, strict=True):
        lo, hi = np.searchsorted(keys, [k, k + 1])
        seen = rewards[lo:hi][nexts[lo:hi] == s_next]
        seen = rewards[lo:hi] if seen.size == 0 else seen
        if seen.size == 0 or seen[0] == seen[-1]:
            rows.append((int(k), int(s_next), float(share), float(seen[0]) if seen.size else mean))
            continue
        for part in np.array_split(seen, min(REWARD_LEVELS, seen.size)):
            weight = float(share) * part.size / seen.size
            rows.append((int(k), int(s_next), weight, float(part.mean())))
    k_, to_, p_, r_ = (np.array(values) for values in zip(*rows, strict=True))
    return k_.astype(np.int64), to_.astype(np.int64), p_, r_
