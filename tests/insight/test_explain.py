"""Explanations: exact exchanges, worst-case weights, words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from softrobust.errors import InputError
from softrobust.insight import explain
from softrobust.models.policy import Policy
from softrobust.returns import policy_return, static_return
from softrobust.solvers import Exact, Nominal, solve
from tests.insight.test_value_of_data import bandit
from tests.test_protocol import LOG, small_problem


def test_exchanges_are_exact() -> None:
    problem = small_problem()
    policy = solve(problem, Exact(time_limit=20)).policy
    found = explain(problem, policy, 1, LOG)
    assert found.value == pytest.approx(static_return(problem, policy))
    assert len(found.options) == 3
    for option in found.options:
        probs = policy.probs.copy()
        probs[1] = 0
        probs[1, problem.models.actions.index(option.action)] = 1
        assert option.objective == static_return(problem, replace(policy, probs=probs))
        assert option.objective <= found.value + 1e-9  # the policy is optimal
        assert option.seen == LOG.pair_counts[1, problem.models.actions.index(option.action)]
    assert found.options[0].action == found.action


def test_the_worst_models_and_the_weights_are_those_of_the_objective() -> None:
    problem = small_problem()
    policy = solve(problem, Nominal()).policy
    found = explain(problem, policy, 0)
    returns = policy_return(problem, policy)
    xi = problem.objective.worst_case(returns, problem.models.f)
    assert float(xi @ returns) == pytest.approx(found.value)
    for omega, weight, value in found.models:
        assert weight == xi[omega]
        assert value == returns[omega]
    assert found.models[0][2] == returns.min()
    assert found.price["mean"] == pytest.approx(0.0)


def test_words_say_what_happens_in_the_worst_case() -> None:
    from softrobust.objective import SoftRobust

    problem = bandit(SoftRobust(1.0, 0.5), n=100, sure=0.3)
    bet = Policy(
        np.array([[0, 1.0], [1, 0], [1, 0]]), problem.models.states, problem.models.actions
    )
    found = explain(problem, bet, "start")
    text = " ".join(found.sentences())
    assert "Taking 'sure' instead would gain 0.05" in text
    assert {x.next_state for x in found.shifts} == {"win", "lose"}
    win = next(x for x in found.shifts if x.next_state == "win")
    assert win.mean == pytest.approx(0.5)
    assert win.worst == pytest.approx(0.25)
    with pytest.raises(InputError, match="nothing is decided"):
        explain(problem, bet, "win")
    with pytest.raises(InputError, match="Did you mean"):
        explain(problem, bet, "strat")
