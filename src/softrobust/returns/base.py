"""What a policy earns in each model: exact where states are a table, simulated where vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from softrobust._core.arrays import FloatArray
from softrobust.problem import ContinuousProblem, Problem
from softrobust.returns.evaluation import policy_return
from softrobust.returns.simulation import Simulation, simulate

if TYPE_CHECKING:
    import numpy as np


@final
@dataclass(frozen=True, slots=True, eq=False)
class Returns:
    """One number per model, and the weights of the models.

    Attributes
    ----------
    x, f : (n_models,)
    noise : Simulation or None
        The episodes that x is the average of; None where x is exact.
    """

    x: FloatArray
    f: FloatArray
    noise: Simulation | None = None

    @classmethod
    def of(cls, found: Returns | Simulation) -> Returns:
        """A simulation as averages over its episodes; returns are what they are."""
        return cls(found.means, found.f, found) if isinstance(found, Simulation) else found


def returns_of(
    problem: Problem | ContinuousProblem,
    policy: Any,
    models: Any = None,
    episodes: int = 100,
    seed: int | np.random.Generator = 0,
) -> Returns:
    """What the policy earns in every model of the problem, or in `models`, such as held-out ones.

    `episodes` per model and `seed` are for simulations: policies with one seed meet the same luck.
    """
    if isinstance(problem, ContinuousProblem):
        return Returns.of(simulate(problem, policy, models, episodes, seed))
    own = problem if models is None else problem.with_models(models)
    return Returns(policy_return(own, policy), own.models.f)
