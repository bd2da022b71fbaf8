"""What a policy would have earned in the episodes of a log: WIS, PDIS, DR and FQE."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from softrobust._core.arrays import BoolArray, FloatArray, IntArray, frozen, refuse_if_too_large
from softrobust.certificate.intervals import LEVEL, Estimate
from softrobust.data import TransitionLog
from softrobust.errors import InputError
from softrobust.problem import Problem
from softrobust.returns import action_values, horizon_values_of, policy_values
from softrobust.returns.evaluation import AnyPolicy, pair_occupancies, rules_of


@final
@dataclass(frozen=True, slots=True, eq=False)
class Episodes:
    """Steps (n_episodes, longest); beyond the end of an episode `live` is False and r is 0."""

    s: IntArray
    a: IntArray
    s_next: IntArray
    reward: FloatArray
    live: BoolArray

    def __post_init__(self) -> None:
        kinds = (np.int64, np.int64, np.int64, np.float64, np.bool_)
        for name, kind in zip(self.__slots__, kinds, strict=True):
            object.__setattr__(self, name, frozen(getattr(self, name), kind))

    def __len__(self) -> int:
        return int(self.s.shape[0])

    @property
    def lengths(self) -> IntArray:
        """(n_episodes,)."""
        return np.asarray(self.live.sum(axis=1), dtype=np.int64)

    @property
    def last_state(self) -> IntArray:
        """(n_episodes,): where each episode was seen last."""
        return np.asarray(self.s_next[np.arange(len(self)), self.lengths - 1], dtype=np.int64)

    def discounts(self, gamma: float) -> FloatArray:
        """γ^t for every step, (longest,)."""
        return np.asarray(gamma ** np.arange(self.s.shape[1]))

    def returns(self, gamma: float) -> FloatArray:
        """Σ_t γ^t r_t of every episode, (n_episodes,)."""
        return np.asarray(self.reward @ self.discounts(gamma))

    def until(self, horizon: int | None) -> Self:
        """The steps that a horizon counts."""
        return type(self)(*(getattr(self, name)[:, :horizon] for name in self.__slots__))

    def select(self, which: ArrayLike) -> Self:
        """The chosen episodes."""
        at = np.asarray(which)
        return type(self)(*(getattr(self, name)[at] for name in self.__slots__))


def episodes_of(log: TransitionLog) -> Episodes:
    """The episodes of a log, in the order of their rows."""
    if log.episode is None:
        raise InputError(
            "Off-policy estimates need episodes, and the log has no column for them. Add a column "
            "'episode' that says which rows belong together."
        )
    order = np.argsort(log.episode, kind="stable")
    _, first, length = np.unique(log.episode[order], return_index=True, return_counts=True)
    n, longest = first.size, int(length.max())
    refuse_if_too_large(
        33.0 * n * longest,
        f"{n} episodes padded to {longest} steps",
        "Cut very long episodes into shorter ones.",
    )
    row = np.repeat(np.arange(n), length)
    column = np.arange(order.size) - np.repeat(first, length)

    def padded(values: Any) -> Any:
        out = np.zeros((n, longest), dtype=values.dtype)
        out[row, column] = values[order]
        return out

    columns = (log.s, log.a, log.s_next, row_rewards(log), np.ones(order.size, dtype=bool))
    return Episodes(*(padded(values) for values in columns))


def row_rewards(log: TransitionLog) -> FloatArray:
    """The reward of every row: the log's own column, or what its rewards say of (s, a, s′)."""
    if log.reward is not None:
        return np.asarray(log.reward)
    if log.rewards is None:
        raise InputError("The log has no rewards. Add a column 'reward' or a reward table.")
    pair = log.s.astype(np.int64) * log.n_actions + log.a
    value, known = log.rewards.lookup(pair, log.s_next)
    if not known.all():
        i = int(np.flatnonzero(~known)[0])
        raise InputError(f"The reward of {log.rows.where(i)} is not known. Add it to the table.")
    return np.asarray(value)


def pair_means(log: TransitionLog, otherwise: FloatArray) -> FloatArray:
    """(n_states, n_actions): the mean reward of each pair; `otherwise` where the log lacks it."""
    assert log.reward is not None
    S, A = log.shape
    pair = log.s.astype(np.int64) * A + log.a
    n = np.bincount(pair, minlength=S * A)
    total = np.bincount(pair, weights=log.reward, minlength=S * A)
    mean = np.where(n > 0, total / np.maximum(n, 1), otherwise.reshape(-1))
    return np.asarray(mean.reshape(S, A))


# --------------------------------------------------------------------------------------------------
# Fitted Q evaluation for tables: the fixed point of regressing r + γ Σ_a′ π(a′|s′) Q(s′, a′).
#
# On a table the regression is a mean over the rows of a pair, so the fixed point is the policy's
# value in the model of observed frequencies, P̃(s′|s,a) = n(s,a,s′)/n(s,a) and r̃(s,a) the mean
# reward. Pairs that the episodes lack keep the row of the mean model; `row_effective_size` says how
# much the policy depends on pairs that are rare or missing. With a horizon it is that many steps of
# the same regression, backwards, each with the policy's rule of that step.

