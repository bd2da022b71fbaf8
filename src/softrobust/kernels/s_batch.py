"""Many S games on given values Z, for users and tests of the game alone (sweeps fuse it with Z)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from softrobust.kernels._jit import kernel
from softrobust.kernels.borrow import borrow, keep
from softrobust.kernels.s_game import solve_game
from softrobust.kernels.s_pivot import MODELS, ROWS, D, Q, borrow_work, game_work

FloatArray = NDArray[np.float64]


class Games(NamedTuple):
    """Answers of S games, and the bases to start the next ones from."""

    lb: FloatArray  # (S,)
    ub: FloatArray  # (S,)
    d: FloatArray  # (S, A)
    q: FloatArray  # (S, N)
    status: NDArray[np.int8]  # (S,) SOLVED, UNSETTLED or NOT_FINITE of `s_game`
    pivots: NDArray[np.int64]  # (S,)
    K: NDArray[np.int64]  # (S, A)
    F: NDArray[np.int64]  # (S, A)
    k: NDArray[np.int64]  # (S,)


@kernel
def _all_states(Z, f, u, lam, allowed, live, games):
    A, L = Z.shape[1], live.size
    work, own_rows, actions, total = (
        game_work(A, L),
        np.empty((A, L)),
        np.empty(A, np.int64),
        u.sum(),
    )
    M, X, Y, J, W = borrow_work(work)
    Z, f, u, rows = borrow(Z), borrow(f), borrow(u), borrow(own_rows)
    lb, ub, d, q = borrow(games.lb), borrow(games.ub), borrow(games.d), borrow(games.q)
    status, pivots = borrow(games.status), borrow(games.pivots)
    K, F, size = borrow(games.K), borrow(games.F), borrow(games.k)
    for s in range(Z.shape[0]):
        n, k = np.int64(0), size[s]  # a literal 0 would compile the whole game a second time
        for a in range(A):
            if allowed[s, a]:
                actions[n] = a
                n += 1
        for i in range(k):
            J[ROWS, i], J[MODELS, i] = K[s, i], F[s, i]
        if n < A or Z.shape[2] > L:
            for a in range(n):
                for i in range(L):
                    rows[a, i] = Z[s, actions[a], live[i]]
        game = Z[s] if n == A and Z.shape[2] == L else rows
        status[s], k, lb[s], ub[s], pivots[s] = solve_game(
            game, n, f, u, total, lam, k, M, X, Y, J, W
        )
        size[s] = k
        for a in range(A):
            d[s, a] = 0.0
        for i in range(k):
            K[s, i], F[s, i] = J[ROWS, i], J[MODELS, i]
            d[s, actions[J[ROWS, i]]] = Y[D, i + 1]
        if q.shape[1] == L:
            for i in range(L):
                q[s, i] = X[Q, i]
        else:
            for i in range(L):
                q[s, live[i]] = X[Q, i]
    keep(work)
    keep(own_rows)


def solve_games(
    Z: FloatArray,
    f: FloatArray,
    u: FloatArray,
    lam: float,
    allowed: NDArray[np.bool_] | None = None,
    start: Games | None = None,
) -> Games:
    """max_d min_ξ dᵀZξ for every state.

    Parameters
    ----------
    Z : (n_states, n_actions, n_models)
    f, u : (n_models,)
        Weights of the models, and the bounds of q (`SoftRobust.q_bounds`).
    allowed : (n_states, n_actions), optional
    start : Games, optional
        Answers of similar games (same f > 0 and allowed): their bases are the warm start.

    Examples
    --------
    >>> Z = np.array([[[1.0, 0.0], [0.0, 1.0]]])
    >>> games = solve_games(Z, np.full(2, 0.5), np.ones(2), lam=1.0)
    >>> games.d[0].round(12).tolist(), float(games.lb[0].round(12))
    ([0.5, 0.5], 0.5)
    """
    Z = np.ascontiguousarray(Z, dtype=np.float64)
    S, A, N = Z.shape
    live = np.flatnonzero(f > 0)
    K, F, k = (
        (np.zeros((S, A), np.int64), np.zeros((S, A), np.int64), np.zeros(S, np.int64))
        if start is None
        else (start.K.copy(), start.F.copy(), start.k.copy())
    )
    games = Games(
        np.empty(S), np.empty(S), np.empty((S, A)), np.zeros((S, N)),
        np.zeros(S, np.int8), np.zeros(S, np.int64), K, F, k,
    )  # fmt: skip
    mask = np.ones((S, A), bool) if allowed is None else np.ascontiguousarray(allowed)
    _all_states(Z, f[live], u[live], float(lam), mask, live, games)
    return games
