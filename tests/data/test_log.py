import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softrobust._core.notes import Note
from softrobust.data import END, Rewards, TransitionLog
from softrobust.errors import InputError


def small() -> TransitionLog:
    return TransitionLog.from_arrays(
        ["n=2", "n=10", "n=2"], ["wait", "spray", "wait"], ["n=10", "n=2", "n=3"], [1.0, 2.0, 1.0]
    )


def test_labels_codes_and_counts() -> None:
    log = small()
    assert log.states.names == ("n=2", "n=3", "n=10")
    assert log.actions.names == ("spray", "wait")
    np.testing.assert_array_equal(log.s, [0, 2, 0])
    np.testing.assert_array_equal(log.pair_counts, [[0, 2], [0, 0], [1, 0]])
    counts = log.counts()
    np.testing.assert_array_equal(counts.pair, [1, 1, 4])
    np.testing.assert_array_equal(counts.s_next, [1, 2, 0])
    np.testing.assert_array_equal(counts.n, [1, 1, 1])
    np.testing.assert_array_equal(log.behaviour, [[0, 1], [0, 0], [1, 0]])
    np.testing.assert_array_equal(log.sinks, [False, True, False])
    assert log.s.dtype == log.a.dtype == log.s_next.dtype == np.int32
    assert len(log) == 3
    assert repr(log) == "TransitionLog(3 transitions, 3 states, 2 actions)"