FQE_RESAMPLES, FEWER = 200, 40  # the latter for more than 200 states
DENSE_STATES = 1500  # beyond this the table of observed frequencies is not solved densely


def fitted_q(
    mean: Problem, policy: AnyPolicy, episodes: Episodes, seed: int
) -> tuple[float, FloatArray]:
    """The estimate from the observed first states, and its values in resampled episodes."""
    if mean.n_states > DENSE_STATES:
        return float("nan"), np.empty(0)
    S, A, models = mean.n_states, mean.n_actions, mean.models
    P = np.zeros((S * A, S))
    P[np.repeat(np.arange(S * A), np.diff(models.indptr)), models.next_states] = models.prob
    fallback = P.reshape(S, A, S), np.asarray(mean.R[:, :, 0])
    n = len(episodes)
    value = _evaluate(mean, policy, episodes, np.ones(n), fallback)
    rng = np.random.default_rng([seed, 1])
    count = FQE_RESAMPLES if mean.n_states <= 200 else FEWER
    draws = rng.multinomial(n, np.full(n, 1 / n), size=count)
    return value, np.array([_evaluate(mean, policy, episodes, w, fallback) for w in draws])


def _evaluate(
    mean: Problem, policy: AnyPolicy, episodes: Episodes, weight: NDArray[np.generic],
    fallback: tuple[FloatArray, FloatArray],
) -> float:  # fmt: skip
    S, A = mean.n_states, mean.n_actions
    live = episodes.live
    w = np.broadcast_to(np.asarray(weight, np.float64)[:, None], live.shape)[live]
    s, a, s_next = episodes.s[live], episodes.a[live], episodes.s_next[live]
    pair = s * A + a
    n_pair = np.bincount(pair, w, S * A)
    reward = np.bincount(pair, w * episodes.reward[live], S * A) / np.maximum(n_pair, 1e-300)
    seen = (n_pair > 0).reshape(S, A)
    each = w / np.maximum(n_pair, 1e-300)[pair]

    def rows_of(rule: FloatArray) -> tuple[FloatArray, FloatArray]:
        share, unseen = np.where(seen, rule, 0.0), np.where(seen, 0.0, rule)
        P = np.bincount(s * S + s_next, each * share[s, a], S * S).reshape(S, S)
        P_pi = P + np.einsum("sa,sat->st", unseen, fallback[0])
        return P_pi, (share * reward.reshape(S, A) + unseen * fallback[1]).sum(axis=1)

    rules = rules_of(policy)
    v: FloatArray = np.zeros(S)
    if mean.horizon is None:
        P_pi, r_pi = rows_of(rules[0])
        v = np.asarray(np.linalg.solve(np.eye(S) - mean.gamma * P_pi, r_pi), np.float64)
    else:
        steps = [rows_of(rule) for rule in rules]
        for t in range(mean.horizon - 1, -1, -1):
            P_pi, r_pi = steps[min(t, len(steps) - 1)]
            v = np.asarray(r_pi + mean.gamma * (P_pi @ v), np.float64)
    return float(np.average(v[episodes.s[:, 0]], weights=np.asarray(weight, np.float64)))


def row_effective_size(mean: Problem, policy: AnyPolicy, episodes: Episodes) -> float:
    """Kish's size, in rows, of the weights that turn the log's pairs into the policy's.

    With d(s,a) the policy's discounted occupancy (summing to 1) and n(s,a) the counts, rows get
    weight d/n each, and (Σw)²/Σw² = 1/Σ d²/n. Occupancy on pairs without a row has no weight that
    would do: it shrinks the size to 0 in proportion (1 − share)², as if those rows were missing.
    """
    d = pair_occupancies(mean, policy) * ~mean.models.sinks[:, None]
    d /= max(float(d.sum()), 1e-300)
    live = episodes.live
    n = np.zeros(d.shape)
    np.add.at(n, (episodes.s[live], episodes.a[live]), 1.0)
    seen = n > 0
    share = float(d[seen].sum())
    spread = float((d[seen] ** 2 / n[seen]).sum())
    return share**2 * share**2 / spread if spread > 0 else 0.0


# --------------------------------------------------------------------------------------------------
# Off-policy estimates: what a policy would have earned, from episodes that another one produced.
#
# With ρ_t = π(a_t|s_t)/π_b(a_t|s_t) and w_t = ρ_0⋯ρ_t, for episodes i = 1 … n:
#
#     WIS    Σ_i w^i_T G^i / Σ_i w^i_T                       weighted importance sampling
#     PDIS   Σ_i Σ_t γ^t w^i_t r^i_t / n                     per-decision importance sampling
#     DR     V(s_0) + Σ_t γ^t w_t (r_t + γV(s_{t+1}) − Q(s_t, a_t))     doubly robust (Jiang, Li
#     2016)
#     FQE    p₀ᵀv with v = r_π + γP_π v on the observed frequencies    fitted Q evaluation, tabular
#
# Q and V come from a model, best of all one fitted to other episodes. An episode that was cut off
# (its last state is not absorbing) goes on in that model: γ^T V(s_T) is added, weighted as the last
# step is, and `tail` says how much weight that has. The effective sample size of the weights is
# Kish's (Σw)²/Σw². An estimate can tell only with ten effective episodes (or rows, for FQE) and a
# tenth of all: with fewer its standard error exceeds a third of the spread of single ones, and a
# tenth of the log or less would speak for all of it.
#
# With a horizon H only the first H steps count, π, Q and V are those of the step (V_H = 0), and an
# episode that was cut off before goes on for the steps that are left.

