"""Episodes by simulation: what a policy earns under models of continuous states.

x[ω, e] = Σ_{t < horizon} γ^t r(s_t, a_t, s_{t+1}) of episode e under model ω. Start states, actions
and dynamics have random streams of their own, drawn in the same amounts whatever is decided: two
policies simulated with one seed meet the same luck (common random numbers).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from softrobust.data.memory import refuse_if_too_large
from softrobust.data.settings import whole
from softrobust.errors import InputError, MissingExtraError, SolverError
from softrobust.models.checks import freeze

if TYPE_CHECKING:
    from softrobust.continuous_problem import ContinuousProblem
    from softrobust.models.continuous import ContinuousModels
    from softrobust.models.continuous_policy import ContinuousPolicy

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Actor = Callable[[FloatArray, np.random.Generator], IntArray]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Episodes:
    """n episodes side by side.

    Attributes
    ----------
    states, actions : (horizon, n, n_variables) and (horizon, n), or None
        The states that were decided in and what was decided, if they were kept.
    returns : (n,)
        Discounted.
    clipped : int
        Steps that ended at the edge of the models' box.
    clipped_episodes : int
        Episodes with such a step.
    outside : float or None
        Share of states beyond the range of the data; None where that range is not known.
    """

    states: FloatArray | None
    actions: IntArray | None
    returns: FloatArray
    clipped: int
    clipped_episodes: int
    outside: float | None


@final
@dataclass(frozen=True, slots=True, eq=False)
class Simulation:
    """Returns (n_models, n_episodes) of one policy, with the weights of the models.

    `clipped` is the share of steps that ended at the edge of the models' box, `clipped_episodes`
    the share of episodes with such a step, `outside` that of states beyond the range of the data.
    """

    returns: FloatArray
    f: FloatArray
    horizon: int
    seed: int | None
    clipped: float
    clipped_episodes: float
    outside: float | None

    @property
    def means(self) -> FloatArray:
        """(n_models,) average over episodes."""
        return np.asarray(self.returns.mean(axis=1))


def run_episodes(
    problem: ContinuousProblem,
    models: ContinuousModels,
    act: Actor,
    omega: IntArray,
    rng: np.random.Generator,
    keep: bool = False,
) -> Episodes:
    """One episode under model omega[i] for each i.

    Parameters
    ----------
    act : callable (states (n, n_variables), rng) → (n,) action indices
    keep : bool
        Keep the states and actions.
    """
    n, T, d = omega.size, problem.horizon, problem.n_variables
    refuse_if_too_large(
        8.0 * n * d * (T if keep else 8), f"{n} episodes side by side", "Simulate fewer episodes."
    )
    starts, choices, luck = rng.spawn(3)
    s = problem.sample_start(n, starts)
    states = np.empty((T, n, d)) if keep else None
    actions = np.empty((T, n), np.int64) if keep else None
    returns, hit, clipped, outside = np.zeros(n), np.zeros(n, dtype=bool), 0, 0
    for t in range(T):
        if states is not None:
            states[t] = s
        if models.seen is not None:
            outside += int(((s < models.seen[0]) | (s > models.seen[1])).any(axis=1).sum())
        a = act(s, choices)
        if actions is not None:
            actions[t] = a
        s_next, beyond = models.draw(s, a, luck, omega)
        returns += problem.gamma**t * np.asarray(problem.reward(s, a, s_next))
        _check_finite(s_next, returns, t, omega, models)
        hit |= beyond
        clipped += int(beyond.sum())
        s = s_next
    share = None if models.seen is None else outside / (n * T)
    return Episodes(states, actions, returns, clipped, int(hit.sum()), share)


def _check_finite(
    s: FloatArray, returns: FloatArray, t: int, omega: IntArray, models: ContinuousModels
) -> None:
    good = np.isfinite(s).all(axis=1)
    if good.all() and np.isfinite(returns).all():
        return
    if good.all():
        i = int(np.flatnonzero(~np.isfinite(returns))[0])
        raise InputError(
            f"The reward must be a finite number: at step {t} it was not, in the state "
            f"{s[i].tolist()}."
        )
    i = int(np.flatnonzero(~good)[0])
    j = int(np.flatnonzero(~np.isfinite(s[i]))[0])
    raise SolverError(
        f"A simulated episode left the numbers: at step {t} model {int(omega[i])} gives "
        f"'{models.variables[j]}' = {s[i, j]} ({int((~good).sum())} of {good.size} episodes). Such "
        "models explode far from their data. Give them a box, clip=(low, high) (--clip), or a "
        "shorter horizon."
    )


def simulate(
    problem: ContinuousProblem,
    policy: ContinuousPolicy | Actor,
    models: ContinuousModels | None = None,
    episodes: int = 100,
    seed: int | np.random.Generator = 0,
) -> Simulation:
    """Simulate a policy under every model.

    Parameters
    ----------
    policy : ContinuousPolicy, or callable (states, rng) → action indices
    models : ContinuousModels, optional
        Other models than the problem's, such as held-out ones.
    episodes : int
        Per model.
    seed : int or Generator
        The same seed gives the same luck to every policy.
    """
    own = problem if models is None else problem.with_models(models)
    omega = np.repeat(np.arange(own.n_models), whole("episodes", episodes))
    act = actor(policy, own)
    rng = np.random.default_rng(seed)
    # A model that explodes is reported by its step, not by warnings on the way.
    with np.errstate(over="ignore", invalid="ignore"):
        run = run_episodes(own, own.models, act, omega, rng)
    steps = omega.size * own.horizon
    return Simulation(
        freeze(run.returns.reshape(own.n_models, episodes), np.float64),
        own.models.f,
        own.horizon,
        seed if isinstance(seed, int) else None,
        run.clipped / steps,
        run.clipped_episodes / omega.size,
        run.outside,
    )


def simulate_returns(
    problem: ContinuousProblem,
    policy: ContinuousPolicy | Actor,
    models: ContinuousModels | None = None,
    episodes: int = 100,
    seed: int | np.random.Generator = 0,
) -> FloatArray:
    """(n_models, episodes) discounted returns: `simulate(…).returns`."""
    return simulate(problem, policy, models, episodes, seed).returns


def actor(policy: ContinuousPolicy | Actor, problem: ContinuousProblem) -> Actor:
    """The policy as a function (states, rng) → action indices; names must be the problem's."""
    act = getattr(policy, "act", None)
    if act is None:
        return policy  # type: ignore[return-value]
    for noun in ("variables", "actions"):
        if getattr(policy, noun) != getattr(problem, noun):
            raise InputError(
                f"The policy is for the {noun} {list(getattr(policy, noun))}; the problem has "
                f"{list(getattr(problem, noun))}."
            )
    return act  # type: ignore[no-any-return]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Rollouts:
    """Episodes in an environment: discounted returns, plain sums, lengths, each (n_episodes,)."""

    returns: FloatArray
    totals: FloatArray
    lengths: IntArray


