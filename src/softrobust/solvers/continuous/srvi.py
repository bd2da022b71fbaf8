"""Soft-robust value iteration with linear value functions (section 4.3; appendix A), and RPVI.

    SRVI              σ(s) = max_d min_ξ dᵀZξ                  one ξ ∈ Ξ per state
    SRVISA            σ(s) = max_a min_ξ Z_aᵀξ                 one ξ ∈ Ξ per state and action
    WorstModelVI      SRVI at λ = 1, α = 1: nature may pick any single model
    RPVI(policy)      σ(s) = Σ_a π(a|s) min_ω Z[a, ω]          a given policy, evaluated

RPVI is projected robust evaluation as Tamar et al. (2014) have it; `WorstModelVI` is its form for
control.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, final

import numpy as np

from softrobust._core.settings import flag, instance
from softrobust.errors import InputError
from softrobust.models.continuous_policy import ContinuousPolicy
from softrobust.models.lookahead import Update
from softrobust.objective import soft_robust
from softrobust.solvers.continuous.projected import Projected

if TYPE_CHECKING:
    from softrobust.continuous_problem import ContinuousProblem


@final
@dataclass(frozen=True, slots=True, eq=False)
class SRVI(Projected):
    """S-rectangular soft-robust value iteration; settings as in `Projected`.

    The defaults are the paper's: 150 iterations of 30 episodes, batches of 150 states, features of
    degree 2.
    """

    name: ClassVar[str] = "srvi"

    def make_update(self, problem: ContinuousProblem) -> Update:
        """The S game of the problem's λ and α."""
        return _own(problem, s_rectangular=True)


@final
@dataclass(frozen=True, slots=True, eq=False)
class SRVISA(Projected):
    """SA-rectangular soft-robust value iteration (appendix A); its policies do not randomize."""

    name: ClassVar[str] = "srvi-sa"

    def make_update(self, problem: ContinuousProblem) -> Update:
        """The SA selection of the problem's λ and α."""
        return _own(problem, s_rectangular=False)


@final
@dataclass(frozen=True, slots=True, eq=False)
class WorstModelVI(Projected):
    """Control against the worst single model, whatever the problem's λ and α."""

    name: ClassVar[str] = "rpvi-control"
    s_rectangular: bool = True

    def __post_init__(self) -> None:
        Projected.__post_init__(self)
        flag("s_rectangular", self.s_rectangular)

    def make_update(self, problem: ContinuousProblem) -> Update:
        """Ξ is all of the simplex over models of positive weight."""
        return _worst(problem, self.s_rectangular)


@final
@dataclass(frozen=True, slots=True, eq=False)
class RPVI(Projected):
    """The value of a given policy against the worst model, projected on features.

    Parameters
    ----------
    policy : ContinuousPolicy
    s_rectangular : bool
        Whether nature's model may depend on the state only, or (False) on the action, too.
    """

    name: ClassVar[str] = "rpvi"
    policy: ContinuousPolicy | None = None
    s_rectangular: bool = False

    def __post_init__(self) -> None:
        Projected.__post_init__(self)
        instance("policy", self.policy, ContinuousPolicy)
        flag("s_rectangular", self.s_rectangular)

    @property
    def given(self) -> ContinuousPolicy | None:
        """The policy to evaluate."""
        return self.policy

    def make_update(self, problem: ContinuousProblem) -> Update:
        """Ξ is all of the simplex over models of positive weight."""
        assert self.policy is not None  # checked when made
        for noun in ("variables", "actions"):
            if getattr(self.policy, noun) != getattr(problem, noun):
                raise InputError(f"The policy has other {noun} than the problem.")
        return _worst(problem, self.s_rectangular)


def _own(problem: ContinuousProblem, s_rectangular: bool) -> Update:
    objective = soft_robust(
        problem.objective, "Soft-robust value iteration", "No solver for vectors maximises it."
    )
    f = problem.models.f
    return Update(objective.lam, f, objective.q_bounds(f), s_rectangular, problem.allowed)


def _worst(problem: ContinuousProblem, s_rectangular: bool) -> Update:
    f = problem.models.f
    return Update(1.0, f, (f > 0).astype(np.float64), s_rectangular, problem.allowed)
