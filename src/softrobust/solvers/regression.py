"""Linear regression of values on features: w = (Σφφᵀ + ridge·I)⁻¹ Σφσ (section 4.3).

# ERRATUM 5: the paper's weight equation has a stray P, and its sample form lacks φ(s_t).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softrobust.errors import InputError

FloatArray = NDArray[np.float64]
RANK_TOLERANCE = 1e-10  # of the largest singular value, columns scaled to length 1


def feature_matrix(features: Any, s: FloatArray) -> FloatArray:
    """(n, n_features) Φ of states (n, n_variables), checked."""
    Phi = np.asarray(features.transform(s), dtype=np.float64)
    if Phi.ndim != 2 or Phi.shape[0] != s.shape[0] or not np.isfinite(Phi).all():
        raise InputError(
            f"features.transform must give finite numbers, one row per state; for {s.shape[0]} "
            f"states it gave shape {Phi.shape}."
        )
    return Phi


def regress(Phi: FloatArray, targets: FloatArray, ridge: float, where: str) -> FloatArray:
    """The weights (n_features[, k]) for targets (n[, k]); rank-deficient features are an error.

    With a ridge, least squares on the stacked system [Φ; √ridge·I]: its conditioning is not
    squared, as that of the normal equations would be.
    """
    F = Phi.shape[1]
    if ridge > 0:
        root = np.sqrt(ridge) * np.eye(F)
        Phi = np.concatenate([Phi, root])
        targets = np.concatenate([targets, np.zeros((F, *targets.shape[1:]))])
        return np.asarray(np.linalg.lstsq(Phi, targets, rcond=None)[0])
    check_rank(Phi, where)
    return np.asarray(np.linalg.lstsq(Phi, targets, rcond=None)[0])


def check_rank(Phi: FloatArray, where: str) -> None:
    """Refuse features of which one is a combination of others on these states."""
    n, F = Phi.shape
    size = np.sqrt((Phi**2).sum(axis=0))
    singular = np.linalg.svd(Phi / np.where(size > 0, size, 1.0), compute_uv=False)
    rank = int((singular > RANK_TOLERANCE * singular[0]).sum())
    if rank < F:
        raise InputError(
            f"The features are rank-deficient: {F} features span {rank} dimensions on {where} "
            f"({n} states). Set ridge, for example ridge=0.1 (--set ridge=0.1), use fewer "
            "features, or more episodes and a larger batch."
        )
