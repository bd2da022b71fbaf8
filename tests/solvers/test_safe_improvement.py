"""Soft-SPIBB, RaMDP and DUIPI: small cases by hand, limits, and what each promises of its class."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from softrobust._core.limits import within
from softrobust.data import Rewards, TransitionLog
from softrobust.errors import InputError
from softrobust.posterior import DirichletPosterior
from softrobust.problem import Problem
from softrobust.solvers import DUIPI, Empirical, RaMDP, SoftSPIBB, Status, solve
from softrobust.solvers.baselines import safe_improvement
from softrobust.solvers.baselines.nominal import empirical_problem


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


@pytest.mark.parametrize("prior", [0.0, 0.3])
@pytest.mark.parametrize("kind", ["pair", "next", "triple"])
def test_duipi_sums_over_all_next_states(kind: str, prior: float) -> None:
    rng, s, a, t = np.random.default_rng(5), *np.random.default_rng(4).integers(0, 3, (3, 14))
    paid = {"pair": s - 2.0 * a, "next": np.array([1.0, -2.0, 5.0])[t], "triple": s * 1.5 + a * t}
    log = TransitionLog.from_arrays(s, a, t, paid[kind])
    models = DirichletPosterior(min_count=0).fit(log).sample(2, seed=0)
    assert log.rewards is not None
    rewards = log.rewards.with_default(0.7)
    if kind == "next":  # with a triple of its own
        rewards = rewards.merge(Rewards.of_triples([0], [1], [2], [9.0], *log.shape))
    single, _ = empirical_problem(Problem(models, rewards, log.p0, 0.9), log, "DUIPI")
    n = np.full((3, 3, 3), prior)
    np.add.at(n, (log.s, log.a, log.s_next), 1.0)
    total = n.sum(axis=2, keepdims=True)
    P = n / np.maximum(total, 1e-300)
    more = total + (1 if prior else -1)
    less = np.where(more > 0, more, np.nan)
    var_P = np.minimum(np.nan_to_num(P * (1 - P) / less, nan=0.25), 0.25)
    value, known = rewards.at(*np.indices(P.shape))
    r = np.where(known, value, single.R)
    v, var_v = rng.normal(size=3), rng.random(3)
    Q, var_Q = safe_improvement._Rows(log, prior, single).step(v, var_v, 0.9)
    np.testing.assert_allclose(Q, (P * (r + 0.9 * v)).sum(axis=2).ravel(), rtol=1e-12)
    off, many = (paid[kind] - r[log.s, log.a, log.s_next]) ** 2, log.pair_counts
    var_R = np.zeros((3, 3))
    np.add.at(var_R, (log.s, log.a), off)
    expected = ((r + 0.9 * v) ** 2 * var_P + 0.81 * P**2 * var_v).sum(axis=2)
    expected += var_R / np.maximum(many * (many - 1), 1)
    np.testing.assert_allclose(var_Q, expected.ravel(), rtol=1e-12)


def test_duipi_needs_memory_only_for_what_the_log_lists() -> None:
    rng, S = np.random.default_rng(0), 2000
    s, s_next = rng.integers(0, S, (2, 8000))
    log = TransitionLog.from_arrays(s, s % 2, s_next, s_next / S)
    problem = problem_of(log)
    tracemalloc.start()
    try:
        solve(problem, DUIPI(log, max_rounds=3))
        assert tracemalloc.get_traced_memory()[1] < 8 * S * S  # one table of an action
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("solver", [DUIPI(LOG, max_rounds=10**9), SoftSPIBB(LOG, max_rounds=10**9)])
def test_a_limit_of_time_leaves_some_for_certificates(
    solver: DUIPI | SoftSPIBB, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(safe_improvement, "STAYS", -1.0)  # nothing ever does
    problem = problem_of(LOG)
    with within(1.0) as clock:
        assert solve(problem, solver).status is Status.TIME_LIMIT
        assert not clock.passed


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