LEAST_SIZE = 10.0
LEAST_SHARE = 0.1
RESAMPLES = 1000


@final
@dataclass(frozen=True, slots=True)
class OffPolicy:
    """One estimate of a policy's return."""

    name: str
    estimate: Estimate  # with a bootstrap interval over episodes
    effective_size: float  # of the weights, in episodes (in rows for FQE)
    size: int  # episodes (rows) that there are
    tail: float  # average discount at which the model takes over from the data
    # average probability that the policy gives to actions never seen in the states visited
    unsupported: float

    @property
    def can_tell(self) -> bool:
        """Whether the effective sample size is large enough to say anything."""
        return self.effective_size >= max(LEAST_SIZE, LEAST_SHARE * self.size)

    def meets(self, low: float, high: float) -> bool:
        """Whether the estimate's interval has a point of [low, high]."""
        e = self.estimate
        a, b = (e.value if end is None else end for end in (e.low, e.high))
        return a <= high and b >= low

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        e, plain = self.estimate, asdict(self)
        del plain["estimate"]
        value = e.value if np.isfinite(e.value) else None  # no weight, no estimate
        own = {"name": plain.pop("name"), "value": value, "low": e.low, "high": e.high}
        return own | plain | {"can_tell": self.can_tell}


def off_policy(
    problem: Problem, policy: AnyPolicy, episodes: Episodes, behaviour: FloatArray, seed: int = 0
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
    mean, H = problem.mean_problem(), problem.horizon
    episodes = episodes.until(H)
    longest = episodes.s.shape[1]
    t, rules = np.arange(longest), rules_of(policy)
    if H is None:
        V = np.broadcast_to(policy_values(mean, policy)[0], (longest + 1, mean.n_states))
    else:
        V = horizon_values_of(mean, policy, every=True)[:, 0]
    # R + γPv of the step in the mean model.
    Q = np.array([action_values(mean, V[i + 1][None, :])[0] for i in t[: 1 if H is None else None]])
    Q = np.broadcast_to(Q, (longest, *mean.R.shape[:2]))
    pi = rules[np.minimum(t, len(rules) - 1)]  # (longest, n_states, n_actions)
    w = _ratios(pi[t, episodes.s, episodes.a], behaviour, episodes)
    whole = w[:, -1]
    gamma, n, lengths = problem.gamma, len(episodes), episodes.lengths
    discount = episodes.discounts(gamma)
    after = gamma**lengths * V[lengths, episodes.last_state]
    # The tail of DR cancels: the last γV(s_T) is the model's own.
    surprise = episodes.reward + gamma * V[t + 1, episodes.s_next] - Q[t, episodes.s, episodes.a]
    surprise = np.where(episodes.live, surprise, 0.0)
    scores = {
        "WIS": episodes.returns(gamma) + after,
        "PDIS": (w * episodes.reward) @ discount + whole * after,
        "DR": V[0][episodes.s[:, 0]] + (w * surprise) @ discount,
    }
    size = float(whole.sum() ** 2 / max(np.square(whole).sum(), 1e-300))
    ended = np.asarray(mean.models.sinks)[episodes.last_state] | (lengths == (H or -1))
    tail = float(np.mean(np.where(ended, 0.0, gamma**lengths)))
    missing = (pi * (behaviour <= 0)).sum(axis=2)
    lost = float(missing[t, episodes.s][episodes.live].mean())
    draws = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=RESAMPLES)
    out = []
    for name, score in scores.items():
        weight = whole if name == "WIS" else np.ones(n)
        out.append(OffPolicy(name, _ratio(score, weight, draws), size, n, tail, lost))
    fitted = _interval(*fitted_q(mean, policy, episodes, seed))
    rows = row_effective_size(mean, policy, episodes)
    return (*out, OffPolicy("FQE", fitted, rows, int(episodes.live.sum()), 0.0, lost))


def _ratios(target: FloatArray, behaviour: FloatArray, episodes: Episodes) -> FloatArray:
    """w_t (n_episodes, longest) of the policy's `target` chances; constant after an end."""
    taken = behaviour[episodes.s, episodes.a]
    bad = np.argwhere(episodes.live & ~(taken > 0))
    if bad.size:
        i, t = bad[0]
        raise InputError(
            "The behaviour policy must give every observed action a positive probability: it gives "
            f"0 to the action taken at step {t} of episode {i}. Estimate it from the same log."
        )
    ratio = np.where(episodes.live, target / np.maximum(taken, 1e-300), 1.0)
    return np.asarray(np.cumprod(ratio, axis=1), dtype=np.float64)


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
