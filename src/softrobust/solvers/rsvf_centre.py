"""The smallest ball that meets all sets of RSVF, for one pair: min_θ max_v dist₁(θ, K(v)).

    K(v) = {p ∈ Δ : pᵀz_v ≤ b_v},     z_v = r_{s,a} + γv,   b_v = VaR^{1−δ/(SA)}[P̂ᵀz_v]

From θ the cheapest way into K(v) moves mass y_j ≤ θ_j from entries of large z onto the smallest:
dist₁(θ, K(v)) = min {2·Σy : Σ_j y_j·(z_j − min z) ≥ θᵀz − b, 0 ≤ y ≤ θ}. So the radius and centre
are one linear program in (θ, y_v, ψ). Often the sets have a point in common and ψ = 0.

The program has many optimal centres. Among them we take one nearest to the mean row in L1: it
depends on no solver's habits, and is the least that has to be given up.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softrobust.errors import SolverError
from softrobust.kernels.balls import meets_all
from softrobust.kernels.l1 import l1_reach

FloatArray = NDArray[np.float64]

INSIDE = 1e-12  # of the spread of z: a point this near counts as in the set


def centre(p: FloatArray, Z: FloatArray, levels: FloatArray) -> tuple[FloatArray, float, int]:
    """Centre θ (n,), radius ψ and the number of linear programs it took.

    Parameters
    ----------
    p : (n,)
        The mean row; the centre nearest to it is taken.
    Z : (m, n), levels : (m,)
        The half-spaces pᵀz ≤ b; each must meet the simplex.
    """
    theta = np.empty(p.size)
    slack = INSIDE * np.maximum(np.abs(Z).max(axis=1), np.ptp(Z, axis=1))
    if meets_all(p, Z, levels, slack, theta):
        return theta, 0.0, 0
    low = Z.min(axis=1)
    unit = np.maximum(np.ptp(Z, axis=1), np.finfo(float).tiny)
    G, b = (Z - low[:, None]) / unit[:, None], np.maximum((levels - low) / unit, 0.0)
    common = _common_point(p, G, b)
    if common is not None:
        theta, programs = common, 1
    else:
        psi, _ = _minimax(p, G, b, None)
        _, theta = _minimax(p, G, b, psi)
        programs = 3
    theta = np.maximum(theta, 0.0)  # a solver's tolerance; what it costs is in ψ below
    theta /= theta.sum()
    return theta, distance(theta, Z, levels), programs


def distance(theta: FloatArray, Z: FloatArray, levels: FloatArray) -> float:
    """max over sets of dist₁(θ, K)."""
    out = np.empty(theta.size)
    return max(float(l1_reach(theta, z, b, out)) for z, b in zip(Z, levels, strict=True))


def _common_point(p: FloatArray, G: FloatArray, b: FloatArray) -> FloatArray | None:
    """The point of all sets that is nearest to p, or None where they have none in common."""
    n = p.size
    # θ = p + up − down, Σ(up + down) least; up and down move the same mass.
    answer = _solve(
        np.ones(2 * n),
        np.c_[G, -G],
        b - G @ p,
        np.r_[np.ones(n), -np.ones(n)][None],
        np.zeros(1),
        [(0.0, None)] * n + [(0.0, float(x)) for x in p],
        infeasible_is_an_answer=True,
    )
    return None if answer is None else p + answer[:n] - answer[n:]


def _minimax(
    p: FloatArray, G: FloatArray, b: FloatArray, psi: float | None
) -> tuple[float, FloatArray]:
    """(ψ, θ) of the program; with ψ given, the θ nearest to p among those of that radius."""
    from scipy import sparse

    m, n = G.shape
    eye, ones = sparse.eye_array(n), np.ones((1, n))
    each = sparse.eye_array(m)  # columns: θ (n), y (m·n), t (n), ψ
    blocks: list[list[Any]] = [
        [G, -sparse.block_diag([row[None] for row in G]), None, None],
        [None, 2 * sparse.kron(each, ones), None, -np.ones((m, 1))],
        [
            -sparse.kron(np.ones((m, 1)), eye),
            sparse.kron(each, eye),
            sparse.csr_array((m * n, n)),
            None,
        ],
    ]
    right = [b, np.zeros(m), np.zeros(m * n)]
    cost = np.r_[np.zeros(n * (m + 2)), 1.0]
    bounds: list[tuple[float, float | None]] = [(0.0, None)] * (n * (m + 2) + 1)
    if psi is not None:  # t ≥ |θ − p|
        blocks += [[eye, None, -eye, None], [-eye, None, -eye, None]]
        right += [p, -p]
        cost = np.r_[np.zeros(n * (m + 1)), np.ones(n), 0.0]
        bounds[-1] = (0.0, psi * (1 + 1e-9) + 1e-10)
    A = sparse.block_array(blocks, format="csr")
    total = np.r_[np.ones(n), np.zeros(n * (m + 1) + 1)][None]
    x = _solve(cost, A, np.concatenate(right), total, np.ones(1), bounds)
    assert x is not None
    return float(x[-1]), x[:n]


def _solve(
    cost: FloatArray,
    A: Any,
    b: FloatArray,
    A_eq: FloatArray,
    b_eq: FloatArray,
    bounds: list[tuple[float, float | None]],
    infeasible_is_an_answer: bool = False,
) -> FloatArray | None:
    from scipy.optimize import linprog

    found = linprog(
        cost,
        A_ub=A,
        b_ub=b,
        A_eq=A_eq,
        b_eq=b_eq,
        bounds=bounds,
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if found.x is None or found.status != 0:
        if infeasible_is_an_answer and found.status == 2:
            return None
        raise SolverError(f"The linear program of RSVF's centre failed: {found.message}")
    return np.asarray(found.x, dtype=np.float64)
