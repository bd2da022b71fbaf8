"""The decision problem: models, start, discount, rewards and what is to be maximised.

`Problem` has a table of states, `ContinuousProblem` vectors; both have `models`, `gamma`,
`objective`, `allowed`, `with_models` and `mean_problem`, and `returns.returns_of` says what a
policy earns in each of their models.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from softrobust._core.arguments import names_arguments
from softrobust._core.arrays import (
    SMALL,
    BoolArray,
    FloatArray,
    Recent,
    Sealed,
    frozen,
    refuse_if_too_large,
    seal,
    shaped,
)
from softrobust._core.files import read_npz, rebuilding, under, write_npz
from softrobust._core.settings import instance, real, whole
from softrobust.data.log import check_p0
from softrobust.data.rewards import Rewards, rewards_from_arrays, rewards_to_arrays
from softrobust.errors import InputError
from softrobust.models.continuous import ContinuousModels
from softrobust.models.continuous_rewards import LinearReward, RewardFunction
from softrobust.models.files import FORMAT_VERSION, models_from_arrays, models_to_arrays
from softrobust.models.gaussian import GaussianModels
from softrobust.models.model_set import ModelSet
from softrobust.models.policy import Policy, TimedPolicy, action_shares, policy_of
from softrobust.objective import (
    OPTIMUM,
    PRACTICE_REFERENCE,
    Objective,
    Reference,
    SoftRobust,
    make_objective,
)
from softrobust.posterior.base import FittedPosterior
from softrobust.posterior.registry import REFITTED, posterior_of
from softrobust.posterior.sampling import Draws, origin

if TYPE_CHECKING:
    from softrobust.data.labels import Labels

StartSampler = Callable[[np.random.Generator, int], Any]
LARGEST_REWARD = 1e100
HORIZON_MOST = 100_000  # steps; what is longer is without end for every purpose
GAMMA_MOST = 1 - 1e-7  # ten times the room that row sums have


class _OnModels(Sealed):
    """Sizes that tables and vectors share."""

    __slots__ = ()
    models: Any

    @property
    def n_actions(self) -> int:
        """A."""
        return int(self.models.n_actions)

    @property
    def n_models(self) -> int:
        """N."""
        return int(self.models.n_models)


@names_arguments
@final
@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class Problem(_OnModels):
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
        Discount; `None` takes the models' own. With a horizon it may be 1.
    objective : SoftRobust or Percentile
        With `reference="practice"` the models must know what was done (those of a posterior do).
    allowed : (n_states, n_actions) bool, optional
        Actions that may be taken. Pairs without transitions are never allowed.
    horizon : int, optional
        Steps of an episode, Σ_{t<H} γ^t r_t; `None` is a problem without end. Policies may then
        have a rule for each step (`TimedPolicy`).

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
    horizon: int | None = None
    R: FloatArray = field(init=False)

    def __init__(
        self,
        models: ModelSet,
        rewards: Rewards | ArrayLike | Callable[..., float] | None = None,
        p0: ArrayLike | None = None,
        gamma: float | None = None,
        objective: Objective | None = None,
        allowed: ArrayLike | None = None,
        horizon: int | None = None,
    ) -> None:
        put = object.__setattr__  # the one place where a frozen object is completed
        instance("models", models, ModelSet, hint="Draw them from a posterior, or read_models(…).")
        if isinstance(rewards, Rewards) and rewards.kind == "model" and models.rewards is None:
            models = replace(models, rewards=rewards)  # they go where their models go
        put(self, "models", models)
        steps = None if horizon is None else whole("horizon", horizon, most=HORIZON_MOST)
        put(self, "horizon", steps)
        put(self, "gamma", check_gamma(models.gamma if gamma is None else gamma, horizon))
        given = models.p0 if p0 is None else p0
        uniform = np.full(models.n_states, 1.0 / models.n_states)
        put(self, "p0", check_p0(uniform if given is None else given, models.states))
        put(self, "allowed", _mask(models, allowed))
        put(self, "objective", _posed(objective or SoftRobust(), models, self.allowed))
        put(self, "rewards", _rewards(models, rewards))
        put(self, "R", _expected(self.paid, models, self.allowed))

    @property
    def n_states(self) -> int:
        """S."""
        return self.models.n_states

    @names_arguments
    def policy(self, choice: NDArray[Any]) -> Policy:
        """Probabilities (n_states, n_actions), or an action per state (n_states,), as a policy."""
        m, choice = self.models, np.asarray(choice)
        make = Policy.from_decision if choice.ndim == 1 else Policy
        return make(choice, m.states, m.actions, self.decided)

    def timed_policy(self, choice: NDArray[Any]) -> TimedPolicy:
        """Decisions (horizon, n_states), or probabilities, as a policy with a rule per step."""
        m = self.models
        return TimedPolicy(choice, m.states, m.actions, self.decided)

    @property
    def paid(self) -> Rewards:
        """What R is made of: rewards that were drawn with the models, else `rewards` themselves."""
        own = self.models.rewards
        return own if own is not None and own.drawn else self.rewards

    def uniform_policy(self) -> Policy:
        """Every allowed action equally likely: the yardstick of `gap_share`."""
        return self.policy(self.allowed / self.allowed.sum(axis=1, keepdims=True))

    @property
    def decided(self) -> BoolArray:
        """(n_states,): where there is something to decide."""
        return ~self.models.sinks

    @names_arguments
    def with_models(self, models: ModelSet | Draws) -> Self:
        """The same problem on other models (held-out draws, a mean model, a selection)."""
        models = models.models if isinstance(models, Draws) else models
        own = models.rewards
        rewards = self.rewards if own is None or own.drawn else own
        return replace(self, models=models, rewards=rewards)

    @names_arguments
    def mean_problem(self, xi: FloatArray | None = None) -> Self:
        """The one-model problem E_ξ[P̂] with rewards E_ξ[R]; ξ = f by default (nominal)."""
        weights = self.models.f if xi is None else xi
        mean = self.models.mean_model(weights)
        return replace(self, models=mean, rewards=Rewards.of_pairs(self.R @ weights))

    def refuse_horizon(self, who: str, instead: str = "") -> None:
        """What is known of problems without end only says so, instead of ignoring the end."""
        if self.horizon is not None:
            raise InputError(
                f"{who} is for problems without end, and this one ends after {self.horizon} "
                f"steps. Leave the horizon out{instead}.",
                arguments=("horizon",),
            )

    def __repr__(self) -> str:
        steps = "" if self.horizon is None else f"horizon={self.horizon}, "
        return (
            f"Problem({self.n_states} states, {self.n_actions} actions, {self.n_models} models, "
            f"gamma={self.gamma:g}, {steps}{self.objective})"
        )


def _posed(objective: Objective, models: ModelSet, allowed: BoolArray) -> Objective:
    """The objective with its reference known, which stays so: other models are measured alike."""
    reference = objective.reference
    if reference is None or reference.policy is not None or reference.returns is not None:
        return objective
    if reference.name == OPTIMUM:
        found = reference if reference.allowed is not None else Reference(OPTIMUM, allowed=allowed)
        return objective.measured_against(found)
    if reference.name != PRACTICE_REFERENCE or models.taken is None:
        raise InputError(
            f"The policy of the reference '{reference.name}' is not known: the models do not come "
            "from a log. Give the policy itself.",
            arguments=("reference",),
        )
    probs, known = action_shares(models.taken, models.available)
    policy = Policy(probs, models.states, models.actions, known & ~models.sinks)
    return objective.measured_against(Reference(reference.name, policy))


def _mask(models: ModelSet, allowed: ArrayLike | None) -> BoolArray:
    available = models.available
    if allowed is not None:
        mask = shaped("allowed", allowed, np.bool_, available.shape)
        available = available & (mask | models.sinks[:, None])
    stuck = np.flatnonzero(~available.any(axis=1))
    if stuck.size:
        raise InputError(
            "Every state needs at least one allowed action that has transitions: state "
            f"'{models.states[stuck[0]]}' has none ({stuck.size} such states). "
            "Allow one, lower the minimum count, or add its transitions."
        )
    return frozen(available, np.bool_)


def _rewards(models: ModelSet, given: Rewards | ArrayLike | Callable[..., float] | None) -> Rewards:
    if given is None:
        if models.rewards is None:
            raise InputError(
                "The problem has no rewards: the models came without any. "
                "Pass rewards= (a table, an array or a callable)."
            )
        return models.rewards
    if models.rewards is not None and given is not models.rewards:
        if models.rewards.drawn and isinstance(given, Rewards):
            return given  # the estimate that they were drawn around
        raise InputError(
            "The models came with their own rewards, and rewards= was given too. "
            "Drop one: pass rewards=None, or dataclasses.replace(models, rewards=None)."
        )
    return Rewards.of_given(given, models.states, models.actions)


def check_gamma(gamma: object, horizon: int | None = None) -> float:
    """A discount in (0, 1), not too near 1; with a horizon in (0, 1]."""
    _known("gamma", gamma)
    try:
        value = float(gamma)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise InputError(f"gamma must be a number in (0, 1); it is {gamma!r}.") from None
    if horizon is not None and 0.0 < value <= 1.0:
        return value
    if not 0.0 < value < 1.0:
        allowed = "above 0 and at most 1" if horizon is not None else "strictly between 0 and 1"
        hint = ""
        if value == 1.0:
            hint = " Without discounting only a sum over a horizon is finite: give the horizon too."
        raise InputError(f"gamma must lie {allowed}; it is {value:g}.{hint}", arguments=("gamma",))
    if value > GAMMA_MOST:
        raise InputError(
            f"gamma = {value!r} is too near 1: rows may miss 1 by 1e-8, and values would not be "
            f"finite. Use at most {GAMMA_MOST}."
        )
    return value


# A changed objective asks for the same R again: one entry per set of models.
_EXPECTED: Recent[FloatArray] = Recent(1)


def _expected(rewards: Rewards, models: ModelSet, allowed: BoolArray) -> FloatArray:
    """R[s, a, ω] = Σ_s′ P̂^ω(s′|s,a)·r(s,a,s′), 0 where a pair is not allowed or a state a sink."""
    needed = allowed & ~models.sinks[:, None]
    known = _EXPECTED.get(models, rewards, needed)
    if known is not None:
        return known
    if (size := 8.0 * needed.size * models.n_models) > SMALL:
        fewer = "Use fewer models, or fewer states and actions."
        refuse_if_too_large(size, "The expected rewards R[s, a, ω]", fewer)
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
    return _EXPECTED.put(seal(R), models, rewards, needed)


# --------------------------------------------------------------------------------------------------
# Continuous states (§4.3): an episode starts in one of the start states, lasts `horizon` steps and
# earns Σ_t γ^t r(s, a, s′). Models may be Gaussian, networks, or anything that draws next states.


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class ContinuousProblem(_OnModels):
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
        put(self, "start", _first(getattr(own, "start", None) if start is None else start, models))
        put(self, "reward", _reward(reward, models))
        put(self, "gamma", _known("gamma", gamma, getattr(own, "gamma", None)))
        put(self, "horizon", _known("horizon", horizon, getattr(own, "horizon", None)))
        whole("horizon", self.horizon)
        hint = "Values of vectors are iterated to a fixed point, which has none at 1."
        real("gamma", self.gamma, above=0, below=1, hint=hint)
        put(self, "objective", _simulated(objective or SoftRobust()))
        mask = np.ones(models.n_actions, bool) if allowed is None else np.array(allowed, dtype=bool)
        if mask.shape != (models.n_actions,) or not mask.any():
            raise InputError(
                f"allowed must have one entry for each of {list(models.actions)}, at least one "
                f"true; it is {mask.tolist()}."
            )
        put(self, "allowed", frozen(mask, np.bool_))

    @property
    def n_variables(self) -> int:
        """Entries of a state."""
        return self.models.n_variables

    @property
    def variables(self) -> Labels:
        """Names of the entries of a state."""
        return self.models.variables

    @property
    def actions(self) -> Labels:
        """Names of the actions."""
        return self.models.actions

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


def _simulated(objective: Objective) -> Objective:
    """A reference is simulated beside the policy, so it must be a policy."""
    reference = objective.reference
    if reference is None or reference.policy is not None:
        return objective
    hint = "The optimum of a model of continuous states is not known."
    if reference.name != OPTIMUM:
        hint = f"The policy of the reference '{reference.name}' is not known."
    raise InputError(f"{hint} Give a policy to measure against.", arguments=("reference",))


def _first(start: Any, models: ContinuousModels) -> FloatArray | StartSampler:
    if start is None:
        raise InputError(
            "The problem has no start. Pass start=: states (n_starts, n_variables) that are "
            "equally likely, or a function (rng, n) that draws n of them.",
            arguments=("start",),
        )
    if callable(start):
        return start  # type: ignore[no-any-return]
    s = np.atleast_2d(np.array(start, dtype=np.float64))
    if s.ndim != 2 or s.shape[1] != models.n_variables or not np.isfinite(s).all():
        raise InputError(
            f"Start states are finite numbers, one for each of {list(models.variables)}: shape "
            f"(n_starts, {models.n_variables}); this one has shape {s.shape}."
        )
    return frozen(s, np.float64)


def _reward(reward: RewardFunction | None, models: ContinuousModels) -> RewardFunction:
    own = models.frame if isinstance(models, GaussianModels) else None
    if reward is None:
        if own is None or own.reward_now is None or own.reward_next is None:
            raise InputError(
                "The problem has no reward: the models came without one. Pass reward=, a "
                "LinearReward or any function of (s, a, s′).",
                arguments=("reward_now", "reward_next"),
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


def _known(name: str, given: Any, own: Any = None) -> Any:
    if given is None and own is None:
        hint = {"gamma": "0.95: a reward one step later counts 5 % less", "horizon": "30 steps"}
        raise InputError(
            f"The {name} is not known. Pass {name}=, for example {hint[name]}.", arguments=(name,)
        )
    return own if given is None else given


# --------------------------------------------------------------------------------------------------
# `problem.npz`: a problem as later commands need it, without the log it came from.

PROBLEM_FORMAT = "softrobust-problem"


SKETCH = 64  # numbers of the drawn models that are kept, to know them again
SAME = 1e-6  # of the largest number: what another machine's rounding may change


def save_problem(path: str | Path, problem: Problem) -> None:
    """Write the problem, atomically; drawn models by posterior and seeds, where shorter."""
    paid = problem.rewards
    arrays = _recipe(problem)
    if not arrays:
        arrays = models_to_arrays(replace(problem.models, rewards=None))
        # Drawn rewards and their estimate are written as one.
        paid = replace(paid, per_model=problem.paid.per_model, notes=problem.paid.notes)
    arrays |= rewards_to_arrays(paid)
    arrays |= {
        "p0": problem.p0,
        "gamma": np.array(problem.gamma),
        "allowed": problem.allowed,
        "lam": np.array(problem.objective.lam),
        "alpha": np.array(problem.objective.alpha),
        "criterion": np.array(problem.objective.criterion),
    }
    if (reference := problem.objective.reference) is not None:
        parts = {"allowed": reference.allowed, "returns": reference.returns}
        parts["policy"] = None if reference.policy is None else reference.policy.probs
        arrays |= {f"reference_{name}": x for name, x in parts.items() if x is not None}
        arrays["reference"] = np.array(reference.name)
    if problem.horizon is not None:
        arrays["horizon"] = np.array(problem.horizon)
    write_npz(path, PROBLEM_FORMAT, FORMAT_VERSION, arrays)


def _recipe(problem: Problem) -> dict[str, NDArray[Any]]:
    """How the models are drawn, as arrays; empty where they are kept as they are."""
    draws = origin(problem.models)
    if draws is None or not isinstance(getattr(draws.posterior, "settings", None), REFITTED):
        return {}
    own = {f"posterior:{name}": x for name, x in draws.posterior.to_arrays().items()}
    if sum(x.nbytes for x in own.values()) >= problem.models.prob.nbytes:
        return {}
    return own | {"draws": np.array(json.dumps(draws.record())), "sketch": _sketch(problem)}


def _sketch(problem: Problem) -> FloatArray:
    """A few of the numbers that were drawn."""
    flat = (problem.models.prob, problem.R.reshape(-1))
    return np.concatenate([x[np.linspace(0, x.size - 1, SKETCH).astype(int)] for x in flat])


def load_problem(path: str | Path) -> Problem:
    """Read what `save_problem` wrote."""
    arrays = read_npz(path, PROBLEM_FORMAT, FORMAT_VERSION)
    again = "draws" in arrays
    if not again:
        models = replace(models_from_arrays(arrays, path), rewards=None)
    with rebuilding("problem", path):
        rewards = rewards_from_arrays(arrays)
        if again:
            posterior = cast(FittedPosterior, posterior_of(under("posterior:", arrays), Path(path)))
            models = Draws.again(posterior, json.loads(str(arrays["draws"]))).models
            if models.rewards is not None and not models.rewards.drawn:
                rewards = None  # they bring their own, as they did
        elif rewards is not None and rewards.drawn:
            models, rewards = replace(models, rewards=rewards), replace(rewards, per_model=None)
        criterion, reference = str(arrays.get("criterion", "soft-robust")), None
        if "reference" in arrays:
            known: dict[str, Any] = {k: seal(x) for k, x in under("reference_", arrays).items()}
            if "policy" in known:
                known["policy"] = policy_of(known["policy"], models.states, models.actions)
            reference = Reference(str(arrays["reference"]), **known)
        weights = float(arrays["lam"]), float(arrays["alpha"])
        problem = Problem(
            models,
            rewards=rewards,
            p0=arrays["p0"],
            gamma=float(arrays["gamma"]),
            allowed=arrays["allowed"],
            horizon=int(arrays["horizon"]) if "horizon" in arrays else None,
            objective=make_objective(criterion, *weights, reference),
        )
        same = True
        if again:
            then, now = np.asarray(arrays["sketch"], np.float64), _sketch(problem)
            same = then.shape == now.shape and np.abs(then - now).max() <= SAME * np.abs(then).max()
    if not same:
        raise InputError(
            f"The models of {Path(path).name} cannot be drawn again as they were: another version "
            "of NumPy or of this package drew them. Solve again."
        )
    return problem
