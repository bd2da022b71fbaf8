"""Risk measures of a weighted sample (eqs. 2.2 and 3.2): mean, VaR, CVaR and their weights.

For values x_ω with weights f_ω and a confidence α, the tail is the worst 1 − α of the probability:

    CVaR^α  averages the tail, splitting the atom at its edge: α = 0 is the mean, α = 1 the minimum
            over models of positive weight;
    VaR^α   is the lower (1 − α)-quantile inf{z : G(z) ≥ 1 − α}; the percentile criterion (eq. 2.1)
            is the upper one, sup{z : P[x ≥ z] ≥ α}.

Accumulated weights carry rounding errors (0.1 + 0.2 > 0.3), so an edge is taken as reached when it
is missed by less than `EDGE` of the total.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from softrobust.errors import InputError

FloatArray = NDArray[np.float64]
EDGE = 1e-12


def check_share(name: str, value: float) -> float:
    """A float in [0, 1], or an `InputError` that names it."""
    try:
        out = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a number in [0, 1]; it is {value!r}.") from None
    if not 0.0 <= out <= 1.0:
        raise InputError(f"{name} must lie in [0, 1]; it is {out:g}.")
    return out


def _sample(x: ArrayLike, f: ArrayLike | None) -> tuple[FloatArray, FloatArray]:
    values = np.asarray(x, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise InputError(f"A risk measure needs a non-empty vector; got shape {values.shape}.")
    if not np.isfinite(values).all():
        raise InputError(
            f"A risk measure needs finite values; entry "
            f"{int(np.flatnonzero(~np.isfinite(values))[0])} is not."
        )
    if f is None:
        return values, np.full(values.size, 1.0 / values.size)
    weights = np.asarray(f, dtype=np.float64)
    if weights.shape != values.shape:
        raise InputError(f"{values.size} values came with weights of shape {weights.shape}.")
    # Written so that NaN fails: comparisons with it are false.
    if not (weights.min() >= 0 and abs(weights.sum() - 1) <= 1e-8):
        raise InputError(
            "Weights must be at least 0 and sum to 1 (tolerance 1e-8); the least is "
            f"{weights.min():g} and they sum to {weights.sum():.10g}."
        )
    return values, weights


def mean(x: ArrayLike, f: ArrayLike | None = None) -> float:
    """Σ f_ω x_ω."""
    values, weights = _sample(x, f)
    return float(values @ weights)


def tail_weights(x: ArrayLike, f: ArrayLike | None, alpha: float) -> FloatArray:
    """The q ≥ 0, Σq = 1, of which CVaR is the expectation: worst models first, q ≤ f/(1 − α).

    At α = 1 all of q goes to one worst model among those of positive weight.

    Returns
    -------
    q : (n_models,)
    """
    values, weights = _sample(x, f)
    tail = 1.0 - check_share("alpha", alpha)
    q = np.zeros_like(values)
    live = np.flatnonzero(weights > 0)
    order = live[np.argsort(values[live], kind="stable")]
    if tail <= EDGE:
        q[order[0]] = 1.0
        return q
    cumulative = np.cumsum(weights[order])
    edge = tail * cumulative[-1]
    n = int(np.searchsorted(cumulative, edge * (1 - EDGE)))
    n = min(n, order.size - 1)
    q[order[:n]] = weights[order[:n]] / edge
    q[order[n]] = max(0.0, 1.0 - q[order[:n]].sum())
    return q


def cvar(x: ArrayLike, f: ArrayLike | None = None, alpha: float = 0.9) -> float:
    """The average of the worst 1 − α of the probability mass (eq. 3.2).

    Examples
    --------
    >>> cvar([1.0, 2.0, 3.0, 4.0], alpha=0.5)
    1.5
    >>> round(cvar([1.0, 2.0, 3.0, 4.0], alpha=0.625), 6)  # one and a half atoms
    1.333333
    """
    values, _ = _sample(x, f)
    return float(values @ tail_weights(x, f, alpha))


def var(x: ArrayLike, f: ArrayLike | None = None, alpha: float = 0.9) -> float:
    """VaR^α, the lower quantile inf{z : G(z) ≥ 1 − α} (eq. 2.2).

    Examples
    --------
    >>> var(range(1, 101), alpha=0.7), var_upper(range(1, 101), alpha=0.7)
    (30.0, 31.0)
    """
    return _quantile(x, f, alpha, upper=False)


def var_upper(x: ArrayLike, f: ArrayLike | None = None, alpha: float = 0.9) -> float:
    """The percentile criterion sup{z : P[x ≥ z] ≥ α} (eq. 2.1): the upper (1 − α)-quantile."""
    return _quantile(x, f, alpha, upper=True)


def _quantile(x: ArrayLike, f: ArrayLike | None, alpha: float, *, upper: bool) -> float:
    values, weights = _sample(x, f)
    tail = 1.0 - check_share("alpha", alpha)
    live = np.flatnonzero(weights > 0)
    order = live[np.argsort(values[live], kind="stable")]
    cumulative = np.cumsum(weights[order])
    edge = tail * cumulative[-1]
    slack = EDGE * cumulative[-1]
    # Lower: first atom whose cumulative weight reaches the edge. Upper: first one that passes it.
    n = int(
        np.searchsorted(
            cumulative, edge + slack if upper else edge - slack, side="right" if upper else "left"
        )
    )
    return float(values[order[min(n, order.size - 1)]])
