"""The posterior certificate: limits that hold as often as they say, and never cross."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from softrobust.bounds import Covers
from softrobust.certificate import PosteriorCertificate, certify, certify_posterior, held_out
from softrobust.data import TransitionLog
from softrobust.errors import InputError
from softrobust.models.model_set import ModelSet
from softrobust.models.policy import TimedPolicy
from softrobust.objective import Percentile, SoftRobust
from softrobust.posterior import DirichletPosterior
from softrobust.problem import Problem
from softrobust.returns import Returns, policy_return, static_return
from softrobust.solvers.baselines.nominal import Nominal
from softrobust.solvers.exact.exact import Exact

N = 40
SURE = 60.0  # seconds that a small replication never needs


def population() -> Problem:
    """4000 models: the stand-in for the posterior itself."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.full(3, 0.4), size=(4000, 3, 2))
    return Problem(
        ModelSet.from_dense(P),
        rewards=rng.normal(size=(3, 2)),
        gamma=0.8,
        objective=SoftRobust(0.5, 0.75),
    )


POPULATION = population()
OPTIMUM = Exact().solve(POPULATION).static_value


def draw(n: int, rng: np.random.Generator) -> ModelSet:
    return POPULATION.models.select(rng.choice(4000, n, replace=True))


def chosen(seed: int) -> tuple[Problem, PosteriorCertificate, float]:
    """A policy chosen on N draws, its certificate, and its true value under the posterior."""
    problem = POPULATION.with_models(draw(N, np.random.default_rng([9, seed])))
    policy = Exact().solve(problem).policy
    found = certify_posterior(problem, policy, draw, replications=8, seconds=SURE, seed=seed)
    return problem, found, static_return(POPULATION, policy)


def test_limits_hold_as_often_as_promised() -> None:
    """30 experiments at 95 %: fewer than 25 hits would have probability below 4e-3."""
    hits = {"lower": 0, "upper": 0, "both": 0, "paired": 0}
    for seed in range(30):
        _, found, true = chosen(seed)
        assert found.lower is not None
        assert found.upper is not None
        assert found.paired_gap is not None
        assert found.gap is not None
        hits["lower"] += found.lower <= true
        hits["upper"] += found.upper >= OPTIMUM
        hits["both"] += found.gap >= OPTIMUM - true
        hits["paired"] += found.paired_gap >= OPTIMUM - true
        assert found.upper >= found.lower  # never crossed
        assert found.paired_gap >= 0
    assert all(count >= 25 for count in hits.values()), hits


def test_pairing_is_tighter_and_solving_is_tighter_than_being_told() -> None:
    problem, found, _ = chosen(0)
    assert found.method == "branch and bound"
    assert found.gap is not None
    assert found.paired_gap is not None
    assert found.paired_gap < found.gap
    assert found.covers is Covers.DETERMINISTIC
    again = certify_posterior(
        problem, Exact().solve(problem).policy, draw, replications=8, seconds=SURE, seed=0
    )
    assert again == found  # the same seed, the same draws


def test_the_lower_limit_is_that_of_held_out_models_where_there_are_any() -> None:
    problem, _, _ = chosen(1)
    policy = Exact().solve(problem).policy
    train = policy_return(problem, policy)
    fresh = policy_return(POPULATION, policy)
    w = POPULATION.models.f
    held = held_out(Returns(train, problem.models.f), Returns(fresh, w), problem.objective)
    found = certify_posterior(problem, policy, draw, held, 6, SURE)
    assert found.lower_from == "held-out models"
    assert held.lower_bound is not None
    assert found.lower == held.lower_bound.low
    own = certify_posterior(problem, policy, draw, None, 6, SURE)
    assert own.lower_from == "replications"
    assert own.lower is not None
    assert own.upper == found.upper


def test_limits_that_chance_has_crossed_are_not_shown_crossed() -> None:
    """A held-out sample that is all luck: the upper limit gives way, since above is still above."""
    problem, _, _ = chosen(2)
    policy = Exact().solve(problem).policy
    train = policy_return(problem, policy)
    w = np.full(400, 1 / 400)
    luck = Returns(np.full(400, train.max() + 9), w)
    lucky = held_out(Returns(train, problem.models.f), luck, problem.objective)
    found = certify_posterior(problem, policy, draw, lucky, 6, SURE)
    assert found.lower is not None
    assert found.upper == found.lower
    assert found.gap == 0
    assert found.upper_mean is not None
    assert found.upper_mean < found.lower  # what was seen stays on record


@pytest.mark.parametrize("timed", [False, True])
def test_the_only_policy_there_is_misses_nothing(timed: bool) -> None:
    problem, _, _ = chosen(2)
    one = replace(problem, allowed=np.tile([True, False], (3, 1)), horizon=4 if timed else None)
    policy = one.uniform_policy()
    every = np.tile(policy.probs, (4, 1, 1))
    own = TimedPolicy(every, policy.states, policy.actions) if timed else policy
    found = certify_posterior(one, own, draw, None, 4, SURE)
    assert (found.paired_gap, found.gap_share or 0.0) == (0.0, 0.0)
    other = replace(policy, probs=policy.probs[:, ::-1])  # which is not allowed
    assert certify_posterior(replace(one, horizon=None), other, draw, None, 4, SURE).paired_gap != 0


