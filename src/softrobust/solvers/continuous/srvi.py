"""Soft-robust value iteration with linear values v(s) = φ(s)ᵀw (section 4.3, appendix A), and RPVI.

    SRVI              σ(s) = max_d min_ξ dᵀZξ                  one ξ ∈ Ξ per state
    SRVISA            σ(s) = max_a min_ξ Z_aᵀξ                 one ξ ∈ Ξ per state and action
    WorstModelVI      SRVI at λ = 1, α = 1: nature may pick any single model
    RPVI(policy)      σ(s) = Σ_a π(a|s) min_ω Z[a, ω]          a given policy, evaluated

Each iteration of v ← ΨTv (algorithm 4.1) simulates episodes in the mean model under the current
policy, draws a batch of their states, computes the update σ(s) = (Tv)(s) there from expected values
under every model, and regresses σ on φ: w = (Σφφᵀ + ridge·I)⁻¹ Σφσ (eqs. 4.10 and 4.11). No theorem
says that this settles: T is a contraction in the maximum norm, the projection Ψ in another. So the
change of v on fixed reference states is measured, and reported where it does not fall below the
tolerance.

# ERRATUM 5: the paper's weight equation has a stray P, and its sample form lacks φ(s_t).

What is handed over is a policy that needs nothing else. Exact lookahead is kept in it where models,
reward and features can be stored as arrays; else the action values against nature's answer are
fitted, q_a(s) = φ(s)ᵀw_a, and the share of states where the fit decides otherwise is reported. With
drawn next states the update has a bias, for CVaR picks models whose draws were unlucky. It is
measured on the last batch against the exact update, or where there is none by halving the draws: a
bias of order 1/k shows as the difference between the mean of two halves and the whole.

RPVI is projected robust evaluation as Tamar et al. (2014) have it; `WorstModelVI` is its form for
control.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, ClassVar, final

import numpy as np
from numpy.typing import ArrayLike

from softrobust._core.arrays import FloatArray, IntArray
from softrobust._core.limits import Deadline, LiveLine, Seconds
from softrobust._core.settings import Count, Natural, NotNegative, instance, whole
from softrobust.errors import InputError, SolverError
from softrobust.models.continuous_policy import ContinuousPolicy, choose_actions
from softrobust.models.expectation import ClosedForm, Expectation, Sampled, expectation_of
from softrobust.models.features import Features, PolynomialFeatures
from softrobust.models.lookahead import BellmanUpdate as BellmanUpdate
from softrobust.models.lookahead import Decision, LinearPolicy, LookaheadPolicy
from softrobust.objective import Objective, SoftRobust, soft_robust
from softrobust.problem import ContinuousProblem
from softrobust.returns.simulation import run_episodes
from softrobust.solvers.base import Solution, Solver, Status, finish

RANK_TOLERANCE = 1e-10  # of the largest singular value, columns scaled to length 1
DIVERGED = 1e6  # times the largest reward sum of the first states: values beyond have exploded
RIDGE = 0.1
STARTS = 1000  # start states over which `model_value` is averaged


@dataclass(frozen=True, slots=True, eq=False)
class Projected(Solver, ABC):
    """Settings of projected value iteration."""

    continuous: ClassVar[bool] = True
    # Anything with fit(states) and transform(states): `RBFFeatures`, `FourierFeatures`, those of
    # scikit-learn; by default all products of at most two variables.
    features: Any = field(default_factory=PolynomialFeatures)
    # Added to the diagonal of Σφφᵀ; None is 0.1 (features are of size 1): episodes of one policy
    # visit few corners of the state space, and without it w is left to chance in the others, where
    # v then explodes. 0 is plain least squares. Features that depend linearly on one another are an
    # error, unless a ridge was given for them.
    ridge: NotNegative | None = None
    iterations: Count = 150  # at most
    batch: Count = 150  # states per regression
    episodes: Count = 30  # simulated per iteration
    # Next states drawn per state, action and model (the paper has 100); by default expected values
    # are exact, and where they cannot be that is an error.
    samples: Annotated[int, partial(whole, least=2)] | None = None
    tol: NotNegative = 1e-3  # stop when v changes by at most this share of max|v|
    # After so many iterations w moves only 1/2, 1/3, … of the way to its regression: it is then the
    # average of the regressions, in which the luck of batches and the to and fro of policies
    # cancel. None: all of the way, always (algorithm 4.1).
    damp_after: Count | None = None
    states: ArrayLike | None = None  # (n, n_variables) to regress on instead of simulated ones
    seed: Natural = 0
    time_limit: Seconds | None = None  # the value function reached by then comes back

    def __post_init__(self) -> None:
        Solver.__post_init__(self)
        if isinstance(self.features, type):
            name = self.features.__name__
            raise InputError(f"features must be an object, not a class: {name}(…), not {name}.")
        for name in ("fit", "transform"):
            if not callable(getattr(self.features, name, None)):
                raise InputError(
                    "features must have fit(states) and transform(states), as in scikit-learn; "
                    f"{type(self.features).__name__} has no {name}."
                )

    @abstractmethod
    def make_update(self, problem: ContinuousProblem) -> BellmanUpdate:
        """λ, Ξ and the rectangle."""

    @property
    def given(self) -> ContinuousPolicy | None:
        """A policy to evaluate; None to improve one."""
        return None

    def solve(self, problem: ContinuousProblem) -> Solution[ContinuousPolicy]:
        """Iterate, then make a policy that needs nothing else."""
        return _Iteration(self, problem).run()


@final
@dataclass(frozen=True, slots=True, eq=False)
class SRVI(Projected):
    """S-rectangular soft-robust value iteration; settings as in `Projected`.

    The defaults are the paper's: 150 iterations of 30 episodes, batches of 150 states, features of
    degree 2.
    """

    name: ClassVar[str] = "srvi"

    def make_update(self, problem: ContinuousProblem) -> BellmanUpdate:
        """The S game of the problem's λ and α."""
        return _update(problem, s_rectangular=True)


