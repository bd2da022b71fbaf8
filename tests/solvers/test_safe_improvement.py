"""Soft-SPIBB, RaMDP and DUIPI: small cases by hand, limits, and what each promises of its class."""

from __future__ import annotations

import numpy as np
import pytest

from softrobust.data import TransitionLog
from softrobust.errors import InputError
from softrobust.posterior import DirichletPosterior
from softrobust.problem import Problem
from softrobust.solvers import DUIPI, Empirical, RaMDP, SoftSPIBB, Status, solve


def random_log(seed: int = 0) -> TransitionLog:
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 4, 160)
    a = np.where(rng.random(160) < 0.7, 0, rng.integers(0, 3, 160))
    s_next = (s + a + (rng.random(160) < 0.3)) % 4
    return TransitionLog.from_arrays(s, a, s_next, s * (1 - a) + rng.normal(size=4)[s_next] * a)


def bandit() -> TransitionLog:
    """One state: 'a' pays 1 (8 rows), 'b' pays 2 (2 rows)."""
    n = 10
    return TransitionLog.from_arrays(["x"] * n, ["a"] * 8 + ["b"] * 2, ["x"] * n, [1] * 8 + [2] * 2)


def problem_of(log: TransitionLog, gamma: float = 0.9) -> Problem:
    models = DirichletPosterior().fit(log).sample(5, seed=1)
    return Problem(models, rewards=log.rewards, p0=log.p0, gamma=gamma)


LOG = random_log()


def test_soft_spibb_moves_what_its_budget_buys() -> None:
    log = bandit()
    e = np.sqrt(2 * np.log(2 * 2) / np.array([8, 2]))
    raised = solve(problem_of(log), SoftSPIBB(log, 0.1))
    np.testing.assert_allclose(raised.policy.probs[0, 1], 0.2 + 0.1 / e[1], rtol=1e-12)
    both = solve(problem_of(log), SoftSPIBB(log, 0.1, "both"))
    np.testing.assert_allclose(both.policy.probs[0, 1], 0.2 + 0.1 / e.sum(), rtol=1e-12)
    stricter = solve(problem_of(log), SoftSPIBB(log, 0.1, delta=0.05))
    larger = np.sqrt(2 * np.log(4 / 0.05) / 2)
    np.testing.assert_allclose(stricter.policy.probs[0, 1], 0.2 + 0.1 / larger, rtol=1e-12)


@pytest.mark.parametrize("variant", ["raised", "both"])
def test_soft_spibb_stays_in_its_class_between_practice_and_the_empirical_optimum(
    variant: str,
) -> None:
    problem, beta = problem_of(LOG), LOG.behaviour
    e = np.sqrt(2 * np.log(2 * 12) / LOG.pair_counts)
    values = []
    for epsilon in (0.0, 0.1, 0.5, 2.0, np.inf):
        solution = solve(problem, SoftSPIBB(LOG, epsilon, variant))  # type: ignore[arg-type]
        moved = solution.policy.probs - beta
        spent = (e * (np.abs(moved) if variant == "both" else np.maximum(moved, 0))).sum(axis=1)
        assert (spent <= epsilon + 1e-9).all()
        assert solution.status is Status.TOLERANCE_REACHED
        values.append(solution.model_value)
    assert (np.diff(np.array(values, dtype=float)) >= -1e-9).all()
    best = solve(problem, Empirical(LOG))
    assert values[-1] == pytest.approx(best.model_value, rel=1e-9)
    none = solve(problem, SoftSPIBB(LOG, 0.0, variant))  # type: ignore[arg-type]
    np.testing.assert_allclose(none.policy.probs, beta, atol=1e-15)


def test_ramdp_lowers_rewards_by_what_was_seen() -> None:
    log = bandit()
    # 2 − κ/√2 < 1 − κ/√8 from κ = 2√2 on.
    for kappa, action in ((0.0, 1), (2.8, 1), (2.9, 0)):
        solution = solve(problem_of(log), RaMDP(log, kappa))
        assert solution.policy.decision[0] == action
        paid = (1 - kappa / np.sqrt(8), 2 - kappa / np.sqrt(2))[action]
        assert solution.model_value == pytest.approx(paid / 0.1)
    assert solve(problem_of(log), RaMDP(log)).stats["kappa"] == 0.5


def test_ramdp_without_caution_is_the_empirical_optimum() -> None:
    problem = problem_of(LOG)
    free, best = solve(problem, RaMDP(LOG, 0.0)), solve(problem, Empirical(LOG))
    np.testing.assert_array_equal(free.policy.probs, best.policy.probs)
    assert free.model_value == pytest.approx(best.model_value, rel=1e-9)


def test_duipi_without_caution_is_the_empirical_optimum() -> None:
    problem = problem_of(LOG)
    free, best = solve(problem, DUIPI(LOG, 0.0)), solve(problem, Empirical(LOG))
    np.testing.assert_allclose(free.policy.probs, best.policy.probs, atol=1e-6)
    assert free.model_value == pytest.approx(best.model_value, rel=1e-5)


def test_duipi_propagates_the_variance_of_a_reward() -> None:
    # Rewards of 'b' are 0 and 4 (mean 2, variance of the mean 4); those of 'a' are 1, always.
    log = TransitionLog.from_arrays(
        list("xxxxxx"), list("aaaabb"), list("xxxxxx"), [1, 1, 1, 1, 0, 4]
    )
    # One state and no doubt about transitions: σ²Q(b) = 4 + γ²σ²V, σ²Q(a) = γ²σ²V.
    problem = problem_of(log, gamma=0.5)
    for xi, action in ((0.4, 1), (1.5, 0)):
        solution = solve(problem, DUIPI(log, xi))
        assert solution.policy.decision[0] == action
        assert solution.policy.probs[0, action] == pytest.approx(1.0, abs=1e-6)


def test_duipi_avoids_what_was_never_seen() -> None:
    log = TransitionLog.from_arrays(list("xxyy"), list("aaab"), list("xyxy"), [0, 0, 0, 1])
    models = DirichletPosterior(min_count=0).fit(log).sample(5, seed=0)
    problem = Problem(models, rewards=log.rewards.with_default(9.0), p0=log.p0, gamma=0.9)  # type: ignore[union-attr]
    for prior in (0.0, 0.1):
        solution = solve(problem, DUIPI(log, 0.1, prior))
        assert solution.policy.probs[0, 1] == 0


def test_settings_are_checked() -> None:
    for make in (SoftSPIBB, RaMDP, DUIPI):
        with pytest.raises(InputError, match="log"):
            make(None)  # type: ignore[arg-type]
        other = TransitionLog.from_arrays(["q"], ["y"], ["q"], [0])
        with pytest.raises(InputError, match="made from"):
            solve(problem_of(LOG), make(other))
    for bad in (lambda: SoftSPIBB(LOG, -1), lambda: SoftSPIBB(LOG, np.nan),
                lambda: SoftSPIBB(LOG, delta=0.0), lambda: RaMDP(LOG, -1.0),
                lambda: DUIPI(LOG, -0.1), lambda: DUIPI(LOG, prior=-1.0),
                lambda: DUIPI(LOG, max_rounds=0)):  # fmt: skip
        with pytest.raises(InputError):
            bad()
    stopped = solve(problem_of(LOG), DUIPI(LOG, max_rounds=2))
    assert stopped.status is Status.ITERATION_LIMIT
