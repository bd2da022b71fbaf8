"""The protocol of solvers for continuous states: settings in, a `ContinuousSolution` out.

As for tables, a solver is a frozen bag of its own settings, and a limit is not a failure. No exact
value of a policy is known here: what it earns is simulated (`certificate.simulated`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np
from numpy.typing import ArrayLike

from softrobust._core.arrays import FloatArray
from softrobust.objective import Objective
from softrobust.solvers.base import Status

if TYPE_CHECKING:
    from softrobust.continuous_problem import ContinuousProblem
    from softrobust.models.continuous_policy import ContinuousPolicy


@final
@dataclass(frozen=True, slots=True, eq=False)
class LinearValue:
    """v(s) = φ(s)ᵀw.

    Attributes
    ----------
    features : object with transform(s) → (n, n_features)
    w : (n_features,)
    """

    features: Any
    w: FloatArray

    def __call__(self, s: ArrayLike) -> FloatArray:
        """(n,) values of states (n, n_variables)."""
        return np.asarray(self.features.transform(np.atleast_2d(s)) @ self.w)


@final
@dataclass(frozen=True, slots=True, eq=False)
class ContinuousSolution:
    """What a solver found for continuous states.

    Attributes
    ----------
    solver : str
        The name of the solver, as on the command line.
    policy : ContinuousPolicy
    objective : Objective
    gamma : float
    horizon : int
    n_models : int
    status : Status
    v : callable (n, n_variables) → (n,), or None
        The solver's own value function, and `model_value`, its mean over start states.
    stats : mapping
        Iterations, seconds, tolerances: plain numbers and words, ready for JSON.
    """

    solver: str
    policy: ContinuousPolicy
    objective: Objective
    gamma: float
    horizon: int
    n_models: int
    status: Status
    v: LinearValue | None = None
    model_value: float | None = None
    stats: Mapping[str, Any] = field(default_factory=dict)


class ContinuousSolver(ABC):
    """A frozen bag of settings with `solve`."""

    __slots__ = ()
    name: ClassVar[str]

    @abstractmethod
    def solve(self, problem: ContinuousProblem) -> ContinuousSolution:
        """Find a policy for the problem."""
