"""Current practice where states are vectors: who decided what, as the log shows it.

    π_b(a|s) ∝ exp(w_aᵀx(s)),     x(s) = 1, or (1, z), or (1, z, z⊗z),     z = (s − mean)/deviation

a multinomial logistic regression with a ridge on all weights but the constant ones. Which of the
three (plain frequencies, linear, quadratic) and how much ridge is decided by the likelihood of
decisions that were left out: whole episodes, for steps of one episode resemble each other.

Practice may follow what the log does not record (a calendar, a hunch). Then this is the part of it
that measurements explain, and the rest is chance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import log_softmax

from softrobust._core.arrays import FloatArray, IntArray
from softrobust.data.continuous import ContinuousLog
from softrobust.errors import SolverError
from softrobust.models.continuous_policy import NetworkPolicy

FOLDS = 5
RIDGES = (1.0, 10.0, 100.0)
MOST_ROWS = 20_000  # that the choice of degree and ridge looks at
CLEARLY = 0.005  # nats per decision that a richer form has to gain


@final
@dataclass(frozen=True, slots=True, eq=False)
class ContinuousBehaviour:
    """Current practice as a policy."""

    policy: NetworkPolicy  # one layer: a logistic regression
    degree: int  # 0: the same frequencies everywhere; 1: linear; 2: with products
    gain: float  # average log-likelihood of left-out decisions, less that of plain frequencies
    shares: tuple[float, ...]  # how often each action was taken


def continuous_behaviour(log: ContinuousLog) -> ContinuousBehaviour:
    """Estimate who decided what from a log of vectors.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> s = rng.normal(size=(400, 1))
    >>> log = ContinuousLog.from_arrays(s, np.where(s[:, 0] > 0, "treat", "wait"), s)
    >>> found = continuous_behaviour(log)
    >>> [found.policy.actions[int(a)] for a in found.policy.probs([[-2.0], [2.0]]).argmax(axis=1)]
    ['wait', 'treat']
    """
    a = log.a.astype(np.int64)
    A = len(log.actions)
    centre, scale = log.s.mean(axis=0), log.s.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    z = (log.s - centre) / scale
    degree, ridge, gain = _choose(z, a, A, _folds(log))
    weights, constant = _fit(_inputs(z, degree), a, A, ridge)
    if degree == 0:  # no input counts
        weights = np.zeros((z.shape[1], A))
    policy = NetworkPolicy(
        (weights,), (constant,), log.variables, log.actions, centre, scale, max(degree, 1)
    )
    shares = np.bincount(a, minlength=A) / a.size
    return ContinuousBehaviour(policy, degree, gain, tuple(float(p) for p in shares))


def _inputs(z: FloatArray, degree: int) -> FloatArray:
    """(n, 0), (n, d) or (n, d + d(d + 1)/2), as `NetworkPolicy` has them."""
    if degree == 0:
        return np.empty((z.shape[0], 0))
    if degree == 1:
        return z
    i, j = np.triu_indices(z.shape[1])
    return np.concatenate([z, z[:, i] * z[:, j]], axis=1)


def _folds(log: ContinuousLog) -> IntArray:
    """(n,) which fold a row belongs to: whole episodes, or stretches of rows where none are."""
    n = len(log)
    if log.episode is None or np.unique(log.episode).size < FOLDS:
        return np.arange(n) * FOLDS // n
    _, number = np.unique(log.episode, return_inverse=True)
    return np.asarray(number % FOLDS, dtype=np.int64)


def _choose(z: FloatArray, a: IntArray, A: int, fold: IntArray) -> tuple[int, float, float]:
    """(degree, ridge, gain over frequencies) by the likelihood of decisions that were left out."""
    if a.size < 2 * FOLDS or np.unique(a).size == 1:
        return 0, 1.0, 0.0
    rows = np.arange(a.size)[:: max(1, a.size // MOST_ROWS)]
    z, a, fold = z[rows], a[rows], fold[rows]
    plain = _left_out(_inputs(z, 0), a, A, fold, 1.0)
    best = (0, 1.0, 0.0)
    for degree in (1, 2):
        x = _inputs(z, degree)
        for ridge in RIDGES:
            gain = _left_out(x, a, A, fold, ridge) - plain
            if gain > best[2] + (CLEARLY if degree > best[0] else 0.0):
                best = (degree, ridge, gain)
    return best


def _left_out(x: FloatArray, a: IntArray, A: int, fold: IntArray, ridge: float) -> float:
    """Average log-likelihood of the decisions of each fold under a fit to the others."""
    total = 0.0
    for k in range(FOLDS):
        out = fold == k
        if out.any() and not out.all():
            W, b = _fit(x[~out], a[~out], A, ridge)
            logs = log_softmax(x[out] @ W + b, axis=1)
            total += float(logs[np.arange(out.sum()), a[out]].sum())
    return total / a.size


def _fit(x: FloatArray, a: IntArray, A: int, ridge: float) -> tuple[FloatArray, FloatArray]:
    """Weights (n_inputs, A) and constants (A,); a little of the ridge also holds the constants."""
    from scipy.optimize import minimize

    n, d = x.shape
    hit = np.eye(A)[a]

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        W, b = flat[: d * A].reshape(d, A), flat[d * A :]
        logs = log_softmax(x @ W + b, axis=1)
        off = np.exp(logs) - hit
        value = -float((hit * logs).sum()) + 0.5 * ridge * float((W**2).sum())
        value += 0.5e-2 * float((b**2).sum())
        slope = np.concatenate([(x.T @ off + ridge * W).ravel(), off.sum(axis=0) + 1e-2 * b])
        return value / n, slope / n

    found = minimize(loss, np.zeros((d + 1) * A), jac=True, method="L-BFGS-B")
    if not np.isfinite(found.x).all():
        raise SolverError("Current practice could not be estimated: the logistic fit diverged.")
    return found.x[: d * A].reshape(d, A), found.x[d * A :]
