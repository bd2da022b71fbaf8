"""What a set of models must satisfy, checked when it is made, in messages that name the place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from softrobust.data.arrays import frozen
from softrobust.data.log import check_p0 as check_distribution
from softrobust.errors import InputError

if TYPE_CHECKING:
    from softrobust.data.labels import Labels
    from softrobust.models.model_set import ModelSet

FloatArray = NDArray[np.float64]
SUM_TOLERANCE = 1e-8


def freeze(x: ArrayLike, dtype: DTypeLike) -> NDArray[Any]:
    """A read-only, C-contiguous view; large arrays are shared with the caller, not copied."""
    out = np.ascontiguousarray(x, dtype=dtype)
    if out is x or (isinstance(x, np.ndarray) and np.shares_memory(out, x)):
        if isinstance(x, np.ndarray) and not x.flags.writeable:
            return out
        out = out.view()
    out.flags.writeable = False
    return out


def check_weights(f: ArrayLike) -> FloatArray:
    """Weights of models: finite, not negative, summing to 1 within 1e-8."""
    out = np.asarray(f, dtype=np.float64)
    if out.ndim != 1 or out.size == 0:
        raise InputError(f"Model weights must be a non-empty vector; got shape {out.shape}.")
    bad = np.flatnonzero(~np.isfinite(out) | (out < 0))
    if bad.size:
        raise InputError(
            f"Model weights must be finite and not negative: model {bad[0]} has {out[bad[0]]}."
        )
    total = out.sum()
    if total == 0:
        raise InputError("Model weights are all zero; at least one model must count.")
    if abs(total - 1) > SUM_TOLERANCE:
        raise InputError(
            f"Model weights must sum to 1 (tolerance 1e-8); they sum to {total:.10g}. "
            "Divide them by their sum."
        )
    # Later sums take Σf = 1 at its word: what the tolerance lets through is divided out, once.
    return out if abs(total - 1) <= 1e-13 else np.asarray(out / total)


def check_p0(p0: ArrayLike, states: Labels) -> FloatArray:
    """Initial distribution: one probability per state, summing to 1 within 1e-8; a frozen copy."""
    out = np.asarray(p0, dtype=np.float64)
    check_distribution(out, states)
    return frozen(out, np.float64)


def check_next_states(models: ModelSet) -> None:
    """Next states exist, and ascend within each pair (so none is listed twice)."""
    listed, starts = models.next_states, models.indptr
    if not listed.size:
        return
    if starts[0] != 0 or (np.diff(starts) < 0).any():
        raise InputError("indptr must start at 0 and never fall.")
    if listed.min() < 0 or listed.max() >= models.n_states:
        raise InputError(f"next_states must lie in 0…{models.n_states - 1}.")
    falls = np.flatnonzero(np.diff(listed) <= 0) + 1
    inside = falls[~np.isin(falls, starts)]
    if inside.size:
        k = int(np.searchsorted(starts, inside[0], side="right")) - 1
        s, a = divmod(k, models.n_actions)
        raise InputError(
            "The next states of a pair must be listed once each, in ascending order: state "
            f"'{models.states[s]}', action '{models.actions[a]}' has them out of order."
        )


def check_probabilities(models: ModelSet, tolerance: float) -> FloatArray:
    """Entries in [0, 1], rows that sum to 1; above 1e-8 of tolerance they are divided by it."""
    prob, N = models.prob, models.n_models
    widths = np.diff(models.indptr)
    lo, hi = (float(prob.min()), float(prob.max())) if prob.size else (0.0, 0.0)
    # Ordinary comparisons are false for NaN, so the sound case is the one tested for.
    if not (lo >= 0 and hi <= 1 + tolerance):
        flat = int(np.flatnonzero(~((prob >= 0) & (prob <= 1 + tolerance)))[0])
        k = int(np.searchsorted(models.indptr * N, flat, side="right")) - 1
        omega, j = divmod(flat - int(models.indptr[k]) * N, int(widths[k]))
        s_next = models.next_states[models.indptr[k] + j]
        raise InputError(
            f"A probability must lie in [0, 1]: {_place(models, k, omega)}, next state "
            f"'{models.states[s_next]}' has {prob[flat]}. Check the column or the axis order."
        )
    sums = row_sums(prob, widths, N)
    worst = int(np.argmax(np.abs(sums - 1))) if sums.size else 0
    if sums.size and not abs(sums[worst] - 1) <= tolerance:
        pair, omega = divmod(worst, N)
        k = int(np.flatnonzero(widths)[pair])
        hint = (
            "Normalise the draws (normalise=True, --normalise) or check the axis order."
            if abs(sums[worst] - 1) <= 1e-6
            else "Normalise the draws or check the axis order."
        )
        raise InputError(
            f"P rows must sum to 1 (tolerance {tolerance:g}): {_place(models, k, omega)} sums to "
            f"{sums[worst]:.10g}. {hint}"
        )
    if tolerance > SUM_TOLERANCE and sums.size:
        scaled = prob / np.repeat(sums, np.repeat(widths[widths > 0], N))
        return np.asarray(freeze(scaled, np.float64))
    return prob


def row_sums(prob: FloatArray, widths: NDArray[np.int64], n_models: int) -> FloatArray:
    """Σ_s′ P̂^ω(s′|s,a), flat over (available pair, model)."""
    used = widths[widths > 0]
    if used.size == 0:
        return np.empty(0)
    if (used == used[0]).all():
        return np.asarray(prob.reshape(-1, used[0]).sum(axis=1))
    starts = np.concatenate([[0], np.cumsum(np.repeat(used, n_models))[:-1]])
    return np.add.reduceat(prob, starts)


def _place(models: ModelSet, k: int, omega: int) -> str:
    s, a = divmod(k, models.n_actions)
    return f"model {omega}, state '{models.states[s]}', action '{models.actions[a]}'"
