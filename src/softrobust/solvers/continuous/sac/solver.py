"""Soft actor-critic for continuous states (appendix F.1 "Baselines", table "SR-SAC and R-SAC").

    SAC            targets E[r + γ V̄(s′)] under the mean model
    SoftRobustSAC  targets Σ_ω f_ω E_ω[r + γ V̄(s′)]          (Derman et al. 2018)
    RobustSAC      targets min_ω E_ω[r + γ V̄(s′)], f_ω > 0   (Mankowitz et al. 2020)

All three train on episodes of the mean model; settings default to the paper's table. None of them
looks at λ or α: the soft-robust one ignores the tail, the robust one the mean.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from softrobust._core.limits import File, Seconds
from softrobust._core.settings import Count, Positive, real, whole
from softrobust.errors import InputError
from softrobust.models.continuous_policy import ContinuousPolicy, NetworkPolicy
from softrobust.problem import ContinuousProblem
from softrobust.solvers.base import Solution, Solver
from softrobust.solvers.continuous.sac.learning import NETWORKS, Plan
from softrobust.solvers.continuous.sac.traced import Data, Traced, jax, on_device, world_of
from softrobust.solvers.continuous.sac.training import (
    LearningCurves,
    Limits,
    Notify,
    Trained,
    train,
)

check_seed = partial(whole, least=0, most=2**32 - 1)
# Settings that a compiled program depends on as they are.
SHARED = ("hidden", "batch", "next_states", "episodes", "updates", "memory", "degree",
          "target_rate", "entropy_coef")  # fmt: skip
# Activations of the target network that are held at a time: a chunk of models is as large as fits.
CHUNK_BYTES = {"cpu": 256 * 2**20, "other": 4 * 2**30}
CURVE_POINTS = 100  # of the learning curve in a solution's stats
# What a function that JAX cannot follow may raise: JAX's own errors are of these kinds, too.
UNTRACEABLE = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, RuntimeError)
FORBIDDEN = -1e9  # logit of an action that may not be taken: its probability is exactly 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorCritic(Solver, ABC):
    """Settings that the three solvers share."""

    continuous: ClassVar[bool] = True
    robust: ClassVar[bool] = False  # whether models are combined by their minimum
    plain: ClassVar[bool] = False  # whether the mean model is the only one
    iterations: Count = 2000  # in each of which
    episodes: Count = 30  # are rolled out, and
    updates: Count = 6  # are made,
    batch: Count = 150  # of so many rows, and
    next_states: Count = 100  # drawn per row and model
    hidden: tuple[int, ...] = (400, 300)  # widths of the hidden layers of all networks
    # Of the polynomial features of the state that the networks read, standardised by the log.
    degree: Annotated[int, partial(whole, most=2)] = 2
    actor_rate: Positive = 3e-4  # learning rates of Adam
    q_rate: Positive = 3e-4
    v_rate: Positive = 3e-4
    # Share of the way that the target network moves to V after each update.
    target_rate: Annotated[float, partial(real, above=0, below=1)] = 0.01
    entropy_coef: Positive = 1.0  # temperature c of the entropy, in units of reward
    memory: Count = 100  # iterations whose episodes the replay buffer keeps
    model_chunk: Count | None = None  # models evaluated at a time; None: what memory allows
    block: Count = 50  # iterations between two checkpoints, and two looks at the clock
    seed: Annotated[int, check_seed] = 0
    checkpoint: File | None = None  # written after every block, and gone on from if it exists
    time_limit: Seconds | None = None  # training ends before the block that would pass it

    def __post_init__(self) -> None:
        Solver.__post_init__(self)
        if not isinstance(self.hidden, tuple) or not self.hidden:
            raise InputError(
                f"hidden must be a tuple of widths, as (400, 300); it is {self.hidden!r}."
            )
        for width in self.hidden:
            whole("A width of hidden", width)

    def solve(self, problem: ContinuousProblem) -> Solution[ContinuousPolicy]:
        """Train one agent."""
        return self.train(problem, (self.seed,))[0][0]

    def train(
        self, problem: ContinuousProblem, seeds: Sequence[int], notify: Notify | None = None
    ) -> tuple[list[Solution[ContinuousPolicy]], LearningCurves]:
        """One agent per seed, side by side, and learning curves; `notify` hears of every block."""
        chosen = tuple(check_seed("A seed", seed) for seed in seeds)
        if not chosen:
            raise InputError("Give at least one seed: seeds=(0, 1, 2).")
        plan, world, data = self.plan(problem, len(chosen))
        limits = Limits(self.iterations, self.block, self.time_limit, self.checkpoint, notify)
        device = on_device(data)
        check_traceable(plan, world, device)
        trained = train(plan, world, device, chosen, limits, self.name)
        solutions = [
            self._solution(problem, data, trained, i, seed) for i, seed in enumerate(chosen)
        ]
        return solutions, trained.curves

    def plan(self, problem: ContinuousProblem, agents: int = 1) -> tuple[Plan, Traced, Data]:
        """What is compiled and what it reads (NumPy arrays), for one problem."""
        world, data = world_of(problem, self.plain)
        n_models = int(data["f"].size)
        plan = Plan(
            robust=self.robust,
            n_models=n_models,
            n_variables=problem.n_variables,
            n_actions=int(problem.allowed.sum()),
            horizon=problem.horizon,
            rates=(self.actor_rate, self.q_rate, self.v_rate),
            model_chunk=self.model_chunk or self._chunk(n_models, agents),
            **{name: getattr(self, name) for name in SHARED},
        )
        return plan, world, data

    def _chunk(self, n_models: int, agents: int) -> int:
        """As many models as their activations fit into memory; even chunks if they can be."""
        cpu = jax.default_backend() == "cpu"
        per_model = 4.0 * agents * self.batch * self.next_states * sum(self.hidden)
        room = int(CHUNK_BYTES["cpu" if cpu else "other"] / per_model)
        most = min(n_models, max(1, room))
        even = max(k for k in range(1, most + 1) if n_models % k == 0)
        return even if 2 * even >= most else most

    def _solution(
        self, problem: ContinuousProblem, data: Data, trained: Trained, i: int, seed: int
    ) -> Solution[ContinuousPolicy]:
        actor = {name: x[i] for name, x in trained.networks["actor"].items()}
        curves = trained.curves
        stats: dict[str, Any] = {
            **{name: getattr(trained, name) for name in ("iterations", "seconds", "device")},
            "seed": seed,
            "agents": len(curves.returns),
            "entropy_coef": self.entropy_coef,
            "last_return": float(curves.returns[i, -1]),
            "last_entropy": float(curves.entropy[i, -1]),
            "last_losses": dict(zip(NETWORKS, map(float, curves.losses[i, -1]), strict=True)),
            "curve_return": curves.thinned(i, CURVE_POINTS),
        }
        return Solution(
            solver=self.name,
            policy=network_policy(problem, data, actor, self.degree),
            objective=problem.objective,
            gamma=problem.gamma,
            n_models=int(data["f"].size),
            status=trained.status,
            stats=stats,
        )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SAC(ActorCritic):
    """Discrete soft actor-critic in the mean model: the case of one model."""

    name: ClassVar[str] = "sac"
    plain: ClassVar[bool] = True


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SoftRobustSAC(ActorCritic):
    """Targets are the mean over models."""

    name: ClassVar[str] = "sr-sac"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RobustSAC(ActorCritic):
    """Targets are those of the worst model for every (s, a)."""

    name: ClassVar[str] = "r-sac"
    robust: ClassVar[bool] = True


def network_policy(
    problem: ContinuousProblem, data: Data, actor: dict[str, NDArray[Any]], degree: int
) -> NetworkPolicy:
    """The actor as a policy in NumPy; actions that may not be taken get probability 0."""
    n = len(actor) // 2
    weights = [np.asarray(actor[f"W{i}"], np.float64) for i in range(n)]
    biases = [np.asarray(actor[f"b{i}"], np.float64) for i in range(n)]
    may = problem.allowed
    last = np.zeros((weights[-1].shape[0], may.size))
    bias = np.full(may.size, FORBIDDEN)
    last[:, may], bias[may] = weights[-1], biases[-1]
    layers = (*weights[:-1], last), (*biases[:-1], bias)
    scaling = data["input_centre"], data["input_scale"]
    return NetworkPolicy(*layers, problem.variables, problem.actions, *scaling, degree)


def check_traceable(plan: Plan, world: Traced, data: Data) -> None:
    """Refuse dynamics and rewards that JAX cannot trace, with its own reason."""
    key = jax.random.PRNGKey(0)
    s, a = data["start"][:1], np.zeros(1, np.int32)
    for what, call in (
        ("The models' step", lambda s, a: world.draw(data, 0, s, a, key, plan.next_states)),
        ("The reward", lambda s, a: world.reward(data, s, a, s)),
    ):
        try:
            jax.eval_shape(call, s, a)
        except InputError:
            raise
        except UNTRACEABLE as error:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
            raise InputError(
                f"{what} must be a function that JAX can trace: {reason} Compute with operators "
                "or jax.numpy instead of numpy (jnp.asarray(table)[omega] for a lookup), draw "
                "with rng.standard_normal, rng.normal, rng.random or rng.uniform, and do not "
                "branch on values."
            ) from error