@final
@dataclass(frozen=True, slots=True, eq=False)
class SRVISA(Projected):
    """SA-rectangular soft-robust value iteration (appendix A); its policies do not randomize."""

    name: ClassVar[str] = "srvi-sa"

    def make_update(self, problem: ContinuousProblem) -> BellmanUpdate:
        """The SA selection of the problem's λ and α."""
        return _update(problem, s_rectangular=False)


@final
@dataclass(frozen=True, slots=True, eq=False)
class WorstModelVI(Projected):
    """Control against the worst single model, whatever the problem's λ and α."""

    name: ClassVar[str] = "rpvi-control"
    s_rectangular: bool = True

    def make_update(self, problem: ContinuousProblem) -> BellmanUpdate:
        """Ξ is all of the simplex over models of positive weight."""
        return _update(problem, self.s_rectangular, SoftRobust(1.0, 1.0))


@final
@dataclass(frozen=True, slots=True, eq=False)
class RPVI(Projected):
    """The value of a given policy against the worst model, projected on features."""

    name: ClassVar[str] = "rpvi"
    policy: ContinuousPolicy | None = None
    s_rectangular: bool = False  # whether nature's model may depend on the state only

    def __post_init__(self) -> None:
        Projected.__post_init__(self)
        instance("policy", self.policy, ContinuousPolicy)

    @property
    def given(self) -> ContinuousPolicy | None:
        """The policy to evaluate."""
        return self.policy

    def make_update(self, problem: ContinuousProblem) -> BellmanUpdate:
        """Ξ is all of the simplex over models of positive weight."""
        assert self.policy is not None  # checked when made
        for noun in ("variables", "actions"):
            if getattr(self.policy, noun) != getattr(problem, noun):
                raise InputError(f"The policy has other {noun} than the problem.")
        return _update(problem, self.s_rectangular, SoftRobust(1.0, 1.0))


