"""What a policy earns in each model, and how it goes: by simulation where models only draw.

x[ω, e] = Σ_{t < horizon} γ^t r(s_t, a_t, s_{t+1}) of episode e under model ω. Start states, actions
and dynamics have random streams of their own, drawn in the same amounts whatever is decided: two
policies simulated with one seed meet the same luck (common random numbers).

Episodes in tables show what a log of the same shape would look like if the models were true: each
has its own start, its own length and its own model ω, and stops early in a sink. Episodes in a
Gymnasium environment are rolled out one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast, final

import numpy as np
from numpy.typing import ArrayLike

from softrobust._core import arrays
from softrobust._core.arguments import names_arguments
from softrobust._core.arrays import BoolArray, FloatArray, IntArray, frozen
from softrobust._core.settings import whole
from softrobust.errors import InputError, SolverError, optional
from softrobust.kernels.evaluate import roll_episodes
from softrobust.models import ContinuousModels, ContinuousPolicy, Policy
from softrobust.posterior.sampling import Draws
from softrobust.problem import ContinuousProblem, Problem
from softrobust.returns.evaluation import check_policy, policy_return
from softrobust.returns.reference import measured, reference_returns

Actor = Callable[[FloatArray, np.random.Generator], IntArray]
LEVELS = (0.1, 0.5, 0.9)  # of the bands of `Paths`


@final
@dataclass(frozen=True, slots=True, eq=False)
class EpisodeBatch:
    """n episodes side by side."""

    states: FloatArray | None  # (horizon, n, n_variables) that were decided in, if they were kept,
    actions: IntArray | None  # (horizon, n) and what was decided
    returns: FloatArray  # (n,) discounted
    clipped: int  # steps that ended at the edge of the models' box,
    clipped_episodes: int  # and episodes with such a step
    outside: float | None  # share of states beyond the range of the data, if that is known
    steps: int  # in which something was decided
    live: BoolArray  # (horizon, n) which ones these are: all, unless an episode ended for good


@final
@dataclass(frozen=True, slots=True, eq=False)
class Simulation:
    """Returns (n_models, n_episodes) of one policy, with the weights of the models.

    `clipped` is the share of steps that ended at the edge of the models' box, `clipped_episodes`
    the share of episodes with such a step, `outside` that of states beyond the range of the data.
    """

    returns: FloatArray
    f: FloatArray
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
) -> EpisodeBatch:
    """One episode under model omega[i] for each i; with `keep`, their states and actions stay.

    act(states (n, n_variables), rng) gives (n,) action indices.
    """
    n, T, d = omega.size, problem.horizon, problem.n_variables
    arrays.refuse_if_too_large(
        8.0 * n * d * (T if keep else 8), f"{n} episodes side by side", "Simulate fewer episodes."
    )
    starts, choices, luck = rng.spawn(3)
    s = problem.sample_start(n, starts)
    states = np.empty((T, n, d)) if keep else None
    actions = np.empty((T, n), np.int64) if keep else None
    returns, hit, clipped, outside = np.zeros(n), np.zeros(n, dtype=bool), 0, 0
    live, fate = np.ones((T + 1, n), dtype=bool), None
    for t in range(T):
        on = live[t]
        if states is not None:
            states[t] = s
        if models.seen is not None:
            outside += int((on & ((s < models.seen[0]) | (s > models.seen[1])).any(axis=1)).sum())
        a = act(s, choices)
        if actions is not None:
            actions[t] = a
        s_next, beyond = models.draw(s, a, luck, omega)
        earned, over = np.asarray(problem.reward(s, a, s_next)), models.ends(s, a, omega)
        if over is not None:  # what follows a true end stays where it is, and earns nothing
            fate = rng.spawn(1)[0] if fate is None else fate
            ended = fate.random(n) < over
            earned = np.where(on, earned + models.end_reward * ended, 0.0)
            live[t + 1] = on & ~ended
            s_next, beyond = np.where(on[:, None], s_next, s), beyond & on
        returns += problem.gamma**t * earned
        _check_finite(s_next, returns, t, omega, models)
        hit |= beyond
        clipped += int(beyond.sum())
        s = s_next
    steps = int(live[:T].sum())
    share = None if models.seen is None else outside / steps
    return EpisodeBatch(states, actions, returns, clipped, int(hit.sum()), share, steps, live[:T])


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
        "models explode far from their data. Give them a box, clip=(low, high), or a shorter "
        "horizon.",
        arguments=("clip", "horizon"),
    )


def simulate(
    problem: ContinuousProblem,
    policy: ContinuousPolicy | Actor,
    models: ContinuousModels | None = None,
    episodes: int = 100,
    seed: int | np.random.Generator = 0,
) -> Simulation:
    """Simulate a policy, or a function (states, rng) → action indices, under every model.

    `models` may be others than the problem's, such as held-out ones; `episodes` are per model. The
    same seed gives the same luck to every policy.
    """
    own, omega, run = _under_every_model(problem, policy, models, episodes, seed)
    returns = frozen(run.returns.reshape(own.n_models, episodes), np.float64)
    shares = run.clipped / run.steps, run.clipped_episodes / omega.size
    return Simulation(returns, own.models.f, *shares, run.outside)


def _under_every_model(
    problem: ContinuousProblem,
    policy: ContinuousPolicy | Actor,
    models: ContinuousModels | None,
    episodes: int,
    seed: int | np.random.Generator,
    keep: bool = False,
) -> tuple[ContinuousProblem, IntArray, EpisodeBatch]:
    """The problem on its models, the model of every episode, and how they went."""
    own = problem if models is None else problem.with_models(models)
    omega = np.repeat(np.arange(own.n_models), whole("episodes", episodes))
    act, rng = actor(policy, own), np.random.default_rng(seed)
    # A model that explodes is reported by its step, not by warnings on the way.
    with np.errstate(over="ignore", invalid="ignore"):
        return own, omega, run_episodes(own, own.models, act, omega, rng, keep)


def actor(policy: ContinuousPolicy | Actor, problem: ContinuousProblem) -> Actor:
    """The policy as a function (states, rng) → action indices; names must be the problem's."""
    act = getattr(policy, "act", None)
    if act is None:
        return cast("Actor", policy)
    for noun in ("variables", "actions"):
        if getattr(policy, noun) != getattr(problem, noun):
            raise InputError(
                f"The policy is for the {noun} {list(getattr(policy, noun))}; the problem has "
                f"{list(getattr(problem, noun))}."
            )
    return cast("Actor", act)


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
    """Run a policy in a Gymnasium environment (or a registered name), episode by episode.

    A policy may be a function observation → action index. Episode i starts from `seed + i`,
    whatever the policy: environments that draw all their randomness from their seed then give every
    policy the same luck. `gamma` is the discount of `returns`; an episode is cut after `steps`.
    """
    world = env
    if isinstance(env, str):
        world = optional("gymnasium", "gym", "Running an environment").make(env)
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


