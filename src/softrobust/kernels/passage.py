"""Least and greatest discounted occupancies over all policies, by first passage (section 4.1's u).

Let F(j) be the least (greatest) expected discount γ^τ on first reaching s from j: F(s) = 1 and
F(j) = min_a γP(j,a)ᵀF elsewhere. A policy that takes a in s spends there at least (at most)

    m(s,a) = p₀ᵀF / (1 − γP(s,a)ᵀF),

since after each visit it comes back with discount at least γP(s,a)ᵀF, whatever it does elsewhere.
Where actions have a price, F(j) = min_a θ·price(j,a) + γP(j,a)ᵀF is the least discount and payment
together (see `bounds.advantage`).
F is found by policy iteration on one inverse per model, which serves all targets and is carried
from rule to rule by rank-1 exchanges. A residual e of TF against F, plus a term for rounding, moves
F by at most e/(1 − γ): that much is taken off (put on), so m is a true bound in floating point.

A rule that minimised F under more actions and is still allowed minimises it under fewer: its m is
kept without work. Shapes: S states, A actions, N models; pairs kept: the n allowed ones.
"""

from __future__ import annotations

import numpy as np

from softrobust.kernels._jit import EPS, REORDER, kernel, threaded
from softrobust.kernels.exchange import gauss_jordan, rank_one
from softrobust.kernels.tail import dot

LIMIT = 200
REFRESH = 256  # exchanges after which an inverse is computed anew,
STALE = 1e-12  # and the residual above which an old one is
KEEP = 0.9  # share of a cost that targets may use up together,
AIM = 0.5  # and the share that its price is set for,
BEND = 0.7  # by this power of what is missing,
RISE = 1.0  # at most by this factor a time,
MOST = 50.0  # and to no more than this many costs
ANY, LEAST = 1e100, 1e-290  # a weight that is beyond all others, and what is used at least
CALM = 0.7  # the fall of a price, as a factor, from which on it is to be looked at once more
FITS = 4  # rounds in which targets give way where they use up too much


@kernel
def _dense_rows(indptr, next_states, prob, N, omega, allowed, out):
    """Out (S·A, S) ← γ-free rows of the allowed pairs, dense; returns the largest row sum."""
    S, A = allowed.shape
    largest = 1.0
    for s in range(S):
        for a in range(A):
            if not allowed[s, a]:
                continue
            k = s * A + a
            out[k, :] = 0.0
            lo, width = indptr[k], indptr[k + 1] - indptr[k]
            row = lo * N + omega * width
            total = 0.0
            for j in range(width):
                out[k, next_states[lo + j]] = prob[row + j]
                total += prob[row + j]
            largest = max(largest, total)
    return largest


@kernel
def _greedy_passage(rows, cost, theta, allowed, target, gamma, sign, F, rule, changed):
    """Greedy rule for F, its new actions in `changed` (S,), −1 where the old one stays.

    Returns the largest amount by which TF is beyond F, and how many states change.
    sign = 1: least F (TF below F counts); sign = −1: greatest (TF above F counts).
    """
    S, A = allowed.shape
    beyond, n = 0.0, 0
    for s in range(S):
        changed[s] = -1
        if s == target:
            continue
        best, best_a, keep = np.inf, -1, np.inf
        for a in range(A):
            if allowed[s, a]:
                value = sign * gamma * dot(rows[s * A + a], F) + theta * cost[s * A + a]
                if value < best:
                    best, best_a = value, a
                if a == rule[s]:
                    keep = value
        beyond = max(beyond, sign * F[s] - best)
        if best < keep - 1e-14:
            changed[s] = best_a
            n += 1
    return beyond, n


@kernel
def _factorise(rows, A, gamma, rule, M, T):
    """T (S, S) ← transpose of (I − γP_rule)⁻¹."""
    S = T.shape[0]
    for s in range(S):
        k = s * A + rule[s]
        for j in range(S):
            M[j, s] = -gamma * rows[k, j]
        M[s, s] += 1.0
    gauss_jordan(M, T)


