"""SPIBB: rare pairs are left to the log's own policy, the rest improves."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from softrobust.data import TransitionLog
from softrobust.errors import InputError
from softrobust.models.policy import Policy, action_shares
from softrobust.posterior import DirichletPosterior
from softrobust.problem import Problem
from softrobust.returns import policy_return, policy_values
from softrobust.solvers import SPIBB, Nominal, Status, solve
from softrobust.solvers.baselines.nominal import Empirical

VARIANTS = ("equal", "at-most")


def make_log(seed: int = 0) -> TransitionLog:
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 4, 160)
    a = np.where(rng.random(160) < 0.7, 0, rng.integers(0, 3, 160))
    s_next = (s + a + (rng.random(160) < 0.3)) % 4
    return TransitionLog.from_arrays(s, a, s_next, s * (1 - a) + rng.normal(size=4)[s_next] * a)


LOG = make_log()


def problem_of(log: TransitionLog = LOG, min_count: int = 1) -> Problem:
    models = DirichletPosterior(min_count=min_count).fit(log).sample(30, seed=1)
    return Problem(models, rewards=log.rewards, p0=log.p0, gamma=0.9)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("model", ["mean", "empirical"])
def test_with_nothing_rare_it_is_the_model_optimum_and_with_all_rare_the_behaviour(
    variant: str, model: str
) -> None:
    problem = problem_of()
    solver = SPIBB(LOG, 0, variant, model)  # type: ignore[arg-type]
    best = solve(problem, Nominal() if model == "mean" else Empirical(LOG))
    free = solve(problem, solver)
    assert free.model_value == pytest.approx(best.model_value, rel=1e-12)
    np.testing.assert_array_equal(free.policy.probs, best.policy.probs)
    bound = solve(problem, replace(solver, min_count=np.inf))
    np.testing.assert_array_equal(bound.policy.probs, LOG.behaviour)
    assert bound.stats["notes"][0]["code"] == "no_pair_free"
    assert bound.model_value == bound.stats["behaviour_value"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_rare_pairs_keep_the_behaviour_and_the_model_value_rises(variant: str) -> None:
    problem, counts, beta = problem_of(), LOG.pair_counts, LOG.behaviour
    values = []
    for min_count in (0, 5, 8, 12, 20, 60):
        solution = solve(problem, SPIBB(LOG, min_count, variant))  # type: ignore[arg-type]
        rare = np.asarray(counts < min_count)
        probs = solution.policy.probs
        if variant == "equal":
            some_free = np.any(~rare, axis=1, keepdims=True)
            kept = rare & some_free
            np.testing.assert_array_equal(probs[kept], beta[kept])
        else:
            assert (probs[rare] <= beta[rare] + 1e-15).all()
        assert solution.model_value is not None
        assert solution.model_value >= solution.stats["behaviour_value"] - 1e-12
        assert solution.status is Status.TOLERANCE_REACHED
        assert solution.stats["rare_pairs"] == rare.sum()
        values.append(solution.model_value)
    assert (np.diff(values) <= 1e-12).all()  # fewer free pairs, no better policy
    assert values[1] > values[-1] + 0.01


def test_at_most_is_the_larger_class() -> None:
    problem = problem_of()
    for min_count in (5, 12, 20):
        equal, most = (
            solve(problem, SPIBB(LOG, min_count, v)).model_value  # type: ignore[arg-type]
            for v in VARIANTS
        )
        assert equal is not None
        assert most is not None
        assert most >= equal - 1e-12


def test_best_of_its_class_by_enumeration() -> None:
    problem, beta = problem_of(), LOG.behaviour
    rare = LOG.pair_counts < 7
    single = problem.mean_problem()
    best = -np.inf
    choices = [np.flatnonzero(~rare[s]).tolist() or [-1] for s in range(4)]
    for rule in product(*choices):
        probs = np.where(rare, beta, 0.0)
        for s, a in enumerate(rule):
            if a < 0:
                probs[s] = beta[s]
            else:
                probs[s, a] += 1 - probs[s].sum()
        policy = Policy(probs, LOG.states, LOG.actions)
        best = max(best, float(policy_return(single, policy)[0]))
    solution = solve(problem, SPIBB(LOG, 7))
    assert solution.model_value == pytest.approx(best, rel=1e-12)
    assert solution.v is not None
    own = policy_values(single, solution.policy)[0]
    np.testing.assert_allclose(solution.v, own, rtol=1e-12)


def test_masks_and_states_without_behaviour() -> None:
    problem = problem_of(min_count=0)
    allowed = np.ones((4, 3), bool)
    allowed[1, 0] = False  # the action that the log took most
    allowed[2] = [False, False, True]
    masked = replace(problem, allowed=allowed)
    for min_count in (0, 10, np.inf):
        solution = solve(masked, SPIBB(LOG, min_count))
        assert (solution.policy.probs[~allowed] == 0).all()
    beta, seen = action_shares(LOG.pair_counts, masked.allowed)
    assert seen.all()
    share = LOG.pair_counts[1, 1:] / LOG.pair_counts[1, 1:].sum()
    np.testing.assert_allclose(beta[1], [0, *share])

    names = ["0", "1", "2", "3", "far"]
    wide = TransitionLog.from_arrays(
        LOG.s, LOG.a, LOG.s_next, LOG.reward, state_names=names
    ).with_reward_table(default=0.0)
    models = DirichletPosterior(min_count=0, support="all").fit(wide).sample(5, 0)
    models = replace(models, sinks=np.zeros(5, bool))
    far = Problem(models, rewards=wide.rewards, p0=wide.p0, gamma=0.9)
    solution = solve(far, SPIBB(wide))
    assert solution.stats["states_without_behaviour"] == 1
    np.testing.assert_allclose(solution.policy.probs[4], 1 / 3)


def test_settings_are_checked() -> None:
    with pytest.raises(InputError, match="min_count"):
        SPIBB(LOG, -1)
    with pytest.raises(InputError, match="min_count"):
        SPIBB(LOG, np.nan)
    with pytest.raises(InputError, match="variant"):
        SPIBB(LOG, variant="soft")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="log"):
        SPIBB(None)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="max_rounds"):
        SPIBB(LOG, max_rounds=0)
    other = TransitionLog.from_arrays(["x"], ["y"], ["x"], [0])
    with pytest.raises(InputError, match="made from"):
        solve(problem_of(), SPIBB(other))
    stopped = solve(problem_of(), SPIBB(LOG, 0, max_rounds=1))
    assert stopped.status is Status.ITERATION_LIMIT
