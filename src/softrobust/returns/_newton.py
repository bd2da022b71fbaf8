"""Newton's step of a rectangular solve: v + x with (I − γP_d)x = Tv − v, for mixed rows P.

Solving for the correction and not for the value makes every step a refinement: an error in P_d or
in the solution shrinks the next residual less, and never enters the answer: a sweep certifies it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softrobust.kernels.evaluate import fill_policy_rows, lu_inplace, lu_solve, policy_matrix

FloatArray = NDArray[np.float64]

KERNEL_STATES = 128  # above this LAPACK's blocked factorisation wins
DENSE_STATES = 300  # up to here, or where rows are full, a dense factorisation
FILL = 0.1  # rows fuller than this count as full


def is_dense(n_states: int, nnz: int, n_actions: int) -> bool:
    """Whether a step factors a dense matrix."""
    return n_states <= DENSE_STATES or nnz > FILL * n_states**2 * n_actions


def newton_step(
    indptr: NDArray[np.int64],
    next_states: NDArray[np.int32],
    mixed: FloatArray,
    d: FloatArray,
    gamma: float,
    v: FloatArray,
    residual: FloatArray,
) -> FloatArray:
    """Return v + (I − γP_d)⁻¹·residual.

    Parameters
    ----------
    indptr, next_states, mixed
        One transition row per pair (s, a), in the models' own lists; those with d > 0 are read.
    d : (n_states, n_actions)
    v, residual : (n_states,)

    Returns
    -------
    (n_states,)
    """
    S = v.size
    if is_dense(S, next_states.size, d.shape[1]):
        M = np.empty((S, S))
        policy_matrix(indptr, next_states, mixed, 1, 0, d, M)
        M *= -gamma
        M.flat[:: S + 1] += 1.0
        if S > KERNEL_STATES:
            return np.asarray(v + np.linalg.solve(M, residual))
        lu_inplace(M)
        x = residual.copy()
        lu_solve(M, x)
        return v + x
    return v + _sparse(_rows(indptr, next_states, mixed, d), gamma, residual)


def _rows(
    indptr: NDArray[np.int64], next_states: NDArray[np.int32], mixed: FloatArray, d: FloatArray
) -> Any:
    import scipy.sparse as sp

    S = d.shape[0]
    widths = np.diff(indptr)
    taken = d.reshape(-1) > 0
    data = np.empty(int(widths[taken].sum()))
    fill_policy_rows(indptr, mixed, 1, 0, d, data)
    columns = next_states[np.repeat(taken, widths)]
    starts = np.concatenate([[0], np.cumsum(np.where(taken, widths, 0).reshape(S, -1).sum(axis=1))])
    return sp.csr_array((data, columns, starts), shape=(S, S))


def _sparse(P: Any, gamma: float, residual: FloatArray) -> FloatArray:
    """Krylov on what is left after the constant part, which a shift solves exactly.

    Where it does not converge (slow mixing), a direct factorisation, cheap for narrow bands.
    """
    import scipy.sparse as sp
    from scipy.sparse.linalg import gmres, splu

    S = residual.size
    M = sp.eye_array(S, format="csr") - gamma * P
    shift = 0.5 * float(residual.max() + residual.min()) / (1 - gamma)
    rest = residual - (1 - gamma) * shift
    x, info = gmres(M, rest, rtol=1e-5, restart=30, maxiter=4)
    if info == 0:
        return np.asarray(x + shift)
    return np.asarray(splu(M.tocsc()).solve(residual))
