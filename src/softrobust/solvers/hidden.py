"""Something that guided decisions and that the log does not have: its trace, and what it costs.

If cases differ in a way that people see and the log does not, those that were given an action more
often than usual also fare otherwise than usual, at *other* steps, too. That is looked for twice.

**By products.** With the residuals

    y_i  =  r_i + γ·v(s′_i) − q(s_i, a_i),        z_i(a)  =  1[a_i = a] − β(a | s_i)

of outcomes and decisions (v, q: values of practice β), products y_i·z_j(a) at nearby steps i ≠ j of
one episode have mean 0 where the state is all that matters. Where it is not, their mean over that
of z_j(a)² is about by how much q(·, a) is wrong: what happened at other steps tells what the same
step cannot, since there q has taken it in. The policy's gain is then wrong by

    D  =  Σ_s d_π(s) Σ_a (π − β)(a | s)·bias(a),

d_π its discounted visits. Only a D that is clear of its standard error (over episodes) counts, and
counts twice: cases change, and other steps show only a part of what the same step took in.

**By two kinds of cases.** A hidden Markov model with two kinds, each with transitions, rewards and
decisions of its own, is fitted by EM to half of the log. They are shrunk to what the whole log
shows, with more or less of an action, of a reward, and of P(s′|s, a)·exp(θ·v(s′)) in one kind. It
counts if it foretells the other half better than one kind does. A policy that cannot tell them
apart, and practice that can, are then valued in the model of both kinds: the gain is wrong by what
it is less there.

The larger of the two is taken off. A cause that changes from step to step leaves neither trace.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

from softrobust._core.arrays import BoolArray, FloatArray, IntArray
from softrobust._core.limits import time_bound

if TYPE_CHECKING:
    from softrobust.posterior.belief import Belief

STEPS = 3  # apart, at most
CLEAR = 1.0  # standard errors
TIMES = 2.0  # what other steps show is about half of the bias, in worlds made for tuning
KINDS = 2
ROWS, STATES = 20_000, 200  # of a log that kinds are looked for in, at most
PART = 40  # steps of an episode that are read as one case
ROUNDS, SETTLED = 40, 0.05  # of EM: at most, and the rise of the likelihood that ends it
# Observations of the whole log in rows, decisions and rewards of a kind: where kinds differ much,
# and where they differ a little alike everywhere; the other half of the log says which it is.
LIKE_ALL = ((5.0, 10.0, 5.0), (100.0, 20.0, 20.0))
STAYS = 10.0  # steps in a kind that the prior has, of which 95 % end in the same


Alike = tuple[float, float, float]


@final
class Hidden(NamedTuple):
    """By how much the gain is too large, and the standard error; zeros where nothing shows."""

    bias: float
    error: float


NOTHING = Hidden(0.0, 0.0)


def hidden_bias(
    belief: Belief, practice: FloatArray, probs: FloatArray, groups: IntArray
) -> Hidden:
    """The trace of hidden causes in the gain of a policy (n_states, n_actions) over practice.

    `groups` (n_rows,) are the independent parts of the log, counted from 0.
    """
    y, z = _residuals(belief, practice)
    found = _by_products(belief, practice, probs, groups, y, z)
    if practice.shape[0] > STATES:
        return found
    return max(found, _by_kinds(belief, practice, probs, groups, y, z))


def _by_products(
    belief: Belief,
    practice: FloatArray,
    probs: FloatArray,
    groups: IntArray,
    y: FloatArray,
    z: FloatArray,
) -> Hidden:
    log, n = belief.fitted.log, int(groups.max()) + 1
    episode = np.zeros(log.n_rows) if log.episode is None else log.episode
    product, square = np.zeros((n, log.n_actions)), np.zeros((n, log.n_actions))
    for apart in range(1, STEPS + 1):
        i = np.flatnonzero(episode[apart:] == episode[:-apart])
        for here, there in ((i, i + apart), (i + apart, i)):
            for a in range(log.n_actions):
                at = z[there, a]
                product[:, a] += np.bincount(groups[i], weights=y[here] * at, minlength=n)
                square[:, a] += np.bincount(groups[i], weights=at * at, minlength=n)
    total = np.maximum(square.sum(axis=0), 1e-300)
    bias = product.sum(axis=0) / total
    weight = (belief.mean_visits(probs)[:, None] * (probs - practice)).sum(axis=0)
    spread = ((product - bias * square) / total) @ weight
    found = float(weight @ bias)
    error = float(np.sqrt(np.square(spread).sum() * n / max(n - 1, 1)))
    return Hidden(TIMES * found, TIMES * error) if found > CLEAR * error else NOTHING


def _residuals(belief: Belief, practice: FloatArray) -> tuple[FloatArray, FloatArray]:
    """y (n_rows,) and z (n_rows, n_actions); q is a pair's own mean, with one of the model's."""
    log = belief.fitted.log
    v = belief.mean_ahead(practice)
    q = belief.mean_q(practice).reshape(-1)
    outcome = _earned(belief) + belief.gamma * v[log.s_next]
    pair = log.s.astype(np.int64) * log.n_actions + log.a
    seen = np.bincount(pair, minlength=q.size)
    mean = np.bincount(pair, weights=outcome, minlength=q.size) + np.where(np.isfinite(q), q, 0.0)
    return outcome - (mean / (seen + 1))[pair], np.eye(log.n_actions)[log.a] - practice[log.s]


def _earned(belief: Belief) -> FloatArray:
    """(n_rows,): the reward of every row."""
    log = belief.fitted.log
    if log.reward is not None:
        return np.asarray(log.reward)
    assert log.rewards is not None  # a belief has rewards
    value, known = log.rewards.at(log.s, log.a, log.s_next)
    return np.where(known, value, 0.0)


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Model:
    """Kinds of cases: for each, chances of what rows show, what they earn, and how kinds change."""

    rows: FloatArray  # (KINDS, n_keys): of the next state, for every (s, a, s′) of the log
    decisions: FloatArray  # (KINDS, n_states, n_actions)
    tilted: FloatArray  # (KINDS, n_pairs, n_states): rows of the log as a whole, tilted to value
    tilt: FloatArray  # (KINDS,)
    extra: FloatArray  # (KINDS, n_pairs): reward beyond that of all kinds
    change: FloatArray  # (KINDS, KINDS)
    first: FloatArray  # (KINDS,)
    count: FloatArray  # (KINDS, n_keys): rows of the log by kind
    likelihood: FloatArray  # (n_cases,): logarithms
    alike: float  # observations of the whole log in rows


@final
class _Cases:
    """Rows of a log as cases of at most `PART` steps, and what they show."""

    def __init__(self, belief: Belief, practice: FloatArray, chosen: IntArray) -> None:
        log = belief.fitted.log
        self.belief, self.practice = belief, practice
        self.shape = S, A = practice.shape
        episode = np.zeros(log.n_rows) if log.episode is None else log.episode
        s, self.a, s_next = (np.asarray(x, np.int64)[chosen] for x in (log.s, log.a, log.s_next))
        begins = np.flatnonzero(np.r_[True, np.diff(episode[chosen]) != 0])
        at = np.arange(chosen.size) - np.repeat(begins, np.diff(np.r_[begins, chosen.size]))
        self.case, self.step = np.cumsum(at % PART == 0) - 1, at % PART
        self.s, self.pair = s, s * A + self.a
        self.keys, self.key = np.unique(self.pair * S + s_next, return_inverse=True)
        self.P = np.zeros((S * A, S))
        of = np.repeat(np.arange(S * A), np.diff(belief.indptr))
        self.P[of, belief.next_states] = belief.mean_prob
        v = belief.mean_ahead(practice)
        self.v = (v - v.mean()) / max(float(v.std()), 1e-300)
        reward = _earned(belief)[chosen]
        seen = np.bincount(self.key)
        pairs = self.keys // S
        mean = np.bincount(self.pair, reward, S * A) / np.maximum(
            np.bincount(pairs, seen, S * A), 1
        )
        usual = (np.bincount(self.key, reward) + mean[pairs]) / (seen + 1)
        self.usual, self.residual = usual, reward - usual[self.key]
        self.noise = float(np.square(self.residual).sum()) / max(reward.size - seen.size / 2, 1.0)
        self.noisy = self.noise > 1e-6 * float(reward.var())

    def guesses(self, y: FloatArray, z: FloatArray) -> list[FloatArray]:
        """Shares of the first kind (n_cases,) to begin with: cases that fare or are treated alike.

        By outcomes, by decisions, and by both.
        """
        long = np.sqrt(np.bincount(self.case))
        marks = np.stack([np.bincount(self.case, x) / long for x in (y, *z.T)], axis=1)
        marks = (marks - marks.mean(axis=0)) / np.maximum(marks.std(axis=0), 1e-300)
        both, _, main = np.linalg.svd(marks, full_matrices=False)
        ways = (marks[:, 0], marks[:, 1:] @ main[0, 1:], both[:, 0])
        return [
            1.0 / (1.0 + np.exp(-2.0 * (w - np.median(w)) / max(w.std(), 1e-300))) for w in ways
        ]

    def fit(self, share: FloatArray, used: BoolArray, alike: Alike) -> _Model:
        """EM on the cases in `used`, from the shares of the first kind."""
        weight = np.stack([share, 1.0 - share])[:, self.case]
        rows = used[self.case]
        kept = STAYS * np.where(np.eye(KINDS) > 0, 0.95, 0.05)
        change, first = kept / STAYS, np.full(KINDS, 1.0 / KINDS)
        tilt, before = np.zeros(KINDS), -np.inf
        for _ in range(ROUNDS):
            model = self._by_weights(weight * rows, alike, tilt, change, first)
            weight, moves, begun, likelihood = self._weights(model)
            now = float(likelihood[used].sum())
            if now - before < SETTLED:
                break
            before = now
            tilt = model.tilt
            change = kept + moves[used].sum(axis=0)
            change = change / change.sum(axis=1, keepdims=True)
            first = (begun[used].sum(axis=0) + 1.0) / (used.sum() + KINDS)
        return self._by_weights(weight * rows, alike, tilt, change, first, likelihood)

    def _by_weights(
        self,
        weight: FloatArray,
        alike: Alike,
        tilt: FloatArray,
        change: FloatArray,
        first: FloatArray,
        likelihood: FloatArray | None = None,
    ) -> _Model:
        (S, A), n_keys, (c, d, e) = self.shape, self.keys.size, alike
        pairs, places = np.divmod(self.keys, S)
        rows, tilted, tilts, decisions, extra, count = [], [], [], [], [], []
        for w, theta in zip(weight, tilt, strict=True):
            n = np.bincount(self.key, w, n_keys)
            m = np.bincount(pairs, n, S * A)
            P = self.P * np.exp(theta * self.v)
            P /= np.maximum(P.sum(axis=1, keepdims=True), 1e-300)
            mean = P @ self.v
            # A step of Newton for how the kind's cases are drawn to states of value.
            slope = n @ (self.v[places] - mean[pairs]) - theta
            bend = m @ np.maximum(P @ np.square(self.v) - np.square(mean), 0.0) + 1.0
            tilts.append(theta + float(np.clip(slope / bend, -1.0, 1.0)))
            tilted.append(P)
            rows.append((n + c * P[pairs, places]) / (m[pairs] + c))
            by_state, in_all = m.reshape(S, A), m.reshape(S, A).sum(axis=1, keepdims=True)
            ratio = (by_state.sum(axis=0) + 2.0) / ((in_all * self.practice).sum(axis=0) + 2.0)
            rule = self.practice * ratio
            rule = rule / np.maximum(rule.sum(axis=1, keepdims=True), 1e-300)
            decisions.append((by_state + d * rule) / (in_all + d))
            more = np.bincount(self.pair, w * self.residual, S * A) * self.noisy
            extra.append((more + e * more.sum() / (m.sum() + e)) / (m + e))
            count.append(n)
        return _Model(
            np.array(rows), np.array(decisions), np.array(tilted), np.array(tilts),
            np.array(extra), change, first, np.array(count),
            np.zeros(0) if likelihood is None else likelihood, c,
        )  # fmt: skip

    def _weights(self, model: _Model) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Chances of kinds at every row, of moves between them, at first; likelihoods of cases."""
        log = self._logs(model.rows, model.decisions, model.extra)
        n_cases, steps = int(self.case[-1]) + 1, int(self.step.max()) + 1
        best = np.zeros((n_cases, steps))
        best[self.case, self.step] = log.max(axis=0)
        shows = np.ones((n_cases, steps, KINDS))
        shows[self.case, self.step] = np.exp(log - log.max(axis=0)).T
        there = np.zeros((n_cases, steps), dtype=bool)
        there[self.case, self.step] = True
        ahead, back, size = np.empty_like(shows), np.ones_like(shows), np.ones((n_cases, steps))
        for t in range(steps):
            now = (model.first if t == 0 else ahead[:, t - 1] @ model.change) * shows[:, t]
            if t:
                now = np.where(there[:, t, None], now, ahead[:, t - 1])
            size[:, t] = now.sum(axis=1)
            ahead[:, t] = now / size[:, t, None]
        moves = np.zeros((n_cases, KINDS, KINDS))
        for t in range(steps - 2, -1, -1):
            live = there[:, t + 1]
            then = shows[:, t + 1] * back[:, t + 1] / size[:, t + 1, None]
            back[:, t] = np.where(live[:, None], then @ model.change.T, 1.0)
            moves += (ahead[:, t, :, None] * model.change * then[:, None, :]) * live[:, None, None]
        both = ahead * back
        both /= both.sum(axis=2, keepdims=True)
        likelihood = (np.log(size) + best).sum(axis=1)
        return both[self.case, self.step].T, moves, both[:, 0], likelihood

    def _logs(self, rows: FloatArray, decisions: FloatArray, extra: FloatArray) -> FloatArray:
        """(kinds, n_rows): logarithms of the likelihood of every row."""
        out = np.log(np.maximum(rows[:, self.key], 1e-300))
        out += np.log(np.maximum(decisions[:, self.s, self.a], 1e-300))
        if self.noisy:
            out -= 0.5 * np.square(self.residual - extra[:, self.pair]) / self.noise
        return out

    def one_kind(self) -> FloatArray:
        """(n_cases,): logarithms of the likelihood if the state is all that matters."""
        pairs, places = np.divmod(self.keys, self.shape[0])
        usual = self.P[pairs, places][None], self.practice[None], np.zeros((1, self.P.shape[0]))
        return np.asarray(np.bincount(self.case, self._logs(*usual)[0]), dtype=np.float64)

    def gain(self, probs: FloatArray, model: _Model | None = None) -> float:
        """Of a policy over practice, where kinds are as in a model, or all are one."""
        S, A = self.shape
        pairs = self.keys // S
        change, first, rules = np.ones((1, 1)), np.ones(1), self.practice[None]
        R = np.where(self.belief.available, self.belief.mean_rewards, 0.0).reshape(1, -1)
        P = self.P[None]
        if model is not None:
            change, first, rules, c = model.change, model.first, model.decisions, model.alike
            m = np.stack([np.bincount(pairs, n, S * A) for n in model.count])
            paid = [np.bincount(pairs, n * self.usual, S * A) for n in model.count]
            R = (np.stack(paid) + m * model.extra + c * R) / (m + c)
            P = c * model.tilted
            for own, n in zip(P, model.count, strict=True):
                np.add.at(own, (pairs, self.keys % S), n)
            P /= (m + c)[:, :, None]
        K, p0 = first.size, np.kron(first, self.belief.mean_p0)
        worth = []
        for rule in (np.repeat(probs[None], K, axis=0), rules):
            own = np.einsum("ksa,ksat->kst", rule, P.reshape(K, S, A, S))
            r = (rule * R.reshape(K, S, A)).sum(axis=2).reshape(-1)
            M = np.einsum("ky,kst->ksyt", change, own).reshape(K * S, K * S)
            worth.append(float(p0 @ self._values(M, r)))
        return worth[0] - worth[1]

    def _values(self, M: FloatArray, r: FloatArray) -> FloatArray:
        gamma, horizon = self.belief.gamma, self.belief.horizon
        if horizon is None:
            return np.asarray(np.linalg.solve(np.eye(r.size) - gamma * M, r))
        v = np.zeros_like(r)
        for _ in range(horizon):
            v = r + gamma * (M @ v)
        return v


