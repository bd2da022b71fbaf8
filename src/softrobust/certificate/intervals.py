"""What fresh posterior draws say of a policy, each figure with an interval that states its noise.

Held-out returns z_i with weights w_i are one sample from the posterior. The mean and CVaR are
averages of the scores z and b − (b − z)₊/(1 − α) with b the sample's VaR (eq. 6: the first-order
effect of b vanishes at the maximum), so their intervals follow from the scores' spread; VaR gets an
interval of order statistics. The posterior lower bound (algorithms, "Posterior, not sample") fixes
b on the *training* models: for any fixed b the score's expectation is at most the true CVaR, so the
held-out average is an unbiased estimate of a valid lower bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from softrobust.objective import SoftRobust, cvar, mean, var
from softrobust.objective.measures import EDGE

FloatArray = NDArray[np.float64]
LEVEL = 0.95


@final
@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its 95 % interval; `low` and `high` are None where no interval is known."""

    value: float
    low: float | None
    high: float | None

    @property
    def width(self) -> float:
        """High − low; infinite where no interval is known."""
        return np.inf if self.low is None or self.high is None else self.high - self.low


@final
@dataclass(frozen=True, slots=True)
class HeldOut:
    """A policy on models that it was not chosen on.

    `optimism` is the training objective minus the held-out one. `lower_bound` estimates a valid
    lower bound on the policy's objective under the posterior itself; its `low` is a one-sided 95 %
    confidence limit. None at α = 1, where no finite sample bounds the worst model.
    """

    n_models: int
    objective: Estimate
    mean: Estimate
    var: Estimate
    cvar: Estimate
    optimism: float
    lower_bound: Estimate | None


def held_out(
    train: FloatArray, f: FloatArray, test: FloatArray, w: FloatArray, objective: SoftRobust
) -> HeldOut:
    """Returns on the training models (weights f) beside those on held-out ones (weights w)."""
    alpha, lam = objective.alpha, objective.lam
    tail_score = _tail_score(test, var(test, w, alpha), alpha)
    objective_score = None if tail_score is None else (1 - lam) * test + lam * tail_score
    if lam == 0:
        objective_score = test
    value = objective.value(test, w)
    return HeldOut(
        n_models=int(test.size),
        objective=_average(value, objective_score, w),
        mean=_average(mean(test, w), test, w),
        var=_quantile(test, w, alpha),
        cvar=_average(cvar(test, w, alpha), tail_score, w),
        optimism=objective.value(train, f) - value,
        lower_bound=_lower_bound(train, f, test, w, objective),
    )


def cvar_interval_width(z: FloatArray, alpha: float) -> float:
    """Width of the 95 % interval of CVaR from equally weighted returns z."""
    w = np.full(z.size, 1.0 / z.size)
    return _average(cvar(z, w, alpha), _tail_score(z, var(z, w, alpha), alpha), w).width


def _tail_score(z: FloatArray, b: float, alpha: float) -> FloatArray | None:
    """B − (b − z)₊/(1 − α), whose mean is CVaR when b is the VaR; None at α = 1."""
    if 1 - alpha <= EDGE:
        return None
    return b - np.maximum(b - z, 0.0) / (1 - alpha)


def _average(value: float, score: FloatArray | None, w: FloatArray) -> Estimate:
    if score is None or np.count_nonzero(w) < 2:
        return Estimate(value, None, None)
    half = _t_quantile((1 + LEVEL) / 2, w) * _standard_error(score, w)
    return Estimate(value, value - half, value + half)


def _lower_bound(
    train: FloatArray, f: FloatArray, test: FloatArray, w: FloatArray, objective: SoftRobust
) -> Estimate | None:
    lam, alpha = objective.lam, objective.alpha
    score = _tail_score(test, var(train, f, alpha), alpha)
    if lam == 0:
        score = test
    elif score is None:
        return None
    else:
        score = (1 - lam) * test + lam * score
    value = mean(score, w)
    if np.count_nonzero(w) < 2:
        return Estimate(value, None, None)
    return Estimate(value, value - _t_quantile(LEVEL, w) * _standard_error(score, w), None)


def _effective_size(w: FloatArray) -> float:
    """Kish's effective sample size 1/Σw²."""
    return float(1.0 / np.square(w).sum())


def _standard_error(score: FloatArray, w: FloatArray) -> float:
    """Of a weighted average: √(Σw²(x − x̄)²), with the small-sample factor n/(n − 1)."""
    n = _effective_size(w)
    centred = score - score @ w
    return float(np.sqrt(np.square(w * centred).sum() * n / max(n - 1, 1e-9)))


def _t_quantile(level: float, w: FloatArray) -> float:
    from scipy.stats import t

    return float(t.ppf(level, max(_effective_size(w) - 1, 1.0)))


def _quantile(z: FloatArray, w: FloatArray, alpha: float) -> Estimate:
    """VaR with an interval of order statistics: the binomial range of ranks around 1 − α.

    An end of the range that runs off the sample has no order statistic: it stays unknown.
    """
    from scipy.stats import binom

    n = max(round(_effective_size(w)), 1)
    lo_rank = float(binom.ppf((1 - LEVEL) / 2, n, 1 - alpha))
    hi_rank = float(binom.ppf((1 + LEVEL) / 2, n, 1 - alpha))
    order = np.argsort(z, kind="stable")
    cumulative = np.cumsum(w[order])

    def at(share: float) -> float | None:
        if not 0 < share < 1:
            return None
        i = int(np.searchsorted(cumulative, share - EDGE))
        return float(z[order[min(i, z.size - 1)]])

    low, high = at(lo_rank / n), at((hi_rank + 1) / n)
    return Estimate(var(z, w, alpha), low, high)
