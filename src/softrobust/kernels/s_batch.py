"""Many S games on given values Z, for users and tests of the game alone (sweeps fuse it with Z)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import prange
from numpy.typing import NDArray

from softrobust.kernels._jit import kernel
from softrobust.kernels.expected import CHUNKS
from softrobust.kernels.s_game import solve_game
from softrobust.kernels.s_pivot import game_work

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
def _range(first, last, Z, f, u, lam, allowed, live, games):
    A, L = Z.shape[1], live.size
    w, rows, actions, total = game_work(A, L), np.empty((A, L)), np.empty(A, np.int64), u.sum()
    for s in range(first, last):
        n = 0
        for a in range(A):
            if allowed[s, a]:
                for i in range(L):
                    rows[n, i] = Z[s, a, live[i]]
                actions[n] = a
                n += 1
        w.K[:], w.F[:] = games.K[s], games.F[s]
        status, k, lb, ub, pivots = solve_game(rows, n, f, u, total, lam, games.k[s], w)
        games.lb[s], games.ub[s], games.status[s], games.pivots[s] = lb, ub, status, pivots
        games.K[s], games.F[s], games.k[s] = w.K, w.F, k
        games.d[s] = 0.0
        for i in range(k):
            games.d[s, actions[w.K[i]]] = w.d[i]
        for i in range(L):
            games.q[s, live[i]] = w.q[i]


@kernel(parallel=True)
def _parallel(Z, f, u, lam, allowed, live, games):
    S = Z.shape[0]
    for c in prange(CHUNKS):
        _range(c * S // CHUNKS, (c + 1) * S // CHUNKS, Z, f, u, lam, allowed, live, games)


def solve_games(
    Z: FloatArray,
    f: FloatArray,
    u: FloatArray,
    lam: float,
    allowed: NDArray[np.bool_] | None = None,
    start: Games | None = None,
    threads: bool = False,
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
    args = (Z, f[live], u[live], float(lam), mask, live, games)
    if threads:
        _parallel(*args)
    else:
        _range(0, S, *args)
    return games