@kernel(fastmath=REORDER)
def _exchange_action(rows, A, gamma, s, old, new, T, w):
    """Sherman–Morrison: T for the rule that takes `new`, not `old`, in s; w (S,) is scratch."""
    S = T.shape[0]
    before, after = rows[s * A + old], rows[s * A + new]
    for c in range(S):
        total = 0.0
        for j in range(S):
            total += (before[j] - after[j]) * T[c, j]
        w[c] = gamma * total
    rank_one(T, w, s, 1.0 / (1.0 + w[s]))


@kernel
def _follow(rows, A, gamma, target, rule, current, age, M, T, w):
    """Bring T from rule `current` (S,) to `rule`, whose action in `target` does not matter.

    Few differences are exchanged one by one; many, or an old T, are factorised anew. Returns the
    age of T: exchanges since the last factorisation, of which rounding errors build up.
    """
    S = T.shape[0]
    n = 0
    for s in range(S):
        if s != target and current[s] != rule[s]:
            n += 1
    if n == 0 and age <= REFRESH:
        return age
    if age + n > REFRESH or 2 * n > S:
        for s in range(S):
            if s != target:
                current[s] = rule[s]
        _factorise(rows, A, gamma, current, M, T)
        return 0
    for s in range(S):
        if s != target and current[s] != rule[s]:
            _exchange_action(rows, A, gamma, s, current[s], rule[s], T, w)
            current[s] = rule[s]
    return age + n


@kernel
def _one_target(
    rows, cost, theta, largest, allowed, target, gamma, sign, rule, current, age, M, T, F, w,
    changed,
):  # fmt: skip
    """F (S,) ← a certified lower (sign 1) or upper (sign −1) bound of the passage value.

    With N the inverse of any rule that agrees with `rule` outside t and W = θN·cost, where t costs
    nothing, F(j) = W(j) + (1 − W(t))·N(j, t)/N(t, t).
    """
    S, A = allowed.shape
    beyond, best = np.inf, np.inf
    for _ in range(LIMIT):
        age = _follow(rows, A, gamma, target, rule, current, age, M, T, w)
        w[:] = 0.0
        for s in range(S):
            paid = theta * cost[s * A + rule[s]] if theta > 0 and s != target else 0.0
            if paid > 0:
                for j in range(S):
                    w[j] += paid * T[s, j]
        scale = (1.0 - w[target]) / T[target, target]
        for j in range(S):
            F[j] = w[j] + T[target, j] * scale
        beyond, n = _greedy_passage(
            rows, cost, theta, allowed, target, gamma, sign, F, rule, changed
        )
        if n == 0 or beyond <= 1e-13 or (beyond >= best and beyond < 1e-11):
            if beyond <= STALE or age == 0:
                break
            age, best = REFRESH + 1, np.inf  # may be the old inverse's error: once more with a new
            continue
        best = min(best, beyond)
        for s in range(S):
            if changed[s] >= 0:
                rule[s] = changed[s]
    size = 1.0  # above that only where all that is left is dear
    for s in range(S):
        size = max(size, F[s])
    shift = (max(beyond, 0.0) + (S + 4) * EPS * size) / (1.0 - gamma * largest)
    for s in range(S):
        if s != target:
            F[s] = max(F[s] - shift, 0.0) if sign > 0 else min(F[s] + shift, 1.0)
    F[target] = 1.0
    return age


@kernel
def _ready(rule, allowed, target, like):
    """Whether a rule is allowed as it is outside the target; if not, it is made so, as `like`."""
    still = True
    for s in range(rule.size):
        if not allowed[s, rule[s]]:
            still = still and s == target
            rule[s] = like[s] if allowed[s, like[s]] else np.argmax(allowed[s])
    return still