def _update(
    problem: ContinuousProblem, s_rectangular: bool, goal: Objective | None = None
) -> BellmanUpdate:
    objective = soft_robust(
        goal or problem.objective,
        "Soft-robust value iteration",
        "No solver for vectors maximises it.",
    )
    f = problem.models.f
    return BellmanUpdate(objective.lam, f, objective.q_bounds(f), s_rectangular, problem.allowed)


@final
@dataclass(frozen=True, slots=True, eq=False)
class LinearValue:
    """v(s) = φ(s)ᵀw; `features` transform states (n, n_variables) to Φ (n, n_features)."""

    features: Any
    w: FloatArray

    def __call__(self, s: ArrayLike) -> FloatArray:
        """(n,) values of states (n, n_variables)."""
        return np.asarray(self.features.transform(np.atleast_2d(s)) @ self.w)


def feature_matrix(features: Any, s: FloatArray) -> FloatArray:
    """(n, n_features) Φ of states (n, n_variables), checked."""
    Phi = np.asarray(features.transform(s), dtype=np.float64)
    if Phi.ndim != 2 or Phi.shape[0] != s.shape[0] or not np.isfinite(Phi).all():
        raise InputError(
            f"features.transform must give finite numbers, one row per state; for {s.shape[0]} "
            f"states it gave shape {Phi.shape}."
        )
    return Phi


def regress(Phi: FloatArray, targets: FloatArray, ridge: float, where: str) -> FloatArray:
    """The weights (n_features[, k]) for targets (n[, k]); rank-deficient features are an error.

    With a ridge, least squares on the stacked system [Φ; √ridge·I]: its conditioning is not
    squared, as that of the normal equations would be.
    """
    F = Phi.shape[1]
    if ridge > 0:
        Phi = np.concatenate([Phi, np.sqrt(ridge) * np.eye(F)])
        targets = np.concatenate([targets, np.zeros((F, *targets.shape[1:]))])
    else:
        check_rank(Phi, where)
    return np.asarray(np.linalg.lstsq(Phi, targets, rcond=None)[0])


def check_rank(Phi: FloatArray, where: str) -> None:
    """Refuse features of which one is a combination of others on these states."""
    n, F = Phi.shape
    size = np.sqrt((Phi**2).sum(axis=0))
    singular = np.linalg.svd(Phi / np.where(size > 0, size, 1.0), compute_uv=False)
    rank = int((singular > RANK_TOLERANCE * singular[0]).sum())
    if rank < F:
        raise InputError(
            f"The features are rank-deficient: {F} features span {rank} dimensions on {where} "
            f"({n} states). Set ridge, for example ridge=0.1, use fewer features, or more episodes "
            "and a larger batch."
        )


