"""What is promised of the truth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from softrobust.data import TransitionLog
from softrobust.errors import InputError
from softrobust.posterior.learned import LearnedPosterior
from softrobust.posterior.resemblance import Geometry
from softrobust.solvers.hidden import NOTHING
from softrobust.solvers.promise import (
    Candidate,
    Procedure,
    Verdict,
    choose,
    practice_of,
    promised,
    shuffle_actions,
    units,
)

GAMMA = 0.9


def world(effect: float, seed: int, episodes: int = 40, steps: int = 12) -> TransitionLog:
    """A chain of 8 states in which "push" moves up by `effect` on average; practice is a coin."""
    rng = np.random.default_rng(seed)
    rows = []
    for e in range(episodes):
        s = int(rng.integers(8))
        for _ in range(steps):
            a = int(rng.random() < 0.5)
            t = int(np.clip(s + rng.integers(-1, 2) + (rng.random() < effect * a), 0, 7))
            rows.append((e, s, a, t, float(t) + rng.normal()))
            s = t
    episode, state, action, to, reward = zip(*rows, strict=True)
    return TransitionLog.from_arrays(
        [f"level {x}" for x in state], [("wait", "push")[x] for x in action],
        [f"level {x}" for x in to], list(reward), list(episode),
    )  # fmt: skip


def truth(effect: float) -> tuple[np.ndarray, np.ndarray]:
    P = np.zeros((8, 2, 8))
    for s in range(8):
        for a in range(2):
            for d in (-1, 0, 1):
                up = effect * a
                P[s, a, np.clip(s + d, 0, 7)] += (1 - up) / 3
                P[s, a, np.clip(s + d + 1, 0, 7)] += up / 3
    return P, P @ np.arange(8.0)


def value(P: np.ndarray, R: np.ndarray, probs: np.ndarray) -> float:
    M = np.einsum("sa,sat->st", probs, P)
    return float(np.linalg.solve(np.eye(8) - GAMMA * M, (probs * R).sum(axis=1)).mean())


def test_a_clear_gain_is_promised_and_comes_true() -> None:
    P, R = truth(0.8)
    kept = []
    for seed in range(5):
        choice = choose(world(0.8, seed), GAMMA, seed=seed)
        order = [choice.policy.actions.names.index(a) for a in ("wait", "push")]
        gain = value(P, R, choice.policy.probs[:, order]) - value(P, R, np.full((8, 2), 0.5))
        assert choice.promise.verdict is Verdict.CHANGE
        assert gain > 0
        kept.append(gain >= choice.promise.gain.low)
        assert choice.promise.gain.low <= choice.promise.gain.value
        assert choice.promise.bad_gain <= choice.promise.gain.low + 1e-12
        assert choice.promise.chance <= 1.0
    assert sum(kept) >= 4


def test_shuffled_actions_promise_nothing() -> None:
    """Where actions have no effect a chance of 95 % or more is rare."""
    said = [
        choose(shuffle_actions(world(0.8, seed), np.random.default_rng(seed)), GAMMA).promise.chance
        for seed in range(8)
    ]
    assert sum(chance >= 0.95 for chance in said) <= 1


def test_actions_that_matter_have_more_evidence_than_shuffled_ones() -> None:
    log = replace(world(0.8, 0), rewards=None)
    geometry = Geometry.of(log.states)
    rng = np.random.default_rng(0)
    logs = (log, *(shuffle_actions(log, rng) for _ in range(5)))
    own, *null = (LearnedPosterior().fit(each, geometry).evidence() for each in logs)
    assert own > max(null)


def test_shuffling_keeps_states_and_counts() -> None:
    log = world(0.5, 1)
    mixed = shuffle_actions(log, np.random.default_rng(0))
    np.testing.assert_array_equal(mixed.pair_counts, log.pair_counts)
    np.testing.assert_array_equal(mixed.s_next, log.s_next)
    assert not np.array_equal(mixed.a, log.a)


def test_same_seed_same_answer() -> None:
    log = world(0.6, 2, episodes=20)
    first, second = (choose(log, GAMMA, seed=3) for _ in range(2))
    assert first.promise == second.promise
    np.testing.assert_array_equal(first.policy.probs, second.policy.probs)


def test_the_policy_keeps_to_its_class() -> None:
    choice = choose(world(0.8, 4), GAMMA)
    assert choice.policies.contains(choice.policy.probs)
    assert choice.candidate is not None
    assert choice.candidate in choice.candidates


def test_practice_can_be_given() -> None:
    log = world(0.8, 5)
    given = np.full((8, 2), 0.5)
    choice = choose(log, GAMMA, practice=given)
    np.testing.assert_allclose(choice.practice.probs, given)


def test_units_are_episodes_or_blocks() -> None:
    log = world(0.5, 0)
    assert units(log)[0] == "episodes"
    one = replace(log, episode=None)
    assert units(one)[0] == "blocks"
    assert np.unique(units(one)[1]).size == 20


def arrays(n: int, S: int, A: int, reward: float | None = None, seed: int = 0) -> TransitionLog:
    rng = np.random.default_rng(seed)
    rewards = rng.normal(size=n) if reward is None else np.full(n, reward)
    return TransitionLog.from_arrays(
        rng.integers(S, size=n), rng.integers(A, size=n), rng.integers(S, size=n), rewards
    )


@pytest.mark.parametrize(
    ("log", "verdicts"),
    [
        (arrays(1, 2, 1), {Verdict.TOO_SMALL}),
        (arrays(30, 4, 2), {Verdict.TOO_SMALL}),
        (arrays(200, 5, 1), {Verdict.NO_CHOICE}),
        (arrays(200, 5, 2, reward=1.0), {Verdict.NO_CHOICE, Verdict.KEEP}),
        (arrays(200, 5, 2, reward=0.0), {Verdict.NO_CHOICE, Verdict.KEEP}),
    ],
)
def test_little_is_promised_of_little(log: TransitionLog, verdicts: set[Verdict]) -> None:
    promise = choose(log, GAMMA).promise
    assert promise.verdict in verdicts
    assert promise.chance == 0.0
    assert promise.gain.value == 0.0
    if promise.verdict is Verdict.TOO_SMALL:
        assert promise.return_low is None


def test_pairs_seen_once_are_not_certain() -> None:
    rng = np.random.default_rng(0)
    log = TransitionLog.from_arrays(
        np.arange(60) // 2, np.arange(60) % 2, rng.integers(30, size=60), rng.normal(size=60)
    )
    assert choose(log, GAMMA).promise.chance < 0.95


def test_practice_of_states_never_left_is_any_action() -> None:
    log = TransitionLog.from_arrays([0, 0, 1], ["a", "b", "a"], [1, 2, 0])
    shares = practice_of(log, np.ones((3, 2), dtype=bool))
    np.testing.assert_allclose(shares, [[0.5, 0.5], [1.0, 0.0], [0.5, 0.5]])


def test_the_error_by_own_rows_is_that_of_a_mean() -> None:
    """In one state the gain is that of mean rewards, whose error a resampling shows, too."""
    rng = np.random.default_rng(0)
    reward = rng.normal(size=60)
    actions = ["a"] * 48 + ["b"] * 12
    log = TransitionLog.from_arrays(["x"] * 60, actions, ["x"] * 60, list(reward))
    run = Procedure.of(log, GAMMA, None, 40, 8, rng)
    means = rng.choice(reward - reward.mean(), (4000, 12)).mean(axis=1)
    assert run.alone(np.array([[0.0, 1.0]])) == pytest.approx(means.std() / (1 - GAMMA), rel=0.15)
    assert run.alone(run.practice) == 0.0


def test_the_level_is_checked() -> None:
    with pytest.raises(InputError, match="level"):
        choose(world(0.5, 0, episodes=2), GAMMA, level=1.0)


def test_the_discount_is_checked() -> None:
    with pytest.raises(InputError, match="gamma"):
        choose(world(0.5, 0, episodes=2), 1.0)


def test_the_promise_is_plain_data() -> None:
    import json

    promise = choose(world(0.8, 0), GAMMA).promise
    told = json.loads(json.dumps(promise.to_dict()))
    assert told["gain"]["low"] == promise.gain.low
    assert told["level"] == 0.9


@pytest.mark.parametrize("shift", [-1e5, 1e4])
def test_what_all_rewards_share_changes_no_verdict(shift: float) -> None:
    rng = np.random.default_rng(0)
    s, a = rng.integers(4, size=120), rng.integers(2, size=120)
    to = np.where(rng.random(120) < 0.8, (s + a) % 4, rng.integers(4, size=120))
    pays = np.round(rng.normal(size=(4, 2)), 2)[s, a]  # known exactly, as is what they share
    one, other = (
        choose(TransitionLog.from_arrays(s, a, to, pays + x, np.arange(120) // 10), 0.9).promise
        for x in (0.0, shift)
    )
    assert one.verdict is other.verdict is Verdict.CHANGE
    assert other.gain.value == pytest.approx(one.gain.value, rel=0.01)
    assert other.gain.low == pytest.approx(one.gain.low, rel=0.05)


def test_what_shuffled_logs_show_as_well_is_no_gain() -> None:
    found = Candidate(1, 0.0, posterior=2.0, believed=0.9)
    draws = np.random.default_rng(0).normal(2.0, 0.5, 4000)
    known = (np.zeros(4000), 0.9, 20, "episodes", NOTHING)
    sure, none, new = (
        promised(found, draws, known[0], x, *known[1:])
        for x in ((0.0, 0.0), (0.9, 0.0), (0.0, 0.2))
    )
    assert sure.gain.low > 0.0
    assert sure.chance < 1.0  # of 4000 draws
    assert none.gain.low <= 0.0
    assert none.chance == pytest.approx(0.1)
    assert new.chance == pytest.approx(0.8)  # three uses do not show what happens in the fourth
    assert new.gain == sure.gain
    less = promised(found, -draws, known[0], (0.0, 0.0), *known[1:])
    assert less.gain.value == pytest.approx(-draws.mean())  # a loss is said
