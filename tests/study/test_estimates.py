"""Off-policy estimators against closed forms: all trajectories, as often as they are likely."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from softrobust.data import TransitionLog
from softrobust.data.labels import Labels
from softrobust.errors import InputError
from softrobust.models.model_set import ModelSet
from softrobust.models.policy import Policy, TimedPolicy
from softrobust.problem import Problem
from softrobust.returns import policy_return
from softrobust.study.off_policy import Episodes, episodes_of, off_policy

# Two steps from state 0 or 1 into the absorbing state 2; probabilities are quarters, so that every
# trajectory can be listed as often as it is likely.
P = np.zeros((3, 2, 3))
P[0, 0], P[0, 1], P[1, 0], P[1, 1] = [0, 3 / 4, 1 / 4], [0, 1 / 4, 3 / 4], [0, 0, 1], [0, 0, 1]
P[2, :, 2] = 1
R = np.array([[1.0, 2.0], [4.0, -3.0], [0.0, 0.0]])
BEHAVIOUR = np.array([[1 / 2, 1 / 2], [1 / 4, 3 / 4], [1 / 2, 1 / 2]])
STATES, ACTIONS = Labels(("0", "1", "end"), noun="state"), Labels(("x", "y"), noun="action")
SINKS = np.array([False, False, True])


def problem(rows: np.ndarray = P) -> Problem:
    models = ModelSet.from_dense(rows[None], states=STATES, actions=ACTIONS, sinks=SINKS)
    return Problem(models, rewards=R, p0=[1, 0, 0], gamma=0.8)


def every_trajectory() -> Episodes:
    rows: list[tuple[list[int], list[int], list[int], list[float]]] = []
    for a, s_next in product((0, 1), (1, 2)):
        first = BEHAVIOUR[0, a] * P[0, a, s_next]
        if s_next == 2:
            rows += [([0], [a], [2], [R[0, a]])] * round(32 * first)
            continue
        for b in (0, 1):
            times = round(32 * first * BEHAVIOUR[1, b])
            rows += [([0, 1], [a, b], [1, 2], [R[0, a], R[1, b]])] * times
    s, a_, n, r, e = [], [], [], [], []
    for i, (x, y, z, w) in enumerate(rows):
        s += x
        a_ += y
        n += z
        r += w
        e += [i] * len(x)
    assert len(rows) == 32
    log = TransitionLog.from_arrays(
        np.array(["0", "1", "end"])[s], np.array(["x", "y"])[a_], np.array(["0", "1", "end"])[n],
        r, e, state_names=STATES, action_names=ACTIONS,
    )  # fmt: skip
    return episodes_of(log)


@pytest.mark.parametrize(
    "target", [[[0.5, 0.5], [0.25, 0.75]], [[1, 0], [0.5, 0.5]], [[0, 1], [1, 0]]]
)
def test_estimators_are_exact_on_the_whole_population(target: list[list[float]]) -> None:
    policy = Policy(np.array([*target, [1.0, 0.0]]), STATES, ACTIONS)
    exact = policy_return(problem(), policy)[0]
    for estimate in off_policy(problem(), policy, every_trajectory(), BEHAVIOUR):
        assert estimate.estimate.value == pytest.approx(exact, abs=1e-12), estimate.name
        assert estimate.tail == 0.0
        assert estimate.unsupported == 0.0


@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("cut", [1, 2])
@pytest.mark.parametrize("timed", [False, True])
def test_with_a_horizon_they_are_exact_too(steps: int, cut: int, timed: bool) -> None:
    """Steps beyond the horizon do not count; those that were cut off are the model's."""
    ends = replace(problem(), horizon=steps, gamma=1.0)
    rule = np.array([[0.25, 0.75], [0.5, 0.5], [1.0, 0.0]])
    other = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    policy: Policy | TimedPolicy = ends.policy(rule)
    if timed:
        policy = ends.timed_policy(np.array([other if t % 2 else rule for t in range(steps)]))
    exact = policy_return(ends, policy)[0]
    seen = every_trajectory().until(cut)
    for estimate in off_policy(ends, policy, seen, BEHAVIOUR):
        assert estimate.estimate.value == pytest.approx(exact, abs=1e-12), estimate.name
        if estimate.name != "FQE":  # one in two goes on to state 1 after the first step
            assert estimate.tail == pytest.approx(0.5 if cut == 1 < steps else 0.0)


