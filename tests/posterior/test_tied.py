"""One Dirichlet over moves: closed form, ends, known actions, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from softrobust.data import Rewards, TransitionLog
from softrobust.errors import InputError
from softrobust.posterior import Frame, PosteriorWarning, TiedPosterior
from softrobust.posterior.tied import move_blocks


def line_log() -> TransitionLog:
    """Five states; action 1 moves +1, +1, 0, −1 from inner states, and stays at both ends."""
    return TransitionLog.from_arrays(
        [1, 2, 3, 2, 0, 4, 1], [1, 1, 1, 1, 1, 1, 0], [2, 3, 3, 1, 0, 4, 0],
        np.zeros(7), state_names=range(5), action_names=["0", "1"],
    )  # fmt: skip


def test_closed_form() -> None:
    fitted = TiedPosterior(prior=0.5, known={"0": (1.0, 0.0, 0.0)}).fit(line_log())
    assert fitted.counts.tolist() == [[0, 0, 0], [1, 1, 2]]
    assert fitted.unused == 3
    q = fitted.draws(20_000, seed=1)
    np.testing.assert_array_equal(q[:, 0], np.tile([1.0, 0.0, 0.0], (20_000, 1)))
    for j, (a, rest) in enumerate([(1.5, 4.0), (1.5, 4.0), (2.5, 3.0)]):
        assert stats.kstest(q[:, 1, j], stats.beta(a, rest).cdf).pvalue > 1e-3


def test_models_share_moves_and_ends_stay() -> None:
    fitted = TiedPosterior(known={"0": (1.0, 0.0, 0.0)}).fit(line_log())
    models, q = fitted.sample(6, seed=2), fitted.draws(6, seed=2)
    P = models.P
    for s in (1, 2, 3):
        np.testing.assert_allclose(P[:, s, 1, s - 1 : s + 2], q[:, 1])
    np.testing.assert_allclose(P[:, 0, 1, 0], q[:, 1, 0] + q[:, 1, 1])
    np.testing.assert_allclose(P[:, 4, 1, 4], q[:, 1, 1] + q[:, 1, 2])
    np.testing.assert_array_equal(P[:, 0, 0, 0], 1.0)


def test_other_moves() -> None:
    blocks = move_blocks(np.array([[[0.25, 0.75]]]), (0, 2), 5)
    assert blocks[1, 0, 0].tolist() == [0.0, 0.25, 0.0, 0.75, 0.0]
    assert blocks[3, 0, 0].tolist() == [0.0, 0.0, 0.0, 1.0, 0.0]


def test_a_world_whose_moves_change_along_the_line_is_noticed() -> None:
    rng = np.random.default_rng(0)
    s = rng.integers(1, 19, size=400)
    up = rng.random(400) < s / 20
    log = TransitionLog.from_arrays(
        s, np.ones(400, int), s + np.where(up, 1, -1), np.zeros(400),
        state_names=range(20), action_names=["0", "1"],
    )  # fmt: skip
    quality = TiedPosterior(known={"0": (1.0, 0.0, 0.0)}).fit(log).diagnostics()
    assert any(note["statistic"] == "moves along the line" for note in quality.problems)
    with pytest.warns(PosteriorWarning, match="choose another posterior"):
        quality.warn()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"moves": (-1, 1)}, "hold 0"),
        ({"prior": 0.0}, "positive"),
        ({"known": {"0": (0.5, 0.2, 0.2)}}, "sum to 1"),
        ({"moves": (-2, 0, 2)}, "one of the moves"),
        ({"known": {"9": (1.0, 0.0, 0.0)}}, "Unknown action '9'"),
        ({"known": "left"}, "known must map"),
        ({"known": {"0": "left"}}, "sum to 1"),
        ({"known": {"0": (2.0, -1.0, 0.0)}}, "probability of '0' must be a finite number ≥ 0"),
        ({"moves": 3}, "moves must be whole numbers"),
        ({"moves": (0, 0.5)}, "moves must be whole numbers"),
        ({"prior": "abc"}, "prior must be a positive number"),
    ],
)
def test_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        TiedPosterior(**settings).fit(line_log())


def log_with(s: int, a: int, to: int) -> TransitionLog:
    """One good row, then (s, a, to), on 20 states."""
    return TransitionLog.from_arrays(
        [5, s], [1, a], [6, to], state_names=range(20), action_names=["0", "1"]
    )


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ((0, 1, 15), "one of the moves.*row 2.*state '0', action '1', next state '15'.* by 15"),
        ((19, 1, 3), "row 2.*state '19', action '1'.* by -16"),
        ((0, 0, 15), "row 2.*state '0', action '0'.* by 15"),
        ((3, 0, 4), "known action must move as.*row 2.*state '3', action '0'.*by 1.*probability 0"),
        ((3, 0, 3), "known action.*state '3', action '0'.*by 0"),
        ((0, 0, 1), "known action.*state '0', action '0'.*by 1"),
        ((19, 0, 19), "known action.*state '19', action '0'.*by 0"),
    ],
)
def test_rows_that_contradict_the_moves(row: tuple[int, int, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        TiedPosterior(known={"0": (1.0, 0.0, 0.0)}).fit(log_with(*row))


def test_rows_that_a_known_action_can_make() -> None:
    known = {"0": (1.0, 0.0, 0.0)}
    for row in ((0, 0, 0), (3, 0, 2), (19, 0, 18), (0, 1, 0), (0, 1, 1), (19, 1, 19)):
        assert TiedPosterior(known=known).fit(log_with(*row)).counts[1].tolist() == [0, 0, 1]


def test_ends_of_episodes_are_on_no_line() -> None:
    log = TransitionLog.from_arrays([0, 1], [0, 0], [1, 1], terminals=[False, True])
    with pytest.raises(InputError, match="on no line"):
        TiedPosterior().fit(log)


def test_noisy_rewards_are_taken_as_means_unless_a_frame_knows_them() -> None:
    paid = [0.1, 0.3, -0.2, 0.0, 0.1]
    log = TransitionLog.from_arrays([0, 0, 1, 1, 2], [0] * 5, [1, 1, 2, 1, 2], paid)
    fitted = TiedPosterior().fit(log)
    rewards = fitted.sample(2).rewards
    assert rewards is not None
    np.testing.assert_allclose(rewards.pairs[:, 0], [0.2, -0.1, 0.1])
    assert not fitted.diagnostics().problems
    frame = Frame(log.states, log.actions, Rewards.of_pairs([[0.2], [-0.1], [0.1]]))
    with pytest.raises(InputError, match=r"must be those of.*has 0\.1, the domain pays 0\.2"):
        TiedPosterior(frame=frame).fit(log)