@final
class _Iteration:
    """The state of one solve."""

    def __init__(self, settings: Projected, problem: ContinuousProblem) -> None:
        self.settings, self.problem = settings, problem
        self.deadline, self.line = Deadline(settings.time_limit), LiveLine()
        self.rng = np.random.default_rng(settings.seed)
        self.mean = problem.models.mean_model()
        self.update = settings.make_update(problem)
        self.steps, self.clipped, self.outside, self.gap = 0, 0, 0.0, 0.0
        self.damped = 0  # iterations
        self.fixed = _checked_states(settings.states, problem)
        self.reference = self.visited(self.act_at_random) if self.fixed is None else self.fixed
        self.features = deepcopy(settings.features).fit(self.reference)
        self.Phi = feature_matrix(self.features, self.reference)
        if not settings.ridge:
            check_rank(self.Phi, "the first states")
        self.ridge = RIDGE if settings.ridge is None else settings.ridge
        self.w = np.zeros(self.Phi.shape[1])
        self.expectation = expectation_of(
            problem.models, problem.reward, self.features, settings.samples
        )
        self.at_fixed = None if self.fixed is None else self.expectation.at(self.fixed)

    def visited(self, act: Any) -> FloatArray:
        """(episodes × horizon, n_variables) states of episodes in the mean model."""
        own = self.problem.with_models(self.mean)
        omega = np.zeros(self.settings.episodes, np.int64)
        with np.errstate(over="ignore", invalid="ignore"):  # explosions are errors of their own
            run = run_episodes(own, self.mean, act, omega, self.rng.spawn(1)[0], keep=True)
        self.steps += run.steps
        self.clipped += run.clipped
        self.outside += run.steps * (run.outside or 0.0)
        assert run.states is not None  # asked for
        return run.states[run.live]

    def act_at_random(self, s: FloatArray, rng: np.random.Generator) -> IntArray:
        """Any allowed action."""
        ok = np.flatnonzero(self.problem.allowed)
        return np.asarray(ok[rng.integers(0, ok.size, size=s.shape[0])])

    def act(self, s: FloatArray, rng: np.random.Generator) -> IntArray:
        """As the current policy does."""
        given = self.settings.given
        if given is not None:
            return given.act(s, rng)
        return choose_actions(self.decide(s, rng).d, rng, self.problem.actions)

    def decide(self, s: FloatArray, rng: np.random.Generator) -> Decision:
        """The update σ of states (n, n_variables), and the decision that attains it."""
        gamma, given = self.problem.gamma, self.settings.given
        if s is self.fixed and self.at_fixed is not None:
            Z = self.at_fixed(self.w, gamma, rng)
        else:
            Z = self.expectation.values(s, self.w, gamma, rng)
        if given is not None:
            return self.update.evaluate(Z, given.probs(s))
        decision = self.update.decide(Z)
        self.gap = max(self.gap, float((decision.upper - decision.lower).max()))
        return decision

    def run(self) -> Solution[ContinuousPolicy]:
        """Iterate until v settles, or a limit is reached."""
        status, v, s = Status.ITERATION_LIMIT, self.Phi @ self.w, self.reference
        actions = (np.full(len(s), a) for a in range(self.problem.n_actions))
        largest = max(float(np.abs(self.problem.reward(s, a, s)).max()) for a in actions)
        limit = DIVERGED * max(largest, 1.0) / (1 - self.problem.gamma)  # reached by far by no v
        for k in range(1, self.settings.iterations + 1):
            if self.settings.damp_after is not None and k > self.settings.damp_after:
                self.damped += 1
            s, fit = self.step()
            before, v = v, self.Phi @ self.w
            change, size = float(np.abs(v - before).max()), float(np.abs(v).max())
            if not size <= limit:
                raise SolverError(
                    f"The value function grows without bound (max |v| = {size:.3g} at iteration "
                    f"{k}): projected value iteration diverges on these features. Set ridge, use "
                    "features of a lower degree or RBFFeatures, or give the models a box (clip)."
                )
            self.line.update(partial("iteration {}: v changes by {:.3g}".format, k, change))
            if change <= self.settings.tol * size:
                status = Status.TOLERANCE_REACHED
                break
            if self.deadline.passed:
                status = Status.TIME_LIMIT
                break
        self.line.clear()
        stats = {"iterations": k, "last_change": change, "tol": self.settings.tol}
        stats["last_change_share"] = change / max(size, 1e-300)
        return self.solution(status, s, stats | fit)

    def step(self) -> tuple[FloatArray, dict[str, float]]:
        """One batch and its regression; the states, and how v changed and fits there."""
        s = self.fixed
        if s is None:
            pool = self.visited(self.act)
            size = min(self.settings.batch, pool.shape[0])
            s = pool[self.rng.choice(pool.shape[0], size=size, replace=False)]
        sigma = self.decide(s, self.rng.spawn(1)[0]).value
        Phi = feature_matrix(self.features, s)
        before = Phi @ self.w
        new = regress(Phi, sigma, self.ridge, "a batch of simulated states")
        self.w = self.w + (new - self.w) / (1 + self.damped)
        v, spread = Phi @ self.w, float(np.var(sigma))
        size = max(float(np.abs(v).max()), 1e-300)
        return s, {
            "batch_change_share": float(np.abs(v - before).max()) / size,
            "fit_r2": 1.0 if spread == 0 else 1.0 - float(np.var(sigma - v)) / spread,
        }

    def solution(
        self, status: Status, s: FloatArray, stats: dict[str, Any]
    ) -> Solution[ContinuousPolicy]:
        """Policy, value function and figures from the last w and its batch."""
        policy = self.settings.given
        if policy is None:
            policy, more = self.final_policy(s, self.rng.spawn(1)[0])
            stats |= more | {"game_gap": self.gap}
        if isinstance(self.expectation, Sampled):
            stats |= self.sampling_bias(self.expectation, s, self.rng.spawn(1)[0])
        if self.fixed is None:
            stats["clipped_steps"] = self.clipped / self.steps
        if self.fixed is None and self.mean.seen is not None:
            stats["states_outside_data"] = self.outside / self.steps
        value = LinearValue(self.features, self.w)
        starts = self.problem.sample_start(STARTS, self.rng.spawn(1)[0])
        stats |= {"n_features": int(self.w.size), "ridge": self.ridge}
        stats["seconds"] = self.deadline.elapsed
        mean = float(value(starts).mean())
        return finish(self.problem, self.settings.name, policy, status, stats, value, mean)

    def exact(self) -> Expectation | None:
        """Expected values without noise, where they exist."""
        if self.expectation.exact:
            return self.expectation
        try:
            return expectation_of(self.problem.models, self.problem.reward, self.features, None)
        except InputError:
            return None  # draws are all there is

    def final_policy(
        self, s: FloatArray, rng: np.random.Generator
    ) -> tuple[ContinuousPolicy, dict[str, Any]]:
        """The policy, and what is to be known of it; where a fit is needed, it is on states s."""
        exact, p = self.exact(), self.problem
        if isinstance(exact, ClosedForm) and isinstance(exact.features, Features):
            policy = LookaheadPolicy(exact, self.w, p.gamma, self.update)
            return policy, {"policy": "exact lookahead"}
        by = self.expectation if exact is None else exact
        decision = self.update.decide(by.values(s, self.w, p.gamma, rng))
        worth = np.where(p.allowed, decision.worth, decision.lower[:, None])
        W = regress(feature_matrix(self.features, s), worth, self.ridge, "the last batch")
        fitted = LinearPolicy(self.features, W, p.variables, p.actions, p.allowed)
        off = 1.0 - float((fitted.probs(s) * decision.d).sum(axis=1).mean())
        stats = {"policy": "linear fit of action values", "policy_disagreement": max(off, 0.0)}
        return fitted, stats

    def sampling_bias(
        self, sampled: Sampled, s: FloatArray, rng: np.random.Generator
    ) -> dict[str, Any]:
        """How much too low (negative) or high drawn next states make σ on states s, on average."""

        def sigma(by: Expectation) -> FloatArray:
            return self.update.decide(by.values(s, self.w, self.problem.gamma, rng)).value

        whole, exact = sigma(sampled), self.exact()
        if exact is not None:
            off, against = whole - sigma(exact), "exact expectations"
        else:
            half = Sampled(sampled.models, sampled.reward, sampled.features, sampled.k // 2)
            off, against = 0.5 * (sigma(half) + sigma(half)) - whole, "halves of the draws"
        return {
            "samples": sampled.k,
            "sampling_bias": float(off.mean()),
            "sampling_bias_se": float(off.std(ddof=1) / np.sqrt(off.size)),
            "sampling_bias_against": against,
        }


def _checked_states(states: ArrayLike | None, problem: ContinuousProblem) -> FloatArray | None:
    if states is None:
        return None
    s = np.asarray(states, dtype=np.float64)
    if s.ndim != 2 or s.shape[1] != problem.n_variables or not np.isfinite(s).all():
        raise InputError(
            f"states must be finite, of shape (n, {problem.n_variables}); their shape is {s.shape}."
        )
    return s
