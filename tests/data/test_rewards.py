from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softrobust.data import rewards as expected
from softrobust.data.labels import Labels
from softrobust.data.rewards import Rewards
from softrobust.errors import InputError

S, A, N = 4, 3, 5


def sparse_models(
    rng: np.random.Generator, n_states: int = S, n_actions: int = A, n_models: int = N
) -> tuple[Any, Any, Any]:
    """Random models in the storage of `ModelSet`, some pairs unavailable."""
    lists = [
        np.flatnonzero(rng.random(n_states) < rng.random()) for _ in range(n_states * n_actions)
    ]
    indptr = np.concatenate(([0], np.cumsum([len(x) for x in lists]))).astype(np.int64)
    next_states = np.concatenate(lists).astype(np.int32)
    blocks = [rng.dirichlet(np.ones(len(x)), n_models).ravel() for x in lists if len(x)]
    return indptr, next_states, np.concatenate(blocks) if blocks else np.zeros(0)


def by_hand(dense: Any, indptr: Any, next_states: Any, prob: Any, n_models: int) -> Any:
    """R by plain loops, from r(s,a,s′) as an array."""
    n_states, n_actions = dense.shape[:2]
    out = np.zeros((n_states, n_actions, n_models))
    for k in range(n_states * n_actions):
        s, a = divmod(k, n_actions)
        block = prob[indptr[k] * n_models : indptr[k + 1] * n_models].reshape(n_models, -1)
        for w in range(n_models):
            for j, to in enumerate(next_states[indptr[k] : indptr[k + 1]]):
                out[s, a, w] += block[w, j] * dense[s, a, to]
    return out


def kinds(dense: Any) -> list[tuple[Rewards, Any]]:
    """Rewards of each kind made from one dense array, and the dense array they stand for."""
    n_states, n_actions = dense.shape[:2]
    pairs, nexts = dense[:, :, 0], dense[0, 0]
    listed = np.argwhere(dense > 0)
    s, a, s_next = listed.T
    triples = Rewards.of_triples(
        s, a, s_next, dense[tuple(listed.T)], n_states, n_actions, default=pairs
    )
    return [
        (Rewards.of_pairs(pairs), np.broadcast_to(pairs[:, :, None], dense.shape)),
        (Rewards.of_next(nexts, n_actions), np.broadcast_to(nexts, dense.shape)),
        (Rewards.of_transitions(dense), dense),
        (triples, np.where(dense > 0, dense, pairs[:, :, None])),
    ]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), block=st.sampled_from([1, 7, 1 << 22]))
def test_expected_is_the_sum_over_next_states(seed: int, block: int) -> None:
    rng = np.random.default_rng(seed)
    indptr, next_states, prob = sparse_models(rng)
    dense = rng.normal(size=(S, A, S))
    patch = pytest.MonkeyPatch()
    patch.setattr(expected, "_BLOCK", block)
    with patch.context():
        for rewards, meaning in kinds(dense):
            got = rewards.expected(indptr, next_states, prob, N)
            want = by_hand(meaning, indptr, next_states, prob, N)
            np.testing.assert_allclose(got, want, rtol=0, atol=1e-12)
    patch.undo()


