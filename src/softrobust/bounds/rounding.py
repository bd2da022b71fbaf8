"""What floating point can leave between a bound and the value it bounds, where the two are equal.

A share of the value says nothing where the value is 0: returns of −20 and +20 that cancel, or costs
that a free action avoids, are rounded all the same. What rounding can do is of the size of what was
computed. With x the largest |V|, ‖R‖ the largest |reward| and w the longest row,

    a model's optimum     x·10⁻¹¹ (where its iteration stops) + 4ε·(‖R‖ + (w + 2)·x)/(1 − γσ),
    mean and CVaR of N    16ε·(N + S)·x, and 8·EDGE·x where the edge of the tail is a tie.

Nothing here is taken off a bound: it says when a gap is no gap. So it must never excuse what
anybody would call one: a penalty of 10¹³ that stands for "forbidden" rounds by more than all that
is at stake. What is excused is therefore at most a millionth of the smallest reward.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from softrobust.bounds.row_sums import EPS, reach, widest_row
from softrobust.objective.measures import EDGE

if TYPE_CHECKING:
    from softrobust.problem import Problem

EXCUSED = 1e-6  # of the smallest reward that is not 0
STOP = 1e-11  # `optimal_returns` and `kernels.restricted` stop at this share of the largest value


def rounding(problem: Problem, V: NDArray[np.float64] | None = None, excused: bool = True) -> float:
    """The largest gap that may be rounding alone, in units of the return.

    Parameters
    ----------
    V : (n_models, n_states), optional
        The models' optimal values. Without them |V| counts as ‖R‖/(1 − γσ), its greatest possible
        size, which one large penalty that nobody need pay can make much too large.
    excused : bool
        Whether a gap is to be excused by it (at most a millionth of the smallest reward); else it
        is what arithmetic can do.
    """
    S, _, N = problem.R.shape
    far = float(reach(problem).max())
    reward = float(np.abs(problem.R[problem.allowed]).max(initial=0.0))
    x = reward * far if V is None else float(np.abs(V).max(initial=0.0))
    share = STOP + 8 * EDGE + EPS * (4 * (widest_row(problem) + 2) * far + 16 * (N + S))
    found = float(share * x + 4 * EPS * reward * far)
    return min(found, excusable(problem)) if excused else found


def excusable(problem: Problem) -> float:
    """The largest gap that nobody minds: a millionth of the smallest |reward| that is not 0."""
    sizes = np.abs(problem.R[problem.allowed])
    return EXCUSED * float(sizes[sizes > 0].min(initial=np.inf))
