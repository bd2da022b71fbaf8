"""Discretisation: every method, saved and applied to raw observations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softrobust.data.bins import Bins, Method
from softrobust.domains import CancerGrowth
from softrobust.errors import InputError
from softrobust.models import Policy


@pytest.mark.parametrize("method", ["uniform", "quantile", "kmeans"])
def test_a_policy_applies_to_raw_observations(method: Method, tmp_path: Path) -> None:
    log = CancerGrowth().collect(0)
    bins = Bins.fit(log.s, 12 if method == "kmeans" else (2, 3, 2, 2), method, log.variables)
    table = bins.log(log)
    assert table.n_rows == 600
    assert table.n_states == bins.n_states == len(bins.states)
    assert table.reward is not None
    bins.save(tmp_path / "bins.npz")
    read = Bins.load(tmp_path / "bins.npz")
    np.testing.assert_array_equal(read.index(log.s_next), bins.index(log.s_next))
    np.testing.assert_array_equal(table.s, read.index(log.s))
    decision = np.arange(bins.n_states) % 2
    policy = Policy.from_decision(decision, read.states, log.actions)
    raw = [0.5, 9.0, 39.0, 2.0]
    assert policy.action(read.label(raw)) == str(decision[int(bins.index(raw))])
    assert read.states == bins.states
    assert method in repr(read)


def test_uniform_and_quantile_cuts() -> None:
    x = np.array([[0.0], [1.0], [2.0], [10.0]])
    assert Bins.fit(x, 2, "uniform").edges[0].tolist() == [5.0]
    assert Bins.fit(x, 2, "quantile").edges[0].tolist() == [1.5]
    assert list(Bins.fit(x, 2, "quantile", ["dose"]).states) == ["dose<1.5", "dose≥1.5"]
    assert Bins.fit(x, 1).n_states == 1


def test_kmeans_finds_separate_clouds() -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(m, 0.1, size=(50, 2)) for m in (0.0, 5.0, 9.0)])
    bins = Bins.fit(x, 3, "kmeans")
    assert [len(set(bins.index(x[i : i + 50]).tolist())) for i in (0, 50, 100)] == [1, 1, 1]
    assert len(set(bins.index(x).tolist())) == 3


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)), min_size=2, max_size=30),
    st.integers(1, 6),
    st.sampled_from(["uniform", "quantile"]),
)
def test_every_observation_has_one_state(rows: Any, n: int, method: Method) -> None:
    x = np.array(rows)
    bins = Bins.fit(x, n, method)
    index = bins.index(x)
    assert ((index >= 0) & (index < bins.n_states)).all()
    assert bins.index([[1e12, -1e12]])[0] < bins.n_states
    assert len(set(bins.states)) == bins.n_states


def test_whole_numbers_of_numpy_are_numbers() -> None:
    x = np.arange(8.0).reshape(4, 2)
    assert Bins.fit(x, np.int64(4)).n_states == 16  # type: ignore[arg-type]
    assert Bins.fit(x, np.array([2, 3])).n_states == 6  # type: ignore[arg-type]
    assert Bins.fit(x, np.int32(2), "kmeans").n_states == 2  # type: ignore[arg-type]


def test_holes_are_named() -> None:
    x = np.arange(8.0).reshape(4, 2)
    bins = Bins.fit(x, 2, variables=["u", "v"])
    x[2, 1] = np.nan
    with pytest.raises(InputError, match=r"'v' is nan in row 3 \(1 such values\)"):
        Bins.fit(x, 2, variables=["u", "v"])
    with pytest.raises(InputError, match="'v' is nan in row 3"):
        bins.index(x)
    with pytest.raises(InputError, match="'u' is -inf in row 1"):
        bins.label([-np.inf, 0.0])


def test_refused(tmp_path: Path) -> None:
    x = np.arange(6.0).reshape(3, 2)
    for given_, n, method, message in (
        (np.zeros((0, 2)), 2, "uniform", "finite numbers"),
        (x, (2,), "uniform", "one number of bins"),
        (x, 2, "tree", "uniform, quantile or kmeans"),
        (x, 9, "kmeans", "1 to 3 centres"),
        (x, (2, 2), "kmeans", "one number of centres"),
        (x, 2.5, "kmeans", "one number of centres"),
        (x, 2.5, "uniform", "n must be a whole number"),
        (x, "a", "quantile", "n must be a whole number"),
        (x, (2, 0), "uniform", "one number of bins"),
        ([["a", "b"]], 2, "uniform", "rows of finite numbers"),
    ):
        with pytest.raises(InputError, match=message):
            Bins.fit(given_, n, method)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="2 finite numbers"):
        Bins.fit(x, 2).index([1.0])
    with pytest.raises(InputError, match="bins are for"):
        Bins.fit(CancerGrowth().collect(0).s, 2).log(CancerGrowth().collect(0))