def test_rewards_by_model() -> None:
    rng = np.random.default_rng(1)
    indptr, next_states, prob = sparse_models(rng)
    flat = rng.normal(size=prob.size)
    got = Rewards.of_models(flat, S, A).expected(indptr, next_states, prob, N)
    for k in range(S * A):
        part = slice(indptr[k] * N, indptr[k + 1] * N)
        want = (prob[part] * flat[part]).reshape(N, -1).sum(axis=1)
        np.testing.assert_allclose(got[k // A, k % A], want, rtol=0, atol=1e-14)
    with pytest.raises(InputError, match="match the probabilities one to one"):
        Rewards.of_models(flat[:-1], S, A).expected(indptr, next_states, prob, N)
    with pytest.raises(InputError, match="differ by model"):
        Rewards.of_models(flat, S, A).at([0], [0], [0])


def test_unknown_reward_of_a_needed_pair_is_refused_by_name() -> None:
    indptr = np.array([0, 1, 2])
    known = np.array([[True, False]])
    rewards: Any = Rewards.of_pairs(np.array([[2.0, 0.0]]), known=known)
    data: tuple[Any, ...] = (indptr, np.zeros(2, dtype=np.int32), np.ones(2), 1)
    names: dict[str, Any] = {"states": Labels(("field",)), "actions": Labels(("wait", "spray"))}
    with pytest.raises(InputError, match="state 'field', action 'spray' has none") as error:
        rewards.expected(*data, **names)
    assert "reward_table" in error.value.arguments
    assert "reward_default" in error.value.arguments
    R = rewards.expected(*data, needed=known, **names)
    np.testing.assert_array_equal(R, [[[2.0], [0.0]]])
    R = rewards.with_default(-3.0).expected(*data, **names)
    np.testing.assert_array_equal(R, [[[2.0], [-3.0]]])


def test_unlisted_triple_is_refused_only_where_it_is_possible() -> None:
    rewards = Rewards.of_triples([0], [0], [1], [7.0], n_states=2, n_actions=1)
    indptr, next_states = np.array([0, 2, 2]), np.array([0, 1], dtype=np.int32)
    R = rewards.expected(indptr, next_states, np.array([0.0, 1.0]), 1)
    np.testing.assert_array_equal(R[0, 0], [7.0])
    with pytest.raises(InputError, match="state 0, action 0 has none"):
        rewards.expected(indptr, next_states, np.array([0.5, 0.5]), 1)
    R = rewards.with_default(1.0).expected(indptr, next_states, np.array([0.5, 0.5]), 1)
    np.testing.assert_array_equal(R[0, 0], [4.0])


@pytest.mark.parametrize(
    ("make", "where"),
    [
        (lambda: Rewards.of_pairs([[0.0, np.nan]]), "state 0, action 1 has nan"),
        (lambda: Rewards.of_next([0.0, np.inf], 2), "next state 1 has inf"),
        (
            lambda: Rewards.of_triples([1], [0], [1], [np.nan], 2, 1),
            "state 1, action 0, next state 1 has nan",
        ),
        (lambda: Rewards.of_models([np.nan], 1, 1), "entry 0 has nan"),
    ],
)
def test_rewards_are_finite(make: Any, where: str) -> None:
    with pytest.raises(InputError, match=f"must be finite numbers: {where}"):
        make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Rewards.of_pairs([1.0]), r"shape \(n_states, n_actions\)"),
        (lambda: Rewards.of_next([[1.0]], 1), r"shape \(n_states,\)"),
        (lambda: Rewards.of_transitions(np.zeros((2, 3, 4))), "order of the axes"),
        (lambda: Rewards.of_triples([0, 0], [0, 0], [1, 1], [1, 2], 2, 1), "given twice"),
        (lambda: Rewards.of_pairs([[1.0]]).with_default(np.nan), "must be a finite number"),
        (lambda: Rewards.of_pairs([[1.0]]).merge(Rewards.of_pairs([[1.0, 2.0]])), "merged"),
        (lambda: Rewards.of_pairs([[1.0]]).merge(Rewards.of_next([1.0], 1)), "merged"),
        (
            lambda: Rewards.of_pairs([[1.0]]).expected(
                np.array([0, 1, 2]), np.zeros(2, dtype=np.int32), np.ones(2), 1
            ),
            "the models have 2 pairs",
        ),
    ],
)
def test_shapes_and_duplicates(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_merge_lays_one_over_the_other(seed: int) -> None:
    rng = np.random.default_rng(seed)
    index = np.indices((S, A, S)).reshape(3, -1)
    s, a, s_next = index[:, ::5]
    for base, _ in kinds(rng.normal(size=(S, A, S))):
        tops = [
            Rewards.of_pairs(rng.normal(size=(S, A)), known=rng.random((S, A)) < 0.5),
            Rewards.of_triples(s, a, s_next, rng.normal(size=s.size), S, A),
        ]
        for top in tops:
            below, _ = base.at(*index)
            above, known = top.at(*index)
            got, all_known = base.merge(top).at(*index)
            np.testing.assert_array_equal(got, np.where(known, above, below))
            assert all_known.all()


def test_functions_of_two_or_three_labels() -> None:
    states, actions = Labels(("1", "2")), Labels(("x", "yy"))
    two = Rewards.from_callable(lambda s, a: int(s) * len(a), states, actions)
    assert two.kind == "pair"
    np.testing.assert_array_equal(two.pairs, [[1, 2], [2, 4]])
    three = Rewards.from_callable(
        lambda s, a, t: int(s) * len(a) + 10 * int(t), states, actions, absorbing=1
    )
    assert three.kind == "triple"
    value, known = three.at([0, 0, 1], [1, 1, 1], [0, 1, 1])
    np.testing.assert_array_equal(value, [12, 22, 0])
    assert known.all()
    with pytest.raises(InputError, match=r"this one takes \(s\)"):
        Rewards.from_callable(lambda s: 0.0, states, actions)
    with pytest.raises(InputError, match="as a table"):
        Rewards.from_callable(lambda s, a, t: 0.0, Labels.range(3000), actions)


def test_arrays_are_read_only_and_not_shared() -> None:
    mine = np.zeros((1, 1))
    rewards = Rewards.of_pairs(mine)
    mine[0, 0] = 5.0
    assert rewards.pairs[0, 0] == 0.0
    assert rewards.values is rewards.pairs
    with pytest.raises(ValueError, match="read-only"):
        rewards.pairs[0, 0] = 1.0
