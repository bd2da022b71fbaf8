"""No proof is claimed where a gap hides behind a huge number, and none is taken from elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from softrobust.certificate import certify
from softrobust.errors import InputError
from softrobust.models.model_set import ModelSet
from softrobust.models.policy import Policy
from softrobust.objective import SoftRobust
from softrobust.problem import Problem
from softrobust.returns import static_return
from softrobust.solvers import Exact, Status


def problem_with(sentinel: float, reachable: bool = False) -> Problem:
    """Three states, two actions, two models; state 2 pays `sentinel` and is out of reach or not."""
    P = np.zeros((2, 3, 2, 3))
    P[0, 0, :, :2], P[1, 0, :, :2] = [[0.9, 0.1], [0.2, 0.8]], [[0.3, 0.7], [0.6, 0.4]]
    P[0, 1, :, :2], P[1, 1, :, :2] = [[0.5, 0.5], [0.1, 0.9]], [[0.8, 0.2], [0.4, 0.6]]
    P[:, 2, :, 2] = 1.0
    if reachable:
        P[:, 0, 1] = [0.0, 0.0, 1.0]
    R = np.array([[1.0, 2.0], [3.0, 0.5], [sentinel, sentinel]])
    return Problem(
        ModelSet.from_dense(P), rewards=R, p0=[1.0, 0.0, 0.0], gamma=0.9,
        objective=SoftRobust(0.5, 0.5),
    )  # fmt: skip


def best(problem: Problem) -> float:
    return max(static_return(problem, policy) for policy in every_rule(problem))


def every_rule(problem: Problem) -> list[Policy]:
    S, A = problem.n_states, problem.n_actions
    return [
        Policy(np.eye(A)[list(rule)], problem.models.states, problem.models.actions)
        for rule in np.ndindex(*(A,) * S)
    ]


@pytest.mark.parametrize("reachable", [False, True])
@pytest.mark.parametrize("sentinel", [-1e9, -1e13, 0.0])
def test_a_sentinel_excuses_no_gap(sentinel: float, reachable: bool) -> None:
    problem = problem_with(sentinel, reachable)
    found, true = Exact().solve(problem), best(problem)
    assert found.bound is not None
    assert found.bound.value >= true - 1e-9 * abs(true)
    if found.status in (Status.OPTIMAL, Status.TOLERANCE_REACHED):
        assert found.static_value == pytest.approx(true, rel=1e-6)
        assert found.bound.value == pytest.approx(found.static_value, rel=2e-6)
    for policy in every_rule(problem):
        value = static_return(problem, policy)
        if certify(problem, policy).nothing_better:
            assert value == pytest.approx(true, rel=1e-5)


def test_one_disastrous_action_does_not_make_everything_best() -> None:
    """The share of what is to be gained is tiny for every policy but the disaster."""
    P = np.full((1, 1, 3, 1), 1.0)
    problem = Problem(ModelSet.from_dense(P), rewards=[[1.0, 2.0, -1e9]], gamma=0.5)
    one, two = every_rule(problem)[:2]
    assert certify(problem, two).nothing_better
    made = certify(problem, one)
    assert not made.nothing_better
    assert "best there is" not in str(made)


def test_a_bound_of_another_problem_is_refused() -> None:
    """The policy earns the same in both; an action that it does not take pays more in one."""
    first, second = problem_with(0.0), problem_with(0.0)
    R = np.array([[1.0, 2.0], [3.0, 0.5], [0.0, 0.0]])
    solution = Exact().solve(first)
    taken = solution.policy.decision
    R[0, 1 - taken[0]] += 100.0
    second = Problem(
        first.models, rewards=R, p0=[1.0, 0.0, 0.0], gamma=0.9, objective=first.objective
    )
    assert static_return(second, solution.policy) == pytest.approx(solution.static_value)
    with pytest.raises(InputError, match="another problem"):
        certify(second, solution)
    assert certify(first, solution).nothing_better
