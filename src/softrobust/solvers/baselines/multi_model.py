"""Heuristics for multi-model MDPs: MVP, WSU and CADP (coordinate ascent).

All three choose, state by state, the action of the best weighted average of the models' own values,

    d(s) = argmax_a Σ_ω w_ω(s) [R[s, a, ω] + γ P̂^ω_{s,a}ᵀ v^ω],

and differ in the weights: MVP averages the models first (the nominal policy), WSU takes w = f, CADP
takes f_ω times the occupancy of s in model ω under the current policy, which makes a change of one
step's rule a step of coordinate ascent on the mean return: with a finite horizon it never gets
worse. For the soft-robust goal (`robust=True`) the worst-case ξ of the current policy stands in for
f, and the best policy seen is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from softrobust._core.arrays import FloatArray, IntArray
from softrobust._core.limits import Deadline, time_bound, within
from softrobust._core.settings import Count
from softrobust.models.policy import TimedPolicy
from softrobust.problem import Problem
from softrobust.returns import action_values, evaluate_policy, policy_return, state_probabilities
from softrobust.returns.reference import measured
from softrobust.solvers.base import Solution, Solver, Status, finish
from softrobust.solvers.baselines.nominal import nominal_solution

WSU_SHARE = 0.5  # of the time left, before CADP goes on from there


@final
@dataclass(frozen=True, slots=True)
class MVP(Solver):
    """Mean value problem: solve the averaged MDP."""

    name: ClassVar[str] = "mvp"

    def solve(self, problem: Problem) -> Solution[Any]:
        """The nominal policy under its multi-model name; with a horizon by backward induction."""
        return nominal_solution(problem, self.name)


@final
@dataclass(frozen=True, slots=True)
class WSU(Solver):
    """Weight-select-update: one rule for all models, chosen by the f-weighted action values.

    Infinite horizon: the backward recursion is run until the rule and its values settle.
    """

    rounds: Count = 2000
    name: ClassVar[str] = "wsu"

    def solve(self, problem: Problem) -> Solution[Any]:
        """Iterate the recursion; with a horizon it ends by itself.

        Where rules go on cycling, the best of the last ones is kept.
        """
        clock, f = Deadline(), problem.models.f
        if problem.horizon is not None:
            plan = problem.timed_policy(weighted_plan(problem, lambda _: f[:, None]))
            stats = {"seconds": clock.elapsed, "iterations": problem.horizon}
            return finish(problem, self.name, plan, Status.LOCAL_OPTIMUM, stats)
        v = np.zeros((problem.n_models, problem.n_states))
        rows = np.arange(problem.n_states)
        tol, done, rule = 1e-9 * (1 - problem.gamma), False, rows
        iterations = 0
        while iterations < self.rounds and not done and not (iterations and time_bound().passed):
            iterations += 1
            Q = action_values(problem, v)
            rule = _best_actions(problem, np.einsum("n,nsa->sa", f, Q))
            new = Q[:, rows, rule]
            change, v = np.abs(new - v).max(), new
            done = change <= tol * max(float(np.abs(v).max()), 1e-300)
        stats = {"seconds": clock.elapsed, "iterations": iterations}
        status = Status.TIME_LIMIT if time_bound().passed else Status.ITERATION_LIMIT
        status = Status.LOCAL_OPTIMUM if done else status
        return finish(problem, self.name, problem.policy(rule), status, stats)


@final
@dataclass(frozen=True, slots=True)
class CADP(Solver):
    """Coordinate ascent dynamic programming.

    Parameters
    ----------
    robust : bool
        Weigh models by the worst-case ξ of the current policy instead of f, and keep the best
        policy seen: for the soft-robust objective rather than the mean.
    rounds : int
        Sweeps of improvement at most.
    """

    robust: bool = False
    rounds: Count = 200
    name: ClassVar[str] = "cadp"

    def solve(self, problem: Problem) -> Solution[Any]:
        """From the WSU policy until the rule repeats; the best one seen."""
        clock = Deadline()
        if problem.horizon is not None:
            return self._timed(problem, clock)
        with within(WSU_SHARE * time_bound().left):
            rule = WSU().solve(problem).policy.decision
        best_value, best, seen = -np.inf, rule, set()
        status = Status.ITERATION_LIMIT
        for _ in range(self.rounds):
            if time_bound().passed:
                status = Status.TIME_LIMIT
                break
            v, h = evaluate_policy(problem, problem.policy(rule))
            returns = measured(problem, v @ problem.p0)
            value = self._goal(problem, returns)
            if value > best_value:
                best_value, best = value, rule
            if rule.tobytes() in seen:
                status = Status.LOCAL_OPTIMUM
                break
            seen.add(rule.tobytes())
            weights = self._weights(problem, returns)[:, None] * h
            score = np.einsum("ns,nsa->sa", weights, action_values(problem, v))
            rule = _best_actions(problem, score, keep=rule)
        stats = {"seconds": clock.elapsed, "rounds": len(seen)}
        return finish(problem, self.name, problem.policy(best), status, stats)

    def _timed(self, problem: Problem, clock: Deadline) -> Solution[TimedPolicy]:
        """The finite-horizon original: from WSU, sweeps until the policy repeats.

        Without `robust` the mean return never falls from one round to the next.
        """
        f = problem.models.f
        plan = weighted_plan(problem, lambda _: f[:, None])
        status, history, seen = Status.ITERATION_LIMIT, [], set()
        best, best_value = plan, -np.inf
        for _ in range(self.rounds):
            policy = problem.timed_policy(plan)
            returns = measured(problem, policy_return(problem, policy))
            history.append(self._goal(problem, returns))
            if history[-1] > best_value:
                best, best_value = plan, history[-1]
            seen.add(plan.tobytes())
            if time_bound().passed:
                status = Status.TIME_LIMIT
                break
            b = self._weights(problem, returns)[:, None] * state_probabilities(problem, policy)
            plan = weighted_plan(problem, b.__getitem__, plan)
            if plan.tobytes() in seen:  # a fixed point, or (with robust) a cycle
                status = Status.LOCAL_OPTIMUM
                break
        stats = {"seconds": clock.elapsed, "rounds": len(seen), "history": history}
        return finish(problem, self.name, problem.timed_policy(best), status, stats)

    def _weights(self, problem: Problem, returns: FloatArray) -> FloatArray:
        f = problem.models.f
        return problem.objective.worst_case(returns, f) if self.robust else f

    def _goal(self, problem: Problem, returns: FloatArray) -> float:
        """What is ascended: the mean, or the objective itself."""
        f = problem.models.f
        return problem.objective.value(returns, f) if self.robust else float(returns @ f)


def weighted_plan(
    problem: Problem, weights: Callable[[int], FloatArray], current: IntArray | None = None
) -> IntArray:
    """Decisions (horizon, n_states), last step first; weights(t) is (n_models, n_states or 1)."""
    assert problem.horizon is not None
    rows = np.arange(problem.n_states)
    v = np.zeros((problem.n_models, problem.n_states))
    decisions = np.empty((problem.horizon, problem.n_states), dtype=np.int64)
    for t in range(problem.horizon - 1, -1, -1):
        Q = action_values(problem, v)
        score = (np.broadcast_to(weights(t), v.shape)[:, :, None] * Q).sum(axis=0)
        decisions[t] = _best_actions(problem, score, None if current is None else current[t])
        v = Q[:, rows, decisions[t]]
    return decisions


def _best_actions(problem: Problem, score: FloatArray, keep: IntArray | None = None) -> IntArray:
    """The allowed action of best score in each state; the current one where it is as good."""
    masked = np.where(problem.allowed, score, -np.inf)
    best = np.argmax(masked, axis=1)
    if keep is None:
        return np.asarray(best, dtype=np.int64)
    rows = np.arange(best.size)
    now, top = masked[rows, keep], masked[rows, best]
    return np.where(top > now + 1e-12 * np.maximum(np.abs(now), np.abs(top)), best, keep)
