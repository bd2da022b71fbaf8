"""The noise of simulated returns inside figures that look at the edge of them.

x[ω, e] is the return of episode e under model ω, x̄_ω its average over E episodes. x̄ is spread wider
than the expected returns μ, and so CVaR of x̄ lies too low. Two corrections, for two cases:

- **little noise.** The bias is about c/E. Half as many episodes have twice as much, so
  g(half) − g(x̄), averaged over random halvings, estimates it (Gordy and Juneja 2010). No shape of
  the returns is assumed.
- **much noise.** Where models hardly differ the bias is of order 1/√E, and halving takes off a
  third of it only. Then deviations from the mean are shrunk to the spread that μ must have,
  Var μ = Var x̄ − noise: exact for models that are a location and a scale of one shape. How far to
  shrink is itself uncertain, and the interval holds the figures for every factor that could be.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from softrobust.certificate.intervals import effective_size
from softrobust.errors import InputError

FloatArray = NDArray[np.float64]
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
