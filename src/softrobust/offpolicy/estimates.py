"""Off-policy estimates: what a policy would have earned, from episodes that another one produced.

With ρ_t = π(a_t|s_t)/π_b(a_t|s_t) and w_t = ρ_0⋯ρ_t, for episodes i = 1 … n:

    WIS    Σ_i w^i_T G^i / Σ_i w^i_T                       weighted importance sampling
    PDIS   Σ_i Σ_t γ^t w^i_t r^i_t / n                     per-decision importance sampling
    DR     V(s_0) + Σ_t γ^t w_t (r_t + γV(s_{t+1}) − Q(s_t, a_t))     doubly robust (Jiang, Li 2016)
    FQE    p₀ᵀv with v = r_π + γP_π v on the observed frequencies    fitted Q evaluation, tabular

Q and V come from a model, best of all one fitted to other episodes. An episode that was cut off
(its last state is not absorbing) goes on in that model: γ^T V(s_T) is added, weighted as the last
step is, and `tail` says how much weight that has. The effective sample size of the weights is
Kish's (Σw)²/Σw²; below 10 an estimate says nothing, and this module says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from softrobust.certificate.intervals import LEVEL, Estimate
from softrobust.errors import InputError
from softrobust.offpolicy.fqe import fitted_q, row_effective_size
from softrobust.returns import policy_values

if TYPE_CHECKING:
    from softrobust.models.policy import Policy
    from softrobust.offpolicy.episodes import Episodes
    from softrobust.problem import Problem

FloatArray = NDArray[np.float64]
LEAST_SIZE = 10.0  # effective episodes below which an estimate cannot tell
RESAMPLES = 1000


@final
@dataclass(frozen=True, slots=True)
class OffPolicy:
    """One estimate of a policy's return.

    Attributes
    ----------
    name : str
    estimate : Estimate
        With a bootstrap interval over episodes.
    effective_size : float
        Of the weights, in episodes (in rows for FQE).
    tail : float
        Average discount at which the model takes over from the data.
    unsupported : float
        Average probability that the policy gives to actions never seen in the states visited.
    """

    name: str
    estimate: Estimate
    effective_size: float
    tail: float
    unsupported: float

    @property
    def can_tell(self) -> bool:
        """Whether the effective sample size is large enough to say anything."""
        return self.effective_size >= LEAST_SIZE

    def words(self) -> str:
        """The estimate, or "cannot tell" with the reason."""
        if not self.can_tell:
            return f"cannot tell (effective sample size {self.effective_size:.1f}, below 10)"
        e = self.estimate
        span = "" if e.low is None or e.high is None else f" [{e.low:.4g}, {e.high:.4g}]"
        return f"{e.value:.4g}{span} (effective sample size {self.effective_size:.0f})"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        e = self.estimate
        return {
            "name": self.name,
            "value": e.value if np.isfinite(e.value) else None,  # no weight, no estimate
            "low": e.low,
            "high": e.high,
            "effective_size": self.effective_size,
            "tail": self.tail,
            "unsupported": self.unsupported,
            "can_tell": self.can_tell,
        }


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Weights:
    """w_t (n_episodes, longest), constant after the end of an episode, and its last value."""

    w: FloatArray
    last: FloatArray


def off_policy(
    problem: Problem,
    policy: Policy,
    episodes: Episodes,
    behaviour: FloatArray,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> tuple[OffPolicy, ...]:
    """WIS, PDIS, DR and FQE of a policy.

    Parameters
    ----------
    problem : Problem
        Its mean model serves as Q and V (DR), and where an episode was cut off. Fit it to other
        episodes than these, else DR and FQE lean on the same data twice.
    behaviour : (n_states, n_actions)
        π_b(a|s), positive wherever the episodes show an action.
    """
    mean = problem.mean_problem()
    v = policy_values(mean, policy)[0]
    q = _action_values(mean, v)
    weights = _ratios(policy.probs, behaviour, episodes)
    gamma, n = problem.gamma, len(episodes)
    discount = episodes.discounts(gamma)
    after = gamma**episodes.lengths * v[episodes.last_state]
    scores = {
        "WIS": episodes.returns(gamma) + after,
        "PDIS": (weights.w * episodes.reward) @ discount + weights.last * after,
        "DR": _doubly_robust(episodes, weights.w, q, v, gamma),
    }
    size = float(weights.last.sum() ** 2 / max(np.square(weights.last).sum(), 1e-300))
    ended = np.asarray(mean.models.sinks)[episodes.last_state]
    tail = float(np.mean(np.where(ended, 0.0, gamma**episodes.lengths)))
    lost = _unsupported(policy.probs, behaviour, episodes)
    draws = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=resamples)
    out = []
    for name, score in scores.items():
        weight = weights.last if name == "WIS" else np.ones(n)
        out.append(OffPolicy(name, _ratio(score, weight, draws), size, tail, lost))
    fitted = _interval(*fitted_q(mean, policy, episodes, seed))
    rows = row_effective_size(mean, policy, episodes)
    return (*out, OffPolicy("FQE", fitted, rows, 0.0, lost))


def _action_values(mean: Problem, v: FloatArray) -> FloatArray:
    """Q[s, a] = R + γPv in the mean model."""
    from softrobust.returns.gradient import action_values

    return np.asarray(action_values(mean, v[None, :])[0])


def _ratios(target: FloatArray, behaviour: FloatArray, episodes: Episodes) -> _Weights:
    taken = behaviour[episodes.s, episodes.a]
    bad = np.argwhere(episodes.live & ~(taken > 0))
    if bad.size:
        i, t = bad[0]
        raise InputError(
            "The behaviour policy must give every observed action a positive probability: it gives "
            f"0 to the action taken at step {t} of episode {i}. Estimate it from the same log."
        )
    ratio = np.where(episodes.live, target[episodes.s, episodes.a] / np.maximum(taken, 1e-300), 1.0)
    w = np.asarray(np.cumprod(ratio, axis=1), dtype=np.float64)
    return _Weights(w, w[:, -1])


def _doubly_robust(
    episodes: Episodes, w: FloatArray, q: FloatArray, v: FloatArray, gamma: float
) -> FloatArray:
    """The score of every episode; its tail cancels: the last γV(s_T) is the model's own."""
    surprise = episodes.reward + gamma * v[episodes.s_next] - q[episodes.s, episodes.a]
    surprise = np.where(episodes.live, surprise, 0.0)
    return np.asarray(v[episodes.s[:, 0]] + (w * surprise) @ episodes.discounts(gamma))


def _unsupported(target: FloatArray, behaviour: FloatArray, episodes: Episodes) -> float:
    missing = (target * (behaviour <= 0)).sum(axis=1)
    return float(missing[episodes.s[episodes.live]].mean())


def _ratio(score: FloatArray, weight: FloatArray, draws: NDArray[np.int64]) -> Estimate:
    """Σ w·score/Σ w with a percentile bootstrap over episodes."""
    total = float(weight.sum())
    if total <= 0:
        return Estimate(float("nan"), None, None)
    value = float(weight @ score) / total
    below = draws @ weight
    usable = below > 0
    return _interval(value, (draws[usable] @ (weight * score)) / below[usable])


def _interval(value: float, resampled: FloatArray) -> Estimate:
    if resampled.size < 2:
        return Estimate(value, None, None)
    low, high = np.quantile(resampled, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(value, float(min(low, value)), float(max(high, value)))
