"""Explanations: exact exchanges, worst-case weights, words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from softrobust.errors import InputError
from softrobust.models.model_set import ModelSet
from softrobust.models.policy import Policy
from softrobust.objective import tail_weights
from softrobust.problem import Problem
from softrobust.report.study_words import explanation_sentences
from softrobust.returns import evaluate_policy, policy_return, static_return
from softrobust.returns.evaluation import action_values
from softrobust.solvers import Exact, Nominal, solve
from softrobust.solvers.baselines.behaviour import behaviour_policy
from softrobust.study.explain import explain
from tests.study.test_value_of_data import bandit
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


def test_against_a_reference_returns_are_less_those_of_it_and_say_so() -> None:
    plain = small_problem()
    problem = replace(plain, objective=plain.objective.measured_against("optimum"))
    policy = solve(problem, Nominal()).policy
    assert explain(plain, policy, 0).to_dict()["reference"] is None
    told = explain(problem, policy, 0).to_dict()
    assert told["reference"] == "optimum"
    assert all(model["return"] <= 1e-9 for model in told["worst_models"])  # regrets, as losses


def test_exchanges_say_what_happens_to_mean_and_bad_case() -> None:
    problem = small_problem()
    policy = solve(problem, Exact(time_limit=20)).policy
    found = explain(problem, policy, 1, LOG)
    own = problem.objective.summary(policy_return(problem, policy), problem.models.f)
    assert (found.mean, found.cvar) == (own["mean"], own["cvar"])
    for option in found.options:
        probs = policy.probs.copy()
        probs[1] = 0
        probs[1, problem.models.actions.index(option.action)] = 1
        returns = policy_return(problem, replace(policy, probs=probs))
        summary = problem.objective.summary(returns, problem.models.f)
        assert (option.mean, option.cvar) == (summary["mean"], summary["cvar"])
    record = found.to_dict()["options"]
    assert all({"change", "change_mean", "change_cvar"} <= set(option) for option in record)


def test_the_worst_case_column_is_the_average_over_the_worst_models() -> None:
    """At λ = 0.5 too: half of ξ is the plain average, which "in the worst 10 %" must not hold."""
    problem = small_problem()
    assert 0 < problem.objective.lam < 1
    policy = solve(problem, Nominal()).policy
    v, _ = evaluate_policy(problem, policy)
    returns, f = v @ problem.p0, problem.models.f
    tail = tail_weights(returns, f, problem.objective.alpha)
    found = explain(problem, policy, 0)
    q = action_values(problem, v)
    for option in found.options:
        a = problem.models.actions.index(option.action)
        assert option.q_worst == pytest.approx(float(tail @ q[:, 0, a]))
    columns, block = problem.models.block(0, int(policy.decision[0]))
    names = [problem.models.states[int(j)] for j in columns]
    for shift in found.shifts:
        assert shift.worst == pytest.approx(float(tail @ block[:, names.index(shift.next_state)]))


def test_equal_returns_have_no_worst_models() -> None:
    P = np.full((5, 2, 2, 2), 0.5)
    P[2:, 0, 0] = [0.9, 0.1]
    problem = Problem(ModelSet.from_dense(P), rewards=np.full((2, 2), 3.0), gamma=0.5)
    found = explain(problem, solve(problem, Nominal()).policy, 0)
    assert found.models == ()
    assert found.shifts == ()


def test_what_happens_in_the_worst_case() -> None:
    from softrobust.objective import SoftRobust

    problem = bandit(SoftRobust(1.0, 0.5), n=100, sure=0.3)
    bet = Policy(
        np.array([[0, 1.0], [1, 0], [1, 0]]), problem.models.states, problem.models.actions
    )
    found = explain(problem, bet, "start")
    sure = next(o for o in found.options if o.action == "sure")
    assert sure.objective - found.value == pytest.approx(0.05)
    assert {x.next_state for x in found.shifts} == {"win", "lose"}
    win = next(x for x in found.shifts if x.next_state == "win")
    assert win.mean == pytest.approx(0.5)
    assert win.worst == pytest.approx(0.25)
    with pytest.raises(InputError, match="nothing is decided"):
        explain(problem, bet, "win")
    with pytest.raises(InputError, match="Did you mean"):
        explain(problem, bet, "strat")


def test_a_mixture_is_told_and_measured_as_one() -> None:
    problem = small_problem()
    policy = behaviour_policy(problem, LOG)[0]
    s = int(np.flatnonzero((policy.probs > 0).sum(axis=1) > 1)[0])
    found = explain(problem, policy, problem.models.states[s], LOG)
    assert found.action is None
    assert found.is_practice
    assert sum(found.mix.values()) == pytest.approx(1.0)
    told = explanation_sentences(found)
    assert all(f"'{name}' (" in told[0] for name in found.mix)
    # Being in the state is worth the mixture of its actions, and so is what follows it.
    own = {o.action: o for o in found.options}
    for value, part in ((found.q_mean, "q_mean"), (found.q_worst, "q_worst")):
        mixed = sum(p * getattr(own[name], part) for name, p in found.mix.items())
        assert value == pytest.approx(mixed)
    probabilities = np.einsum("a,nat->nt", policy.probs[s], problem.models.P[:, s])
    for shift in found.shifts:
        column = probabilities[:, problem.models.states.index(shift.next_state)]
        assert shift.mean == pytest.approx(float(problem.models.f @ column))
    assert sum("Always taking" in line for line in told) == len(found.mix)
