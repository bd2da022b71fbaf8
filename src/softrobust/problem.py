"""The decision problem: models, start, discount, rewards and what is to be maximised."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self, final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike

from softrobust._core.arrays import BoolArray, FloatArray, refuse_if_too_large
from softrobust._core.files import read_npz, write_npz
from softrobust.data.rewards import Rewards, rewards_from_arrays, rewards_to_arrays
from softrobust.errors import InputError
from softrobust.models.files import FORMAT_VERSION, models_from_arrays, models_to_arrays
from softrobust.models.model_set import ModelSet, check_p0, freeze
from softrobust.objective import Objective, SoftRobust, make_objective

if TYPE_CHECKING:
    from collections.abc import Callable

    from softrobust.models.policy import Policy


LARGEST_REWARD = 1e100
GAMMA_MOST = 1 - 1e-7  # ten times the room that row sums have


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class Problem:
    """Maximise the soft-robust return over N models (eq. 3.1).

    Parameters
    ----------
    models : ModelSet
    rewards : Rewards or array or callable, optional
        r(s, a) of shape (n_states, n_actions); r(s, a, s′) of shape (n_states, n_actions,
        n_states); a callable of three labels; or a `Rewards`. `None` takes those that came with
        the models; giving both is an error.
    p0 : (n_states,), optional
        Where episodes start; `None` takes the models' own, else uniform.
    gamma : float in (0, 1), optional
        Discount; `None` takes the models' own.
    objective : SoftRobust or Percentile
    allowed : (n_states, n_actions) bool, optional
        Actions that may be taken. Pairs without transitions are never allowed.

    Attributes
    ----------
    R : (n_states, n_actions, n_models)
        Expected one-step reward Σ_s′ P̂^ω(s′|s,a)·r(s,a,s′): all that solvers read of rewards.
    """

    models: ModelSet
    rewards: Rewards
    p0: FloatArray
    gamma: float
    objective: Objective
    allowed: BoolArray
    R: FloatArray = field(init=False)

    def __init__(
        self,
        models: ModelSet,
        rewards: Rewards | ArrayLike | Callable[..., float] | None = None,
        p0: ArrayLike | None = None,
        gamma: float | None = None,
        objective: Objective | None = None,
        allowed: ArrayLike | None = None,
    ) -> None:
        put = object.__setattr__  # the one place where a frozen object is completed
        if isinstance(rewards, Rewards) and rewards.kind == "model" and models.rewards is None:
            models = replace(
                models, rewards=rewards
            )  # they go with their models when some are chosen
        put(self, "models", models)
        put(self, "gamma", _check_gamma(models.gamma if gamma is None else gamma))
        put(self, "objective", SoftRobust() if objective is None else objective)
        put(self, "p0", _start(models, p0))
        put(self, "allowed", _mask(models, allowed))
        put(self, "rewards", _rewards(models, rewards))
        put(self, "R", _expected(self.rewards, models, self.allowed))

    # -- sizes, shortened ------------------------------------------------------------------------

    @property
    def n_states(self) -> int:
        """S."""
        return self.models.n_states

    @property
    def n_actions(self) -> int:
        """A."""
        return self.models.n_actions

    @property
    def n_models(self) -> int:
        """N."""
        return self.models.n_models

    def uniform_policy(self) -> Policy:
        """Every allowed action equally likely: the yardstick of `gap_share`."""
        from softrobust.models.policy import Policy

        probs = self.allowed / self.allowed.sum(axis=1, keepdims=True)
        return Policy(probs, self.models.states, self.models.actions, self.decided)

    @property
    def decided(self) -> BoolArray:
        """(n_states,): where there is something to decide."""
        return ~self.models.sinks

    def with_models(self, models: ModelSet) -> Self:
        """The same problem on other models (held-out draws, a mean model, a selection)."""
        rewards = self.rewards if models.rewards is None else models.rewards
        return replace(self, models=models, rewards=rewards)

    def mean_problem(self, xi: FloatArray | None = None) -> Self:
        """The one-model problem E_ξ[P̂] with rewards E_ξ[R]; ξ = f by default (nominal)."""
        weights = self.models.f if xi is None else xi
        mean = self.models.mean_model(weights)
        return replace(self, models=mean, rewards=Rewards.of_pairs(self.R @ weights))

    def __repr__(self) -> str:
        return (
            f"Problem({self.n_states} states, {self.n_actions} actions, {self.n_models} models, "
            f"gamma={self.gamma:g}, {self.objective})"
        )


def _start(models: ModelSet, p0: ArrayLike | None) -> FloatArray:
    given = models.p0 if p0 is None else p0
    if given is None:
        given = np.full(models.n_states, 1.0 / models.n_states)
    return check_p0(given, models.states)


def _mask(models: ModelSet, allowed: ArrayLike | None) -> BoolArray:
    available = models.available
    if allowed is not None:
        mask = np.asarray(allowed, dtype=bool)
        if mask.shape != available.shape:
            raise InputError(
                f"allowed must have shape (n_states, n_actions) = {available.shape}; "
                f"it has {mask.shape}."
            )
        available = available & (mask | models.sinks[:, None])
    stuck = np.flatnonzero(~available.any(axis=1))
    if stuck.size:
        raise InputError(
            "Every state needs at least one allowed action that has transitions: state "
            f"'{models.states[stuck[0]]}' has none ({stuck.size} such states). "
            "Allow one, lower the minimum count, or add its transitions."
        )
    return freeze(available, np.bool_)


def _rewards(models: ModelSet, given: Rewards | ArrayLike | Callable[..., float] | None) -> Rewards:
    if given is None:
        if models.rewards is None:
            raise InputError(
                "The problem has no rewards: the models came without any. "
                "Pass rewards= (a table, an array or a callable)."
            )
        return models.rewards
    if models.rewards is not None and given is not models.rewards:
        raise InputError(
            "The models came with their own rewards, and rewards= was given too. "
            "Drop one: pass rewards=None, or dataclasses.replace(models, rewards=None)."
        )
    return given if isinstance(given, Rewards) else _as_rewards(given, models)


def _as_rewards(given: ArrayLike | Callable[..., float], models: ModelSet) -> Rewards:
    if callable(given):
        return Rewards.from_callable(given, models.states, models.actions)
    values = np.asarray(given, dtype=np.float64)
    S, A = models.n_states, models.n_actions
    if values.shape == (S, A):
        return Rewards.of_pairs(values)
    if values.shape == (S, A, S):
        return Rewards.of_transitions(values)
    raise InputError(
        f"rewards must have shape (n_states, n_actions) = {(S, A)} or {(S, A, S)}; the shape is "
        f"{values.shape}. For rewards that differ by model use Rewards.of_models."
    )


def _check_gamma(gamma: object) -> float:
    if gamma is None:
        raise InputError(
            "The discount gamma is not known. Pass gamma= (--gamma), for example 0.95: a reward "
            "one step later counts 5 % less."
        )
    try:
        value = float(gamma)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise InputError(f"gamma must be a number in (0, 1); it is {gamma!r}.") from None
    if not 0.0 < value < 1.0:
        raise InputError(f"gamma must lie strictly between 0 and 1; it is {value:g}.")
    if value > GAMMA_MOST:
        raise InputError(
            f"gamma = {value!r} is too near 1: rows may miss 1 by 1e-8, and values would not be "
            f"finite. Use at most {GAMMA_MOST}."
        )
    return value


# A changed objective asks for the same R again: one entry per set of models.
_EXPECTED: WeakKeyDictionary[ModelSet, tuple[Rewards, BoolArray, FloatArray]] = WeakKeyDictionary()


def _expected(rewards: Rewards, models: ModelSet, allowed: BoolArray) -> FloatArray:
    """R[s, a, ω] = Σ_s′ P̂^ω(s′|s,a)·r(s,a,s′), 0 where a pair is not allowed or a state a sink."""
    needed = allowed & ~models.sinks[:, None]
    hit = _EXPECTED.get(models)
    if hit is not None and hit[0] is rewards and np.array_equal(hit[1], needed):
        return hit[2]
    refuse_if_too_large(
        8.0 * needed.size * models.n_models,
        "The expected rewards R[s, a, ω]",
        "Use fewer models, or fewer states and actions.",
    )
    R = rewards.expected(
        models.indptr, models.next_states, models.prob, models.n_models,
        needed, models.states, models.actions,
    )  # fmt: skip
    top = float(np.abs(R).max(initial=0.0))
    if top > LARGEST_REWARD:
        s, a, _ = np.unravel_index(int(np.abs(R).argmax()), R.shape)
        raise InputError(
            f"Rewards must stay below {LARGEST_REWARD:g} in size, so that sums of them are finite: "
            f"state '{models.states[int(s)]}', action '{models.actions[int(a)]}' has {top:.3g}. "
            "Measure them in larger units."
        )
    R.flags.writeable = False
    _EXPECTED[models] = (rewards, needed, R)
    return R


# --------------------------------------------------------------------------------------------------
# `problem.npz`: a problem as later commands need it, without the log it came from.

PROBLEM_FORMAT = "softrobust-problem"


def save_problem(path: str | Path, problem: Problem) -> None:
    """Write the problem, atomically."""
    arrays = models_to_arrays(replace(problem.models, rewards=None))
    arrays |= rewards_to_arrays(problem.rewards)
    arrays |= {
        "p0": problem.p0,
        "gamma": np.array(problem.gamma),
        "allowed": problem.allowed,
        "lam": np.array(problem.objective.lam),
        "alpha": np.array(problem.objective.alpha),
        "criterion": np.array(problem.objective.criterion),
    }
    write_npz(path, PROBLEM_FORMAT, FORMAT_VERSION, arrays)


def load_problem(path: str | Path) -> Problem:
    """Read what `save_problem` wrote."""
    arrays = read_npz(path, PROBLEM_FORMAT, FORMAT_VERSION)
    models = replace(models_from_arrays(arrays, path), rewards=None)
    try:
        return Problem(
            models,
            rewards=rewards_from_arrays(arrays),
            p0=arrays["p0"],
            gamma=float(arrays["gamma"]),
            allowed=arrays["allowed"],
            objective=make_objective(
                str(arrays.get("criterion", "soft-robust")),
                float(arrays["lam"]),
                float(arrays["alpha"]),
            ),
        )
    except InputError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"The file {Path(path).name} lacks or garbles an array of the problem ({error}). "
            "Write it again."
        ) from None
