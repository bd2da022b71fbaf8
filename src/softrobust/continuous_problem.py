"""The decision problem with continuous states: models, start, rewards and what is maximised (§4.3).

An episode starts in one of the start states, lasts `horizon` steps and earns Σ_t γ^t r(s, a, s′).
Its models may be Gaussian, an ensemble of networks, or anything that draws next states.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np
from numpy.typing import ArrayLike

from softrobust._core.arrays import BoolArray, FloatArray
from softrobust._core.settings import real, whole
from softrobust.errors import InputError
from softrobust.models.continuous import ContinuousModels
from softrobust.models.continuous_rewards import LinearReward, RewardFunction
from softrobust.models.gaussian import GaussianModels
from softrobust.models.model_set import freeze
from softrobust.objective import Objective, SoftRobust

if TYPE_CHECKING:
    from softrobust.data.labels import Labels

StartSampler = Callable[[np.random.Generator, int], Any]
__all__ = ["ContinuousProblem", "LinearReward"]


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class ContinuousProblem:
    """Maximise the soft-robust return over N models of continuous states.

    Parameters
    ----------
    models : ContinuousModels
    start : (n_starts, n_variables) or callable (rng, n) → (n, n_variables), optional
        Equally likely first states, or a function that draws them; `None` takes those that came
        with Gaussian models.
    reward : callable (s, a, s′) → r, optional
        Vectorised over leading axes: states (…, n_variables), action indices (…). A
        `LinearReward` has expectations in closed form. `None` takes the models' own.
    gamma : float in (0, 1), optional
    horizon : int, optional
        Steps of an episode; both come with Gaussian models that know them.
    objective : SoftRobust or Percentile
    allowed : (n_actions,) bool, optional
        Actions that may be taken.
    """

    models: ContinuousModels
    start: FloatArray | StartSampler
    reward: RewardFunction
    gamma: float
    horizon: int
    objective: Objective
    allowed: BoolArray

    def __init__(
        self,
        models: ContinuousModels,
        start: ArrayLike | StartSampler | None = None,
        reward: RewardFunction | None = None,
        gamma: float | None = None,
        horizon: int | None = None,
        objective: Objective | None = None,
        allowed: ArrayLike | None = None,
    ) -> None:
        put = object.__setattr__  # the one place where a frozen object is completed
        if not isinstance(models, ContinuousModels):
            raise InputError(
                f"models must be ContinuousModels (GaussianModels, CallableModels); they are "
                f"{type(models).__name__}."
            )
        own = models.frame if isinstance(models, GaussianModels) else None
        put(self, "models", models)
        put(self, "start", _start(getattr(own, "start", None) if start is None else start, models))
        put(self, "reward", _reward(reward, models))
        put(self, "gamma", _known("gamma", gamma, getattr(own, "gamma", None)))
        put(self, "horizon", _known("horizon", horizon, getattr(own, "horizon", None)))
        real("gamma", self.gamma, above=0, below=1)
        whole("horizon", self.horizon)
        put(self, "objective", SoftRobust() if objective is None else objective)
        put(self, "allowed", _allowed(allowed, models))

    # -- sizes and names, shortened --------------------------------------------------------------

    @property
    def n_variables(self) -> int:
        """Entries of a state."""
        return self.models.n_variables

    @property
    def n_actions(self) -> int:
        """A."""
        return self.models.n_actions

    @property
    def n_models(self) -> int:
        """N."""
        return self.models.n_models

    @property
    def variables(self) -> Labels:
        """Names of the entries of a state."""
        return self.models.variables

    @property
    def actions(self) -> Labels:
        """Names of the actions."""
        return self.models.actions

    # -- what solvers and simulations do with it -------------------------------------------------

    def sample_start(self, n: int, rng: np.random.Generator) -> FloatArray:
        """(n, n_variables) first states of n episodes."""
        if not callable(self.start):
            return np.asarray(self.start[rng.integers(0, self.start.shape[0], size=n)])
        s = np.asarray(self.start(rng, n), dtype=np.float64)
        if s.shape != (n, self.n_variables) or not np.isfinite(s).all():
            raise InputError(
                f"The start sampler must give {n} finite states, shape {(n, self.n_variables)}; "
                f"it gave shape {s.shape}."
            )
        return s

    def with_models(self, models: ContinuousModels) -> Self:
        """The same problem on other models (held-out draws, a mean model, a selection)."""
        if models.variables != self.variables or models.actions != self.actions:
            raise InputError(
                f"The models must have the variables {list(self.variables)} and actions "
                f"{list(self.actions)}; they have {list(models.variables)} and "
                f"{list(models.actions)}."
            )
        return replace(self, models=models)

    def mean_problem(self) -> Self:
        """The one-model problem of the mean model."""
        return self.with_models(self.models.mean_model())

    def __repr__(self) -> str:
        return (
            f"ContinuousProblem({', '.join(self.variables)}; {self.n_actions} actions, "
            f"{self.n_models} models, gamma={self.gamma:g}, horizon={self.horizon}, "
            f"{self.objective})"
        )


def _start(start: Any, models: ContinuousModels) -> FloatArray | StartSampler:
    if start is None:
        raise InputError(
            "The problem has no start. Pass start=: states (n_starts, n_variables) that are "
            "equally likely, or a function (rng, n) that draws n of them (--start x=1,y=2)."
        )
    if callable(start):
        return start  # type: ignore[no-any-return]
    s = np.atleast_2d(np.array(start, dtype=np.float64))
    if s.ndim != 2 or s.shape[1] != models.n_variables or not np.isfinite(s).all():
        raise InputError(
            f"Start states are finite numbers, one for each of {list(models.variables)}: shape "
            f"(n_starts, {models.n_variables}); this one has shape {s.shape}."
        )
    return freeze(s, np.float64)


def _reward(reward: RewardFunction | None, models: ContinuousModels) -> RewardFunction:
    own = models.frame if isinstance(models, GaussianModels) else None
    if reward is None:
        if own is None or own.reward_now is None or own.reward_next is None:
            raise InputError(
                "The problem has no reward: the models came without one. Pass reward=, a "
                "LinearReward or any function of (s, a, s′) (--reward-now, --reward-next)."
            )
        return LinearReward(
            own.reward_now, own.reward_next, own.reward_action, constant=own.reward_constant or 0.0
        )
    if not callable(reward):
        raise InputError(f"reward must be a function of (s, a, s′); it is {reward!r}.")
    if isinstance(reward, LinearReward):
        d, A = models.n_variables, models.n_actions
        if reward.now.size != d or (reward.action is not None and reward.action.shape != (A,)):
            raise InputError(
                f"The reward must have {d} coefficients for the variables and, if any, {A} for "
                "the actions."
            )
    return reward


def _known(name: str, given: Any, own: Any) -> Any:
    if given is None and own is None:
        hint = {"gamma": "0.95: a reward one step later counts 5 % less", "horizon": "30 steps"}
        raise InputError(
            f"The {name} is not known. Pass {name}= (--{name}), for example {hint[name]}."
        )
    return own if given is None else given


def _allowed(allowed: ArrayLike | None, models: ContinuousModels) -> BoolArray:
    mask = np.ones(models.n_actions, bool) if allowed is None else np.array(allowed, dtype=bool)
    if mask.shape != (models.n_actions,) or not mask.any():
        raise InputError(
            f"allowed must have one entry for each of {list(models.actions)}, at least one true; "
            f"it is {mask.tolist()}."
        )
    return freeze(mask, np.bool_)
