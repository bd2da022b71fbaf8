"""What other posterior draws say of a policy, each figure with an interval that states its noise.

Held-out returns z_i with weights w_i are one sample from the posterior. The mean and CVaR are
averages of the scores z and b − (b − z)₊/(1 − α) with b the sample's VaR (eq. 3.2: the first-order
effect of b vanishes at the maximum), so their intervals follow from the scores' spread. Scores of a
tail are skewed to the left, which a symmetric interval ignores to its cost: Hall's (1992) cubic
transformation corrects Student's t for it. VaR gets an interval of order statistics. With fewer
than `TAIL_DRAWS` draws in the tail no interval is given for CVaR at all.

The posterior lower bound fixes b on the *training* models: for any fixed b the score's expectation
is at most the true CVaR, so the held-out average is an unbiased estimate of a valid lower bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from softrobust._core.arrays import FloatArray
from softrobust.errors import InputError
from softrobust.objective import EDGE, Objective, Percentile, cvar, mean, var

LEVEL = 0.95
TAIL_DRAWS = 30  # effective draws in the tail below which its intervals cannot be trusted


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
    confidence limit (None with too few draws in the tail). There is no such bound at α = 1, where
    no finite sample bounds the worst model.
    """

    n_models: int
    objective: Estimate
    mean: Estimate
    var: Estimate
    cvar: Estimate
    optimism: float
    lower_bound: Estimate | None


def held_out(
    train: FloatArray, f: FloatArray, test: FloatArray, w: FloatArray, objective: Objective
) -> HeldOut:
    """Returns on the training models (weights f) beside those on held-out ones (weights w)."""
    lam, alpha = objective.lam, objective.alpha
    tail = tail_score(test, var(test, w, alpha), w, alpha)
    value = objective.value(test, w)
    if isinstance(objective, Percentile):
        goal = _quantile(test, w, alpha, value)
    else:
        goal = average(value, _blend(test, tail, lam), w)
    return HeldOut(
        n_models=int(test.size),
        objective=goal,
        mean=average(mean(test, w), test, w),
        var=_quantile(test, w, alpha, var(test, w, alpha)),
        cvar=average(cvar(test, w, alpha), tail, w),
        optimism=objective.value(train, f) - value,
        lower_bound=_lower_bound(train, f, test, w, objective),
    )


def cvar_interval_width(z: FloatArray, alpha: float) -> float:
    """Width of the 95 % interval of CVaR from equally weighted returns z; infinite if unknown."""
    w = np.full(z.size, 1.0 / z.size)
    return average(cvar(z, w, alpha), tail_score(z, var(z, w, alpha), w, alpha), w).width


def tail_score(z: FloatArray, b: float, w: FloatArray, alpha: float) -> FloatArray | None:
    """b − (b − z)₊/(1 − α), whose mean is CVaR when b is the VaR; None with too few tail draws."""
    if 1 - alpha <= EDGE or (1 - alpha) * effective_size(w) < TAIL_DRAWS - 1e-6:
        return None
    return b - np.maximum(b - z, 0.0) / (1 - alpha)


def _blend(z: FloatArray, tail: FloatArray | None, lam: float) -> FloatArray | None:
    """Scores of the objective: (1 − λ)·mean + λ·tail."""
    if lam == 0:
        return z
    return None if tail is None else (1 - lam) * z + lam * tail


def average(value: float, score: FloatArray | None, w: FloatArray) -> Estimate:
    """A figure that is the mean of scores, with its interval; without scores, without one."""
    if score is None or np.count_nonzero(w) < 2:
        return Estimate(value, None, None)
    low, high = (value - step for step in _hall_steps(score, w, (1 + LEVEL) / 2, (1 - LEVEL) / 2))
    return Estimate(value, low, high)


def _lower_bound(
    train: FloatArray, f: FloatArray, test: FloatArray, w: FloatArray, objective: Objective
) -> Estimate | None:
    lam, alpha = objective.lam, objective.alpha
    if isinstance(objective, Percentile):  # an order statistic bounds a quantile by itself
        value = objective.value(test, w)
        return Estimate(value, _order_statistic(test, w, alpha, 1 - LEVEL), None)
    if lam > 0 and 1 - alpha <= EDGE:
        return None
    b = var(train, f, alpha)
    plain = test if lam == 0 else b - np.maximum(b - test, 0.0) / (1 - alpha)
    value = mean((1 - lam) * test + lam * plain, w)
    score = _blend(test, tail_score(test, b, w, alpha), lam)
    if score is None or np.count_nonzero(w) < 2:
        return Estimate(value, None, None)
    (step,) = _hall_steps(score, w, LEVEL)
    return Estimate(value, value - step, None)


def effective_size(w: FloatArray) -> float:
    """Kish's effective sample size 1/Σw²."""
    return float(1.0 / np.square(w).sum())


def _hall_steps(score: FloatArray, w: FloatArray, *levels: float) -> list[float]:
    """How far below the average its limits lie: Hall's skewness-corrected Student interval.

    With T = (x̄ − μ)/se and skewness g, T + g·T²/(3√n) + g²·T³/(27n) + g/(6√n) is nearly Student;
    the cubic is a perfect cube but for constants, so its inverse is explicit.
    """
    from scipy.stats import t as student

    n = effective_size(w)
    centred = score - score @ w
    variance = float(np.square(centred) @ w)
    se = float(np.sqrt(np.square(w * centred).sum() * n / max(n - 1, 1e-9)))
    skew = float(centred**3 @ w) / variance**1.5 if variance > 0 else 0.0
    steps = []
    for level in levels:
        x = float(student.ppf(level, max(n - 1, 1.0)))
        g = skew / np.sqrt(n)
        if abs(g) > 1e-9:
            x = float(3.0 / g * (np.cbrt(1.0 + g * (x - g / 6.0)) - 1.0))
        steps.append(x * se)
    return steps


