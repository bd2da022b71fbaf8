"""Large sparse evaluation: (I − γP_π)x = b or its transpose, by BiCGStab with a checked residual.

One model's rows fit in cache, so a product costs little more than its multiplications. The residual
that decides is always recomputed from x itself; recurrences only propose.
Shapes: rows (S + 1,), columns (nnz,), values (nnz,): the policy's own transition rows, CSR.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from softrobust.kernels._jit import kernel
from softrobust.kernels.evaluate import fill_policy_rows

ITERATIONS = 150  # of one cycle
CYCLES = 8


@kernel
def _product(rows, columns, values, gamma, transposed, x, out):
    """out ← (I − γP)x, or (I − γPᵀ)x."""
    S = x.size
    if transposed:
        out[:] = x
        for s in range(S):
            weight = gamma * x[s]
            if weight != 0.0:
                for j in range(rows[s], rows[s + 1]):
                    out[columns[j]] -= weight * values[j]
    else:
        for s in range(S):
            total = 0.0
            for j in range(rows[s], rows[s + 1]):
                total += values[j] * x[columns[j]]
            out[s] = x[s] - gamma * total


@kernel
def _size(x, one_norm):
    """‖x‖₁ or ‖x‖∞."""
    out = 0.0
    for value in x:
        out = out + abs(value) if one_norm else max(out, abs(value))
    return out


@kernel
def _cycle(rows, columns, values, gamma, transposed, r, target, dx):
    """dx (S,) ← an approximate solution for the residual r (S,), by BiCGStab from zero.

    `target` is the size of the residual to reach in the 1- or ∞-norm.
    """
    S = r.size
    dx[:] = 0.0
    r = r.copy()
    shadow = r.copy()
    p, v, s_, t = np.zeros(S), np.zeros(S), np.empty(S), np.empty(S)
    rho, alpha, omega = 1.0, 1.0, 1.0
    for _ in range(ITERATIONS):
        before, rho = rho, np.dot(shadow, r)
        if rho == 0.0 or omega == 0.0:
            return
        beta = rho / before * alpha / omega
        for i in range(S):
            p[i] = r[i] + beta * (p[i] - omega * v[i])
        _product(rows, columns, values, gamma, transposed, p, v)
        along = np.dot(shadow, v)
        if along == 0.0:
            return
        alpha = rho / along
        for i in range(S):
            s_[i] = r[i] - alpha * v[i]
        _product(rows, columns, values, gamma, transposed, s_, t)
        length = np.dot(t, t)
        omega = np.dot(t, s_) / length if length > 0.0 else 0.0
        for i in range(S):
            dx[i] += alpha * p[i] + omega * s_[i]
            r[i] = s_[i] - omega * t[i]
        size = _size(r, transposed)
        if not np.isfinite(size):
            dx[:] = 0.0
            return
        if size <= target:
            return


@kernel
def solve_csr(rows, columns, values, gamma, transposed, share, x):
    """x (S,): right-hand side in, solution out; returns ‖b − Mx‖/‖x‖, at most `share` on success.

    The norm is the one in which ‖M⁻¹‖ = 1/(1 − γ): 1 for the transpose, ∞ else.
    """
    b = x.copy()
    r = b.copy()
    x[:] = 0.0
    trial, dx, product = np.empty_like(b), np.empty_like(b), np.empty_like(b)
    best = np.inf
    for _ in range(CYCLES):
        target = 0.1 * share * max(_size(x, transposed), _size(b, transposed))
        _cycle(rows, columns, values, gamma, transposed, r, target, dx)
        for i in range(b.size):
            trial[i] = x[i] + dx[i]
        _product(rows, columns, values, gamma, transposed, trial, product)
        for i in range(b.size):
            product[i] = b[i] - product[i]
        size = _size(trial, transposed)
        reached = _size(product, transposed) / size if size > 0.0 else 0.0
        if not reached < best:
            break
        best = reached
        x[:] = trial
        r[:] = product
        if best <= share:
            break
    return best


@kernel(parallel=True)
def evaluate_sparse(
    indptr, prob, rows, columns, probs, gamma, share, want_occupancy, first, last, v, h, reached
):
    """`evaluate_serial` for sparse models first … last; reached (N, 2): relative residuals."""
    N = v.shape[0]
    for omega in prange(first, last):
        values = np.empty(columns.size)
        fill_policy_rows(indptr, prob, N, omega, probs, values)
        reached[omega, 0] = solve_csr(rows, columns, values, gamma, False, share, v[omega])
        if want_occupancy:
            reached[omega, 1] = solve_csr(rows, columns, values, gamma, True, share, h[omega])
