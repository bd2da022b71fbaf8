"""The static optimum over randomized policies, climbed by linear programs, and its rounding.

Proposition 3.1: the best stationary policy may have to randomize. Around a policy π each return is
nearly linear, ρ_ω(π + d) ≈ ρ_ω + g_ω·d with the exact adjoint gradient g_ω, while mean and CVaR of
linear functions are a linear program (eq. 3.2). So, within a trust region |d| ≤ Δ,

    max  (1 − λ) Σ f_ω (ρ_ω + g_ω·d) + λ (b − Σ f_ω y_ω/(1 − α))
    s.t. y_ω ≥ b − ρ_ω − g_ω·d,  y ≥ 0,  Σ_a d(s, a) = 0,  0 ≤ π + d ≤ 1,

is solved, the new policy is evaluated exactly, and Δ follows how well the model predicted. The
climb ends in a local optimum; several starts make a good one likely.

Where randomizing is not wanted (a clinic, a plant), a policy is rounded to a decision rule. Taking
each state's likeliest action alone rounds badly, because states were tuned together: so that rule
and rules drawn from the policy itself are all improved by exact one-state exchanges.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, final

import numpy as np

from softrobust._core.arrays import FloatArray
from softrobust._core.limits import NO_LIMIT, Deadline, Seconds, Seed
from softrobust._core.settings import Count, Natural, Positive
from softrobust.bounds.best import Covers, best_bound
from softrobust.bounds.reduction import count_policies, onto, reduce
from softrobust.models.policy import Policy
from softrobust.objective import EDGE, soft_robust
from softrobust.problem import Problem
from softrobust.returns import (
    check_policy,
    measured,
    return_gradients,
    static_return,
    uniform_value,
)
from softrobust.solvers.base import Solution, Solver, Status, finish
from softrobust.solvers.exact.exact import Exact
from softrobust.solvers.exact.local_search import ExchangeClimber, LocalSearch, policy_of

FEW = 1e4  # policies up to which the proven deterministic optimum is a start too
EXACT_SECONDS = 5.0  # for that start: its incumbent is as good a start as its proof
EXACT_NODES = 200  # instead, where no clock is to be looked at
ALIKE, SAME = 4, 1e-6  # starts that end within this share of the gain over acting at random
NEGLIGIBLE = 1e-9  # action probabilities below this are dropped if the value allows


@final
@dataclass(frozen=True, slots=True)
class RandomizedAscent(Solver):
    """Climb ρ^S over randomized stationary policies from several starts.

    Parameters
    ----------
    starts : int
        Random policies besides the fixed starts: local search (on small problems the proven
        deterministic optimum) and the uniform one. None is made once `ALIKE` have ended alike.
    steps : int
        Linear programs per start.
    tol : float
        A start ends when its program promises less than this share of |ρ^S|.
    seed : int or Generator
    time_limit : float, optional
        Seconds; the best policy so far comes back.
    """

    starts: Natural = 4
    steps: Count = 100
    tol: Positive = 1e-9
    seed: Seed = 0
    time_limit: Seconds | None = None
    name: ClassVar[str] = "randomized"

    def solve(self, problem: Problem) -> Solution:
        """Climb from every start and keep the best policy."""
        soft_robust(problem.objective, "The ascent over randomized policies")
        deadline = Deadline(self.time_limit)
        status, best, programs, source = Status.LOCAL_OPTIMUM, None, 0, ""
        deterministic, base, ends = -np.inf, uniform_value(problem), []
        for name, start in self._starts(problem, deadline):
            climb = _climb(problem, start, self.steps, self.tol, deadline)
            programs += climb.programs
            ends.append(climb.value)
            if name in ("exact", "local-search"):
                deterministic = max(deterministic, static_return(problem, start))
            if best is None or climb.value > best.value:
                best, source = climb, name
            if deadline.passed:
                status = Status.TIME_LIMIT
                break
            least = best.value - SAME * (best.value - base)
            if sum(value >= least for value in ends) >= ALIKE:
                break
        assert best is not None  # the first start is always climbed
        stats = {
            "seconds": deadline.elapsed,
            "programs": programs,
            "best_start": source,
            "deterministic_value": deterministic,
            "randomized_states": int(((best.policy.probs > 0).sum(axis=1) > 1).sum()),
        }
        bound = best_bound(problem, Covers.STATIONARY, deadline.left if self.time_limit else None)
        return finish(problem, self.name, best.policy, status, stats, bound=bound)

    def _starts(self, problem: Problem, deadline: Deadline) -> Iterator[tuple[str, Policy]]:
        limit = None if deadline.limit is None else max(0.4 * deadline.left, 1e-3)
        if count_policies(reduce(problem).allowed) <= FEW:
            # Without a time limit the result must not depend on how fast the machine is.
            exact = Exact(node_limit=EXACT_NODES)
            if limit is not None:
                exact = Exact(time_limit=min(limit, EXACT_SECONDS))
            yield "exact", exact.solve(problem).policy
        else:
            yield "local-search", LocalSearch(time_limit=limit).solve(problem).policy
        yield "uniform", problem.uniform_policy()
        rng = np.random.default_rng(self.seed)
        for _ in range(self.starts):
            draws = rng.standard_exponential(problem.allowed.shape) * problem.allowed
            yield "random", _scaled(problem, draws)


class _Climb(NamedTuple):
    policy: Policy
    value: float
    programs: int


def _scaled(problem: Problem, probs: FloatArray) -> Policy:
    """Rows scaled to sum to 1: linear programs and rounding miss it by little."""
    probs = np.clip(probs, 0.0, None)
    return problem.policy(probs / probs.sum(axis=1, keepdims=True))


def _climb(problem: Problem, policy: Policy, steps: int, tol: float, deadline: Deadline) -> _Climb:
    f, objective = problem.models.f, problem.objective
    # A start on a face of the simplex has gradients for the actions it does not take as well.
    returns, gradients = _gradients(problem, policy)
    value, radius, programs = objective.value(returns, f), 1.0, 0
    while programs < steps and radius > 1e-7 and not deadline.passed:
        step, promised = _program(problem, policy.probs, returns, gradients, radius, deadline)
        programs += 1
        if step is None or promised - value <= tol * max(abs(value), 1e-12):
            break
        candidate = _scaled(problem, policy.probs + step)
        new_returns, new_gradients = _gradients(problem, candidate)
        new_value = objective.value(new_returns, f)
        kept = (new_value - value) / (promised - value)
        if kept > 0:
            policy, value = candidate, new_value
            returns, gradients = new_returns, new_gradients
        if kept < 0.25:
            radius = 0.25 * min(radius, float(np.abs(step).max()))
        elif kept > 0.75:
            radius = min(1.0, 2 * radius)
    return _without_traces(problem, policy, value, programs)


def _gradients(problem: Problem, policy: Policy) -> tuple[FloatArray, FloatArray]:
    """Returns less the reference's, which has no gradient."""
    returns, gradients = return_gradients(problem, policy)
    return measured(problem, returns), gradients