@final
@dataclass(frozen=True, slots=True, eq=False)
class Paths:
    """The course of simulated episodes under one policy.

    `states` and `actions` are a sample of those that were decided in, all steps alike, and of what
    was decided.
    """

    bands: FloatArray  # (horizon, n_variables, 3): 10, 50 and 90 % lie below, models by weight
    shares: FloatArray  # (horizon, n_actions) how often each action is taken at each step
    states: FloatArray  # (n, n_variables)
    actions: IntArray  # (n,)


def follow(
    problem: ContinuousProblem,
    policy: ContinuousPolicy | Actor,
    models: ContinuousModels | None = None,
    episodes: int = 10,
    seed: int = 0,
    sample: int = 600,
) -> Paths:
    """Simulate `episodes` episodes per model, and keep their course and some visited states.

    `models` may be others than the problem's, such as held-out ones.
    """
    own, omega, run = _under_every_model(problem, policy, models, episodes, seed, keep=True)
    assert run.states is not None  # asked for
    assert run.actions is not None
    weight = np.where(run.live, own.models.f[omega] / episodes, 0.0)
    none = weight.sum(axis=1) == 0  # nobody is left: the last states stand for the steps after
    weight[none] = own.models.f[omega] / episodes
    at = zip(run.states, weight, strict=True)
    each = [np.quantile(s, LEVELS, axis=0, weights=w, method="inverted_cdf") for s, w in at]
    bands = np.stack(each, axis=1)
    taken = [((run.actions == a) * weight).sum(axis=1) for a in range(own.n_actions)]
    shares = np.stack(taken, axis=1) / weight.sum(axis=1, keepdims=True)
    visited, chance = run.states.reshape(-1, own.n_variables), (weight * run.live).ravel()
    size = min(whole("sample", sample), int(np.count_nonzero(chance)))
    rng, p = np.random.default_rng(seed), chance / chance.sum()
    kept = rng.choice(chance.size, size, replace=False, p=p)
    return Paths(np.moveaxis(bands, 0, 2), shares, visited[kept], run.actions.ravel()[kept])


@final
class TableEpisodes(NamedTuple):
    """Steps (n_episodes, longest) and how many of them each episode has, (n_episodes,)."""

    s: IntArray
    a: IntArray
    s_next: IntArray
    length: IntArray

    @property
    def live(self) -> BoolArray:
        """(n_episodes, longest): which steps took place."""
        return np.arange(self.s.shape[1]) < self.length[:, None]