def _quantile(z: FloatArray, w: FloatArray, alpha: float, value: float) -> Estimate:
    """A (1 − α)-quantile with an interval of order statistics.

    An end of the range that runs off the sample has no order statistic: it stays unknown.
    """
    low = _order_statistic(z, w, alpha, (1 - LEVEL) / 2)
    return Estimate(value, low, _order_statistic(z, w, alpha, (1 + LEVEL) / 2))


def _order_statistic(z: FloatArray, w: FloatArray, alpha: float, level: float) -> float | None:
    """The order statistic that the (1 − α)-quantile exceeds with probability 1 − level.

    The number of draws below the quantile is binomial: its `level` quantile is the rank.
    """
    from scipy.stats import binom

    n = max(round(effective_size(w)), 1)
    rank = float(binom.ppf(level, n, 1 - alpha)) + (1.0 if level > 0.5 else 0.0)
    if not 0 < rank / n < 1:
        return None
    order = np.argsort(z, kind="stable")
    i = int(np.searchsorted(np.cumsum(w[order]), rank / n - EDGE))
    return float(z[order[min(i, z.size - 1)]])


# --------------------------------------------------------------------------------------------------
# The noise of simulated returns inside figures that look at the edge of them.
#
# x[ω, e] is the return of episode e under model ω, x̄_ω its average over E episodes. x̄ is spread
# wider than the expected returns μ, and so CVaR of x̄ lies too low. Two corrections, for two cases:
#
# - **little noise.** The bias is about c/E. Half as many episodes have twice as much, so
#   g(half) − g(x̄), averaged over random halvings, estimates it (Gordy and Juneja 2010). No shape
#   of
#   the returns is assumed.
# - **much noise.** Where models hardly differ the bias is of order 1/√E, and halving takes off a
#   third of it only. Then deviations from the mean are shrunk to the spread that μ must have,
#   Var μ = Var x̄ − noise: exact for models that are a location and a scale of one shape. How far
#   to
#   shrink is itself uncertain, and the interval holds the figures for every factor that could be.

HALVINGS = 20
NOTICE = 0.02  # of the variance of x̄: below this share of noise halving does it
MUCH = 0.2  # above this share the shrunk figure is the estimate
WIDE = 2.0  # standard errors of the share of noise


@final
@dataclass(frozen=True, slots=True)
class Noise:
    """How much of the spread of x̄ over models is noise of the simulation.

    Attributes
    ----------
    share : float
        noise/Var x̄, at most 1.
    low, mid, high : float
        Factors for deviations from the mean: the least that could be right, the estimate, the
        largest.
    """

    share: float
    low: float
    mid: float
    high: float

    @property
    def much(self) -> bool:
        """Whether halving the episodes can no longer correct for it."""
        return self.share > MUCH


def noise_of(returns: FloatArray, f: FloatArray) -> Noise:
    """Take the variance of x̄ over models (weights f) apart; returns (n_models, n_episodes)."""
    E, n = returns.shape[1], effective_size(f)
    x = returns.mean(axis=1)
    square = (x - f @ x) ** 2
    variance = float(f @ square) * n / max(n - 1, 1e-9)
    noise = float(f @ returns.var(axis=1, ddof=1)) / E
    if noise <= 0 or n < 2:
        return Noise(0.0, 1.0, 1.0, 1.0)
    share = min(noise / max(variance, 1e-300), 1.0)
    error = float(np.sqrt((f**2 * (square - f @ square) ** 2).sum())) / max(variance, 1e-300)
    # The estimate of the noise itself varies, too: N·(E − 1) deviations went into it.
    error = float(np.hypot(error, np.sqrt(2 / (n * (E - 1)))))
    left, wide = 1 - share, WIDE * share * error
    low, mid, high = (float(np.sqrt(np.clip(v, 0, 1))) for v in (left - wide, left, left + wide))
    return Noise(share, low, mid, high)


def shrunk(returns: FloatArray, f: FloatArray, factor: float) -> FloatArray:
    """(n_models,) x̄ with its deviations from the mean times `factor`."""
    x = np.asarray(returns.mean(axis=1))
    centre = f @ x
    return np.asarray(centre + factor * (x - centre))


def debias(returns: FloatArray, g: Callable[[FloatArray], Any], halvings: int = HALVINGS) -> Any:
    """g(x̄) less its bias to first order in 1/E, which halves of the episodes have twice.

    Parameters
    ----------
    returns : (n_models, n_episodes)
    g : callable (n_models,) → number or array
        A figure, or the scores that it is the mean of.
    """
    E = returns.shape[1]
    if E < 2:
        raise InputError("Figures need at least two episodes per model. Simulate more.")
    whole = g(np.asarray(returns.mean(axis=1)))
    rng = np.random.default_rng(0)  # the same returns always give the same figure
    halves: Any = 0.0
    for _ in range(halvings):
        order = rng.permutation(E)
        for half in (order[: E // 2], order[E // 2 : 2 * (E // 2)]):
            halves = halves + g(np.asarray(returns[:, half].mean(axis=1))) / (2 * halvings)
    # With an odd number an episode is left out: its halves have E/⌊E/2⌋ times the bias.
    return whole - (halves - whole) / (E / (E // 2) - 1.0)
