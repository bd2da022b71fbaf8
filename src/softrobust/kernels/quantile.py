"""One sweep of the quantile updates: VaR over models, alone or mixed with the mean.

    T v(s) = max_a  λ·VaR_ω[Z(s,a,ω)] + (1 − λ)·m(s,a),      VaR = inf{z : Σ_{Z ≤ z} f ≥ target}

The quantile of a pair is the Z of one model, whose row is the slope of T there. A quantile moves by
no more than its sample, so the rounding of Z bounds the rounding of T.
"""

from __future__ import annotations

import numpy as np

from softrobust.kernels._jit import kernel
from softrobust.kernels.expected import block_of
from softrobust.kernels.tail import select


@kernel
def quantile_sweep(Z, f, live, target, lam, means, allowed, decision, fixed, values, picked):
    """Values (S,) ← Tv, decision (S,) ← a best action, picked (S,) ← its quantile's model.

    Z (S, A, N); f (L,) weights of the models `live` (L,); means (S, A); with `fixed` the decision
    is kept. Ties keep the decision that came in.
    """
    S, A = allowed.shape
    L = live.size
    x, scratch = np.empty(L), np.empty((4, L))
    for s in range(S):
        best, first = -np.inf, decision[s]
        for turn in range(A + 1):
            a = first if turn == 0 else turn - 1
            if (turn > 0 and (fixed or a == first)) or not allowed[s, a]:
                continue
            for i in range(L):
                x[i] = Z[s, a, live[i]]
            q, _ = select(x, f, L, 1.0, target, scratch)
            value = q if lam == 1.0 else lam * q + (1.0 - lam) * means[s, a]
            if value > best or turn == 0:
                best, decision[s] = value, a
                for i in range(L):
                    if x[i] == q:
                        picked[s] = live[i]
                        break
        values[s] = best


@kernel
def quantile_rows(prob, indptr, n_models, lam, mean, decision, picked, rows):
    """Rows (nnz,) of the decision's pairs ← λ·P̂^ω + (1 − λ)·p̄, ω the quantile's model."""
    A = (indptr.size - 1) // decision.size
    for s in range(decision.size):
        k = s * A + decision[s]
        P, lo = block_of(prob, indptr, k, n_models), indptr[k]
        for j in range(P.shape[1]):
            rows[lo + j] = lam * P[picked[s], j] + (1.0 - lam) * mean[lo + j]