def simulate_table(
    problem: Problem,
    policy: Policy,
    start: ArrayLike,
    length: ArrayLike,
    omega: ArrayLike,
    seed: int | np.random.Generator = 0,
) -> TableEpisodes:
    """Episodes of a policy in the problem's models.

    `start`, `length` and `omega` (n_episodes,) are their first states, most steps, and models.
    """
    first, steps, which = (np.array(x, dtype=np.int64) for x in (start, length, omega))
    m = problem.models
    check_policy(problem, policy, m.available)
    shape = (first.size, max(int(steps.max(initial=0)), 1))
    arrays.refuse_if_too_large(
        40.0 * shape[0] * shape[1],
        f"{shape[0]} episodes of up to {shape[1]} steps",
        "Simulate fewer or shorter episodes.",
    )
    u = np.random.default_rng(seed).random((*shape, 2))
    s, a, s_next = (np.zeros(shape, dtype=np.int64) for _ in range(3))
    roll_episodes(
        m.indptr, m.next_states, m.prob, m.n_models, policy.probs, np.asarray(m.sinks),
        first, which, steps, u, s, a, s_next,
    )  # fmt: skip
    return TableEpisodes(s, a, s_next, steps)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Returns(arrays.Sealed):
    """One number per model, and the weights of the models."""

    x: FloatArray  # (n_models,) what the objective is taken of: returns less the reference's
    f: FloatArray  # (n_models,)
    noise: Simulation | None = None  # the episodes that x averages; None where x is exact
    # What was taken off, if anything: (n_models,), or where simulated (n_models, n_episodes).
    reference: FloatArray | None = None

    @property
    def itself(self) -> Returns:
        """The returns themselves, against nothing."""
        if self.reference is None:
            return self
        if self.noise is None:
            return Returns(self.x + self.reference, self.f)
        whole = frozen(self.noise.returns + self.reference, np.float64)
        return Returns.of(replace(self.noise, returns=whole))

    @property
    def plain(self) -> FloatArray:
        """(n_models,) the returns themselves."""
        return self.itself.x

    @property
    def size(self) -> float:
        """The largest |return|: what x was rounded at."""
        return float(np.abs(self.plain).max())

    @classmethod
    def of(cls, found: Returns | Simulation) -> Returns:
        """A simulation as averages over its episodes; returns are what they are."""
        return cls(found.means, found.f, found) if isinstance(found, Simulation) else found


def less(own: Returns, other: Returns) -> Returns:
    """Returns less those of another policy on the same models, episode by episode if simulated."""
    if own.noise is None or other.noise is None:
        return Returns(own.x - other.x, own.f, reference=other.x)
    gain = frozen(own.noise.returns - other.noise.returns, np.float64)
    return replace(Returns.of(replace(own.noise, returns=gain)), reference=other.noise.returns)


@names_arguments
def returns_of(
    problem: Problem | ContinuousProblem,
    policy: Any,
    models: Any = None,
    episodes: int = 100,
    seed: int | np.random.Generator = 0,
) -> Returns:
    """What the objective is taken of in every model of the problem, or in `models` (held-out ones).

    That is the return, less the reference's where there is one. `episodes` per model and `seed` are
    for simulations: policies with one seed meet the same luck, and so does the reference.
    """
    if isinstance(problem, ContinuousProblem):
        reference = problem.objective.reference
        if reference is None:
            return Returns.of(simulate(problem, policy, models, episodes, seed))
        if isinstance(seed, np.random.Generator):
            seed = int(seed.integers(2**62))  # a generator gives its luck once
        both = (policy, reference.policy)
        return less(*(Returns.of(simulate(problem, p, models, episodes, seed)) for p in both))
    if isinstance(models, Draws):
        return stream_returns(problem, [policy], models)[0]
    own = problem if models is None else problem.with_models(models)
    x = measured(own, policy_return(own, policy))
    off = None if own.objective.reference is None else reference_returns(own)
    return Returns(x, own.models.f, reference=off)


def stream_returns(problem: Problem, policies: Sequence[Policy], draws: Draws) -> list[Returns]:
    """The same of policies in a stream of models, which is drawn once for all of them.

    A block of models is evaluated at a time and forgotten, so that memory is bounded and a figure
    does not hang on how many others were asked for.
    """
    f, none = draws.f, problem.objective.reference is None
    if (crew := draws.crew) is not None:
        made = crew.returns(problem, policies, draws)
        return [Returns(x[0], f, reference=None if none else x[1]) for x in made]
    found: list[list[Returns]] = [[] for _ in policies]
    for models in draws.blocks():
        for parts, policy in zip(found, policies, strict=True):
            parts.append(returns_of(problem, policy, models))
    return [
        Returns(
            np.concatenate([part.x for part in parts]), f,
            reference=None if none else np.concatenate([part.plain - part.x for part in parts]),
        )
        for parts in found
    ]  # fmt: skip
