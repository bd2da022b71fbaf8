"""The value of more data, on cases with known answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from softrobust.data.labels import Labels
from softrobust.errors import InputError
from softrobust.models.model_set import ModelSet
from softrobust.objective import Percentile, SoftRobust
from softrobust.problem import Problem
from softrobust.solvers import Nominal, solve
from softrobust.study.value_of_data import value_of_data
from tests.test_protocol import small_problem

STATES = Labels(("start", "win", "lose"), noun="state")
ACTIONS = Labels(("sure", "bet"), noun="action")


def bandit(objective: SoftRobust, n: int = 4000, sure: float = 0.5) -> Problem:
    """A sure thing worth `sure`, or a bet that wins 1 with p ~ U(0, 1); one decision."""
    p = (np.arange(n) + 0.5) / n  # the uniform prior, by its quantiles
    P = np.zeros((n, 3, 2, 3))
    P[:, 0, 0, 2] = 1.0
    P[:, 0, 1, 1], P[:, 0, 1, 2] = p, 1 - p
    P[:, 1, :, 1] = P[:, 2, :, 2] = 1.0
    r = np.zeros((3, 2, 3))
    r[0, 0, 2] = sure
    r[0, 1, 1] = 1.0
    sinks = np.array([False, True, True])
    models = ModelSet.from_dense(P, states=STATES, actions=ACTIONS, sinks=sinks)
    return Problem(models, rewards=r, p0=[1, 0, 0], gamma=0.5, objective=objective)


@pytest.mark.parametrize("independent", [False, True])
@pytest.mark.parametrize(("m", "answer"), [(1, 1 / 12), (2, 1 / 12), (3, 0.1)])
def test_the_textbook_bet(m: int, answer: float, independent: bool) -> None:
    """E max(1/2, (k + 1)/(m + 2)) − 1/2 over k uniform on 0 … m (Beta–binomial)."""
    k = np.arange(m + 1)
    exact = np.mean(np.maximum(0.5, (k + 1) / (m + 2))) - 0.5
    assert exact == pytest.approx(answer)
    problem = bandit(SoftRobust(0.0, 0.9), n=400 if independent else 4000)
    policy = solve(problem, Nominal()).policy
    values = value_of_data(problem, policy, m, independent=independent, data_sets=4000, seed=1)
    found = {(v.s, v.a): v for v in values}
    bet = found[0, 1]
    assert bet.value == pytest.approx(exact, abs=0.01)
    assert bet.low <= bet.value <= bet.high
    assert bet.high - bet.low < 0.03
    assert found[0, 0].value == pytest.approx(0.0, abs=1e-9)  # the sure thing teaches nothing


@pytest.mark.parametrize("timed", [False, True])
def test_the_textbook_bet_with_a_horizon(timed: bool) -> None:
    """With an end, and far from it; for one rule, or one for each step."""
    problem = replace(bandit(SoftRobust(0.0, 0.9)), horizon=2, gamma=1.0)
    policy = (
        problem.timed_policy(np.zeros((2, 3), int)) if timed else problem.policy(np.zeros(3, int))
    )
    found = {(v.s, v.a): v for v in value_of_data(problem, policy, 3, data_sets=4000, seed=1)}
    assert found[0, 1].value == pytest.approx(0.1, abs=0.01)  # the bet is over after a step
    assert found[0, 0].value == pytest.approx(0.0, abs=1e-9)
    endless = small_problem()
    far, chosen = replace(endless, horizon=400), solve(endless, Nominal()).policy
    one, two = (value_of_data(p, chosen, 5, data_sets=200, seed=3) for p in (endless, far))
    assert [(v.s, v.a) for v in one] == [(v.s, v.a) for v in two]
    for v, w in zip(one, two, strict=True):
        assert v.value == pytest.approx(w.value, abs=1e-9)


def test_worst_cases_shrink_with_data() -> None:
    """λ = 1, α = 1/2: worth of the bet is the mean of the lower half of its posterior."""
    from scipy.stats import beta

    problem = bandit(SoftRobust(1.0, 0.5), sure=0.3)
    policy = solve(problem, Nominal()).policy
    found = {(v.s, v.a): v for v in value_of_data(problem, policy, 4, data_sets=4000, seed=2)}
    x = (np.arange(20000) + 0.5) / 20000
    after = [beta.ppf(x[:10000], k + 1, 5 - k).mean() for k in range(5)]
    exact = np.mean(np.maximum(0.3, after)) - 0.3  # today the lower half is worth 1/4 < 0.3
    assert found[0, 1].value == pytest.approx(exact, abs=0.015)


def test_exchanged_rows_are_evaluated_exactly() -> None:
    """Two routes: the rank-one update, and the models with their rows really exchanged."""
    from softrobust.returns import static_return
    from softrobust.study import value_of_data as rows

    problem, goal = small_problem(), SoftRobust(0.5, 0.8)
    pool = [solve(problem, Nominal()).policy, problem.uniform_policy()]
    made = rows.invert(problem, pool)
    for s, a in ((0, 1), (3, 2)):
        pair = rows.pair_of(problem, pool, made, s, a)
        deal = np.random.default_rng(0).permutation(problem.n_models)[None, :]
        value, which, _ = rows.exchanged(pair, deal.astype(np.int64), problem, goal)
        models = problem.models
        k = s * problem.n_actions + a
        lo, hi = models.indptr[k] * models.n_models, models.indptr[k + 1] * models.n_models
        prob = models.prob.copy()
        prob[lo:hi] = prob[lo:hi].reshape(models.n_models, -1)[deal[0]].reshape(-1)
        other = problem.with_models(replace(models, prob=prob))
        exact = [static_return(other, policy) for policy in pool]
        assert value[0] == pytest.approx(max(exact), rel=1e-10)
        assert which[0] == int(np.argmax(exact))


def test_other_rows_are_not_learned_by_accident() -> None:
    """Independent rows, few models: reweighting whole models finds value where there is none."""
    rng = np.random.default_rng(0)
    n = 60
    P = np.zeros((n, 4, 2, 4))
    for bet in (0, 1):  # two bets; the first one is always worse, whatever its row
        p = rng.random(n) * (0.2 if bet == 0 else 1.0)
        P[:, 0, bet, 2], P[:, 0, bet, 3] = p, 1 - p
    P[:, 1:, :, 3] = 1.0
    r = np.zeros((4, 2, 4))
    r[0, :, 2] = 1.0
    r[0, 1, 3] = 0.9  # the second bet pays at least 0.9
    sinks = np.array([False, True, True, True])
    states = Labels(("start", "x", "win", "lose"), noun="state")
    models = ModelSet.from_dense(P, states=states, actions=ACTIONS, sinks=sinks)
    problem = Problem(models, rewards=r, p0=[1, 0, 0, 0], gamma=0.5, objective=SoftRobust(0, 0.9))
    policy = solve(problem, Nominal()).policy
    found = value_of_data(problem, policy, 10, independent=True, data_sets=200)
    assert all(v.value == pytest.approx(0.0, abs=1e-12) for v in found)


@pytest.mark.parametrize("independent", [False, True])
def test_rounding_is_worth_nothing(independent: bool) -> None:
    """All returns are equal up to rounding: no data help, and no policy changes."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(3), size=(40, 3, 2))
    models = ModelSet.from_dense(P)
    problem = Problem(models, rewards=np.full((3, 2, 3), 1 / 3), gamma=0.9)
    policy = solve(problem, Nominal()).policy
    found = value_of_data(problem, policy, 10, independent=independent, data_sets=100)
    assert {(v.value, v.low, v.high, v.changes) for v in found} == {(0.0, 0.0, 0.0, 0.0)}


def test_never_negative_and_repeatable() -> None:
    problem = small_problem()
    policy = solve(problem, Nominal()).policy
    first = value_of_data(problem, policy, 5, data_sets=50)
    assert first == value_of_data(problem, policy, 5, data_sets=50)
    assert all(v.value >= 0 and v.low <= v.value <= v.high for v in first)
    assert [v.value for v in first] == sorted((v.value for v in first), reverse=True)
    assert (2, 1) not in {(v.s, v.a) for v in first}  # no model of that pair


def test_bad_input() -> None:
    problem = small_problem()
    policy = solve(problem, Nominal()).policy
    with pytest.raises(InputError, match="cannot be valued"):
        value_of_data(problem, policy, pairs=[(2, 1)])
    with pytest.raises(InputError, match="observations"):
        value_of_data(problem, policy, 0)
    from dataclasses import replace

    with pytest.raises(InputError, match="value of data"):
        value_of_data(replace(problem, objective=Percentile(0.9)), policy)