@kernel
def _occupancies(rows, allowed, t, gamma, sign, reach, F, out):
    """Out (A,) ← p₀ᵀF / (1 − γPᵀF) of what is allowed in t, rounded to the safe side."""
    S, A = allowed.shape
    for a in range(A):
        if allowed[t, a]:
            value = reach / (1.0 - gamma * dot(rows[t * A + a], F))
            out[a] = max(value * (1.0 - sign * (2 * S + 8) * EPS / (1.0 - gamma)), 0.0)


@kernel
def _passage_model(
    indptr, next_states, prob, p0, allowed, targets, begin, end, gamma, sign, fresh, omega, rules, m
):  # fmt: skip
    S, A, N = m.shape
    rows, cost = np.empty((S * A, S)), np.zeros(S * A)
    M, T = np.empty((S, S)), np.empty((S, S))
    F, w = np.empty(S), np.empty(S)
    changed, current = np.empty(S, np.int64), np.empty(S, np.int64)
    age = -1  # no inverse yet
    largest = 1.0
    for i in range(begin, end):
        t = targets[i]
        rule = rules[omega, t]
        if _ready(rule, allowed, t, rules[omega, targets[max(i - 1, 0)]]) and not fresh:
            continue
        if fresh and i > 0:
            rule[:] = rules[omega, targets[i - 1]]
        if age < 0:
            largest = _dense_rows(indptr, next_states, prob, N, omega, allowed, rows)
            current[:] = rule
            _factorise(rows, A, gamma, current, M, T)
            age = 0
        age = _one_target(
            rows, cost, 0.0, largest, allowed, t, gamma, sign, rule, current, age, M, T, F, w,
            changed,
        )  # fmt: skip
        _occupancies(rows, allowed, t, gamma, sign, dot(p0, F), F, m[t, :, omega])


@threaded
def passage_bounds(
    first, last, indptr, next_states, prob, p0, allowed, targets, begin, end, gamma, sign, fresh,
    rules, m,
):  # fmt: skip
    """Update m (S, A, N) at the target states, and the rules (N, S, S) behind it.

    For models first … last and targets begin … end, in order. With `fresh`, a target's search
    starts from the rule of the one before it; else m and rules are those of a larger set of
    actions. sign = 1: least occupancies, sign = −1: greatest. rules[ω, s] is the rule for target s.
    """
    for omega in range(first, last):
        _passage_model(
            indptr, next_states, prob, p0, allowed, targets, begin, end, gamma, sign, fresh,
            omega, rules, m,
        )  # fmt: skip


@kernel
def _needs(rows, price, theta, allowed, t, gamma, F, need):
    """Need (S·A,) ← (F(j) − γP(j,a)ᵀF)₊ outside t: the least prices at which F is what it is."""
    S, A = allowed.shape
    need[:] = 0.0
    for s in range(S):
        for a in range(A):
            k = s * A + a
            most = theta * price[k]
            if s != t and allowed[s, a] and most > 0:
                least = F[s] - gamma * dot(rows[k], F) + (S + 4) * EPS * max(1.0, F[s])
                need[k] = min(max(least, 0.0), most)


@kernel
def _fit(need, cost, weight, used):
    """Used (S·A,) ← Σ_t weight·need; targets give way where that is more than `KEEP` of a cost."""
    n = weight.size
    for step in range(FITS + 1):
        used[:] = 0.0
        for i in range(n):
            if weight[i] > 0:
                for k in range(used.size):
                    used[k] += weight[i] * need[i, k]
        worst = 1.0
        for i in range(n):
            share = 1.0
            for k in range(used.size):
                if need[i, k] > 0 and used[k] > KEEP * cost[k]:
                    share = min(share, KEEP * cost[k] / used[k])
            if step < FITS:
                weight[i] *= share
            worst = min(worst, share)
        if worst == 1.0:
            return
    # What gave way together may have done so by rounding too little: all of it by the worst.
    for i in range(n):
        weight[i] *= worst
    for k in range(used.size):
        used[k] *= worst