def test_doubly_robust_needs_one_of_the_two() -> None:
    """A wrong model with right weights is exact for DR: the weights correct it."""
    wrong = P.copy()
    wrong[0, 0], wrong[0, 1] = [0, 0.1, 0.9], [0, 0.9, 0.1]
    policy = Policy(np.array([[0, 1.0], [1, 0], [1, 0]]), STATES, ACTIONS)
    exact = policy_return(problem(), policy)[0]
    estimates = off_policy(problem(wrong), policy, every_trajectory(), BEHAVIOUR)
    found = {e.name: e.estimate.value for e in estimates}
    assert policy_return(problem(wrong), policy)[0] != pytest.approx(exact, abs=0.1)
    assert found["DR"] == pytest.approx(exact, abs=1e-12)


def test_effective_size_and_cannot_tell() -> None:
    policy = Policy(np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]]), STATES, ACTIONS)
    few = every_trajectory().select(np.arange(0, 32, 4))
    wis = off_policy(problem(), policy, few, BEHAVIOUR)[0]
    assert wis.effective_size <= 8
    assert not wis.can_tell
    same = Policy(BEHAVIOUR, STATES, ACTIONS)
    own = off_policy(problem(), same, every_trajectory(), BEHAVIOUR)[0]
    assert (own.effective_size, own.size) == (32, 32)
    assert own.can_tell
    assert not replace(own, effective_size=1.0).can_tell
    assert not replace(own, size=1000).can_tell  # a thirtieth may not speak for all


def test_intervals_cover_the_truth() -> None:
    """Samples of the population: 95 % intervals hold in about 95 % of them."""
    policy = Policy(np.array([[0.7, 0.3], [0.4, 0.6], [1.0, 0.0]]), STATES, ACTIONS)
    exact = policy_return(problem(), policy)[0]
    everything, rng = every_trajectory(), np.random.default_rng(3)
    hits = {"WIS": 0, "PDIS": 0, "DR": 0, "FQE": 0}
    for seed in range(60):
        part = everything.select(rng.integers(0, 32, 150))
        for e in off_policy(problem(), policy, part, BEHAVIOUR, seed=seed):
            assert e.estimate.low is not None
            assert e.estimate.high is not None
            hits[e.name] += e.estimate.low <= exact <= e.estimate.high
    assert min(hits.values()) >= 50, hits  # binomial(60, .95): below 50 has probability 2e-4


def test_cut_off_episodes_go_on_in_the_model() -> None:
    log = TransitionLog.from_arrays(
        [0, 0], ["x", "y"], [1, 1], [1.0, 2.0], [0, 1], state_names=STATES, action_names=ACTIONS
    )
    policy = Policy(np.array([[0.5, 0.5], [1, 0], [1, 0]]), STATES, ACTIONS)
    behaviour = np.array([[0.5, 0.5], [0.5, 0.5], [0.5, 0.5]])
    wis = off_policy(problem(), policy, episodes_of(log), behaviour)[0]
    assert wis.tail == pytest.approx(0.8)
    assert wis.estimate.value == pytest.approx(1.5 + 0.8 * 4)


def test_bad_input() -> None:
    log = TransitionLog.from_arrays([0], ["x"], [1], [1.0])
    with pytest.raises(InputError, match="episode"):
        episodes_of(log)
    policy = Policy(np.array([[1, 0], [1, 0], [1.0, 0]]), STATES, ACTIONS)
    never = np.array([[1.0, 0], [1, 0], [1, 0]])
    with pytest.raises(InputError, match="positive probability"):
        off_policy(problem(), policy, every_trajectory(), never)
