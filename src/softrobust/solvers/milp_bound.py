"""What HiGHS's bound is worth: never taken as it is, and not at all where it contradicts itself.

HiGHS works in floating point with tolerances of 1e-7, and proves nothing beyond them: raw bounds
have been seen below the true optimum by 2e-7 of the returns on well-conditioned programs, and by
all of it where γ was near 1 (its presolve then cuts off feasible rules). So its bound counts

    with a margin of `MARGIN` of the returns of the program, and what rounding did to its rewards,
    where returns are at most `TRUSTED` times the rewards, Σp₀/(1 − γσ) ≤ 2·10⁴, that is γ ≤ .99995,
    where the policy it found earns what it says, and no policy known earns more than it allows.

Otherwise the bounds that do not come from HiGHS stand. `method` tells the two apart: "HiGHS with
margin" is careful bookkeeping, and no proof like the others.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from softrobust.bounds import Bound, Covers
from softrobust.bounds.row_sums import reach
from softrobust.returns import policy_return, static_return

if TYPE_CHECKING:
    from softrobust.models.policy import Policy
    from softrobust.problem import Problem
    from softrobust.solvers.conditioning import Conditioned

MARGIN = 1e-6  # added to HiGHS's bound, as a share of the largest |return|
TRUSTED = 2e4  # returns over rewards up to which HiGHS's tolerances leave enough digits


def margin(problem: Problem, policy: Policy, raw: float, terms: Conditioned) -> float:
    """What is added to HiGHS's bound: `MARGIN` of the returns in the program, and rounding.

    HiGHS's tolerances are absolute: returns count as no smaller than rewards of 1 would make them.
    """
    returns = float(np.abs(policy_return(problem, policy) - terms.shift).max())
    least = terms.unit * float(reach(problem).max())
    return MARGIN * max(returns, abs(raw - terms.shift), least) + terms.error


def safe_bound(
    problem: Problem,
    policy: Policy,
    raw: float,
    claims: tuple[float, float] | None,
    known: Bound,
    terms: Conditioned,
) -> tuple[Bound, str]:
    """The lesser of `known` and HiGHS's bound with its margin; and why the latter was not used.

    Parameters
    ----------
    policy : Policy
        The best one known.
    raw : float
        HiGHS's bound, in the problem's units.
    claims : (float, float), optional
        What HiGHS says that its policy earns, and what that policy earns.
    known : Bound
        One that does not come from HiGHS.
    """
    value = static_return(problem, policy)
    known = replace(known, value=max(known.value, value))  # rounding never makes the two cross
    if not np.isfinite(raw):
        return known, ""
    room = margin(problem, policy, raw, terms)
    if float(reach(problem).max()) > TRUSTED:
        return known, f"gamma = {problem.gamma!r} is too near 1 for HiGHS's tolerances"
    if claims is not None and abs(claims[0] - claims[1]) > room:
        return known, f"HiGHS's policy earns {claims[1]!r}, and not the {claims[0]!r} it says"
    if raw + room < value:
        return known, f"HiGHS's bound {raw!r} is below the {value!r} that a policy earns"
    highs = Bound(raw + room, Covers.DETERMINISTIC, "HiGHS with margin")
    return min(known, highs, key=lambda bound: bound.value), ""