def test_worst_case_has_no_lower_limit_and_the_mean_needs_no_tail() -> None:
    problem, _, _ = chosen(3)
    worst = replace(problem, objective=SoftRobust(1.0, 1.0))
    found = certify_posterior(worst, Nominal().solve(worst).policy, draw, None, 4, SURE)
    assert found.upper is not None
    assert found.lower is None
    assert found.gap is None
    assert found.paired_gap is None
    average = replace(problem, objective=SoftRobust(0.0, 1.0))
    found = certify_posterior(average, Nominal().solve(average).policy, draw, None, 4, SURE)
    assert found.lower is not None
    assert found.paired_gap is not None


def test_randomized_policies_are_compared_with_randomized_ones() -> None:
    problem, _, _ = chosen(4)
    found = certify_posterior(problem, problem.uniform_policy(), draw, None, 4, SURE)
    assert found.covers in (Covers.STATIONARY, Covers.ALL)
    assert found.paired_gap is not None
    true = OPTIMUM - static_return(POPULATION, POPULATION.uniform_policy())
    assert found.paired_gap >= 0.8 * true


def test_where_there_is_no_limit_a_reason_is_given() -> None:
    problem, _, _ = chosen(5)
    policy = Nominal().solve(problem).policy
    percentile = replace(problem, objective=Percentile(0.9))
    for found, code in (
        (certify_posterior(percentile, policy, draw), "replications_bound_averages"),
        (certify_posterior(problem, policy, draw, seconds=1e-9), "replications_too_slow"),
        (certify_posterior(problem, policy, _exhausted), "recorded"),
    ):
        assert found.upper is None
        assert found.gap is None
        assert found.paired_gap is None
        assert found.reason is not None
        assert found.reason.code == code
        assert PosteriorCertificate.from_dict(found.to_dict()) == found
    with pytest.raises(InputError, match="At least 4"):
        certify_posterior(problem, policy, draw, replications=2)


def _exhausted(n: int, rng: np.random.Generator) -> ModelSet:
    raise InputError(f"{n} models were asked for, and the sampler kept 10 draws.")


def small_log() -> TransitionLog:
    rng = np.random.default_rng(0)
    s = rng.integers(0, 4, 200)
    return TransitionLog.from_arrays(s, rng.integers(0, 2, 200), rng.integers(0, 4, 200), 1.0 * s)


def test_certify_shows_it_beside_the_sample_and_marks_what_is_indicative() -> None:
    log = small_log()
    posterior = DirichletPosterior().fit(log)
    problem = Problem(posterior.sample(30, seed=0), rewards=log.rewards, p0=log.p0, gamma=0.9)
    policy = Exact().solve(problem).policy
    plain = certify(problem, policy)
    assert plain.posterior is None
    assert plain.indicative is None
    full = certify(
        problem, policy, posterior.sample(600, seed=7), posterior=posterior, replications=5,
        indicative=True,
    )  # fmt: skip
    assert full.posterior is not None
    assert full.posterior.replications == 5
    assert full.posterior.n_models == 30
    assert full.bound.value == plain.bound.value  # neither part enters the bound
    assert full.indicative is not None
    record = full.to_dict()
    assert record["indicative"]["corollary"] > full.gap_abs
    assert record["indicative"]["note"] == "not_a_bound"
    assert record["posterior"]["gap_confidence"] == 0.9


def test_fresh_models_are_not_the_ones_the_policy_was_chosen_on() -> None:
    """The same number as a seed must not give the same draws."""
    posterior = DirichletPosterior().fit(small_log())
    seen: list[ModelSet] = []

    def spy(n: int, rng: np.random.Generator) -> ModelSet:
        seen.append(posterior.sample(n, rng))
        return seen[-1]

    log = small_log()
    train = posterior.sample(20, seed=3)
    problem = Problem(train, rewards=log.rewards, p0=log.p0, gamma=0.9)
    certify_posterior(problem, Nominal().solve(problem).policy, spy, None, 4, SURE, seed=3)
    fresh = np.asarray(seen[0].P).reshape(-1, 4)
    assert not np.isin(np.asarray(train.P).reshape(-1, 4)[:, 0], fresh[:, 0]).any()


def test_many_models_are_drawn_replication_by_replication(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, _, _ = chosen(6)
    sizes: list[int] = []

    def counted(n: int, rng: np.random.Generator) -> ModelSet:
        sizes.append(n)
        return draw(n, rng)

    policy = Nominal().solve(problem).policy
    certify_posterior(problem, policy, counted, None, 4, SURE)
    assert sizes == [4 * N]
    monkeypatch.setattr("softrobust.certificate.posterior.POOL_BYTES", 0)
    certify_posterior(problem, policy, counted, None, 4, SURE)
    assert sizes[1:] == [N] * 4
