"""Tables of other packages, there and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from softrobust.errors import InputError
from softrobust.models import from_gymnasium, from_mdptoolbox, to_gymnasium, to_mdptoolbox
from softrobust.problem import Problem
from softrobust.returns import optimal_returns


def optimal_start(P: dict[int, dict[int, Any]], p0: np.ndarray, gamma: float) -> float:
    """Value iteration straight on the table, ending where it says terminated."""
    v = np.zeros(len(P))
    for _ in range(2000):
        v = np.array(
            [
                max(sum(p * (r + gamma * (0 if end else v[j])) for p, j, r, end in ways)
                    for ways in row.values())
                for row in P.values()
            ]
        )  # fmt: skip
    return float(p0 @ v)


@pytest.mark.parametrize("name", ["FrozenLake-v1", "Taxi-v4", "CliffWalking-v1"])
def test_toy_text(name: str) -> None:
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.make(name)
    models = from_gymnasium(env, gamma=0.9)
    assert ("(end)" in list(models.states)) == (name != "FrozenLake-v1")
    problem = Problem(models)
    value = optimal_start(env.unwrapped.P, env.unwrapped.initial_state_distrib, 0.9)
    assert optimal_returns(problem).upper[0] == pytest.approx(value, abs=1e-8)


def test_gymnasium_round_trip() -> None:
    table = {
        0: {0: [(0.5, 0, 1.0, False), (0.5, 1, 2.0, False)], 1: [(1.0, 1, 0.0, False)]},
        1: {0: [(1.0, 1, 0.0, False)], 1: [(1.0, 0, 3.0, False)]},
    }
    assert to_gymnasium(from_gymnasium(table)) == {
        0: {0: table[0][0], 1: [(0.0, 0, 0.0, False), (1.0, 1, 0.0, False)]},
        1: {0: [(0.0, 0, 0.0, False), (1.0, 1, 0.0, False)],
            1: [(1.0, 0, 3.0, False), (0.0, 1, 0.0, False)]},
    }  # fmt: skip


@pytest.mark.parametrize("form", ["s", "sa", "ass"])
def test_mdptoolbox(form: str) -> None:
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(4), size=(2, 4))
    r = {"s": rng.random(4), "sa": rng.random((4, 2)), "ass": rng.random((2, 4, 4))}[form]
    models = from_mdptoolbox(P, r, gamma=0.9)
    again, R = to_mdptoolbox(models)
    np.testing.assert_allclose(again, P)
    if form == "s":
        r = np.repeat(r[:, None], 2, axis=1)
    expected = np.einsum("asj,asj->sa", P, r) if form == "ass" else r
    np.testing.assert_allclose(R, expected, atol=1e-14)


@pytest.mark.parametrize(
    "table",
    [{}, {0: {}}, {1: {0: [(1.0, 1, 0.0, False)]}}, {0: {0: [(1.0, 5, 0.0, False)]}}, {0: {0: 3}},
     {0: {0: [(1.0, 0)]}}],
)  # fmt: skip
def test_malformed_tables(table: Any) -> None:
    with pytest.raises(InputError, match=r"P\[s\]\[a\] must list"):
        from_gymnasium(table)


def test_malformed_arrays() -> None:
    with pytest.raises(InputError, match="all of one shape"):
        from_mdptoolbox([np.eye(2), np.eye(3)], np.ones(2))
    with pytest.raises(InputError, match="arrays of numbers"):
        from_mdptoolbox([np.eye(2)], [[1.0], [1.0, 2.0]])


def test_sparse_matrices() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    models = from_mdptoolbox([sparse.eye_array(2)] * 2, [sparse.eye_array(2)] * 2, gamma=0.5)
    assert Problem(models).R[:, :, 0].tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_refused() -> None:
    with pytest.raises(InputError, match="attribute P"):
        from_gymnasium(object())
    with pytest.raises(InputError, match=r"got \(3,\)"):
        from_mdptoolbox(np.ones((1, 2, 2)) / 2, np.ones(3))
