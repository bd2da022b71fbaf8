from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softrobust._core.notes import Note
from softrobust.data import Rewards, TransitionLog
from softrobust.data.reward_rules import NOISY


def rewards_of(
    s: list[int], a: list[int], s_next: list[int], r: list[float], **options: Any
) -> Rewards:
    rewards = TransitionLog.from_arrays(s, a, s_next, r, **options).rewards
    assert rewards is not None
    return rewards


def test_function_of_the_pair_comes_first() -> None:
    rewards = rewards_of([0, 0, 1], [0, 0, 0], [0, 1, 1], [2.0, 2.0 + 1e-9, 5.0])
    assert rewards.kind == "pair"
    assert rewards.notes == (Note("rewards_of_log", facts={"kind": "pair"}),)
    np.testing.assert_allclose(rewards.pairs[:, 0], [2.0, 5.0], rtol=1e-9)


def test_equal_rewards_stay_exact() -> None:
    rewards = rewards_of([0] * 3, [0] * 3, [0] * 3, [0.1] * 3)
    assert rewards.pairs[0, 0] == 0.1


def test_function_of_the_next_state_comes_second() -> None:
    rewards = rewards_of([0, 0, 1], [0, 0, 0], [0, 1, 1], [2.0, 3.0, 3.0])
    assert rewards.kind == "next"
    assert rewards.notes[0]["never_reached"] == 0
    np.testing.assert_array_equal(rewards.at([0, 0], [0, 0], [0, 1])[0], [2.0, 3.0])


def test_a_next_state_never_reached_gets_the_mean_of_the_pair() -> None:
    rewards = rewards_of([2, 2, 2], [0, 0, 0], [0, 0, 1], [1.0, 1.0, 4.0])
    assert rewards.kind == "next"
    facts = {"kind": "next", "never_reached": 1}
    assert rewards.notes == (Note("rewards_of_log", facts=facts),)
    value, known = rewards.at([2, 2], [0, 0], [1, 2])
    np.testing.assert_array_equal(value, [4.0, 2.0])
    assert known.all()
    assert not rewards.at([0], [0], [0])[1].any()


def test_function_of_the_triple_comes_third() -> None:
    rewards = rewards_of([0, 0, 0, 1], [0, 0, 0, 0], [0, 0, 1, 1], [2.0, 2.0, 5.0, 7.0])
    assert rewards.kind == "triple"
    assert rewards.notes == (Note("rewards_of_log", facts={"kind": "triple"}),)
    value, known = rewards.at([0, 0, 1, 1], [0, 0, 0, 0], [0, 1, 1, 0])
    np.testing.assert_array_equal(value, [2.0, 5.0, 7.0, 7.0])
    assert known.all()


def test_unseen_triple_of_a_seen_pair_has_the_pairs_mean() -> None:
    rewards = rewards_of([0, 0, 0, 1], [0] * 4, [0, 0, 1, 1], [2.0, 2.0, 5.0, 7.0])
    more = TransitionLog.from_arrays(
        [0, 0, 0, 1], [0] * 4, [0, 0, 1, 1], [2.0, 2.0, 5.0, 7.0], state_names=[0, 1, 2]
    ).rewards
    assert more is not None
    assert rewards.kind == more.kind == "triple"
    np.testing.assert_array_equal(more.at([0], [0], [2])[0], [3.0])
    assert not more.at([2], [0], [2])[1].any()


def test_noise_is_averaged_and_said() -> None:
    rewards = rewards_of([0, 0, 0, 0], [0] * 4, [1, 1, 0, 0], [1.0, 3.0, 2.0, 2.0])
    assert rewards.kind == "pair"
    assert rewards.pairs[0, 0] == 2.0
    (note,) = rewards.notes
    assert note.code == NOISY
    assert [note[name] for name in ("state", "action", "next_state")] == ["0", "0", "1"]
    assert (note["low"], note["high"], note["range"]) == (1.0, 3.0, 2.0)
    assert note["deviation"] == pytest.approx(0.5**0.5)


def test_rounding_at_the_scale_of_the_column_is_no_noise() -> None:
    rewards = rewards_of([0, 0, 1], [0, 0, 0], [0, 0, 1], [0.0, 1e-11, 1000.0])
    assert rewards.kind == "pair"
    assert rewards.notes[0].code != NOISY


def test_relative_tolerance_is_one_in_a_billion() -> None:
    over, within = ([1.0, 1.0 + 3e-9], [1.0, 1.0 + 0.9e-9])
    assert rewards_of([0, 0], [0, 0], [0, 0], over).notes[0].code == NOISY
    assert rewards_of([0, 0], [0, 0], [0, 0], within).notes[0].code == "rewards_of_log"


def test_reward_of_the_last_step_counts_and_the_end_yields_nothing() -> None:
    log = TransitionLog.from_arrays([0, 0], [0, 1], [0, 0], [1.0, 9.0], terminals=[False, True])
    assert log.rewards is not None
    value, known = log.rewards.at([0, 1, 1], [1, 0, 1], [1, 1, 1])
    np.testing.assert_array_equal(value, [9.0, 0.0, 0.0])
    assert known.all()


def test_the_end_yields_nothing_under_rewards_of_next_states() -> None:
    log = TransitionLog.from_arrays([0, 0], [0, 0], [0, 0], [1.0, 9.0], terminals=[False, True])
    assert log.rewards is not None
    assert log.rewards.kind == "next"
    value, known = log.rewards.at([0, 1], [0, 0], [1, 1])
    np.testing.assert_array_equal(value, [9.0, 0.0])
    assert known.all()


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), rule=st.sampled_from(["pair", "next", "triple", "noisy"]))
def test_rewards_reproduce_the_column_unless_it_is_noisy(seed: int, rule: str) -> None:
    rng = np.random.default_rng(seed)
    s, a, t = rng.integers(0, 3, 40), rng.integers(0, 2, 40), rng.integers(0, 3, 40)
    column = {
        "pair": rng.normal(size=(3, 2))[s, a],
        "next": rng.normal(size=3)[t],
        "triple": rng.normal(size=(3, 2, 3))[s, a, t],
        "noisy": rng.normal(size=40),
    }[rule]
    log = TransitionLog.from_arrays(s, a, t, column, state_names=range(3), action_names=range(2))
    assert log.rewards is not None
    value, known = log.rewards.at(s, a, t)
    assert known.all()
    if rule == "noisy":
        for key in {(i, j) for i, j in zip(s.tolist(), a.tolist(), strict=True)}:
            rows = (s == key[0]) & (a == key[1])
            np.testing.assert_allclose(value[rows], column[rows].mean(), rtol=0, atol=1e-12)
    else:
        np.testing.assert_allclose(value, column, rtol=1e-9)
        assert log.rewards.notes[0].code != NOISY


@pytest.mark.parametrize("min_count", [0, 1])
def test_pairs_never_seen_have_no_reward(min_count: int) -> None:
    log = TransitionLog.from_arrays([0, 1], [0, 1], [1, 0], [1.0, 2.0])
    assert log.rewards is not None
    np.testing.assert_array_equal(log.rewards.known, [[True, False], [False, True]])
    assert log.allowed(min_count).sum() == (4 if min_count == 0 else 2)