def test_arrays_are_read_only() -> None:
    log = small()
    for array in (log.s, log.reward, log.p0, log.pair_counts, log.counts().n, log.behaviour):
        assert array is not None
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        log.p0_source = Note("p0_given")  # type: ignore[misc]


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 60), size=st.sampled_from([2, 5, 60]))
def test_counts_by_two_routes(seed: int, n: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    s, a, t = rng.integers(0, size, n), rng.integers(0, 3, n), rng.integers(0, size, n)
    log = TransitionLog.from_arrays(s, a, t, state_names=range(size), action_names=range(3))
    dense = np.zeros((size, 3, size), dtype=int)
    np.add.at(dense, (s, a, t), 1)
    got = np.zeros((size * 3, size), dtype=int)
    counts = log.counts()
    got[counts.pair, counts.s_next] = counts.n
    np.testing.assert_array_equal(got.reshape(dense.shape), dense)
    assert (np.diff(counts.pair * size + counts.s_next) > 0).all()
    np.testing.assert_array_equal(log.pair_counts, dense.sum(axis=2))


def test_many_states_are_counted_by_sorting() -> None:
    s = np.arange(5000)
    log = TransitionLog.from_arrays(s, s % 2, s[::-1])
    assert log.n_states == 5000
    assert log.counts().n.sum() == 5000


def test_allowed_pairs() -> None:
    log = small()
    np.testing.assert_array_equal(log.allowed(2), [[False, True], [False, False], [False, False]])
    assert log.allowed(0).all()
    with pytest.raises(InputError, match="0 or more: got -1"):
        log.allowed(-1)


def test_p0_is_uniform_over_visited_states_without_episodes() -> None:
    log = TransitionLog.from_arrays([0, 3], [0, 0], [1, 0], terminals=[0, 1])
    assert log.states.names == ("0", "1", "2", "3", END)
    np.testing.assert_allclose(log.p0, [1 / 3, 1 / 3, 0, 1 / 3, 0])
    assert log.p0_source == Note("p0_uniform", facts={"states": 3})
    assert log.p0_source in log.notes


def test_p0_is_the_episode_starts() -> None:
    log = TransitionLog.from_arrays(
        [0, 1, 1, 0, 1, 0], [0] * 6, [0] * 6, episodes=["x", "x", "y", "y", "z", "x"]
    )
    np.testing.assert_allclose(log.p0, [1 / 3, 2 / 3])
    assert log.p0_source == Note("p0_episode_starts", facts={"n_starts": 3})
    assert log.episode is not None
    np.testing.assert_array_equal(log.episode, [0, 0, 1, 1, 2, 0])


def test_given_p0() -> None:
    log = small().with_initial({"n=2": 0.25, "n=10": 0.75})
    np.testing.assert_array_equal(log.p0, [0.25, 0, 0.75])
    assert log.p0_source == Note("p0_given", facts={"source": None})
    np.testing.assert_array_equal(small().with_initial([0, 1, 0]).p0, [0, 1, 0])
    with pytest.raises(InputError, match=r"Unknown state 'n=22'. Did you mean 'n=2'"):
        small().with_initial({"n=22": 1.0})
    with pytest.raises(InputError, match=r"sum to 1.*they sum to 0\.5"):
        small().with_initial([0.5, 0, 0])
    with pytest.raises(InputError, match=r"between 0 and 1: state 'n=3' has -0\.5"):
        small().with_initial([1, -0.5, 0.5])
    with pytest.raises(InputError, match="one probability per state"):
        small().with_initial([1.0])
    with pytest.raises(InputError, match="between 0 and 1: state 'n=2' has nan"):
        small().with_initial([np.nan, 0.5, 0.5])


def test_terminal_rows_lead_to_the_end() -> None:
    log = TransitionLog.from_arrays(
        ["a", "b"], ["x", "x"], ["b", None], [0.0, 5.0], terminals=["no", "Yes"]
    )
    assert log.states.names == ("a", "b", END)
    assert log.end == 2
    np.testing.assert_array_equal(log.s_next, [1, 2])
    assert Note("terminal_rows", facts={"n_rows": 1}) in log.notes
    assert not log.visited[2]
    assert log.sinks[2]


def test_no_end_without_terminal_rows() -> None:
    log = TransitionLog.from_arrays([0], [0], [0], terminals=[False])
    assert log.end is None
    assert log.n_states == 1


def test_the_end_is_never_left() -> None:
    with pytest.raises(InputError, match="row 2 of the arrays leaves it"):
        TransitionLog.from_arrays(["a", END], ["x", "x"], [END, "a"])
    log = TransitionLog.from_arrays([1, 0], ["x", "x"], ["0", END])
    assert log.states.names == ("0", "1", END)


def test_notes_name_what_the_log_does_not_show() -> None:
    notes = small().notes
    assert Note("pairs_never_seen", facts={"unseen": 2, "pairs": 4}) in notes
    facts = {"count": 1, "states": ["n=3"], "visited": True}
    assert Note("states_never_left", facts=facts) in notes
    many = TransitionLog.from_arrays([9], [0], [0]).notes
    facts = {"count": 8, "states": ["1", "2", "3", "4", "5"], "visited": False}
    assert Note("states_never_left", facts=facts) in many
    assert Note("no_rewards") in many


def test_missing_labels_are_named_by_row() -> None:
    for column, word in ((0, "state"), (1, "action"), (2, "next state")):
        columns: list[list[object]] = [["a", "b"], ["x", "y"], ["a", "b"]]
        columns[column][1] = None
        with pytest.raises(InputError, match=f"Every row needs an? {word}: row 2 of the arrays"):
            TransitionLog.from_arrays(*columns)


def test_bad_columns() -> None:
    with pytest.raises(InputError, match=r"equally long\. Rows given: state 2, action 1"):
        TransitionLog.from_arrays([0, 1], [0], [0, 1])
    with pytest.raises(InputError, match="at least one transition"):
        TransitionLog.from_arrays([], [], [])
    with pytest.raises(InputError, match="finite number: row 2 of the arrays has 'nan'"):
        TransitionLog.from_arrays([0, 1], [0, 0], [0, 1], [0.0, np.nan])
    with pytest.raises(InputError, match="finite number: row 2 of the arrays has 'x'"):
        TransitionLog.from_arrays([0, 1], [0, 0], [0, 1], [0.0, "x"])
    with pytest.raises(InputError, match=r"true or false.*row 1 of the arrays has 'maybe'"):
        TransitionLog.from_arrays([0], [0], [0], [0.0], terminals=["maybe"])
    with pytest.raises(InputError, match="one-dimensional"):
        TransitionLog.from_arrays([[0]], [0], [0])
    with pytest.raises(InputError, match="Every row needs an episode"):
        TransitionLog.from_arrays([0], [0], [0], episodes=[None])


def test_indices_must_fit_the_labels() -> None:
    log = small()
    with pytest.raises(InputError, match="'a' must be from 0 to 1: row 3 of the arrays has 7"):
        dataclasses.replace(log, a=np.array([0, 1, 7]))
    with pytest.raises(InputError, match=r"'episode' must be from 0 .* has -1"):
        dataclasses.replace(log, episode=np.array([0, -1, 0]))


def test_given_order_of_states() -> None:
    log = TransitionLog.from_arrays(
        ["lo", "hi"], [0, 0], ["hi", "hi"], state_names=["lo", "mid", "hi"], action_names=[0, 1]
    )
    assert log.states.names == ("lo", "mid", "hi")
    assert log.shape == (3, 2)
    with pytest.raises(InputError, match=r"row 2 of the arrays has 'hi'") as error:
        TransitionLog.from_arrays(["lo", "lo"], [0, 0], ["lo", "hi"], state_names=["lo", "high"])
    assert "Did you mean 'high'?" in str(error.value)
    with pytest.raises(InputError, match="A row of the log must be for a known action"):
        TransitionLog.from_arrays(["lo"], [5], ["lo"], action_names=[1])


def test_given_rewards() -> None:
    log = TransitionLog.from_arrays([0, 1], [0, 0], [1, 1], terminals=[0, 1])
    table = log.with_rewards([[1.0], [2.0], [3.0]]).rewards
    assert table is not None
    np.testing.assert_array_equal(table.pairs, [[1], [2], [0]])
    called = log.with_rewards(lambda s, a: 4.0).rewards
    assert called is not None
    np.testing.assert_array_equal(called.pairs, [[4], [4], [0]])
    with pytest.raises(InputError, match=r"must have shape \(3, 1\) or \(3, 1, 3\)"):
        log.with_rewards([1.0, 2.0])
    with pytest.raises(InputError, match="the log has"):
        log.with_rewards(Rewards.of_pairs([[1.0]]))
    default = log.with_reward_table(default=2.0).rewards
    assert default is not None
    np.testing.assert_array_equal(default.pairs, [[2], [2], [0]])


def test_hash_tells_logs_apart() -> None:
    log = small()
    assert log.data_hash == small().data_hash
    others = [
        log.with_initial([1, 0, 0]),
        dataclasses.replace(log, reward=None),
        dataclasses.replace(log, s=np.array([0, 2, 1])),
    ]
    assert len({other.data_hash for other in [log, *others]}) == 4
