"""The value of data where the rows of a posterior are independent, as Dirichlet rows are.

Then m observations of (s, a) change the posterior of that row alone. Reweighting whole models would
also pretend to learn about every other row, because few models carry the weight afterwards. So each
data set y resamples the *rows* of (s, a) by their likelihood of y, and deals them out to the models
at random; all else stays. The return of every policy on every model with its new row follows from a
rank-one update (Sherman and Morrison): with u = π(a|s)·(p′ − p),

    ρ′ = ρ + h(s)·uᵀ(r + γv)/(1 − γ·uᵀg),        g(s′) = discounted visits to s from s′.

The maximum over policies profits from sampling noise, and would do so without any data. So the
baseline deals the rows out at random too, unweighted, with the same random numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from softrobust.data.memory import refuse_if_too_large
from softrobust.errors import InputError
from softrobust.returns.evaluation import policy_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from softrobust.models.policy import Policy
    from softrobust.objective import SoftRobust
    from softrobust.problem import Problem

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
LEAST_TAIL = 1e-9


@final
class Inverses(NamedTuple):
    """For every policy of the pool: G (N, S, S), v (N, S), and returns (N,)."""

    G: list[FloatArray]
    v: list[FloatArray]
    rho: list[FloatArray]


def invert(problem: Problem, pool: Sequence[Policy]) -> Inverses:
    """(I − γP_π)⁻¹ of every policy and model."""
    N, S = problem.n_models, problem.n_states
    refuse_if_too_large(
        8.0 * len(pool) * N * S * S,
        f"The inverses of {len(pool)} policies on {N} models of {S} states",
        "Value data with fewer draws (--draws), or merge states.",
    )
    out = Inverses([], [], [])
    for policy in pool:
        rows, columns, values = policy_rows(problem, np.asarray(policy.probs))
        P = np.zeros((S * S, N))
        at = np.repeat(np.arange(S), np.diff(rows)) * S + columns
        np.add.at(P, at, values.T)  # a randomized policy lists a next state more than once
        dense = np.ascontiguousarray(P.T).reshape(N, S, S)
        G = np.asarray(np.linalg.inv(np.eye(S) - problem.gamma * dense), dtype=np.float64)
        r = np.einsum("sa,san->ns", policy.probs, problem.R)
        v = np.einsum("nst,nt->ns", G, r)
        out.G.append(G)
        out.v.append(v)
        out.rho.append(v @ problem.p0)
    return out


@final
class Pair(NamedTuple):
    """One pair, ready for exchanges: see `kernels.row_exchange` for the shapes."""

    rho: FloatArray
    h: FloatArray
    z: FloatArray
    g: FloatArray
    q: FloatArray
    p: FloatArray


def pair_of(problem: Problem, pool: Sequence[Policy], made: Inverses, s: int, a: int) -> Pair:
    """What the exchange of the rows of (s, a) needs."""
    columns, block = problem.models.block(s, a)
    k = np.full(columns.size, s * problem.n_actions + a, dtype=np.int64)
    reward, known = problem.rewards.lookup(k, columns)
    if not known.all():
        raise InputError(
            f"The reward of action '{problem.models.actions[a]}' in state "
            f"'{problem.models.states[s]}' is not known for every next state that is possible."
        )
    h = np.array([G[:, :, s] @ problem.p0 for G in made.G])
    z = np.array([reward + problem.gamma * v[:, columns] for v in made.v])
    g = np.array([G[:, columns, s] for G in made.G])
    q = np.array([policy.probs[s, a] for policy in pool])
    return Pair(np.array(made.rho), h, z, g, q, np.ascontiguousarray(block))


def dealt(
    p: FloatArray, m: int, n: int, rng: np.random.Generator
) -> tuple[IntArray, IntArray, FloatArray]:
    """Which draw's row every model gets, (n, N), after data and without, and effective sizes (n,).

    Both deal by the same uniforms (systematic resampling) and the same shuffle.
    """
    N = p.shape[0]
    rows = p / p.sum(axis=1, keepdims=True)
    counts = rng.multinomial(m, rows[rng.integers(0, N, n)])
    with np.errstate(divide="ignore"):
        log_rows = np.log(rows)
    possible = np.isfinite(log_rows)
    score = counts @ np.where(possible, log_rows, 0.0).T
    score[(counts > 0).astype(np.float64) @ (~possible).T.astype(np.float64) > 0] = -np.inf
    w = np.exp(score - score.max(axis=1, keepdims=True))
    w /= w.sum(axis=1, keepdims=True)
    grid = (np.arange(N) + rng.random((n, 1))) / N
    edges = np.cumsum(w, axis=1)
    edges[:, -1] = 1.0
    after = np.array([np.searchsorted(e, x) for e, x in zip(edges, grid, strict=True)])
    shuffle = np.argsort(rng.random((n, N)), axis=1)
    after = np.take_along_axis(after, shuffle, axis=1)
    return after.astype(np.int64), shuffle.astype(np.int64), 1.0 / np.square(w).sum(axis=1)


def exchanged(
    pair: Pair, rows: IntArray, problem: Problem, objective: SoftRobust, known: int = 0
) -> tuple[FloatArray, IntArray, FloatArray]:
    """The pool's best objective for every deal of rows, the policy that attains it, and luck.

    Luck is the mean return of policy `known`: data do not change its expectation, so that the
    difference of two deals in it is noise that can be taken out.
    """
    from softrobust.kernels.row_exchange import best_exchanged

    n = rows.shape[0]
    out, which, luck = np.empty(n), np.empty(n, dtype=np.int64), np.empty(n)
    tail = max(objective.tail, LEAST_TAIL)
    best_exchanged(*pair, rows, problem.gamma, objective.lam, tail, known, out, which, luck)
    return out, which, luck