@kernel
def _price_model(
    indptr, next_states, prob, cost, wanted, p0, allowed, targets, gamma, fresh, omega, theta, q,
    rules, m, start, weight, used, most, calm,
):  # fmt: skip
    S, A, N = cost.shape
    n = targets.size
    for i in range(n):
        like = rules[omega, targets[max(i - 1, 0)]]
        if not _ready(rules[omega, targets[i]], allowed, targets[i], like):
            calm[omega] = False
    if calm[omega]:
        return
    calm[omega] = True
    start[omega], weight[omega], most[omega] = 0.0, 0.0, 0.0
    rows, price, paid = np.empty((S * A, S)), np.empty(S * A), np.empty(S * A)
    M, T = np.empty((S, S)), np.empty((S, S))
    F, w = np.empty(S), np.empty(S)
    changed, current = np.empty(S, np.int64), np.empty(S, np.int64)
    need, own, sums = np.zeros((n, S * A)), np.zeros(n), np.zeros(S * A)
    largest = _dense_rows(indptr, next_states, prob, N, omega, allowed, rows)
    for s in range(S):
        for a in range(A):
            price[s * A + a], paid[s * A + a] = q[s, a, omega], cost[s, a, omega]
    age = -1
    for i in range(n):
        t = targets[i]
        rule = rules[omega, t]
        if fresh and i > 0:
            rule[:] = rules[omega, targets[i - 1]]
        if age < 0:
            current[:] = rule
            _factorise(rows, A, gamma, current, M, T)
            age = 0
        age = _one_target(
            rows, price, theta[omega, t], largest, allowed, t, gamma, 1, rule, current, age, M, T,
            F, w, changed,
        )  # fmt: skip
        reach = dot(p0, F)
        start[omega, t] = reach
        _occupancies(rows, allowed, t, gamma, 1, reach, F, m[t, :, omega])
        _needs(rows, price, theta[omega, t], allowed, t, gamma, F, need[i])
        if reach > 0:
            for a in range(A):
                if allowed[t, a]:
                    own[i] = max(own[i], wanted[t, omega] * m[t, a, omega] / reach)
    for i in range(n):
        for k in range(S * A):
            sums[k] += own[i] * need[i, k]
    for s in range(S):  # prices for the next time
        for a in range(A):
            k = s * A + a
            if allowed[s, a] and price[k] > 0 and paid[k] > 0:
                share = max(sums[k] / paid[k], 1e-3)
                q[s, a, omega] = min(min((AIM / share) ** BEND, RISE) * price[k], MOST * paid[k])
                if q[s, a, omega] < CALM * price[k]:
                    calm[omega] = False
    _fit(need, paid, own, sums)
    for i in range(n):
        bound = ANY
        for k in range(S * A):
            if need[i, k] > 0:
                bound = min(bound, paid[k] / need[i, k])
                sums[k] = max(sums[k], LEAST)  # used, by however little
        weight[omega, targets[i]], most[omega, targets[i]] = own[i], bound
    for s in range(S):
        for a in range(A):
            used[s, a, omega] = (1.0 + 8 * (n + 4) * EPS) * sums[s * A + a]


@threaded
def priced_bounds(
    first, last, indptr, next_states, prob, cost, wanted, p0, allowed, targets, gamma, fresh,
    theta, q, rules, m, start, weight, used, most, calm,
):  # fmt: skip
    """Occupancies m' (S, A, N) at prices θq, and what the targets together use up of the costs.

    Updates m, start (N, S) = p₀ᵀF, weight (N, S), used (S, A, N), most (N, S), the weight at which
    a target alone uses up some cost, the rules, and the prices q for the next time. `wanted` (S, N)
    is the cost that a target is to be charged in full. A model that is `calm` (N,), with the
    costs of last time and prices that hardly fell, stays as it is if its rules are still allowed.
    """
    for omega in range(first, last):
        _price_model(
            indptr, next_states, prob, cost, wanted, p0, allowed, targets, gamma, fresh, omega,
            theta, q, rules, m, start, weight, used, most, calm,
        )  # fmt: skip
