"""Storage, selection, and what a set of models must satisfy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from softrobust.data import Labels
from softrobust.errors import InputError
from softrobust.models import ModelSet, load_models, save_models
from softrobust.problem import Problem
from tests.instances import random_problem


def dense(n_models: int = 3, n_states: int = 4, n_actions: int = 2, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(n_states), size=(n_models, n_states, n_actions))


def test_dense_round_trip() -> None:
    P = dense()
    models = ModelSet.from_dense(P)
    assert models.dense
    np.testing.assert_array_equal(models.P, P)
    np.testing.assert_array_equal(models[2].P, P[2])
    np.testing.assert_allclose(models.mean_model().P[0], P.mean(axis=0), atol=1e-15)


def test_unavailable_pairs_list_nothing() -> None:
    available = np.ones((4, 2), bool)
    available[1, 0] = False
    models = ModelSet.from_dense(dense(), available=available)
    assert not models.dense
    np.testing.assert_array_equal(models.available, available)
    assert (models.P[:, 1, 0] == 0).all()
    np.testing.assert_array_equal(models.P[:, 1, 1], dense()[:, 1, 1])
    part = models.select([2, 0])
    np.testing.assert_array_equal(part.P, models.P[[2, 0]])


def test_split_renormalises_within_each_part() -> None:
    models = ModelSet.from_dense(dense(), f=np.array([0.2, 0.3, 0.5]))
    train, test = models.split(2)
    np.testing.assert_allclose(train.f, [0.4, 0.6])
    np.testing.assert_allclose(test.f, [1.0])
    np.testing.assert_array_equal(test.P[0], models.P[2])
    with pytest.raises(InputError, match="0 < n < 3"):
        models.split(3)
    with pytest.raises(InputError, match="at least one model of positive weight"):
        replace(models, f=np.array([0.0, 0.5, 0.5])).select([0])


def test_arrays_are_read_only_and_the_callers_stay_his() -> None:
    f = np.full(3, 1 / 3)
    models = ModelSet.from_dense(dense(), f)
    with pytest.raises(ValueError, match="read-only"):
        models.prob[0] = 1.0
    f[0] = 0.5  # still writable, and without effect
    assert models.f[0] == 1 / 3


@pytest.mark.parametrize("view", [False, True])
def test_models_stay_what_they_were_when_the_callers_arrays_change(view: bool) -> None:
    names = Labels.range(2, "state"), Labels.range(1, "action")
    given: dict[str, Any] = {
        "indptr": np.array([0, 2, 4]),
        "next_states": np.array([0, 1, 0, 1], dtype=np.int32),
        "prob": np.array([0.5, 0.5, 0.25, 0.75]),
        "f": np.ones(1),
        "sinks": np.zeros(2, dtype=bool),
        "p0": np.array([1.0, 0.0]),
    }
    passed = {name: array.view() for name, array in given.items()}
    for array in passed.values():
        array.flags.writeable = not view  # read-only itself, yet written through its base
    models = ModelSet(states=names[0], actions=names[1], **passed)
    before = {name: getattr(models, name).copy() for name in given}
    for array in given.values():
        array[:] = array[::-1] if array.dtype != bool else ~array
    for name, array in before.items():
        np.testing.assert_array_equal(getattr(models, name), array)


def test_save_and_load(tmp_path: object) -> None:
    problem = random_problem(1, reward_form="transition")
    models = replace(problem.models, rewards=problem.rewards, p0=problem.p0, gamma=0.9)
    path = f"{tmp_path}/models.npz"
    save_models(path, models)
    again = load_models(path)
    np.testing.assert_array_equal(again.prob, models.prob)
    np.testing.assert_array_equal(again.f, models.f)
    assert again.states == models.states
    assert again.gamma == 0.9
    np.testing.assert_array_equal(Problem(again).R, Problem(models).R)


def bad(change: str) -> np.ndarray:
    P = dense()
    if change == "negative":
        P[1, 2, 0] = [-0.1, 0.6, 0.3, 0.2]
    elif change == "above one":
        P[1, 2, 0] = [1.2, -0.2, 0, 0]
    elif change == "nan":
        P[1, 2, 0, 3] = np.nan
    elif change == "sum":
        P[1, 2, 0] = [0.5, 0.4, 0.0, 0.07]
    return P


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("negative", r"must lie in \[0, 1\]: model 1, state 'hot', action 'wait'.*-0.1"),
        ("above one", r"must lie in \[0, 1\]: model 1, state 'hot', action 'wait'.*1.2"),
        ("nan", r"must lie in \[0, 1\]: model 1, state 'hot', action 'wait'.*nan"),
        ("sum", r"sum to 1 \(tolerance 1e-08\): model 1, state 'hot', action 'wait' sums to 0.97"),
    ],
)
def test_bad_probabilities_are_named(change: str, message: str) -> None:
    states, actions = Labels(("a", "b", "hot", "c")), Labels(("wait", "go"))
    with pytest.raises(InputError, match=message):
        ModelSet.from_dense(bad(change), states=states, actions=actions)


def test_small_sum_errors_need_normalise() -> None:
    P = dense()
    P[0, 0, 0] *= 1 + 5e-7
    with pytest.raises(InputError, match="normalise=True"):
        ModelSet.from_dense(P)
    models = ModelSet.from_dense(P, normalise=True)
    np.testing.assert_allclose(models.P.sum(axis=3), 1, atol=1e-15)
    P[0, 0, 0] *= 1.01
    with pytest.raises(InputError, match=r"sum to 1 \(tolerance 1e-06\)"):
        ModelSet.from_dense(P, normalise=True)


@pytest.mark.parametrize(
    ("f", "message"),
    [
        ([0.5, 0.4, 0.2], "sum to 1"),
        ([0.0, 0.0, 0.0], "all zero"),
        ([1.5, -0.5, 0.0], "model 1 has -0.5"),
        ([np.nan, 0.5, 0.5], "model 0 has nan"),
    ],
)
def test_bad_weights(f: list[float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ModelSet.from_dense(dense(), np.array(f))


def test_axis_order_is_checked() -> None:
    with pytest.raises(InputError, match=r"shape \(n_models, n_states, n_actions, n_states\)"):
        ModelSet.from_dense(dense().transpose(0, 2, 1, 3))


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04 truncated"])
def test_a_broken_file_is_an_input_error(tmp_path: object, content: bytes) -> None:
    path = f"{tmp_path}/models.npz"
    with open(path, "wb") as file:
        file.write(content)
    with pytest.raises(InputError, match=r"\.npz"):
        load_models(path)


def test_problem_bad_input() -> None:
    models = ModelSet.from_dense(dense())
    r = np.zeros((4, 2))
    for gamma in (0.0, 1.0, -1, 2, float("nan")):
        with pytest.raises(InputError, match="strictly between 0 and 1"):
            Problem(models, rewards=r, gamma=gamma)
    with pytest.raises(InputError, match="gamma is not known"):
        Problem(models, rewards=r)
    with pytest.raises(InputError, match="has no rewards"):
        Problem(models, gamma=0.9)
    with pytest.raises(InputError, match=r"shape \(2, 4\)"):
        Problem(models, rewards=r.T, gamma=0.9)
    with pytest.raises(InputError, match=r"sum to 0\.9"):
        Problem(models, rewards=r, gamma=0.9, p0=np.array([0.9, 0, 0, 0]))
    allowed = np.ones((4, 2), bool)
    allowed[3] = False
    with pytest.raises(InputError, match="state '3' has none"):
        Problem(models, rewards=r, gamma=0.9, allowed=allowed)
    with pytest.raises(InputError, match="rewards= was given too"):
        Problem(replace(models, rewards=random_problem(0, 4, 2).rewards), rewards=r, gamma=0.9)


def test_storage_is_checked() -> None:
    models = ModelSet.from_dense(dense())
    with pytest.raises(InputError, match="ascending order: state '0', action '0'"):
        replace(models, next_states=np.tile([0, 0, 1, 2], 8))
    with pytest.raises(InputError, match="sinks must have shape"):
        replace(models, sinks=np.zeros(3, bool))
    listed = np.asarray(models.next_states)
    assert replace(models, next_states=listed[:, None]).next_states.shape == listed.shape
    with pytest.raises(InputError, match="next_states must lie in 0…3"):
        replace(models, next_states=np.tile([0, 1, 2, 4], 8))
