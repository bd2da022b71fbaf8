"""Fitted Q evaluation for tables: the fixed point of regressing r + γ Σ_a′ π(a′|s′) Q(s′, a′).

On a table the regression is a mean over the rows of a pair, so the fixed point is the policy's
value in the model of observed frequencies, P̃(s′|s,a) = n(s,a,s′)/n(s,a) and r̃(s,a) the mean
reward. Pairs that the episodes lack keep the row of the mean model; `row_effective_size` says how
much the policy depends on pairs that are rare or missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from softrobust.returns import occupancies

if TYPE_CHECKING:
    from softrobust.models.policy import Policy
    from softrobust.offpolicy.episodes import Episodes
    from softrobust.problem import Problem

FloatArray = NDArray[np.float64]
RESAMPLES = 200
DENSE_STATES = 1500  # beyond this the table of observed frequencies is not solved densely


def fitted_q(
    mean: Problem, policy: Policy, episodes: Episodes, seed: int, resamples: int = RESAMPLES
) -> tuple[float, FloatArray]:
    """The estimate from the observed first states, and its values in resampled episodes."""
    if mean.n_states > DENSE_STATES:
        return float("nan"), np.empty(0)
    fallback = _mean_rows(mean, policy)
    n = len(episodes)
    value = _evaluate(mean, policy, episodes, np.ones(n), fallback)
    rng = np.random.default_rng([seed, 1])
    count = resamples if mean.n_states <= 200 else 40
    draws = rng.multinomial(n, np.full(n, 1 / n), size=count)
    return value, np.array([_evaluate(mean, policy, episodes, w, fallback) for w in draws])


def _evaluate(
    mean: Problem,
    policy: Policy,
    episodes: Episodes,
    weight: NDArray[np.generic],
    fallback: tuple[FloatArray, FloatArray],
) -> float:
    S, A = mean.n_states, mean.n_actions
    live = episodes.live
    w = np.broadcast_to(np.asarray(weight, np.float64)[:, None], live.shape)[live]
    s, a, s_next = episodes.s[live], episodes.a[live], episodes.s_next[live]
    pair = s * A + a
    n_pair = np.bincount(pair, w, S * A)
    reward = np.bincount(pair, w * episodes.reward[live], S * A) / np.maximum(n_pair, 1e-300)
    seen = (n_pair > 0).reshape(S, A)
    share = np.where(seen, policy.probs, 0.0)
    P = np.bincount(s * S + s_next, w * (share[s, a] / np.maximum(n_pair, 1e-300)[pair]), S * S)
    P_rest, R_rest = fallback
    unseen = np.where(seen, 0.0, policy.probs)
    P_pi = P.reshape(S, S) + np.einsum("sa,sat->st", unseen, P_rest)
    r_pi = (share * reward.reshape(S, A)).sum(axis=1) + (unseen * R_rest).sum(axis=1)
    v = np.linalg.solve(np.eye(S) - mean.gamma * P_pi, r_pi)
    return float(np.average(v[episodes.s[:, 0]], weights=np.asarray(weight, np.float64)))


def _mean_rows(mean: Problem, policy: Policy) -> tuple[FloatArray, FloatArray]:
    """The mean model's rows (n_states, n_actions, n_states) where the policy may need them."""
    S, A, models = mean.n_states, mean.n_actions, mean.models
    P = np.zeros((S * A, S))
    pair = np.repeat(np.arange(S * A), np.diff(models.indptr))
    P[pair, models.next_states] = models.prob
    return P.reshape(S, A, S), np.asarray(mean.R[:, :, 0])


def row_effective_size(mean: Problem, policy: Policy, episodes: Episodes) -> float:
    """Kish's size, in rows, of the weights that turn the log's pairs into the policy's.

    With d(s,a) the policy's discounted occupancy (summing to 1) and n(s,a) the counts, rows get
    weight d/n each, and (Σw)²/Σw² = 1/Σ d²/n. Occupancy on pairs without a row has no weight that
    would do: it shrinks the size to 0 in proportion (1 − share)², as if those rows were missing.
    """
    h = occupancies(mean, policy)[0] * (1 - mean.gamma)
    d = h[:, None] * policy.probs * ~mean.models.sinks[:, None]
    d /= max(float(d.sum()), 1e-300)
    live = episodes.live
    n = np.zeros(d.shape)
    np.add.at(n, (episodes.s[live], episodes.a[live]), 1.0)
    seen = n > 0
    share = float(d[seen].sum())
    spread = float((d[seen] ** 2 / n[seen]).sum())
    return share**2 * share**2 / spread if spread > 0 else 0.0
