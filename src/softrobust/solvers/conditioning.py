"""Rewards moved and scaled for a solver whose tolerances are absolute.

HiGHS meets a constraint to within 1e-9 at best, which rewards of 1e6 at γ = .99 (returns of 1e8)
put below the spacing of floating-point numbers. For any constants C and unit > 0,

    R'(s,a,ω) = [R(s,a,ω) − C·(1 − γσ_ω(s,a))]/unit,      σ_ω(s,a) = Σ_s' P̂^ω(s'|s,a),

gives ρ'(π, P̂^ω) = [ρ(π, P̂^ω) − C·Σp₀]/unit for every policy: summed over all states, the balance of
flows reads Σ u(s,a,ω)·(1 − γσ) = Σp₀. That holds for row sums that miss 1 too. Mean, CVaR and
quantiles move and scale with the returns, so a bound of the moved program is moved back, with what
rounding can have done to R'.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from softrobust.bounds.row_sums import EPS, reach, row_sums, widest_row

if TYPE_CHECKING:
    from softrobust.problem import Problem

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
OFFSET = 10.0  # rewards are moved when their middle is this many times their half-range from 0,
SCALE = 1e3  # and scaled when they then are this much larger or smaller than 1


@final
@dataclass(frozen=True, slots=True, eq=False)
class Conditioned:
    """R' (n_states, n_actions, n_models), and the way back: ρ = unit·ρ' + shift ± error."""

    R: FloatArray
    unit: float = 1.0
    shift: float = 0.0
    error: float = 0.0

    def there(self, value: float) -> float:
        """A return in the units of the program."""
        return (value - self.shift) / self.unit

    def back(self, value: float) -> float:
        """A return of the program in the problem's units."""
        return value * self.unit + self.shift


def untouched(problem: Problem) -> Conditioned:
    """The rewards as they are."""
    return Conditioned(problem.R)


def condition(problem: Problem, allowed: BoolArray) -> Conditioned:
    """Move and scale the rewards where their size asks for it; most problems stay as they are.

    Parameters
    ----------
    allowed : (n_states, n_actions) bool
        The pairs whose rewards count.
    """
    values = problem.R[allowed]
    high, low = float(values.max()), float(values.min())
    largest, middle, half = max(abs(high), abs(low)), 0.5 * (high + low), 0.5 * (high - low)
    R, C, error = problem.R, 0.0, 0.0
    if abs(middle) > OFFSET * half:
        C = middle / (1 - problem.gamma)
        sums = row_sums(problem)
        R = np.where(allowed[:, :, None], R - C * (1 - problem.gamma * sums), 0.0)
        # Each R' is off by the rounding of a sum of a row's entries and of four operations.
        each = (widest_row(problem) + 8) * EPS * (largest + 2 * abs(C))
        error = float(reach(problem, sums).max()) * each
    shift = C * float(problem.p0.sum())
    error += (problem.n_states + 4) * EPS * abs(shift)
    rest = float(np.abs(R[allowed]).max())
    unit = 1.0
    if rest > 0 and not 1 / SCALE <= rest <= SCALE:
        unit = float(2.0 ** np.round(np.log2(rest)))  # a power of two: scaling is exact
    return Conditioned(R if unit == 1.0 else R / unit, unit, shift, error)