def _without_traces(problem: Problem, policy: Policy, value: float, programs: int) -> _Climb:
    """Drop probabilities that are numerical dust, if that costs nothing."""
    clean = _scaled(problem, np.where(policy.probs < NEGLIGIBLE, 0.0, policy.probs))
    clean_value = static_return(problem, clean)
    if clean_value >= value - 1e-12 * abs(value):
        return _Climb(clean, clean_value, programs)
    return _Climb(policy, value, programs)


def _program(
    problem: Problem, probs: FloatArray, returns: FloatArray, gradients: FloatArray, radius: float,
    deadline: Deadline = NO_LIMIT,
) -> tuple[FloatArray | None, float]:  # fmt: skip
    """The step d (n_states, n_actions) of the linear program, and the value it promises.

    Its dual is solved, which has a row for each d and not for each model: nature's q against the
    prices of what bounds d, and d are the multipliers of its rows. None where time is over first.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csc_array, eye_array, hstack, vstack

    f, lam, tail = problem.models.f, problem.objective.lam, 1.0 - problem.objective.alpha
    live = np.flatnonzero(f > 0)
    free = (problem.allowed & (problem.allowed.sum(axis=1) > 1)[:, None]).reshape(-1)
    pairs = np.flatnonzero(free)
    if pairs.size == 0:
        return None, -np.inf
    g = gradients.reshape(f.size, -1)[np.ix_(live, pairs)]
    n, k = live.size, pairs.size
    states, place = np.unique(pairs // problem.n_actions, return_inverse=True)
    now = probs.reshape(-1)[pairs]
    low, high = np.maximum(-now, -radius), np.minimum(1 - now, radius)
    # Columns: q (n), the prices of high (k) and low (k) and of Σ_a d(s, a) = 0. q sums to 1.
    sums = csc_array((np.ones(k), (np.arange(k), place)), shape=(k, states.size))
    rows = hstack([csc_array(-lam * g.T), eye_array(k), -eye_array(k), sums])
    total = csc_array((np.ones(n), (np.zeros(n, int), np.arange(n))), shape=(1, rows.shape[1]))
    cost = np.concatenate([lam * returns[live], high, -low, np.zeros(states.size)])
    bounds: Any = np.tile([0.0, np.inf], (cost.size, 1))  # its stubs know lists of pairs only
    if tail > EDGE:
        bounds[:n, 1] = f[live] / tail
    bounds[n + 2 * k :, 0] = -np.inf
    result = linprog(
        cost, A_eq=vstack([rows, total], format="csc"), bounds=bounds, method="highs",
        b_eq=np.append((1 - lam) * f[live] @ g, 1.0),
        options={} if deadline.limit is None else {"time_limit": max(deadline.left, 1e-3)},
    )  # fmt: skip
    if result.status != 0 or result.fun is None:
        return None, -np.inf
    step = np.zeros(probs.size)
    step[pairs] = result.eqlin.marginals[:k]
    return step.reshape(probs.shape), (1 - lam) * float(f @ returns) + float(result.fun)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Deterministic(Solver):
    """Round the policy of a solution; `stats["cost"]` is what the objective loses by it."""

    solution: Solution  # of any solver; a deterministic policy is improved by exchanges only
    draws: Natural = 8  # rules drawn from the policy, besides its likeliest actions
    seed: Seed = 0
    time_limit: Seconds | None = None  # the best rule so far comes back
    name: ClassVar[str] = "deterministic"

    def solve(self, problem: Problem) -> Solution:
        """Round, improve, and keep the best rule."""
        deadline = Deadline(self.time_limit)
        policy = self.solution.policy
        check_policy(problem, policy)
        reduced = reduce(problem)
        climber = ExchangeClimber(reduced)
        rng = np.random.default_rng(self.seed)
        cumulative = np.cumsum(policy.probs, axis=1)
        rules = [policy.decision]
        for _ in range(self.draws):
            draw = rng.random((problem.n_states, 1)) * cumulative[:, -1:]
            rules.append(np.argmax(cumulative > draw, axis=1))
        best_value, best_rule, complete = -np.inf, rules[0], True
        for rule in rules:
            end, value, done = climber.climb(onto(rule, reduced.allowed), deadline)
            complete = complete and done
            if value > best_value:
                best_value, best_rule = value, end
            if deadline.passed:
                break
        randomized = static_return(problem, policy)
        rounded = policy_of(problem, reduced, best_rule)
        cost = randomized - static_return(problem, rounded)
        stats = {
            "seconds": deadline.elapsed,
            "of": self.solution.solver,
            "randomized_value": randomized,
            "cost": cost,
        }
        status = Status.LOCAL_OPTIMUM if complete else Status.TIME_LIMIT
        return finish(problem, self.name, rounded, status, stats)