def roll_out_policy(
    env: Any,
    policy: Callable[..., int],
    episodes: int = 10,
    seed: int = 0,
    gamma: float = 1.0,
    steps: int = 10_000,
) -> Rollouts:
    """Run a policy in a Gymnasium environment, episode by episode.

    Parameters
    ----------
    env : environment or registered name
    policy : ContinuousPolicy, or callable observation → action index
    seed : int
        Episode i starts from `seed + i`, whatever the policy: environments that draw all their
        randomness from their seed then give every policy the same luck.
    gamma : float
        Discount of `returns`; `totals` are not discounted.
    steps : int
        An episode is cut after so many.
    """
    world = _environment(env)
    first = int(getattr(world.action_space, "start", 0))
    draws = hasattr(policy, "probs")
    returns, totals = np.zeros(whole("episodes", episodes)), np.zeros(episodes)
    lengths = np.zeros(episodes, np.int64)
    for i in range(episodes):
        s, _ = world.reset(seed=seed + i)
        rng = np.random.default_rng([seed, i])
        for t in range(whole("steps", steps)):
            x = np.ravel(np.asarray(s, dtype=np.float64))
            a = policy(x, rng) if draws else policy(x)
            s, reward, terminated, truncated, _ = world.step(first + int(a))
            returns[i] += gamma**t * float(reward)
            totals[i] += float(reward)
            lengths[i] = t + 1
            if terminated or truncated:
                break
    if isinstance(env, str):
        world.close()
    return Rollouts(returns, totals, lengths)


def _environment(env: Any) -> Any:
    if not isinstance(env, str):
        return env
    try:
        import gymnasium
    except ImportError as error:
        raise MissingExtraError("gymnasium", "gym", "Running an environment") from error
    return gymnasium.make(env)
