"""The paired comparison of two policies: chance, differences, words."""

from __future__ import annotations

import numpy as np
import pytest

from softrobust.certificate.comparison import Comparison, compare_policies, paired
from softrobust.models.policy import Policy
from softrobust.objective import SoftRobust, cvar
from softrobust.returns import Returns, policy_return
from softrobust.solvers import Nominal, solve
from softrobust.solvers.baselines.behaviour import Behaviour, behaviour_policy, given
from tests.test_protocol import LOG, small_problem

GOAL = SoftRobust(0.5, 0.9)


def test_known_chance_and_differences() -> None:
    old = np.arange(1000.0)
    new = old + np.where(np.arange(1000) < 250, -1.0, 2.0)
    f = np.full(1000, 1e-3)
    c = paired(Returns(new, f), Returns(old, f), GOAL, "current practice", heldout=True)
    assert c.chance.value == pytest.approx(0.75)
    assert c.ties == 0.0
    assert c.mean.value == pytest.approx(0.75 * 2 - 0.25)
    assert c.cvar.value == pytest.approx(cvar(new, f, 0.9) - cvar(old, f, 0.9))
    assert c.chance.low is not None
    assert c.chance.high is not None
    assert c.chance.low < 0.75 < c.chance.high
    assert Comparison.from_dict(c.to_dict(), GOAL) == c


def test_intervals_of_paired_differences_cover() -> None:
    """Pairing: both policies share the model's luck; the interval is of the difference alone."""
    rng, hits, width = np.random.default_rng(0), 0, []
    f = np.full(400, 1 / 400)
    for _ in range(400):
        luck = rng.normal(0, 10, 400)
        new, old = luck + rng.normal(1, 0.5, 400), luck + rng.normal(0, 0.5, 400)
        c = paired(Returns(new, f), Returns(old, f), GOAL, "x", heldout=True)
        assert c.mean.low is not None
        assert c.mean.high is not None
        hits += c.mean.low <= 1 <= c.mean.high
        width.append(c.mean.width)
    assert 0.92 <= hits / 400 <= 0.98
    assert np.mean(width) < 0.2  # unpaired it would be about 2.8


def test_weights_count() -> None:
    new, old = np.array([1.0, -1.0]), np.zeros(2)
    f = np.array([0.9, 0.1])
    c = paired(Returns(new, f), Returns(old, f), GOAL, "x", heldout=False)
    assert c.chance.value == pytest.approx(0.9)
    assert c.mean.value == pytest.approx(0.8)


def test_equal_policies_tie() -> None:
    problem = small_problem()
    policy = solve(problem, Nominal()).policy
    c = compare_policies(problem, policy, policy)
    assert c.ties == pytest.approx(1.0)
    assert c.chance.value == 0.0


def test_behaviour_is_the_share_of_actions() -> None:
    problem = small_problem()
    policy, moved = behaviour_policy(problem, LOG)
    np.testing.assert_allclose(policy.probs, LOG.behaviour)
    assert moved == pytest.approx(0.0)
    solution = solve(problem, Behaviour(LOG))
    assert solution.status == "given"
    c = compare_policies(problem, solve(problem, Nominal()).policy, policy)
    expected = policy_return(problem, solve(problem, Nominal()).policy) - policy_return(
        problem, policy
    )
    assert c.mean.value == pytest.approx(float(problem.models.f @ expected))


def test_practice_may_leave_the_mask_but_not_the_models() -> None:
    from dataclasses import replace

    problem = small_problem()
    allowed = problem.allowed.copy()
    allowed[0] = [True, False, False]
    masked = replace(problem, allowed=allowed)
    assert solve(masked, Behaviour(LOG)).static_value == pytest.approx(
        solve(problem, Behaviour(LOG)).static_value
    )
    probs = np.full((4, 3), 1 / 3)
    stray = Policy(probs, problem.models.states, problem.models.actions)
    with pytest.raises(ValueError, match="no model knows"):
        given(problem, stray, "given")