def _by_kinds(
    belief: Belief,
    practice: FloatArray,
    probs: FloatArray,
    groups: IntArray,
    y: FloatArray,
    z: FloatArray,
) -> Hidden:
    """Two kinds of cases, fitted to halves of the independent parts and to all of them."""
    chosen = np.arange(groups.size)
    n_groups = int(groups.max()) + 1
    mixed = np.random.default_rng(n_groups).permutation(n_groups)
    if groups.size > ROWS:
        sizes = np.bincount(groups)[mixed]
        chosen = np.flatnonzero(np.isin(groups, mixed[np.cumsum(sizes) <= ROWS]))
    if chosen.size == 0:
        return NOTHING
    cases = _Cases(belief, practice, chosen)
    part = groups[chosen][np.flatnonzero(cases.step == 0)]
    guesses = cases.guesses(y[chosen], z[chosen])

    def fitted(used: BoolArray, alike: Alike) -> _Model:
        time_bound().check()
        models = [cases.fit(share, used, alike) for share in guesses]
        return max(models, key=lambda model: float(model.likelihood[used].sum()))

    first = np.isin(part, mixed[: n_groups // 2])
    if first.all() or not first.any():
        return NOTHING
    one, tried = cases.one_kind(), []
    for alike in LIKE_ALL:
        halves = [fitted(first, alike), fitted(~first, alike)]
        better = np.where(first, halves[1].likelihood, halves[0].likelihood) - one
        tried.append((np.bincount(part, better, n_groups), halves, alike))
    by_part, halves, alike = max(tried, key=lambda way: float(way[0].sum()))
    if by_part.sum() <= CLEAR * float(np.sqrt(np.square(by_part - by_part.mean()).sum())):
        return NOTHING
    told = [cases.gain(probs, model) for model in halves]
    whole = fitted(np.ones_like(first), alike)
    bias = cases.gain(probs) - cases.gain(probs, whole)
    return Hidden(bias, abs(told[0] - told[1]) / 2.0) if bias > 0.0 else NOTHING
