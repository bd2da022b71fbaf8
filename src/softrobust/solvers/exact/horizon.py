"""Local search with a horizon, over policies with a rule for each step.

An episode is in one state at each step, so a return is a sum over the states of any one step: with
b^ω_t(s) the probability of being in s at step t and Q^ω_t the values of what is done afterwards,

    ρ(d with rule e at step t) = ρ(d) + γ^t Σ_s b^ω_t(s)·[Q^ω_t(s, e(s)) − Q^ω_t(s, d_t(s))]

in model ω, exactly, however many states change. A sweep goes from the last step to the first, where
Q_t has the changes of later steps in it and b_t needs none of earlier ones. At each step two moves
are tried:

    block   in every state the best action under the worst-case ξ, kept if the value rises;
    one     the best single exchange by exact value, as long as one rises.

A plan that a whole sweep leaves alone is a local optimum: no change of one action in one state at
one step is better. A sweep reads the models twice (forwards and backwards) per step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from softrobust._core.arrays import FloatArray, IntArray
from softrobust._core.limits import Deadline
from softrobust.bounds.reduction import Reduced, onto, reduce
from softrobust.kernels.tail import best_row
from softrobust.models.policy import TimedPolicy
from softrobust.objective import Percentile
from softrobust.problem import Problem
from softrobust.returns import (
    action_values,
    measured,
    optimal_returns,
    policy_return,
    reference_size,
    state_probabilities,
    static_return,
)
from softrobust.solvers.base import Solution, Status, finish
from softrobust.solvers.baselines.multi_model import weighted_plan

LOOK = 100  # steps between two looks at the clock
RISE = 1e-12  # a move must raise the value by more than this share of the returns' size


def search_timed(
    problem: Problem, starts: int, seed: int | np.random.Generator, deadline: Deadline, name: str
) -> Solution[TimedPolicy]:
    """Climb from up to `starts` plans; Ctrl-C or the deadline end it with the best so far."""
    reduced = reduce(problem)
    best, plan, hits, tried, moves = -np.inf, None, 0, 0, 0
    status, seen = Status.LOCAL_OPTIMUM, set()
    try:
        plans = starting_plans(reduced, starts, seed)
        while tried < starts:
            if plan is not None and deadline.passed:
                status = Status.TIME_LIMIT
                break
            start = next(plans)
            tried += 1
            if (mark := start.tobytes()) in seen:
                continue
            seen.add(mark)
            end, value, made, settled = climb(reduced, start, deadline)
            moves += made
            status = status if settled else Status.TIME_LIMIT
            tie = RISE * abs(value)
            if value > best + tie:
                plan, best, hits = end, value, 1
            elif value >= best - tie:
                hits += 1
    except KeyboardInterrupt:
        if plan is None:
            raise
        status = Status.INTERRUPTED
    assert plan is not None  # there is always a first start
    if not reduced.reachable.all():  # where no model ever comes, the nominal action is named
        steps = optimal_returns(problem.mean_problem(), every=True).steps
        assert steps is not None  # there is a horizon
        plan = np.where(reduced.reachable, plan, steps[1][:, 0])
    stats = {
        "seconds": deadline.elapsed, "starts": tried, "moves": moves, "hits": hits,
        "neighbourhood": "one exchange at one step",
    }  # fmt: skip
    return finish(problem, name, problem.timed_policy(plan), status, stats)


def starting_plans(
    reduced: Reduced, starts: int, seed: int | np.random.Generator
) -> Iterator[IntArray]:
    """Nominal, that of the worst case, WSU, then the models' own plans and random ones in turn."""
    p, allowed = reduced.problem, reduced.allowed
    assert p.horizon is not None
    own, xi, rng = None, None, np.random.default_rng(seed)
    order = rng.permutation(p.n_models)
    for i in range(starts):
        if i == 1:  # not for the first: it is there even where time is short
            own = optimal_returns(p, every=True)
            xi = p.objective.worst_case(measured(p, own.V @ p.p0), p.models.f)
        if i < 2:
            steps = optimal_returns(p.mean_problem(xi), every=True).steps
            assert steps is not None
            plan = steps[1][:, 0]
        elif i == 2:
            plan = weighted_plan(p, lambda _: p.models.f[:, None])
        elif i % 2 and (i - 3) // 2 < order.size:
            assert own is not None
            assert own.steps is not None
            plan = own.steps[1][:, order[(i - 3) // 2]]
        else:
            plan = np.where(allowed, rng.random((p.horizon, *allowed.shape)), -1.0).argmax(axis=2)
        yield np.array([onto(rule, allowed) for rule in plan])


def climb(
    reduced: Reduced, plan: IntArray, deadline: Deadline
) -> tuple[IntArray, float, int, bool]:
    """Sweeps until none changes anything: the plan, its value, moves made, and whether it ended."""
    p = reduced.problem
    plan, moves = plan.copy(), 0
    while True:
        policy = p.timed_policy(plan)
        x, b = measured(p, policy_return(p, policy)), state_probabilities(p, policy)
        v, made = np.zeros((p.n_models, p.n_states)), 0
        for t in range(len(plan) - 1, -1, -1):
            if t % LOOK == LOOK - 1 and deadline.passed:
                return plan, static_return(p, p.timed_policy(plan)), moves + made, False
            Q = action_values(p, v)
            reach = p.gamma**t * b[t]
            plan[t], x, n = _improve_step(reduced, Q, reach, plan[t], x)
            v, made = Q[:, np.arange(p.n_states), plan[t]], made + n
        moves += made
        if made == 0 or deadline.passed:
            value = static_return(p, p.timed_policy(plan))
            return plan, value, moves, made == 0


def _improve_step(
    reduced: Reduced, Q: FloatArray, reach: FloatArray, rule: IntArray, x: FloatArray
) -> tuple[IntArray, FloatArray, int]:
    """The rule of one step after all moves that help, the returns of the plan, and their number.

    Q (n_models, n_states, n_actions); reach (n_models, n_states) is γ^t b_t; x (n_models,), less
    the reference's.
    """
    p, allowed = reduced.problem, reduced.allowed
    (S, A), f, rows = allowed.shape, p.models.f, np.arange(rule.size)
    rule, moves = rule.copy(), 0
    worth = np.ascontiguousarray((reach[:, :, None] * Q).reshape(-1, S * A).T)  # (S·A, N)
    value = p.objective.value(x, f)
    floor = RISE * max(float(np.abs(x).max()) + reference_size(p), 1e-300)
    score = np.where(allowed, (worth @ p.objective.worst_case(x, f)).reshape(S, A), -np.inf)
    better = score.argmax(axis=1)
    new = np.where(score[rows, better] > score[rows, rule] + floor, better, rule)
    if (new != rule).any():
        y = x + (worth[rows * A + new] - worth[rows * A + rule]).sum(axis=0)
        if (risen := p.objective.value(y, f)) > value + floor:
            rule, x, value, moves = new, y, risen, 1
    live = allowed.reshape(-1)
    while True:
        X = x + worth - np.repeat(worth[rows * A + rule], A, axis=0)
        k, risen = _best_exchange(p.objective, X, live, f, x, value + floor)
        if k < 0:
            return rule, x, moves
        rule[k // A], x, value, moves = k % A, X[k], risen, moves + 1


def _best_exchange(
    goal: Any, X: FloatArray, live: Any, f: FloatArray, x: FloatArray, floor: float
) -> tuple[int, float]:
    """The row of X of greatest value above `floor`, and its value; −1 where there is none.

    The worst case of x, the returns now, rules out most rows at the price of one product each.
    """
    if isinstance(goal, Percentile):
        scores = np.where(live, goal.values(X, f), -np.inf)
        k = int(np.argmax(scores))
        return (k, float(scores[k])) if scores[k] > floor else (-1, floor)
    xi = goal.worst_case(x, f)
    k, value = best_row(X, live, f, goal.lam, goal.alpha, xi, floor)
    return int(k), float(value)
