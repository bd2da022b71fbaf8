"""Certificates: exact where they say exact, covering where they say covering, never crossed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from softrobust.bounds import Bound, Covers, clairvoyant_bound
from softrobust.certificate import certify, held_out
from softrobust.data import TransitionLog
from softrobust.errors import InputError, SolverError
from softrobust.models import Policy
from softrobust.objective import SoftRobust, cvar
from softrobust.posterior import DirichletPosterior
from softrobust.problem import Problem
from softrobust.returns import Returns, policy_return, static_return
from softrobust.solvers.baselines.nominal import Nominal
from softrobust.solvers.exact.exact import Exact
from tests.instances import random_problem


def equal(x: np.ndarray) -> Returns:
    """Returns on models of equal weight."""
    return Returns(x, np.full(x.size, 1 / x.size))


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(("lam", "alpha"), [(0.5, 0.7), (0.0, 0.9), (1.0, 1.0), (1.0, 0.0)])
def test_exact_value_and_bound_never_cross(seed: int, lam: float, alpha: float) -> None:
    problem = random_problem(seed, masks=True, lam=lam, alpha=alpha)
    policy = Nominal().solve(problem).policy
    certificate = certify(problem, policy)
    value = certificate.static["objective"]
    assert value == pytest.approx(static_return(problem, policy), abs=1e-12)
    assert certificate.gap_abs >= 0
    clairvoyant = certify(problem, policy, time_limit=0)
    assert clairvoyant.bound.covers is Covers.ALL
    assert certificate.bound.value <= clairvoyant.bound.value
    assert certificate.gap_share is None or 0 <= certificate.gap_share <= 1 + 1e-12
    assert certificate.gap == pytest.approx(certificate.gap_abs / abs(value))


def test_one_model_leaves_no_gap() -> None:
    problem = random_problem(3, n_models=1)
    certificate = certify(problem, Nominal().solve(problem).policy)
    assert certificate.gap_abs <= 1e-9
    assert certificate.gap_abs >= 0


def test_a_bound_for_deterministic_policies_is_not_used_for_others() -> None:
    problem = random_problem(0)
    nominal = Nominal().solve(problem).policy
    tight = Bound(static_return(problem, nominal) + 1e-6, Covers.DETERMINISTIC, "test")
    assert certify(problem, nominal, bounds=[tight]).bound.method == "test"
    uniform = problem.uniform_policy()
    assert certify(problem, uniform, bounds=[tight]).bound.covers is not Covers.DETERMINISTIC


def test_a_wrong_bound_is_an_error_not_a_certificate() -> None:
    problem = random_problem(0)
    policy = Nominal().solve(problem).policy
    wrong = Bound(static_return(problem, policy) - 0.1, Covers.ALL, "wrong")
    with pytest.raises(SolverError, match="one of the two is wrong"):
        certify(problem, policy, bounds=[wrong])


def test_clairvoyant_bounds_every_deterministic_policy() -> None:
    problem = random_problem(5, n_states=3, n_actions=2)
    bound = clairvoyant_bound(problem).value
    for code in range(2**3):
        decision = [(code >> s) & 1 for s in range(3)]
        policy = Policy.from_decision(decision, problem.models.states, problem.models.actions)
        assert static_return(problem, policy) <= bound


def test_held_out_intervals_cover() -> None:
    """95 % intervals of mean and CVaR, and the one-sided lower bound, on a known normal law."""
    rng = np.random.default_rng(0)
    objective = SoftRobust(0.5, 0.9)
    true_cvar = -1.754983319324868  # of the worst tenth of a standard normal
    hits = {"mean": 0, "cvar": 0, "var": 0, "lower": 0}
    n, trials = 400, 400
    w = np.full(n, 1 / n)
    train = rng.standard_normal(100)
    for _ in range(trials):
        result = held_out(equal(train), Returns(rng.standard_normal(n), w), objective)
        assert result.mean.low is not None
        assert result.mean.high is not None
        assert result.cvar.low is not None
        assert result.cvar.high is not None
        assert result.var is not None
        assert result.var.low is not None
        assert result.var.high is not None
        assert result.lower_bound is not None
        assert result.lower_bound.low is not None
        hits["mean"] += result.mean.low <= 0 <= result.mean.high
        hits["cvar"] += result.cvar.low <= true_cvar <= result.cvar.high
        hits["var"] += result.var.low <= -1.2815515655446004 <= result.var.high
        hits["lower"] += result.lower_bound.low <= 0.5 * true_cvar
    # Binomial(400, 0.95) stays above 360 (0.90) with overwhelming probability.
    assert all(count >= 360 for count in hits.values()), hits


def test_lower_bound_is_valid_for_any_training_sample() -> None:
    """b fixed on training models gives at most the CVaR of the held-out law itself."""
    rng = np.random.default_rng(1)
    test = rng.gamma(2.0, size=5000)
    w = np.full(5000, 1 / 5000)
    for seed in range(20):
        train = np.random.default_rng(seed).gamma(2.0, size=30)
        result = held_out(equal(train), Returns(test, w), SoftRobust(1.0, 0.9))
        assert result.lower_bound is not None
        assert result.lower_bound.value <= cvar(test, w, 0.9) + 1e-12


def test_alpha_one_promises_nothing_about_the_worst_model() -> None:
    x = np.arange(10.0)
    result = held_out(equal(x), equal(x), SoftRobust(0.5, 1.0))
    assert result.lower_bound is None
    assert result.cvar.low is None


def test_heldout_of_a_real_log() -> None:
    rng = np.random.default_rng(0)
    s = rng.integers(0, 4, 200)
    log = TransitionLog.from_arrays(s, rng.integers(0, 2, 200), rng.integers(0, 4, 200), 1.0 * s)
    train, test = DirichletPosterior().fit(log).sample(450, seed=0).split(50)
    problem = Problem(train, rewards=log.rewards, p0=log.p0, gamma=0.9)
    policy = Nominal().solve(problem).policy
    certificate = certify(problem, policy, heldout=test)
    assert certificate.heldout is not None
    assert certificate.heldout.n_models == 400
    fresh = policy_return(problem.with_models(test), policy)
    assert certificate.heldout.mean.value == pytest.approx(float(fresh.mean()))
    assert certificate.heldout.lower_bound is not None
    assert certificate.heldout.lower_bound.low is not None
    assert str(certificate).startswith("Certificate")


def test_objective_can_be_replaced_without_recomputing_rewards() -> None:
    problem = random_problem(0)
    other = replace(problem, objective=SoftRobust(0.1, 0.2))
    assert other.R is problem.R


@pytest.mark.parametrize("skewed", [False, True])
@pytest.mark.parametrize(("alpha", "n"), [(0.7, 120), (0.9, 500), (0.99, 3000)])
def test_tail_intervals_cover_skewed_laws_too(skewed: bool, alpha: float, n: int) -> None:
    """Left-skewed returns are the rule in a bad tail; a symmetric interval covers 70 to 90 %."""
    rng = np.random.default_rng(7)

    def draw(size: int) -> np.ndarray:
        return -rng.standard_exponential(size) if skewed else rng.standard_normal(size)

    # The mean below the (1 − α)-quantile: log(1 − α) − 1 for −Exp(1), −φ(z)/(1 − α) for a normal.
    z = stats.norm.ppf(1 - alpha)
    true = np.log(1 - alpha) - 1 if skewed else -stats.norm.pdf(z) / (1 - alpha)
    hits, trials = np.zeros(2), 300
    for _ in range(trials):
        result = held_out(equal(draw(100)), equal(draw(n)), SoftRobust(1.0, alpha))
        assert result.cvar.low is not None
        assert result.cvar.high is not None
        assert result.lower_bound is not None
        assert result.lower_bound.low is not None
        hits += [result.cvar.low <= true <= result.cvar.high, result.lower_bound.low <= true]
    # Binomial(300, 0.95) is at least 270 with probability 0.9998.
    assert (hits >= 270).all(), hits


def test_too_few_draws_in_the_tail_give_no_interval() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(50)
    result = held_out(equal(x), equal(x), SoftRobust(1.0, 0.99))
    assert result.cvar.low is None
    assert result.lower_bound is not None
    assert result.lower_bound.low is None
    assert result.mean.low is not None


def test_best_there_is_does_not_depend_on_a_reward_offset() -> None:
    for offset in (0.0, 1e6):
        problem = random_problem(2, gamma=0.999)
        shifted = replace(problem, rewards=problem.rewards.of_pairs(problem.rewards.pairs + offset))
        worst = Nominal().solve(
            replace(shifted, rewards=problem.rewards.of_pairs(-problem.rewards.pairs))
        )
        certificate = certify(shifted, worst.policy)
        assert certificate.gap_share is not None
        assert certificate.gap_share > 0.5
        assert not certificate.nothing_better


def test_rows_that_miss_one_are_refused_by_the_policy_not_by_the_certificate() -> None:
    problem = random_problem(0, n_states=2, n_actions=2)
    m = problem.models
    with pytest.raises(InputError, match="Divide them by their sum"):
        Policy(np.array([[0.5, 0.5 + 9e-10], [1.0, 0.0]]), m.states, m.actions)


def test_a_solution_brings_the_bound_that_was_proven() -> None:
    problem = random_problem(4, masks=True, lam=0.5, alpha=0.7)
    solution = Exact(time_limit=20).solve(problem)
    assert solution.bound is not None
    whole = certify(problem, solution)
    assert whole.static["objective"] == pytest.approx(solution.static_value)
    assert whole.gap_share == pytest.approx(solution.gap_share, abs=1e-9)
    assert whole == certify(problem, solution.policy, bounds=[solution.bound])
    assert whole.gap_abs <= certify(problem, solution.policy).gap_abs
    nominal = Nominal().solve(problem)  # proves nothing: the same as its policy
    assert certify(problem, nominal) == certify(problem, nominal.policy)


def test_a_solution_of_another_problem_is_refused() -> None:
    problem = random_problem(4, lam=0.5, alpha=0.7)
    solution = Nominal().solve(problem)
    other = replace(problem, objective=SoftRobust(1.0, 0.7))
    f = np.arange(1.0, problem.n_models + 1.0)
    weighted = replace(problem.models, f=f / f.sum())
    for wrong in (other, problem.with_models(weighted)):
        with pytest.raises(InputError, match="another problem"):
            certify(wrong, solution)


def test_a_regret_that_few_models_have_has_no_limit() -> None:
    """60 draws without a regret say little of one that a model in a hundred has."""
    goal = SoftRobust(0.0, 0.9, "optimum")
    for losses, given in ((0, False), (4, False), (5, True)):
        x = np.zeros(60)
        x[:losses] = -1.0
        found = held_out(Returns(x, np.full(60, 1 / 60)), Returns(x, np.full(60, 1 / 60)), goal)
        assert found.lower_bound is not None
        assert (found.lower_bound.low is not None) == given
    own = held_out(
        Returns(np.zeros(60), np.full(60, 1 / 60)), Returns(np.zeros(60), np.full(60, 1 / 60)),
        SoftRobust(0.0, 0.9, "practice"),
    )  # fmt: skip
    assert own.lower_bound is not None
    assert own.lower_bound.low == 0.0  # who keeps practice gains nothing, for certain
